"""Pooling modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _single

F: Any = functional  # functions added by the core are invisible to type checkers

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip
__dir__ = __all__.copy

_Sizes = int | Sequence[int]


class _MaxPoolNd(Module):
    """The maximum of every window.

    Args:
        kernel_size: size of the window.
        stride: step of the window; kernel_size by default.
        padding: how far windows extend beyond both ends.
        dilation: distance between the elements of a window.
        return_indices: whether to return (values, their positions), as MaxUnpool needs.
        ceil_mode: whether to include a last window that is only partly inside.
    """

    _pool: str  # the function of nn.functional

    def __init__(
        self,
        kernel_size: _Sizes,
        stride: _Sizes | None = None,
        padding: _Sizes = 0,
        dilation: _Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


@inherit_args
class MaxPool1d(_MaxPoolNd):
    """The maximum of every window of (N, C, L) or (C, L).

    Example:
        >>> fb.nn.MaxPool1d(3, stride=2)(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 3])
    """

    _pool = "max_pool1d"


@inherit_args
class MaxPool2d(_MaxPoolNd):
    """The maximum of every window of (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.MaxPool2d(3, stride=2)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3])
    """

    _pool = "max_pool2d"


@inherit_args
class MaxPool3d(_MaxPoolNd):
    """The maximum of every window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.MaxPool3d(3, stride=2)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3, 3])
    """

    _pool = "max_pool3d"


class _MaxUnpoolNd(Module):
    """Inverts max pooling: puts maxima back to their positions.

    Args:
        kernel_size: kernel_size of the pooling.
        stride: stride of the pooling.
        padding: padding of the pooling.
    """

    _dims: int
    _pool: str

    def __init__(self, kernel_size: _Sizes, stride: _Sizes | None = None, padding: _Sizes = 0) -> None:
        super().__init__()
        per_dimension = _ntuple(self._dims)
        self.kernel_size = per_dimension(kernel_size)
        self.stride = per_dimension(kernel_size if stride is None else stride)
        self.padding = per_dimension(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return getattr(F, self._pool)(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@inherit_args
class MaxUnpool1d(_MaxUnpoolNd):
    """Inverts MaxPool1d: puts maxima back where it took them from; everything else is 0.

    Example:
        >>> fb.nn.MaxUnpool1d(2)(fb.tensor([[3.0, 4.0]]), fb.tensor([[1, 3]]))
        tensor([[0., 3., 0., 4.]])
    """

    _dims = 1
    _pool = "max_unpool1d"


@inherit_args
class MaxUnpool2d(_MaxUnpoolNd):
    """Inverts MaxPool2d: puts maxima back where it took them from; everything else is 0.

    Example:
        >>> fb.nn.MaxUnpool2d(2)(fb.tensor([[[3.0]]]), fb.tensor([[[2]]]))
        tensor([[[0., 0.],
                 [3., 0.]]])
    """

    _dims = 2
    _pool = "max_unpool2d"


@inherit_args
class MaxUnpool3d(_MaxUnpoolNd):
    """Inverts MaxPool3d: puts maxima back where it took them from; everything else is 0.

    Example:
        >>> fb.nn.MaxUnpool3d(2)(fb.tensor([[[[3.0]]]]), fb.tensor([[[[7]]]])).flatten()[-1]
        tensor(3.)
    """

    _dims = 3
    _pool = "max_unpool3d"


class _AvgPoolNd(Module):
    """The mean of every window, or its sum divided by a given number.

    Args:
        kernel_size: size of the window.
        stride: step of the window; kernel_size by default.
        padding: zeros on both sides.
        ceil_mode: whether to include a last window that is only partly inside.
        count_include_pad: whether to include padding in the mean.
        divisor_override: divisor of the sums instead of the number of elements.
    """

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@inherit_args
class AvgPool1d(_AvgPoolNd):
    """The mean of every window of (N, C, L) or (C, L).

    Example:
        >>> fb.nn.AvgPool1d(2)(fb.tensor([[1.0, 3.0, 2.0, 4.0]]))
        tensor([[2., 3.]])
    """

    def __init__(
        self, kernel_size: _Sizes, stride: _Sizes | None = None, padding: _Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    _pool: str

    def __init__(
        self,
        kernel_size: _Sizes,
        stride: _Sizes | None = None,
        padding: _Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override,
        )  # fmt: skip


@inherit_args
class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of every window of (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.AvgPool2d(3, stride=2)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3])
    """

    _pool = "avg_pool2d"


