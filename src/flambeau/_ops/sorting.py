"""Quantiles and histograms, based on sorting and counting."""

import math

import flambeau as fb
from flambeau._registry import private
from flambeau._registry.composite import composite
from flambeau.errors import ArgumentError, DTypeError

_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(name: str, input, q, dim, keepdim, interpolation, ignore_nan: bool):
    if input.dtype not in (fb.float32, fb.float64):
        raise DTypeError(f"{name}: input must be float32 or float64, got {input.dtype}")
    if input.numel() == 0:
        raise ArgumentError(f"{name}: input must not be empty, got shape {tuple(input.shape)}")
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, got '{interpolation}'")
    if isinstance(q, fb.Tensor):
        if q.dim() > 1:
            raise ArgumentError(f"{name}: q must be a number or a 1-d tensor, got shape {tuple(q.shape)}")
        if q.dtype != input.dtype:
            raise DTypeError(f"{name}: q must have the dtype of input, got {q.dtype} and {input.dtype}")
    elif isinstance(q, (int, float)) and not isinstance(q, bool):
        q = fb.tensor(float(q), dtype=input.dtype, device=input.device)
    else:
        raise TypeError(f"{name}: q must be a number or a tensor, got {type(q).__name__}")
    if q.numel() and not q.is_meta and not bool(fb.logical_and(q >= 0, q <= 1).all()):
        raise ArgumentError(f"{name}: q must be in the range [0, 1]")

    ndim = input.dim()
    if dim is None:
        rows = input.reshape(-1)
        shape = [1] * ndim
    else:
        dim = dim if dim >= 0 else dim + max(ndim, 1)
        if not 0 <= dim < max(ndim, 1):
            raise fb.errors.OutOfRangeError(f"{name}: dim is out of range for a tensor with {ndim} dimensions")
        rows = input.movedim(dim, -1) if ndim else input.reshape(1)
        shape = list(input.shape)
        if shape:
            shape[dim] = 1
    ordered = fb.sort(rows, -1)[0]
    last = ordered.shape[-1] - 1
    # NaN sorts last: either it takes every position, or positions are counted without it.
    if ignore_nan:
        count = fb.isnan(ordered).logical_not().sum(-1, keepdim=True)
        ranks = q.reshape(-1) * (count - 1).clamp(min=0).to(input.dtype)
    else:
        ranks = q.reshape(-1) * fb.full_like(ordered.narrow(-1, last, 1), last)
        ranks = fb.where(fb.isnan(ordered.narrow(-1, last, 1)), fb.full_like(ranks, last), ranks)
    if interpolation == "lower":
        ranks = fb.floor(ranks)
    elif interpolation == "higher":
        ranks = fb.ceil(ranks)
    elif interpolation == "nearest":
        ranks = fb.round(ranks)
    below = ranks.to(fb.int64)
    result = fb.gather(ordered, -1, below)
    if interpolation in ("linear", "midpoint"):
        above = fb.gather(ordered, -1, fb.ceil(ranks).to(fb.int64))
        weight = fb.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below.to(ranks.dtype)
        result = fb.lerp(result, above, weight)
    # The last dimension runs over q; it is moved to the front, or dropped.
    result = result.movedim(-1, 0) if result.dim() > 1 else result
    if keepdim:
        result = result.reshape([result.shape[0]] + shape)
    elif dim is None:
        result = result.reshape([result.shape[0]])
    elif ndim == 0:
        result = result.reshape([q.numel()])
    return result if q.dim() else result.squeeze(0)


