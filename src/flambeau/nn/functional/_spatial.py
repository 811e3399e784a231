"""Functions that move pixels: padding and sliding blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import lies_channels_last, ntuple

__all__ = ["fold", "pad", "unfold"]


# ---- padding -----------------------------------------------------------------------------------------------------------


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds margins to the last dimensions.

    Args:
        input: the tensor.
        pad: (before, after) of the last dimension, then of the one before it, and so on; negative numbers crop.
        mode: "constant", "reflect", "replicate" or "circular".
        value: what the margins hold in mode "constant", 0 by default.

    Example:
        >>> fb.nn.functional.pad(fb.tensor([1, 2]), (1, 2))
        tensor([0, 1, 2, 0, 0])
        >>> fb.nn.functional.pad(fb.tensor([[1, 2, 3]]), (2, 0), mode="reflect")
        tensor([[3, 2, 1, 2, 3]])
    """
    margins = [int(p) for p in pad]
    if mode == "constant":
        return fb.constant_pad_nd(input, margins, 0 if value is None else value)
    if mode not in _SOURCES:
        raise ArgumentError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}")
    if value is not None and value != 0:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}")
    dims = len(margins) // 2
    if len(margins) % 2 or not 1 <= dims <= 3 or input.ndim not in (dims + 1, dims + 2):
        raise ArgumentError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dimensions of an input with a channel and maybe a batch dimension, "
            f"got {len(margins)} margins for shape {tuple(input.shape)}"
        )
    if any(size == 0 for size in input.shape[1:]):
        raise ArgumentError(
            f"pad: mode {mode!r} needs at least one element in each dimension, got shape {tuple(input.shape)}"
        )
    # In memory order the channels are last; circular padding becomes row-major anyway, as in PyTorch.
    last = mode != "circular" and lies_channels_last(input)
    input = input.movedim(1, -1) if last else input
    for i in range(dims):
        before, after = margins[2 * i : 2 * i + 2]
        if before or after:
            given = input.ndim - 1 - i
            dim = (given - 2) % (input.ndim - 1) + 1 if last else given  # dimension 1 is the last one, and 2 is 1
            if mode == "circular" and min(before, after) < 0:  # cropped parts are not used for wrapping
                low, high = max(-before, 0), max(-after, 0)
                input = input.narrow(dim, low, max(input.shape[dim] - low - high, 0))
                before, after = max(before, 0), max(after, 0)
            input = input.index_select(dim, _source(mode, input.shape[dim], before, after, given, input.device))
    result = input if any(margins) else input.clone()
    return result.movedim(-1, 1) if last else result


def _source(mode: str, size: int, before: int, after: int, dim: int, device: Any) -> Tensor:
    """The index that each position of the padded dimension is read from."""
    limit = {"reflect": size - 1, "circular": size}.get(mode)
    if limit is not None and max(before, after) > limit:
        raise ArgumentError(
            f"pad: padding ({before}, {after}) is too large for dimension {dim} of size {size}: mode {mode!r} allows at "
            f"most {limit}"
        )
    if size + before + after < 1:
        raise ArgumentError(f"pad: padding ({before}, {after}) leaves nothing of dimension {dim} of size {size}")
    return _SOURCES[mode](fb.arange(-before, size + after, device=device), size)


_SOURCES = {
    "replicate": lambda i, size: i.clamp(0, size - 1),
    "circular": lambda i, size: i % size,
    "reflect": lambda i, size: (size - 1) - ((size - 1) - i.abs()).abs(),
}


# ---- sliding blocks ----------------------------------------------------------------------------------------------------


