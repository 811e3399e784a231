"""Pooling whose sizes are computed here: adaptive, fractional, power averages, and the inverse of max pooling.

max_pool and avg_pool are ops of the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import not_implemented, ntuple

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip

_core = fb._C.namespaces["_nn"]
_Sizes = int | Sequence[int | None]


def _output_size(op: str, input: Tensor, output_size: _Sizes | None, n: int) -> tuple[int, ...]:
    """One size for each dimension; None keeps the input's."""
    if isinstance(output_size, Sequence) and len(output_size) != n:
        rule = "'output_size' should contain one int" if n == 1 else f"output_size must be {n} numbers"
        raise ArgumentError(f"{op}: {rule}, got {tuple(output_size)}")
    given = (output_size,) * n if output_size is None else ntuple(op, "output_size", output_size, n)
    if input.ndim < n + 1:
        raise ArgumentError(
            f"{op}: Input dimension should be at least {n + 1}: expected {n + 1}D or {n + 2}D input, "
            f"got shape {tuple(input.shape)}"
        )
    if not input.is_floating_point():
        raise not_implemented(op, op, input, "convert it with .float()")
    return tuple(size if want is None else want for want, size in zip(given, input.shape[-n:], strict=True))


def _averages(op: str, input: Tensor, output_size: _Sizes, n: int) -> Tensor:
    sizes = _output_size(op, input, output_size, n)
    if input.ndim == n + 1 and input.shape[0] == 0:  # no channels and no batch: the core reports the former as an error
        return _core["adaptive_avg_pool"](input.unsqueeze(1), sizes).squeeze(1)
    return _core["adaptive_avg_pool"](input, sizes)


def adaptive_avg_pool1d(input: Tensor, output_size: _Sizes) -> Tensor:
    """Adaptive average pooling: the means of as many windows as output elements, which together cover the input.

    Args:
        input: (N, C, L) or (C, L).
        output_size: length of the result.

    Example:
        >>> fb.nn.functional.adaptive_avg_pool1d(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
        tensor([[2., 3.]])
    """
    return _averages("adaptive_avg_pool1d", input, output_size, 1)


def adaptive_avg_pool2d(input: Tensor, output_size: _Sizes) -> Tensor:
    """Adaptive average pooling: the means of as many windows as output elements, which together cover the input.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: (H, W) of the result, or one number; None keeps a size.

    Example:
        >>> fb.nn.functional.adaptive_avg_pool2d(fb.arange(8.0).view(1, 2, 4), (1, 2))
        tensor([[[2.5000, 4.5000]]])
    """
    return _averages("adaptive_avg_pool2d", input, output_size, 2)