@inherit_args
class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of every window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.AvgPool3d(3, stride=2)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3, 3])
    """

    _pool = "avg_pool3d"


class _FractionalMaxPoolNd(Module):
    """Max pooling with windows at random distances.

    Args:
        kernel_size: size of the windows.
        output_size: size of the result.
        output_ratio: the same as a part of the input's size.
        return_indices: whether to return (values, their positions).
    """

    _dims: int
    _pool: str

    def __init__(
        self,
        kernel_size: _Sizes,
        output_size: _Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, per_dimension = type(self).__name__, _ntuple(self._dims)
        self.kernel_size = per_dimension(kernel_size)
        if any(size <= 0 for size in self.kernel_size):
            raise ArgumentError(f"{name}: kernel_size must greater than 0, got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dimension(output_size)
        self.output_ratio = None if output_ratio is None else per_dimension(output_ratio)
        if output_size is None and output_ratio is None:
            raise ArgumentError(f"{name}: requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ArgumentError(f"{name}: only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ArgumentError(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


@inherit_args
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W) with windows at random distances.

    Example:
        >>> fb.nn.FractionalMaxPool2d(2, output_ratio=0.5)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 2
    _pool = "fractional_max_pool2d"


@inherit_args
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W) with windows at random distances.

    Example:
        >>> fb.nn.FractionalMaxPool3d(2, output_ratio=0.5)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 4, 4, 4])
    """

    _dims = 3
    _pool = "fractional_max_pool3d"


class _LPPoolNd(Module):
    """(sum of xᵖ)^(1/p) over every window.

    Args:
        norm_type: p.
        kernel_size: size of the window.
        stride: step of the window; kernel_size by default.
        ceil_mode: whether to include a last window that is only partly inside.
    """

    _pool: str  # the function of nn.functional

    def __init__(
        self, norm_type: float, kernel_size: _Sizes, stride: _Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@inherit_args
class LPPool1d(_LPPoolNd):
    """(sum of xᵖ)^(1/p) over every window of (N, C, L) or (C, L).

    Example:
        >>> fb.nn.LPPool1d(2, 2)(fb.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """

    _pool = "lp_pool1d"


@inherit_args
class LPPool2d(_LPPoolNd):
    """(sum of xᵖ)^(1/p) over every window of (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.LPPool2d(2, (1, 2))(fb.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """

    _pool = "lp_pool2d"


@inherit_args
class LPPool3d(_LPPoolNd):
    """(sum of xᵖ)^(1/p) over every window of (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.LPPool3d(2, (1, 1, 2))(fb.tensor([[[[3.0, 4.0]]]]))
        tensor([[[[5.]]]])
    """

    _pool = "lp_pool3d"


class _AdaptivePoolNd(Module):
    """Pooling into a given output size; a subclass defines the reduction of each window.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps a size.
    """

    _pool: str  # the function of nn.functional

    def __init__(self, output_size: int | None | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(input, self.output_size)


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    """Adaptive max pooling: the maxima of as many windows as output elements.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps a size.
        return_indices: whether to return (values, their positions).
    """

    def __init__(self, output_size: int | None | Sequence[int | None], return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(input, self.output_size, self.return_indices)


@inherit_args
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Adaptive max pooling: the maxima of as many windows as output elements, which together cover (N, C, L) or (C, L).

    Example:
        >>> fb.nn.AdaptiveMaxPool1d(3)(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 3])
    """

    _pool = "adaptive_max_pool1d"


@inherit_args
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Adaptive max pooling: the maxima of as many windows as output elements, which together cover (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.AdaptiveMaxPool2d(3)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3])
    """

    _pool = "adaptive_max_pool2d"


@inherit_args
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Adaptive max pooling: the maxima of as many windows as output elements, which together cover (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.AdaptiveMaxPool3d(3)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3, 3])
    """

    _pool = "adaptive_max_pool3d"


@inherit_args
class AdaptiveAvgPool1d(_AdaptivePoolNd):
    """Adaptive average pooling: the means of as many windows as output elements, which together cover (N, C, L) or (C, L).

    Example:
        >>> fb.nn.AdaptiveAvgPool1d(3)(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 3])
    """

    _pool = "adaptive_avg_pool1d"


@inherit_args
class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """Adaptive average pooling: the means of as many windows as output elements, which together cover (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.AdaptiveAvgPool2d(3)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3])
    """

    _pool = "adaptive_avg_pool2d"


@inherit_args
class AdaptiveAvgPool3d(_AdaptivePoolNd):
    """Adaptive average pooling: the means of as many windows as output elements, which together cover (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.AdaptiveAvgPool3d(3)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 3, 3, 3])
    """

    _pool = "adaptive_avg_pool3d"
