"""Convolutions."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import ntuple

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _batched(op: str, input: Tensor, weight: Tensor, dims: int) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had one."""
    if weight.ndim != dims + 2:
        raise ArgumentError(f"{op}: expected a weight of {dims + 2} dimensions, got shape {tuple(weight.shape)}")
    if input.ndim not in (dims + 1, dims + 2):
        raise ArgumentError(
            f"{op}: expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input, but got input of size: {tuple(input.shape)}"
        )
    return (input, True) if input.ndim == dims + 2 else (input.unsqueeze(0), False)


def _conv(
    op: str, dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:  # fmt: skip
    x, batched = _batched(op, input, weight, dims)
    stride, dilation = ntuple(op, "stride", stride, dims), ntuple(op, "dilation", dilation, dims)
    if isinstance(padding, str):
        x, padding = _named_padding(op, padding, x, weight, stride, dilation)
    else:
        padding = ntuple(op, "padding", padding, dims)
    result = fb.convolution(x, weight, bias, stride, padding, dilation, False, (0,) * dims, groups)
    return result if batched else result.squeeze(0)


def _named_padding(
    op: str, padding: str, x: Tensor, weight: Tensor, stride: tuple, dilation: tuple
) -> tuple[Tensor, tuple[int, ...]]:
    """Padding "valid" or "same" as numbers; where "same" needs one more on the right, the input gets it."""
    if padding == "valid":
        return x, (0,) * len(stride)
    if padding != "same":
        raise ArgumentError(f"{op}: padding must be numbers, 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in stride):
        raise ArgumentError(f"{op}: padding='same' is not supported for strided convolutions, got stride {stride}")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        x = fb.constant_pad_nd(x, [m for total in reversed(totals) for m in (0, total % 2)])
    return x, tuple(total // 2 for total in totals)


def _conv_transpose(
    op: str, dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    x, batched = _batched(op, input, weight, dims)
    stride, padding, output_padding, dilation = (
        ntuple(op, name, value, dims)
        for name, value in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation),
        )
    )  # fmt: skip
    result = fb.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return result if batched else result.squeeze(0)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:  # fmt: skip
    """A convolution of signals.

    Args:
        input: (N, C, L) or (C, L).
        weight: (out_channels, C / groups, kernel size).
        bias: (out_channels,).
        stride: step of the window.
        padding: zeros on both sides, or "valid" or "same".
        dilation: distance of the kernel's elements.
        groups: into how many groups the channels are split.

    Example:
        >>> fb.nn.functional.conv1d(fb.tensor([[[1.0, 2.0, 3.0]]]), fb.ones(1, 1, 2))
        tensor([[[3., 5.]]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:  # fmt: skip
    """A convolution of images.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (out_channels, C / groups, kernel height, kernel width).
        bias: (out_channels,).
        stride: step of the window.
        padding: zeros on both sides, or "valid" or "same".
        dilation: distance of the kernel's elements.
        groups: into how many groups the channels are split.

    Example:
        >>> fb.nn.functional.conv2d(fb.ones(1, 1, 3, 3), fb.ones(1, 1, 2, 2))
        tensor([[[[4., 4.],
                  [4., 4.]]]])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:  # fmt: skip
    """A convolution of volumes.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        weight: (out_channels, C / groups, kernel depth, height, width).
        bias: (out_channels,).
        stride: step of the window.
        padding: zeros on both sides, or "valid" or "same".
        dilation: distance of the kernel's elements.
        groups: into how many groups the channels are split.

    Example:
        >>> fb.nn.functional.conv3d(fb.ones(1, 1, 2, 2, 2), fb.ones(1, 1, 2, 2, 2))
        tensor([[[[[8.]]]]])
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution of signals, which enlarges them.

    Args:
        input: (N, C, L) or (C, L).
        weight: (C, out_channels / groups, kernel size).
        bias: (out_channels,).
        stride: by which the result grows.
        padding: margin that is cut off on both sides.
        output_padding: added to one side of the result.
        groups: into how many groups the channels are split.
        dilation: distance of the kernel's elements.

    Example:
        >>> fb.nn.functional.conv_transpose1d(fb.tensor([[[1.0, 2.0]]]), fb.ones(1, 1, 2))
        tensor([[[1., 3., 2.]]])
    """
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution of images, which enlarges them.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (C, out_channels / groups, kernel height, kernel width).
        bias: (out_channels,).
        stride: by which the result grows.
        padding: margin that is cut off on both sides.
        output_padding: added to one side of the result.
        groups: into how many groups the channels are split.
        dilation: distance of the kernel's elements.

    Example:
        >>> fb.nn.functional.conv_transpose2d(fb.ones(1, 1, 2, 2), fb.ones(1, 1, 2, 2), stride=2).shape
        flambeau.Size([1, 1, 4, 4])
    """
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution of volumes, which enlarges them.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        weight: (C, out_channels / groups, kernel depth, height, width).
        bias: (out_channels,).
        stride: by which the result grows.
        padding: margin that is cut off on both sides.
        output_padding: added to one side of the result.
        groups: into how many groups the channels are split.
        dilation: distance of the kernel's elements.

    Example:
        >>> fb.nn.functional.conv_transpose3d(fb.ones(1, 1, 1, 1, 1), fb.ones(1, 1, 2, 2, 2)).shape
        flambeau.Size([1, 1, 2, 2, 2])
    """
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
