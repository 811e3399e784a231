"""Changing the resolution of images, and sampling them at arbitrary positions."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import lies_channels_last, narrow_back, not_implemented, wide

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_CUBIC, _CUBIC_ANTIALIAS = -0.75, -0.5


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the dimensions behind (N, C).

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the new sizes, one number or one for each dimension.
        scale_factor: scale factors instead of sizes.
        mode: "nearest", "nearest-exact", "linear" (3-d), "bilinear", "bicubic" (4-d), "trilinear" (5-d), "area", or
            "lanczos" (4-d, with antialias), which is Pillow's filter of that name.
        align_corners: whether the centers of the corner pixels, and not the corners, stay in place.
        recompute_scale_factor: whether to recompute the factor from the rounded sizes.
        antialias: whether a filter is applied when shrinking; for "bilinear", "bicubic" and "lanczos".

    Example:
        >>> fb.nn.functional.interpolate(fb.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    op = "interpolate"
    _check_mode(op, mode, align_corners, antialias, input)
    sizes, factors = _target_sizes(op, input, size, scale_factor, recompute_scale_factor)
    if lies_channels_last(input):
        # In memory order the channels come last; the result keeps that order.
        return _resized(input.movedim(1, -1), 1, sizes, factors, mode, bool(align_corners), antialias).movedim(-1, 1)
    return _resized(input, 2, sizes, factors, mode, bool(align_corners), antialias)


def _resized(
    input: Tensor, first: int, sizes: list[int], factors: list, mode: str, corners: bool, antialias: bool
) -> Tensor:
    """The dimensions from `first` on resized; the channels may follow them."""
    dims = len(sizes)
    lengths = input.shape[first : first + dims]
    if mode == "area":
        matrices = [_area_matrix(n, m, input.device) for n, m in zip(lengths, sizes, strict=True)]
        return _through_matrices(input, matrices, first)
    scales = [_step(n, m, f, corners) for n, m, f in zip(lengths, sizes, factors, strict=True)]
    if mode in ("nearest", "nearest-exact"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        result = input
        for d in range(dims):
            places = (fb.arange(sizes[d], dtype=fb.float32, device=input.device) + shift) * scales[d]
            result = result.index_select(d + first, places.floor().long().clamp(0, lengths[d] - 1))
        return result if result is not input else input.clone()
    if antialias:
        matrices = [_filter_matrix(n, m, s, mode, input.device) for n, m, s in zip(lengths, sizes, scales, strict=True)]
        return _through_matrices(input, matrices, first)
    taps = _cubic_taps if mode == "bicubic" else _linear_taps
    result = _computable(input)
    for d in _order(input):
        chosen = taps(lengths[d], sizes[d], scales[d], corners, result)
        if not input.is_floating_point():
            chosen = _short_taps(chosen)
        result = _settled(_along(result, d + first, chosen), input)
    return _like(result, input)


def _check_mode(op: str, mode: str, align_corners: bool | None, antialias: bool, input: Tensor) -> None:
    needed = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
    if input.ndim not in (3, 4, 5):
        raise ArgumentError(f"{op}: expected 3, 4 or 5 dimensions (N, C, …), got shape {tuple(input.shape)}")
    if mode in ("nearest", "nearest-exact", "area"):
        if align_corners is not None:
            raise ArgumentError(
                f"{op}: align_corners applies to linear, bilinear, bicubic and trilinear, not to {mode!r}"
            )
    elif mode not in needed:
        raise ArgumentError(f"{op}: mode {mode!r} is not one of nearest, nearest-exact, area, {', '.join(needed)}")
    elif input.ndim != needed[mode]:
        raise ArgumentError(
            f"{op}: Got {input.ndim}D input, but {mode} mode needs {needed[mode]}D input, a {needed[mode]}-D tensor: got shape "
            f"{tuple(input.shape)}"
        )
    if antialias and not (mode in _FILTERS and input.ndim == 4):
        raise ArgumentError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input: "
            f"{op} got mode {mode!r} and shape {tuple(input.shape)}"
        )
    if mode == "lanczos" and (not antialias or align_corners):
        wrong = "does not support align_corners=True" if antialias else "requires antialias=True"
        raise ArgumentError(f"Lanczos mode {wrong}: {op}")
    if mode != "area" and not input.is_floating_point() and not input.is_complex() and input.dtype is not fb.uint8:
        raise not_implemented(op, f"upsample_{mode}", input, "resize a floating point or uint8 tensor")
    if 0 in input.shape[1:]:
        raise ArgumentError(f"{op}: expected elements in every dimension but the batch, got shape {tuple(input.shape)}")


def _target_sizes(
    op: str, input: Tensor, size, scale_factor, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """The new sizes, and the scale factors given by the user (None if they follow from the sizes)."""
    dims = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ArgumentError(f"{op}: give either size or scale_factor, got {'neither' if size is None else 'both'}")
    if size is not None:
        if recompute is not None and recompute:
            raise ArgumentError(f"{op}: recompute_scale_factor is not meaningful with an explicit size")
        sizes = (
            [int(size)] * dims
            if not isinstance(size, Sequence) and not isinstance(size, Tensor)
            else [int(s) for s in size]
        )
        factors: list[float | None] = [None] * dims
    else:
        given = [float(f) for f in scale_factor] if isinstance(scale_factor, Sequence) else [float(scale_factor)] * dims
        if len(given) != dims:
            raise ArgumentError(f"{op}: expected {dims} scale factors for shape {tuple(input.shape)}, got {given}")
        sizes = [math.floor(n * f) for n, f in zip(input.shape[2:], given, strict=True)]
        factors = [None] * dims if recompute else list(given)
    if len(sizes) != dims:
        raise ArgumentError(f"{op}: expected {dims} sizes for shape {tuple(input.shape)}, got {tuple(sizes)}")
    if min(sizes) < 1:
        raise ArgumentError(f"{op}: input and output sizes should be greater than 0, got output {tuple(sizes)}")
    if math.prod(input.shape[:2]) * math.prod(sizes) >= 2**59:
        raise ArgumentError(f"{op}: the output size {tuple(sizes)} has too many elements to address")
    return sizes, factors


def _step(n: int, m: int, factor: float | None, align_corners: bool) -> float:
    """The source distance for a distance of one in the result."""
    if align_corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1 / factor if factor else n / m


def _computable(x: Tensor) -> Tensor:
    return wide(x) if x.is_floating_point() else x.double()


def _order(input: Tensor) -> Iterable[int]:
    """The order in which dimensions are resampled: integer pixels are rounded after each, rows come first."""
    dims = range(input.ndim - 2)
    return dims if input.is_floating_point() else reversed(dims)


def _short(weights: Tensor) -> Tensor:
    """Weights with the precision of image libraries: 16 bits with the sign, the maximum after the binary point."""
    largest = float(weights.max())
    unit = 2.0 ** max(bits for bits in range(23) if math.floor(largest * 2.0**bits + 0.5) < 1 << 15)
    return ((weights * unit).abs() + 0.5).floor() * weights.sign() / unit


def _short_taps(taps: Taps) -> Taps:
    """The same for taps; a border pixel that is read more than once gets one weight."""
    weights = [weight for _, weight in taps]
    for k in range(1, len(taps)):
        same = taps[k][0] == taps[k - 1][0]
        weights[k] = weights[k] + weights[k - 1] * same
        weights[k - 1] = weights[k - 1] * ~same
    return list(zip([index for index, _ in taps], _short(fb.stack(weights)), strict=True))


def _settled(result: Tensor, input: Tensor) -> Tensor:
    """Integers rounded, ties up, and clamped to their range."""
    if input.is_floating_point():
        return result
    limits = fb.iinfo(input.dtype)
    return (result + 0.5).floor().clamp(limits.min, limits.max)


def _like(result: Tensor, input: Tensor) -> Tensor:
    """The result in the input's dtype."""
    return narrow_back(result, input) if input.is_floating_point() else _settled(result, input).to(input.dtype)