def adaptive_avg_pool3d(input: Tensor, output_size: _Sizes) -> Tensor:
    """Adaptive average pooling: the means of as many windows as output elements, which together cover the input.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: (D, H, W) of the result, or one number; None keeps a size.

    Example:
        >>> fb.nn.functional.adaptive_avg_pool3d(fb.arange(8.0).view(1, 2, 2, 2), 1)
        tensor([[[[3.5000]]]])
    """
    return _averages("adaptive_avg_pool3d", input, output_size, 3)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: _Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool1d with the positions of the maxima, always.

    Example:
        >>> fb.nn.functional.adaptive_max_pool1d_with_indices(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)[1]
        tensor([[1, 3]])
    """
    return _core["adaptive_max_pool"](input, _output_size("adaptive_max_pool1d", input, output_size, 1))


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: _Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool2d with the positions of the maxima, always.

    Example:
        >>> fb.nn.functional.adaptive_max_pool2d_with_indices(fb.arange(8.0).view(1, 2, 4), (1, 2))[1]
        tensor([[[5, 7]]])
    """
    return _core["adaptive_max_pool"](input, _output_size("adaptive_max_pool2d", input, output_size, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: _Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool3d with the positions of the maxima, always.

    Example:
        >>> fb.nn.functional.adaptive_max_pool3d_with_indices(fb.arange(8.0).view(1, 2, 2, 2), 1)[1]
        tensor([[[[7]]]])
    """
    return _core["adaptive_max_pool"](input, _output_size("adaptive_max_pool3d", input, output_size, 3))


def adaptive_max_pool1d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as there are results wanted; they cover the whole input.

    Args:
        input: (N, C, L) or (C, L).
        output_size: length of the result.
        return_indices: whether to return (values, their positions).

    Example:
        >>> fb.nn.functional.adaptive_max_pool1d(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
        tensor([[3., 4.]])
    """
    result = adaptive_max_pool1d_with_indices(input, output_size)
    return result if return_indices else result[0]


def adaptive_max_pool2d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as there are results wanted; they cover the whole input.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: (H, W) of the result, or one number; None keeps a size.
        return_indices: whether to return (values, their positions in the plane).

    Example:
        >>> fb.nn.functional.adaptive_max_pool2d(fb.arange(8.0).view(1, 2, 4), (1, 2))
        tensor([[[5., 7.]]])
    """
    result = adaptive_max_pool2d_with_indices(input, output_size)
    return result if return_indices else result[0]


def adaptive_max_pool3d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as there are results wanted; they cover the whole input.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: (D, H, W) of the result, or one number; None keeps a size.
        return_indices: whether to return (values, their positions in the volume).

    Example:
        >>> fb.nn.functional.adaptive_max_pool3d(fb.arange(8.0).view(1, 2, 2, 2), 1)
        tensor([[[[7.]]]])
    """
    result = adaptive_max_pool3d_with_indices(input, output_size)
    return result if return_indices else result[0]


def _fractional(op: str, input: Tensor, kernel_size, output_size, output_ratio, samples: Tensor | None, n: int):
    if output_size is None and output_ratio is None:
        raise ArgumentError(f"{op}: requires specifying either an output_size or an output_ratio")
    if input.ndim not in (n + 1, n + 2):
        raise ArgumentError(f"{op}: expected {n + 1}D or {n + 2}D input, got shape {tuple(input.shape)}")
    if output_size is None:
        if isinstance(output_ratio, Sequence) and len(output_ratio) not in (1, n):
            raise ArgumentError(f"{op} requires output_ratio to either be a single Int or tuple of Ints. Got {tuple(output_ratio)}")
        ratios = ntuple(op, "output_ratio", output_ratio, n)
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-n:], ratios, strict=True)]
    if isinstance(kernel_size, Sequence) and len(kernel_size) not in (1, n):
        raise ArgumentError(f"{op}: kernel_size must either be a single Int or tuple of {n} Ints, got {tuple(kernel_size)}")
    kernel, sizes = ntuple(op, "kernel_size", kernel_size, n), ntuple(op, "output_size", output_size, n)
    batch = 1 if input.ndim == n + 1 else input.shape[0]
    expected = (batch, input.shape[-n - 1], n)
    if samples is None:
        samples = fb.rand(*expected, dtype=input.dtype, device=input.device)
    elif samples.ndim != 3 or samples.shape[0] < batch or tuple(samples.shape[1:]) != expected[1:]:
        raise ArgumentError(f"{op}: Expect _random_samples of shape {expected}, got {tuple(samples.shape)}")
    if 0 in sizes:
        empty = (*input.shape[:-n], *sizes)
        return input.new_empty(empty), input.new_empty(empty, dtype=fb.int64)
    return _core["fractional_max_pool"](input, kernel, sizes, samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d with the positions of the maxima, always.

    Example:
        >>> values, indices = fb.nn.functional.fractional_max_pool2d_with_indices(fb.rand(1, 5, 5), 2, output_size=3)
        >>> indices.shape
        flambeau.Size([1, 3, 3])
    """
    return _fractional("fractional_max_pool2d", input, kernel_size, output_size, output_ratio, _random_samples, 2)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d with the positions of the maxima, always.

    Example:
        >>> values, indices = fb.nn.functional.fractional_max_pool3d_with_indices(fb.rand(1, 5, 5, 5), 2, output_size=3)
        >>> indices.shape
        flambeau.Size([1, 3, 3, 3])
    """
    return _fractional("fractional_max_pool3d", input, kernel_size, output_size, output_ratio, _random_samples, 3)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling with windows at random distances, so that any output size is possible.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: size of the windows, one number or two.
        output_size: (H, W) of the result, or one number.
        output_ratio: the same as parts of the input's size.
        return_indices: whether to return (values, their positions in the plane).

    Example:
        >>> fb.nn.functional.fractional_max_pool2d(fb.rand(1, 10, 10), 2, output_ratio=0.5).shape
        flambeau.Size([1, 5, 5])
    """
    result = _fractional("fractional_max_pool2d", input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return result if return_indices else result[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling with windows at random distances, so that any output size is possible.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: size of the windows, one number or three.
        output_size: (D, H, W) of the result, or one number.
        output_ratio: the same as parts of the input's size.
        return_indices: whether to return (values, their positions in the volume).

    Example:
        >>> fb.nn.functional.fractional_max_pool3d(fb.rand(1, 10, 10, 10), 2, output_ratio=0.5).shape
        flambeau.Size([1, 5, 5, 5])
    """
    result = _fractional("fractional_max_pool3d", input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return result if return_indices else result[0]


def _power_average(op: str, input: Tensor, norm_type: float, kernel_size, stride, ceil_mode: bool, n: int) -> Tensor:
    from flambeau.nn import functional

    F: Any = functional
    kernel = ntuple(op, "kernel_size", kernel_size, n)
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    mean = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    if norm_type == float("inf"):
        return largest(input.abs(), kernel, stride, 0, 1, ceil_mode)
    if norm_type == -float("inf"):
        return -largest(-input.abs(), kernel, stride, 0, 1, ceil_mode)
    total = mean(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    count = 1
    for size in kernel:
        count *= size
    return (total.sign() * total.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of xᵖ)^(1/p) over every window.

    Args:
        input: (N, C, L) or (C, L).
        norm_type: p.
        kernel_size: size of the window.
        stride: step of the window; kernel_size by default.
        ceil_mode: whether to include a last window that is only partly inside.

    Example:
        >>> fb.nn.functional.lp_pool1d(fb.tensor([[3.0, 4.0]]), 2, 2)
        tensor([[5.]])
    """
    return _power_average("lp_pool1d", input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of xᵖ)^(1/p) over every window.

    Args:
        input: (N, C, H, W) or (C, H, W).
        norm_type: p.
        kernel_size: size of the window, one number or two.
        stride: step of the window; kernel_size by default.
        ceil_mode: whether to include a last window that is only partly inside.

    Example:
        >>> fb.nn.functional.lp_pool2d(fb.tensor([[[3.0, 4.0]]]), 2, (1, 2))
        tensor([[[5.]]])
    """
    return _power_average("lp_pool2d", input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of xᵖ)^(1/p) over every window.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        norm_type: p.
        kernel_size: size of the window, one number or three.
        stride: step of the window; kernel_size by default.
        ceil_mode: whether to include a last window that is only partly inside.

    Example:
        >>> fb.nn.functional.lp_pool3d(fb.tensor([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
        tensor([[[[5.]]]])
    """
    return _power_average("lp_pool3d", input, norm_type, kernel_size, stride, ceil_mode, 3)


def _unpool(op: str, input: Tensor, indices: Tensor, kernel_size, stride, padding, output_size, n: int) -> Tensor:
    kernel = ntuple(op, "kernel_size", kernel_size, n)
    steps = kernel if stride is None or stride == () or stride == [] else ntuple(op, "stride", stride, n)
    margins = ntuple(op, "padding", padding, n)
    if input.ndim not in (n + 1, n + 2):
        raise ArgumentError(f"{op}: expected {n + 1}D or {n + 2}D input, got shape {tuple(input.shape)}")
    sizes = [
        (size - 1) * step + window - 2 * margin
        for size, step, window, margin in zip(input.shape[-n:], steps, kernel, margins, strict=True)
    ]
    if output_size is not None:
        given = tuple(output_size)
        given = given[2:] if len(given) == n + 2 else given
        if len(given) != n:
            raise ArgumentError(f"{op}: output_size should have {n} or {n + 2} elements, got {tuple(output_size)}")
        for d, (want, size, step) in enumerate(zip(given, sizes, steps, strict=True)):
            if not size - step < want < size + step:
                raise ArgumentError(
                    f"{op}: invalid output_size {given}: dim {d} must be between {size - step} and {size + step}"
                )
        sizes = list(given)
    if any(step <= 0 for step in steps):
        raise ArgumentError(f"{op}: strides should be greater than zero, got {steps}")
    return _core["max_unpool"](input, indices, sizes)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where max_pool1d took them from; everything else is 0.

    Args:
        input: the maxima.
        indices: their positions, from max_pool1d(..., return_indices=True).
        kernel_size: kernel_size of the pooling.
        stride: stride of the pooling.
        padding: padding of the pooling.
        output_size: the size of the pooling's input, where several fit.

    Example:
        >>> fb.nn.functional.max_unpool1d(fb.tensor([[3.0, 4.0]]), fb.tensor([[1, 3]]), 2)
        tensor([[0., 3., 0., 4.]])
    """
    return _unpool("max_unpool1d", input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where max_pool2d took them from; everything else is 0.

    Args:
        input: the maxima.
        indices: their positions in the plane, from max_pool2d(..., return_indices=True).
        kernel_size: kernel_size of the pooling.
        stride: stride of the pooling.
        padding: padding of the pooling.
        output_size: the size of the pooling's input, where several fit.

    Example:
        >>> fb.nn.functional.max_unpool2d(fb.tensor([[[3.0]]]), fb.tensor([[[2]]]), 2)
        tensor([[[0., 0.],
                 [3., 0.]]])
    """
    return _unpool("max_unpool2d", input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where max_pool3d took them from; everything else is 0.

    Args:
        input: the maxima.
        indices: their positions in the volume, from max_pool3d(..., return_indices=True).
        kernel_size: kernel_size of the pooling.
        stride: stride of the pooling.
        padding: padding of the pooling.
        output_size: the size of the pooling's input, where several fit.

    Example:
        >>> fb.nn.functional.max_unpool3d(fb.tensor([[[[3.0]]]]), fb.tensor([[[[7]]]]), 2)
        tensor([[[[0., 0.],
                  [0., 0.]],
        <BLANKLINE>
                 [[0., 0.],
                  [0., 3.]]]])
    """
    return _unpool("max_unpool3d", input, indices, kernel_size, stride, padding, output_size, 3)
