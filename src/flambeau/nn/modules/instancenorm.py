"""Instance normalization."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]  # fmt: skip
__dir__ = __all__.copy


class _InstanceNorm(_NormBase):
    """Normalizes every channel of every sample; running statistics are off by default.

    Args:
        num_features: number of channels C.
        eps: added under the root for numerical stability.
        momentum: weight of new statistics.
        affine: whether to learn a weight (initially ones) and a bias (initially zeros).
        track_running_stats: whether to keep running statistics for evaluation.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether to add a learned bias.
    """

    _no_batch_ndim: int  # dimensions of one sample

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: fb.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        self._expect_ndim(input, self._no_batch_ndim, self._no_batch_ndim + 1)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.shape[-self._no_batch_ndim]
        if self.affine and channels != self.num_features:
            raise ArgumentError(
                f"{type(self).__name__}: expected {self.num_features} channels (num_features), got {channels} in input of "
                f"shape {tuple(input.shape)}"
            )
        if input.ndim == self._no_batch_ndim:
            return self._normalised(input.unsqueeze(0)).squeeze(0)
        return self._normalised(input)

    def _normalised(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[Any, Any], strict: bool, missing_keys: list[Any],
        unexpected_keys: list[Any], error_msgs: list[Any],
    ) -> None:  # fmt: skip
        """States of version 1 held statistics although none were tracked: the error explains this."""
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if stale:
                error_msgs.append(
                    f"{type(self).__name__} with track_running_stats=False does not take running statistics: remove "
                    f"{', '.join(stale)} from the state_dict, or set track_running_stats=True"
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    """An instance normalization that infers num_features from its first input."""

    def initialize_parameters(self, input: Tensor) -> None:
        """Gives parameters and statistics their shape."""
        batched = input.ndim == self._no_batch_ndim + 1
        super().initialize_parameters(input if batched else input.unsqueeze(0))


@inherit_args
class InstanceNorm1d(_InstanceNorm):
    """Normalizes every channel of every sample of (N, C, L) or (C, L).

    Example:
        >>> fb.nn.InstanceNorm1d(1, eps=0.0)(fb.tensor([[[1.0, 3.0]]]))
        tensor([[[-1.,  1.]]])
    """

    _no_batch_ndim = 2


@inherit_args
class InstanceNorm2d(_InstanceNorm):
    """Normalizes every channel of every sample of (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.InstanceNorm2d(1, eps=0.0)(fb.tensor([[[[1.0, 3.0]]]]))
        tensor([[[[-1.,  1.]]]])
    """

    _no_batch_ndim = 3


@inherit_args
class InstanceNorm3d(_InstanceNorm):
    """Normalizes every channel of every sample of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.InstanceNorm3d(1, eps=0.0)(fb.tensor([[[[[1.0, 3.0]]]]]))
        tensor([[[[[-1.,  1.]]]]])
    """

    _no_batch_ndim = 4


@inherit_args
class LazyInstanceNorm1d(_LazyInstanceNorm):
    """An InstanceNorm1d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyInstanceNorm1d()
        >>> _ = m(fb.randn(4, 3, 2))
        >>> m.num_features
        3
    """

    cls_to_become = InstanceNorm1d
    _no_batch_ndim = 2


@inherit_args
class LazyInstanceNorm2d(_LazyInstanceNorm):
    """An InstanceNorm2d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyInstanceNorm2d()
        >>> _ = m(fb.randn(4, 3, 2, 2))
        >>> m.num_features
        3
    """

    cls_to_become = InstanceNorm2d
    _no_batch_ndim = 3


@inherit_args
class LazyInstanceNorm3d(_LazyInstanceNorm):
    """An InstanceNorm3d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyInstanceNorm3d()
        >>> _ = m(fb.randn(4, 3, 2, 2, 2))
        >>> m.num_features
        3
    """

    cls_to_become = InstanceNorm3d
    _no_batch_ndim = 4