def _positions(m: int, scale: float, align_corners: bool, like: Tensor) -> Tensor:
    i = fb.arange(m, dtype=like.dtype, device=like.device)
    return i * scale if align_corners else (i + 0.5) * scale - 0.5


Taps = list[tuple[Tensor, Tensor]]


def _linear_taps(n: int, m: int, scale: float, align_corners: bool, like: Tensor) -> Taps:
    """Two source indices for each result and their weights."""
    at = _positions(m, scale, align_corners, like).clamp(min=0)
    low = at.long().clamp(max=n - 1)
    part = (at - low).clamp(0, 1)
    return [(low, 1 - part), ((low + 1).clamp(max=n - 1), part)]


def _cubic_taps(n: int, m: int, scale: float, align_corners: bool, like: Tensor) -> Taps:
    """Four source indices for each result and their weights; positions outside repeat the border."""
    at = _positions(m, scale, align_corners, like)
    low = at.floor()
    part = at - low
    return [((low.long() + k).clamp(0, n - 1), _cubic((part - k).abs(), _CUBIC)) for k in (-1, 0, 1, 2)]


def _cubic(x: Tensor, a: float) -> Tensor:
    """The cubic convolution kernel at distances x >= 0."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return fb.where(x <= 1, near, fb.where(x < 2, far, fb.zeros_like(x)))


def _along(x: Tensor, dim: int, taps: Taps) -> Tensor:
    shape = [1] * x.ndim
    shape[dim] = -1
    terms = [x.index_select(dim, index) * weight.view(shape) for index, weight in taps]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _through_matrices(input: Tensor, matrices: list[Tensor], first: int) -> Tensor:
    """Multiplies each dimension from `first` on with a matrix of weights."""
    result = _computable(input)
    for d in _order(input):
        matrix = matrices[d] if input.is_floating_point() else _short(matrices[d])
        result = _settled((result.movedim(d + first, -1) @ matrix.to(result.dtype).t()).movedim(-1, d + first), input)
    return _like(result.contiguous(), input)


def _area_matrix(n: int, m: int, device: Any) -> Tensor:
    """Row i averages the sources from floor(i·n/m) to ceil((i+1)·n/m)."""
    i, j = fb.arange(m, device=device).unsqueeze(1), fb.arange(n, device=device).unsqueeze(0)
    inside = (j >= (i * n).div(m, rounding_mode="floor")) & (j < -((-(i + 1) * n).div(m, rounding_mode="floor")))
    weights = inside.double()
    return weights / weights.sum(1, keepdim=True)


def _lanczos(x: Tensor) -> Tensor:
    """sinc times a wider sinc, three zeros on each side, at distances x >= 0."""
    return fb.where(x < 3, fb.sinc(x) * fb.sinc(x / 3), fb.zeros_like(x))


# The support of each filter, and its weight at a distance.
_FILTERS: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "bilinear": (1, lambda x: (1 - x).clamp(min=0)),
    "bicubic": (2, lambda x: _cubic(x, _CUBIC_ANTIALIAS)),
    "lanczos": (3, _lanczos),
}


def _filter_matrix(n: int, m: int, scale: float, mode: str, device: Any) -> Tensor:
    """Weights of a filter that widens when shrinking."""
    reach, weight = _FILTERS[mode]
    stretch = max(scale, 1.0)
    centre = (fb.arange(m, dtype=fb.float64, device=device) + 0.5) * scale
    low = (centre - reach * stretch + 0.5).trunc().clamp(min=0)
    high = (centre + reach * stretch + 0.5).trunc().clamp(max=n)
    j = fb.arange(n, dtype=fb.float64, device=device).unsqueeze(0)
    distance = ((j - centre.unsqueeze(1) + 0.5) / stretch).abs()
    weights = weight(distance).masked_fill((j < low.unsqueeze(1)) | (j >= high.unsqueeze(1)), 0)
    return weights / weights.sum(1, keepdim=True)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The older name of interpolate().

    Example:
        >>> fb.nn.functional.upsample(fb.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate() with mode "nearest".

    Example:
        >>> fb.nn.functional.upsample_nearest(fb.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate() with mode "bilinear" and align_corners=True.

    Example:
        >>> fb.nn.functional.upsample_bilinear(fb.ones(1, 1, 1, 2), scale_factor=2).shape
        flambeau.Size([1, 1, 2, 4])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


# ---- grids -------------------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of an affine transformation, for grid_sample().

    Args:
        theta: (N, 2, 3) or (N, 3, 4).
        size: of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 mean the centers of the corner pixels, not the image's corners.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Example:
        >>> fb.nn.functional.affine_grid(fb.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]), (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    op, dims = "affine_grid", len(size) - 2
    if not theta.is_floating_point():
        raise ArgumentError(f"{op}: expected theta to have a floating dtype, got {theta.dtype}")
    if dims not in (2, 3) or tuple(theta.shape) != (size[0], dims, dims + 1):
        raise ArgumentError(
            f"{op}: theta of shape {tuple(theta.shape)} does not fit size {tuple(size)}; expected (N, 2, 3) for 4 sizes or "
            f"(N, 3, 4) for 5"
        )
    if min(size) < 1:
        raise ArgumentError(f"{op}: expected sizes greater than 0, got {tuple(size)}")
    align = _align_default(op, align_corners)
    axes = []
    for n in size[2:]:
        steps = fb.linspace(-1, 1, n, dtype=theta.dtype) if n > 1 else theta.new_zeros((1,))
        axes.append(steps if align else steps * ((n - 1) / n))
    where = fb.meshgrid(*axes, indexing="ij")
    points = fb.stack([*where[::-1], fb.ones_like(where[0])], -1).view(1, -1, dims + 1)
    grid = points.expand(size[0], -1, -1) @ theta.transpose(1, 2)
    return grid.view(size[0], *size[2:], dims)


def _align_default(op: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(f"{op}: align_corners is False by default; pass it to say which you mean", stacklevel=4)
        return False
    return bool(align_corners)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Reads an image at the places of a grid, between -1 and 1 in each direction.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H', W', 2) or (N, D', H', W', 3), x first.
        mode: "bilinear", "nearest" or, for 4-d inputs, "bicubic".
        padding_mode: the value of pixels outside: "zeros", "border" or "reflection".
        align_corners: whether -1 and 1 mean the centers of the corner pixels, not the image's corners.

    Example:
        >>> image = fb.tensor([[[[1.0, 3.0]]]])
        >>> fb.nn.functional.grid_sample(image, fb.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[2.]]]])
    """
    op, dims = "grid_sample", input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ArgumentError(f"{op}: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(
            f"{op}: expected padding_mode to be 'zeros', 'border' or 'reflection', but got: {padding_mode!r}"
        )
    if dims not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != dims or grid.shape[0] != input.shape[0]:
        wrong = ""
        if input.ndim and grid.ndim and grid.shape[-1] != dims:
            wrong = f"expected grid to have size {dims} in last dimension: "
        elif input.ndim and grid.ndim and grid.shape[0] != input.shape[0]:
            wrong = "expected grid and input to have same batch size: "
        raise ArgumentError(
            f"{op}: {wrong}expected input (N, C, H, W) with grid (N, H, W, 2), or one dimension more each, got "
            f"{tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if input.dtype != grid.dtype:
        raise ArgumentError(f"{op}: expected input and grid to have the same dtype, got {input.dtype} and {grid.dtype}")
    if mode == "bicubic" and dims == 3:
        raise ArgumentError(f"{op}: bicubic interpolation only supports 4D input, got shape {tuple(input.shape)}")
    if 0 in input.shape[2:]:
        raise ArgumentError(
            f"{op}: expected input to have non-empty spatial dimensions, got shape {tuple(input.shape)}"
        )
    align = _align_default(op, align_corners)
    sizes = tuple(input.shape[2:])
    image, places = wide(input).flatten(2), wide(grid)
    # one coordinate per dimension of the image; the grid has x, the last dimension, first
    at = [_unnormalised(places[..., dims - 1 - d], sizes[d], align) for d in range(dims)]

    def outside(x: Tensor, n: int) -> Tensor:
        return _placed(x, n, padding_mode, align)

    if mode == "bicubic":
        return narrow_back(_bicubic(image, at, sizes, outside), input)
    at = [outside(x, n) for x, n in zip(at, sizes, strict=True)]
    if mode == "nearest":
        result = _read(image, [x.round() for x in at], sizes)
        if grid.requires_grad:
            # Rounding has derivative zero: the grid has a gradient, and it is zero.
            result = result + at[0].masked_fill(fb.ones_like(at[0], dtype=fb.bool), 0).unsqueeze(1)
        return narrow_back(result, input)
    low = [x.floor() for x in at]
    terms = []
    for corner in range(2**dims):
        bits = [corner >> d & 1 for d in range(dims)]
        corners = list(zip(at, low, bits, strict=True))
        weight = reduce(operator.mul, [x - floor if bit else floor + 1 - x for x, floor, bit in corners])
        terms.append(_read(image, [floor + bit for _, floor, bit in corners], sizes) * weight.unsqueeze(1))
    return narrow_back(reduce(operator.add, terms), input)


def _unnormalised(x: Tensor, n: int, align: bool) -> Tensor:
    return (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2


def _placed(x: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Coordinates outside of the image mapped inside, according to the padding mode."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        x = _reflected(x, 0.0 if align else -0.5, n - 1 if align else n - 0.5)
    return x.clamp(0, n - 1)


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    span = high - low
    if span == 0:
        return x * 0
    distance = (x - low).abs()
    turns = (distance / span).floor().detach()
    rest = distance - turns * span
    return fb.where(turns % 2 == 0, rest + low, span - rest + low)


def _read(image: Tensor, at: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Pixels at integer coordinates; zero outside. The image is (N, C, all pixels), the result (N, C, positions…)."""
    found = [(x >= 0) & (x <= n - 1) for x, n in zip(at, sizes, strict=True)]
    places = [x.masked_fill(~ok, 0).long() for x, ok in zip(at, found, strict=True)]
    inside, index = reduce(operator.and_, found), places[0]
    for here, n in zip(places[1:], sizes[1:], strict=True):
        index = index * n + here
    batch, channels = image.shape[:2]
    flat = index.reshape(batch, 1, -1).expand(-1, channels, -1)
    pixels = image.gather(2, flat).view(batch, channels, *at[0].shape[1:])
    return pixels * inside.unsqueeze(1)


def _bicubic(
    image: Tensor, at: list[Tensor], sizes: tuple[int, ...], outside: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """Sixteen pixels around each position; those outside of the image are mapped inside one by one."""
    low = [x.floor() for x in at]
    part = [x - floor for x, floor in zip(at, low, strict=True)]
    weights = [[_cubic((p - k).abs(), _CUBIC) for k in (-1, 0, 1, 2)] for p in part]
    rows, columns = ([outside(floor + k, n) for k in (-1, 0, 1, 2)] for floor, n in zip(low, sizes, strict=True))
    terms = [
        _read(image, [row, column], sizes) * (row_weight * column_weight).unsqueeze(1)
        for row, row_weight in zip(rows, weights[0], strict=True)
        for column, column_weight in zip(columns, weights[1], strict=True)
    ]
    return reduce(operator.add, terms)