def _block_index(
    op: str,
    size: tuple[int, int],
    kernel: tuple[Any, ...],
    dilation: tuple[Any, ...],
    padding: tuple[Any, ...],
    stride: tuple[Any, ...],
    device: Any,
) -> tuple[Tensor, tuple[int, int], tuple[int, int]]:
    """For each position in each block, its index in the padded image; also the padded size and the numbers of blocks.

    Unfolding reads these positions, folding adds to them.
    """
    for name, values, least in (
        ("kernel_size", kernel, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("stride", stride, 1),
    ):
        if min(values) < least:
            raise ArgumentError(f"{op}: {name} should be at least {least}, got {values}")
    padded = (size[0] + 2 * padding[0], size[1] + 2 * padding[1])
    blocks, steps = [], []
    for d in range(2):
        span = dilation[d] * (kernel[d] - 1) + 1
        count = (padded[d] - span) // stride[d] + 1
        if count < 1:
            raise ArgumentError(
                f"{op}: a block of {kernel} with dilation {dilation} does not fit into the padded size {padded}"
            )
        blocks.append(count)
        inside, starts = fb.arange(kernel[d], device=device), fb.arange(count, device=device)
        steps.append(inside.unsqueeze(1) * dilation[d] + starts * stride[d])
    rows = steps[0].view(kernel[0], 1, blocks[0], 1)
    columns = steps[1].view(1, kernel[1], 1, blocks[1])
    return (rows * padded[1] + columns).reshape(-1), padded, (blocks[0], blocks[1])


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] | None = 1,
) -> Tensor:
    """Sliding blocks of an image as columns.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: size of a block.
        dilation: spacing between a block's elements.
        padding: zeros on each side.
        stride: distance between blocks.

    Returns:
        (N, C · block elements, blocks).

    Example:
        >>> fb.nn.functional.unfold(fb.arange(4.0).view(1, 1, 2, 2), (1, 2))
        tensor([[[0., 2.],
                 [1., 3.]]])
    """
    op = "unfold"
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise ArgumentError(f"{op}: expected (N, C, H, W) or (C, H, W) with elements, got shape {tuple(input.shape)}")
    kernel, dilation, padding, stride = (
        ntuple(op, name, v, 2)
        for name, v in (("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    )
    index, _, blocks = _block_index(op, (input.shape[-2], input.shape[-1]), kernel, dilation, padding, stride, input.device)
    image = fb.constant_pad_nd(input, [padding[1], padding[1], padding[0], padding[0]])
    columns = image.flatten(-2).index_select(-1, index)
    return columns.reshape((*input.shape[:-3], input.shape[-3] * kernel[0] * kernel[1], blocks[0] * blocks[1]))


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] | None = 1,
) -> Tensor:
    """Adds columns of blocks up to an image; the adjoint of unfold().

    Args:
        input: (N, C · block elements, blocks), with or without N.
        output_size: (H, W) of the image.
        kernel_size: size of a block.
        dilation: spacing between a block's elements.
        padding: margin that is cut off on each side.
        stride: distance between blocks.

    Example:
        >>> fb.nn.functional.fold(fb.ones(1, 2, 2), (1, 3), (1, 2))
        tensor([[[[1., 2., 1.]]]])
    """
    op = "fold"
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ArgumentError(
            f"{op}: expected (N, C · block elements, blocks) with elements, got shape {tuple(input.shape)}"
        )
    size, kernel, dilation, padding, stride = (
        ntuple(op, name, v, 2)
        for name, v in (
            ("output_size", output_size), ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding),
            ("stride", stride),
        )
    )  # fmt: skip
    index, padded, blocks = _block_index(op, size, kernel, dilation, padding, stride, input.device)
    area = kernel[0] * kernel[1]
    if input.shape[-2] % area:
        raise ArgumentError(
            f"{op}: expected the size of dimension -2 to be divisible by the product of kernel_size, {area}, got {input.shape[-2]}"
        )
    if input.shape[-1] != blocks[0] * blocks[1]:
        raise ArgumentError(
            f"{op}: expected the size of dimension -1 to match the calculated number of sliding blocks, {blocks[0]} × {blocks[1]} = "
            f"{blocks[0] * blocks[1]}, got {input.shape[-1]}"
        )
    lead = (*input.shape[:-2], input.shape[-2] // area)
    image = input.new_zeros((*lead, padded[0] * padded[1])).index_add(-1, index, input.reshape((*lead, -1)))
    image = image.view((*lead, *padded))
    return image[..., padding[0] : padded[0] - padding[0], padding[1] : padded[1] - padding[1]]
