"""Normalization over features and groups."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _check_sizes
from flambeau.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
__dir__ = __all__.copy


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) · weight + bias over the last dimensions.

    Args:
        normalized_shape: the last sizes of the input.
        eps: added under the root for numerical stability.
        elementwise_affine: whether to learn a weight (initially ones) and a bias (initially zeros).
        bias: whether to add a learned bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> fb.nn.LayerNorm(2, elementwise_affine=False, eps=0.0)(fb.tensor([1.0, 3.0]))
        tensor([-1.,  1.])
    """

    weight: Parameter
    bias: Parameter

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        for size in self.normalized_shape:
            _check_sizes(self, normalized_shape=size)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = Parameter(fb.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x²) + eps) · weight over the last dimensions.

    Args:
        normalized_shape: the last sizes of the input.
        eps: keeps the root from 0; the dtype's machine epsilon by default.
        elementwise_affine: whether to learn a weight (initially ones).
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> fb.nn.RMSNorm(2, elementwise_affine=False)(fb.tensor([3.0, 3.0]))
        tensor([1., 1.])
    """

    weight: Parameter

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        for size in self.normalized_shape:
            _check_sizes(self, normalized_shape=size)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        value = Parameter(fb.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalizes over groups of channels and all positions, for each sample.

    Args:
        num_groups: number of channel groups.
        num_channels: C of (N, C, …).
        eps: added under the root for numerical stability.
        affine: whether to learn a weight (initially ones) and a bias (initially zeros).
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether to add a learned bias.

    Example:
        >>> fb.nn.GroupNorm(2, 4, affine=False, eps=0.0)(fb.tensor([[1.0, 3.0, 2.0, 6.0]]))
        tensor([[-1.,  1., -1.,  1.]])
    """

    weight: Parameter
    bias: Parameter

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Device = None,
        dtype: fb.dtype | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(fb.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta.

    Args:
        size: number of channels.
        alpha: factor.
        beta: exponent.
        k: summand.

    Example:
        >>> fb.nn.LocalResponseNorm(1, alpha=1.0, beta=1.0)(fb.ones(1, 1, 1))
        tensor([[[0.5000]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of images (N, C, H, W), under an older name.

    The window of an even size is that of the odd one below.

    Args:
        size: number of channels.
        alpha: factor.
        beta: exponent.
        k: summand.

    Example:
        >>> fb.nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0)(fb.ones(1, 1, 1, 1))
        tensor([[[[0.5000]]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ArgumentError(f"CrossMapLRN2d: expected (N, C, H, W), got shape {tuple(input.shape)}")
        reach = (self.size - 1) // 2
        squares = fb.constant_pad_nd(input.square(), [0, 0, 0, 0, reach, reach])
        total = squares.unfold(1, 2 * reach + 1, 1).sum(-1)
        return input * (total * (self.alpha / self.size) + self.k).pow(-self.beta)
