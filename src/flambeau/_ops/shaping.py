"""Rearrangements composed of other ops."""

import flambeau as fb
from flambeau._registry.composite import composite


@composite("adjoint(Tensor input) -> Tensor", method=True)
def adjoint(input):
    """The conjugate transpose of each matrix.

    Args:
        input: matrices (a 0-d tensor is returned unchanged).

    Example:
        >>> fb.adjoint(fb.tensor([[1 + 2j, 3 + 0j]]))
        tensor([[1.-2.j],
                [3.-0.j]])
    """
    if input.dim() == 0:
        return input.conj()
    if input.dim() == 1:
        raise fb.errors.ArgumentError(
            "adjoint: tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor; use conj()"
        )
    return input.transpose(-2, -1).conj()


@composite("as_strided_(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor", method=True)
def as_strided_(input, size, stride, storage_offset):
    """Changes the shape and strides of this tensor in place, over the same storage.

    Args:
        input: the tensor.
        size: the shape.
        stride: elements between neighbors, per dimension.
        storage_offset: the first element; that of the input when not given.

    Example:
        >>> fb.arange(4).as_strided_((2, 2), (1, 2))
        tensor([[0, 2],
                [1, 3]])
    """
    offset = input.storage_offset()
    start = offset if storage_offset is None else storage_offset
    # After the change of layout, only these arguments tell the gradient what it was.
    return input._as_strided_(input.shape, input.stride(), offset, input.dtype, size, stride, start, input.dtype)


@composite("combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor", method=True)
def combinations(input, r, with_replacement):
    """All combinations of r elements of a vector, as rows.

    Args:
        input: a vector.
        r: how many elements per combination.
        with_replacement: whether an element may occur more than once.

    Example:
        >>> fb.combinations(fb.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.dim() != 1:
        raise fb.errors.ArgumentError(f"combinations: expected a 1-d vector, got shape {tuple(input.shape)}")
    if r < 0:
        raise fb.errors.ArgumentError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return fb.empty(0, dtype=input.dtype, device=input.device)
    positions = fb.arange(input.numel(), device=input.device)
    grids = fb.meshgrid(*[positions] * r, indexing="ij")
    keep = fb.ones([input.numel()] * r, dtype=fb.bool, device=input.device)
    for left, right in zip(grids, grids[1:], strict=False):
        keep = keep & (left <= right if with_replacement else left < right)
    return fb.stack([input[grid[keep]] for grid in grids], dim=1)


def _powers(x, n, increasing):
    powers = fb.ones(*x.shape, n, dtype=x.dtype, device=x.device)
    if n > 1:
        powers[..., 1:] = fb.cumprod(x.unsqueeze(-1).expand(*x.shape, n - 1), dim=-1)
    return powers if increasing else fb.flip(powers, (-1,))


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
def vander(x, N, increasing):
    """The Vandermonde matrix: the powers of each element of a vector, as a row.

    Args:
        x: a vector. Integers and bool give int64.
        N: number of powers; the number of elements by default.
        increasing: start with the 0th power, which is otherwise the last.

    Example:
        >>> fb.vander(fb.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [4, 2, 1],
                [9, 3, 1]])
    """
    if x.dim() != 1:
        raise fb.errors.ArgumentError(f"vander: x must be a one-dimensional tensor, got shape {tuple(x.shape)}")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise fb.errors.ArgumentError(f"vander: N must be non-negative, got {n}")
    if not x.is_floating_point() and not x.is_complex():
        x = x.to(fb.int64)
    return _powers(x, n, increasing)


def _is_channels_last(input):
    """Whether images are channels-last and not also row-major: results then keep the format."""
    return input.dim() == 4 and not input.is_contiguous() and input.is_contiguous(memory_format=fb.channels_last)


@composite("pixel_shuffle(Tensor input, int upscale_factor) -> Tensor")
def pixel_shuffle(input, upscale_factor):
    """Moves channels into space: (…, C·r², H, W) becomes (…, C, H·r, W·r).

    Args:
        input: at least three-dimensional.
        upscale_factor: r.

    Example:
        >>> fb.pixel_shuffle(fb.zeros(1, 8, 2, 3), 2).shape
        flambeau.Size([1, 2, 4, 6])
    """
    r = upscale_factor
    if input.dim() < 3 or r <= 0 or input.shape[-3] % (r * r):
        raise fb.errors.ArgumentError(
            f"pixel_shuffle: expected shape (…, C·r², H, W) for a positive factor r, got {tuple(input.shape)} and r={r}"
        )
    if _is_channels_last(input):
        n, c, h, w = input.shape
        blocks = input.movedim(1, -1).reshape(n, h, w, c // (r * r), r, r).permute(0, 1, 4, 2, 5, 3)
        return blocks.reshape(n, h * r, w * r, c // (r * r)).movedim(-1, 1)
    *batch, c, h, w = input.shape
    n = len(batch)
    blocks = input.reshape(*batch, c // (r * r), r, r, h, w)
    blocks = blocks.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return blocks.reshape(*batch, c // (r * r), h * r, w * r)


@composite("pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor")
def pixel_unshuffle(input, downscale_factor):
    """Moves space into channels: (…, C, H·r, W·r) becomes (…, C·r², H, W).

    Args:
        input: at least three-dimensional.
        downscale_factor: r.

    Example:
        >>> fb.pixel_unshuffle(fb.zeros(1, 2, 4, 6), 2).shape
        flambeau.Size([1, 8, 2, 3])
    """
    r = downscale_factor
    if input.dim() < 3 or r <= 0 or input.shape[-2] % r or input.shape[-1] % r:
        raise fb.errors.ArgumentError(
            f"pixel_unshuffle: expected shape (…, C, H·r, W·r) for a positive factor r, got {tuple(input.shape)} and r={r}"
        )
    if _is_channels_last(input):
        n, c, h, w = input.shape
        blocks = input.movedim(1, -1).reshape(n, h // r, r, w // r, r, c).permute(0, 1, 3, 5, 2, 4)
        return blocks.reshape(n, h // r, w // r, c * r * r).movedim(-1, 1)
    *batch, c, h, w = input.shape
    n = len(batch)
    blocks = input.reshape(*batch, c, h // r, r, w // r, r)
    blocks = blocks.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return blocks.reshape(*batch, c * r * r, h // r, w // r)


@composite("channel_shuffle(Tensor input, int groups) -> Tensor")
def channel_shuffle(input, groups):
    """Interleaves the channels of several groups.

    Args:
        input: (N, C, …), C divisible by the number of groups.
        groups: number of groups.

    Example:
        >>> fb.channel_shuffle(fb.arange(4).view(1, 4, 1), 2).flatten()
        tensor([0, 2, 1, 3])
    """
    if input.dim() < 3 or groups <= 0 or input.shape[1] % groups:
        wrong = (
            " expects input with > 2 dims, (N, C, …)" if input.dim() < 3
            else ": Number of groups to divide channels in must be positive" if groups <= 0
            else ": Number of channels must be divisible by groups"
        )  # fmt: skip
        raise fb.errors.ArgumentError(f"channel_shuffle{wrong}, got shape {tuple(input.shape)} and groups={groups}")
    if _is_channels_last(input):
        last = input.movedim(1, -1)
        return last.unflatten(-1, (groups, -1)).transpose(-1, -2).flatten(-2).movedim(-1, 1)
    n, c, *rest = input.shape
    return input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(input.shape)