@composite(
    "quantile(Tensor input, any q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    method=True,
    out=True,
)
def quantile(input, q, dim, keepdim, interpolation):
    """Quantiles of all elements, or along a dimension.

    Args:
        input: a float32 or float64 tensor.
        q: which quantiles, from 0 to 1: a number, or a 1-d tensor, which adds a first dimension to the result.
        dim: dimension to search along; all elements when not given.
        keepdim: whether to keep the reduced dimension with size 1.
        interpolation: what to do between two elements: linear, lower, higher, nearest or midpoint.

    Example:
        >>> fb.quantile(fb.tensor([1.0, 2.0, 3.0, 4.0]), 0.25)
        tensor(1.7500)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composite(
    "nanquantile(Tensor input, any q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    method=True,
    out=True,
)
def nanquantile(input, q, dim, keepdim, interpolation):
    """Quantiles of the elements that are not NaN.

    Args:
        input: a float32 or float64 tensor.
        q: which quantiles, from 0 to 1: a number, or a 1-d tensor, which adds a first dimension to the result.
        dim: dimension to search along; all elements when not given.
        keepdim: whether to keep the reduced dimension with size 1.
        interpolation: what to do between two elements: linear, lower, higher, nearest or midpoint.

    Example:
        >>> fb.nanquantile(fb.tensor([1.0, float('nan'), 3.0]), 0.5)
        tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _edges(name: str, x, bins, low, high):
    """Bin edges of one dimension; without a range, that of the data."""
    if isinstance(bins, fb.Tensor):
        if bins.dim() != 1 or bins.numel() == 0:
            raise ArgumentError(
                f"{name}: bin edges must be a 1-d tensor that is not empty, got shape {tuple(bins.shape)}"
            )
        if bins.dtype != x.dtype:
            raise DTypeError(f"{name}: bin edges must have the dtype of input, got {bins.dtype} and {x.dtype}")
        return bins
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise TypeError(f"{name}: bins must be a number of bins or a tensor of edges, got {type(bins).__name__}")
    if bins <= 0:
        raise ArgumentError(f"{name}: the number of bins must be positive, got {bins}")
    if low is None:
        low, high = (float(v) for v in fb.aminmax(x)) if x.numel() else (0.0, 1.0)
    if low > high:
        raise ArgumentError(f"{name}: the range must not end before it begins, got ({low}, {high})")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ArgumentError(f"{name}: the range ({low}, {high}) is not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return fb.linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def _check_floating(name: str, input, weight) -> None:
    if input.dtype not in (fb.float32, fb.float64):
        raise DTypeError(f"{name}: input must be float32 or float64, got {input.dtype}")
    if weight is not None and weight.dtype != input.dtype:
        raise DTypeError(f"{name}: weight must have the dtype of input, got {weight.dtype} and {input.dtype}")


def _count(points, edges, weight, density: bool):
    """Counts of points (n, dims) in the boxes formed by the edges of each dimension."""
    sizes = [e.numel() - 1 for e in edges]
    inside = fb.ones([points.shape[0]], dtype=fb.bool, device=points.device)
    place = fb.zeros([points.shape[0]], dtype=fb.int64, device=points.device)
    for d, e in enumerate(edges):
        x = points.select(1, d).contiguous()
        inside = fb.logical_and(inside, fb.logical_and(x >= e[0], x <= e[-1]))
        own = fb.searchsorted(e, x, right=True) - 1
        place = place * sizes[d] + own.clamp(max=sizes[d] - 1)
    total = 1
    for size in sizes:
        total *= size
    place = fb.where(inside, place, fb.full_like(place, total))
    hist = fb.bincount(place, weight, total + 1)[:total].to(points.dtype).reshape(sizes)
    return _density(hist, edges) if density else hist


def _density(hist, edges):
    """Counts as shares of the total, per volume of a box."""
    hist = hist / hist.sum()
    for d, e in enumerate(edges):
        shape = [1] * hist.dim()
        shape[d] = -1
        hist = hist / fb.diff(e).reshape(shape)
    return hist


def _range_pairs(name: str, range, dims: int):
    if range is None:
        return [(None, None)] * dims
    range = [float(v) for v in range]
    if len(range) != 2 * dims:
        raise ArgumentError(f"{name}: range needs {2 * dims} numbers for {dims} dimension(s), got {len(range)}")
    return list(zip(range[::2], range[1::2], strict=True))


@composite(
    "histogram(Tensor input, any bins, *, any range=None, Tensor? weight=None, bool density=False)"
    " -> (Tensor hist, Tensor bin_edges)",
    method=True,
    out=True,
)
def histogram(input, bins, range, weight, density):
    """Counts elements in bins. Each bin holds its lower edge; the last one also its upper edge.

    Args:
        input: a float32 or float64 tensor.
        bins: number of bins of equal width, or a tensor of ascending edges.
        range: lower and upper end when ``bins`` is a number; those of the data when not given.
        weight: a weight for each element.
        density: divide by the total and the width of each bin.

    Returns:
        A named tuple (hist, bin_edges).

    Example:
        >>> hist, edges = fb.histogram(fb.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 3.0))
        >>> hist
        tensor([2., 1.])
    """
    _check_floating("histogram", input, weight)
    if weight is not None and weight.shape != input.shape:
        raise ArgumentError(
            f"histogram: weight must have the shape of input, got {tuple(weight.shape)} and {tuple(input.shape)}"
        )
    flat = input.reshape(-1)
    [(low, high)] = _range_pairs("histogram", range, 1)
    edges = _edges("histogram", flat, bins, low, high)
    flat_weight = None if weight is None else weight.reshape(-1)
    if edges.numel() < 2:
        return input.new_zeros([0]), edges
    hist = private.bin_counts(flat, edges, flat_weight, isinstance(bins, int))
    return _density(hist, [edges]) if density else hist, edges


@composite(
    "histogramdd(Tensor input, any bins, *, any range=None, Tensor? weight=None, bool density=False) -> any",
)
def histogramdd(input, bins, range, weight, density):
    """Counts points in boxes, of any number of dimensions.

    Args:
        input: float32 or float64 points along the last dimension.
        bins: number of bins for all dimensions, a list of numbers, or a list of tensors of edges.
        range: lower and upper end of each dimension in turn; those of the data when not given.
        weight: a weight for each point.
        density: divide by the total and the volume of each box.

    Returns:
        A named tuple (hist, bin_edges) with a tuple of edges.

    Example:
        >>> hist, edges = fb.histogramdd(fb.tensor([[0.0, 1.0], [2.0, 3.0]]), bins=[2, 2])
        >>> hist
        tensor([[1., 0.],
                [0., 1.]])
    """
    _check_floating("histogramdd", input, weight)
    if input.dim() < 2:
        raise ArgumentError(f"histogramdd: expected at least two dimensions, got shape {tuple(input.shape)}")
    dims = input.shape[-1]
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise ArgumentError(
            f"histogramdd: weight must have shape {tuple(input.shape[:-1])}, one for each point, got {tuple(weight.shape)}"
        )
    bins = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(bins) != dims:
        raise ArgumentError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input. "
            f"Expected {dims}, got {len(bins)}"
        )
    points = input.reshape(-1, dims)
    ranges = _range_pairs("histogramdd", range, dims)
    edges = [_edges("histogramdd", points.select(1, d), b, *ranges[d]) for d, b in enumerate(bins)]
    flat_weight = None if weight is None else weight.reshape(-1)
    return _HistogramDD(_count(points, edges, flat_weight, density), tuple(edges))


class _HistogramDD(tuple):
    """Result of histogramdd: (hist, bin_edges)."""

    def __new__(cls, hist, bin_edges):
        return super().__new__(cls, (hist, bin_edges))

    hist = property(lambda self: self[0], doc="Counts, one dimension per coordinate.")
    bin_edges = property(lambda self: self[1], doc="Edges of each dimension.")

    def __repr__(self) -> str:
        package = str(self.hist.dtype).partition(".")[0]
        return f"{package}.return_types.histogramdd(\nhist={self.hist!r},\nbin_edges={self.bin_edges!r})"
