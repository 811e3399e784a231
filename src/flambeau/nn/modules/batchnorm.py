"""Batch normalization."""

from __future__ import annotations

from functools import partial
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.functional._normalization import _batch_norm
from flambeau.nn.modules._calling import _note_path
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _check_sizes
from flambeau.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]
__dir__ = __all__.copy


class _NormBase(Module):
    """Parameters and running statistics of batch and instance normalization."""

    weight: Parameter
    bias: Parameter
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    _version = 2  # 1 had no num_batches_tracked
    _ndims: tuple[int, ...] = ()  # allowed numbers of input dimensions; empty: any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        _check_sizes(self, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(fb.empty(num_features, device=device, dtype=dtype)) if wanted else None
            )
        tracked = track_running_stats
        self.register_buffer("running_mean", fb.zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", fb.ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", fb.tensor(0, dtype=fb.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Sets the running mean to zeros, the running variance to ones, and the count to 0."""
        mean, var, count = self.running_mean, self.running_var, self.num_batches_tracked
        if self.track_running_stats and mean is not None and var is not None and count is not None:
            mean.zero_()
            var.fill_(1)
            count.zero_()

    def reset_parameters(self) -> None:
        """Resets the running statistics, the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if self._ndims:
            self._expect_ndim(input, *self._ndims)

    def _expect_ndim(self, input: Tensor, *allowed: int) -> None:
        if input.ndim not in allowed:
            names = " or ".join(f"{n}D" for n in allowed)
            raise ArgumentError(f"{type(self).__name__}: expected {names} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[Any, Any], strict: bool, missing_keys: list[Any],
        unexpected_keys: list[Any], error_msgs: list[Any],
    ) -> None:  # fmt: skip
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = fb.tensor(0) if self.num_batches_tracked is None else self.num_batches_tracked
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Normalizes every channel over the batch.

    Args:
        num_features: number of channels C.
        eps: added under the root for numerical stability.
        momentum: weight of new statistics; None averages over all batches.
        affine: whether to learn a weight (initially ones) and a bias (initially zeros).
        track_running_stats: whether to keep running statistics for evaluation.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether to add a learned bias.
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._normalised(input, F.batch_norm)

    def _normalised(self, input: Tensor, function: Any) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average over all batches
                factor = 1.0 / float(self.num_batches_tracked)
        own_statistics = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return function(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            own_statistics,
            factor,
            self.eps,
        )

    def _rectified(self, input: Tensor) -> Tensor:
        """relu(self(input)) with one less pass over memory; for plain tensors whose intermediate result is not observed."""
        try:
            return self._normalised(input, partial(_batch_norm, "batch_norm_relu"))
        except Exception as error:
            _note_path(self, error)
            raise


@inherit_args
class BatchNorm1d(_BatchNorm):
    """Normalizes every channel of (N, C) or (N, C, L) over the batch.

    Example:
        >>> fb.nn.BatchNorm1d(1, affine=False)(fb.tensor([[1.0], [3.0]]))
        tensor([[-1.0000],
                [ 1.0000]])
    """

    _ndims = (2, 3)


@inherit_args
class BatchNorm2d(_BatchNorm):
    """Normalizes every channel of (N, C, H, W) over the batch and all positions.

    Example:
        >>> fb.nn.BatchNorm2d(1, affine=False)(fb.tensor([[[[1.0, 3.0]]]]))
        tensor([[[[-1.0000,  1.0000]]]])
    """

    _ndims = (4,)


@inherit_args
class BatchNorm3d(_BatchNorm):
    """Normalizes every channel of (N, C, D, H, W) over the batch and all positions.

    Example:
        >>> fb.nn.BatchNorm3d(1, affine=False)(fb.tensor([[[[[1.0, 3.0]]]]]))
        tensor([[[[[-1.0000,  1.0000]]]]])
    """

    _ndims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes; in a single process the same as BatchNorm.

    In training, mean and variance are those of all inputs together, whose sizes may differ, and gradients flow through
    them to every input.

    Args:
        num_features: number of channels C.
        eps: added under the root for numerical stability.
        momentum: weight of new statistics; None averages over all batches.
        affine: whether to learn a weight (initially ones) and a bias (initially zeros).
        track_running_stats: whether to keep running statistics for evaluation.
        process_group: the processes; the default group if not given.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether to add a learned bias.

    Example:
        >>> fb.nn.SyncBatchNorm(1, affine=False)(fb.tensor([[1.0], [3.0]]))
        tensor([[-1.0000],
                [ 1.0000]])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device = None,
        dtype: fb.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        from flambeau import distributed as dist  # most programs with batch normalization do not need it

        together = self.training and dist.is_initialized() and dist.get_world_size(self.process_group) > 1
        return self._normalised(input, self._together if together else F.batch_norm)

    def _together(
        self, input: Tensor, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
    ) -> Tensor:
        from flambeau.nn.modules._sync_batchnorm import sync_batch_norm

        return sync_batch_norm(input, mean, var, weight, bias, momentum, eps, self.process_group)

    def _rectified(self, input: Tensor) -> Tensor:
        return fb.relu(self(input))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"process_group": None}  # groups belong to a process

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        own = type(self).__new__(type(self))
        memo[id(self)] = own
        own.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        own.process_group = self.process_group
        return own

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ArgumentError(f"SyncBatchNorm: expected at least 2D input (got {input.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replaces every BatchNorm of a module by a SyncBatchNorm with the same parameters.

        Args:
            module: the module.
            process_group: the processes; the default group if not given.

        Example:
            >>> fb.nn.SyncBatchNorm.convert_sync_batchnorm(fb.nn.Sequential(fb.nn.BatchNorm2d(3)))[0].num_features
            3
        """
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group,
                bias=module.bias is not None,
            )  # fmt: skip
            result.weight, result.bias = module.weight, module.bias
            result.running_mean, result.running_var = module.running_mean, module.running_var
            result.num_batches_tracked, result.training = module.num_batches_tracked, module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalization that infers num_features from its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = fb.tensor(0, dtype=fb.int64)

    def reset_parameters(self) -> None:
        """Resets parameters and statistics once their shape is known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Gives parameters and statistics their shape."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            tensor: Any
            for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


@inherit_args
class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyBatchNorm1d()
        >>> _ = m(fb.randn(4, 3))
        >>> m.num_features
        3
    """

    cls_to_become = BatchNorm1d
    _ndims = (2, 3)


@inherit_args
class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyBatchNorm2d()
        >>> _ = m(fb.randn(4, 3, 2, 2))
        >>> m.num_features
        3
    """

    cls_to_become = BatchNorm2d
    _ndims = (4,)


@inherit_args
class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that infers num_features from its first input.

    Example:
        >>> m = fb.nn.LazyBatchNorm3d()
        >>> _ = m(fb.randn(4, 3, 2, 2, 2))
        >>> m.num_features
        3
    """

    cls_to_become = BatchNorm3d
    _ndims = (5,)
