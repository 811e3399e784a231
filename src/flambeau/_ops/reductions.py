"""Reductions and statistics composed of other ops."""

import flambeau as fb
from flambeau._registry.composite import alias, composite
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError


@composite(
    "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", method=True, out=True
)
def nanmean(input, dim, keepdim, dtype):
    """Mean of the elements that are not NaN.

    Args:
        input: a floating point or complex tensor.
        dim: dimension or dimensions to average over; all when not given.
        keepdim: whether to keep reduced dimensions with size 1.
        dtype: dtype to which the elements are converted first.

    Example:
        >>> fb.nanmean(fb.tensor([1.0, float('nan'), 3.0]))
        tensor(2.)
    """
    if not (input.is_floating_point() or input.is_complex()):
        raise DTypeError(f"nanmean: expected a floating point or complex dtype, got {input.dtype}")
    there = fb.isnan(input).logical_not()
    if input.is_complex():
        total = fb.sum(fb.where(there, input, fb.zeros_like(input)), dim, keepdim, dtype=dtype)
    else:
        total = fb.nansum(input, dim, keepdim, dtype=dtype)
    return total / fb.sum(there, dim, keepdim)


@composite("dist(Tensor input, Tensor other, Scalar p=2) -> Tensor", method=True)
def dist(input, other, p):
    """The p-norm of the difference of two tensors.

    Args:
        input: a floating point or complex tensor.
        other: a tensor that broadcasts with it.
        p: order of the norm.

    Example:
        >>> fb.dist(fb.tensor([1.0, 2.0]), fb.tensor([4.0, 6.0]))
        tensor(5.)
    """
    return fb.norm(input - other, p)


@composite(
    "hash_tensor(Tensor input, int[]? dim=None, *, bool keepdim=False, int mode=0) -> Tensor", method=True, out=True
)
def hash_tensor(input, dim, *, keepdim, mode):
    """A checksum of the elements: the exclusive or of their bits, as uint64.

    Floats are taken as float64, integers and bool as int64, so equal values have equal hashes in every dtype. The order
    of the elements does not count.

    Args:
        input: a real tensor with at least one element per result.
        dim: dimension or dimensions to reduce; all when not given.
        keepdim: whether to keep reduced dimensions with size 1.
        mode: must be 0.

    Example:
        >>> fb.hash_tensor(fb.tensor([1, 2, 4]))
        tensor(7, dtype=flambeau.uint64)
    """
    if mode != 0:
        raise ArgumentError(f"hash_tensor: mode must be 0, got {mode}")
    if input.is_complex():
        raise DTypeError(f"hash_tensor: expected a real dtype, got {input.dtype}; use view_as_real()")
    bits = input.to(fb.float64 if input.is_floating_point() else fb.int64).view(fb.uint64)
    kept = fb.sum(bits, dim or None, True).shape  # also checks the dims
    dims = [d for d, n in enumerate(kept) if not dim or d in [e % input.ndim for e in dim]]
    rest = [d for d in range(input.ndim) if d not in dims]
    if input.numel() == 0 and 0 in [input.shape[d] for d in dims]:
        raise ArgumentError(f"hash_tensor: nothing to reduce over in shape {tuple(input.shape)}")
    left = bits.permute(rest + dims).flatten(len(rest)) if input.ndim else bits.reshape(1)
    while left.shape[-1] > 1:
        half = left.shape[-1] // 2
        both = left[..., :half] ^ left[..., half : 2 * half]
        left = fb.cat([both, left[..., 2 * half :]], -1)
    result = left.select(-1, 0)
    return result.reshape(kept) if keepdim else result


@composite("sum_to_size(Tensor input, *int[] size) -> Tensor", function=False, method=True)
def sum_to_size(input, size):
    """Sums over what broadcasting added, so that the result has the given shape.

    Args:
        input: the tensor.
        size: a shape that broadcasts to that of ``input``.

    Example:
        >>> fb.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """
    size = tuple(size)
    extra = input.dim() - len(size)
    fits = extra >= 0 and all(s in (1, n) for s, n in zip(size, input.shape[max(extra, 0) :], strict=True))
    if not fits:
        raise ArgumentError(f"sum_to_size: size {list(size)} is not expandable to size {list(input.shape)}")
    result = fb.sum(input, tuple(range(extra))) if extra or not size else input
    dims = [d for d, s in enumerate(size) if s == 1 and result.shape[d] != 1]
    return fb.sum(result, dims, True) if dims else result


@composite(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, "
    "bool unsafe=False, Scalar? initial=None) -> Tensor"
)
def segment_reduce(data, reduce, *, lengths, indices, offsets, axis, unsafe, initial):
    """Reduces stretches of a dimension that follow each other, each of its own length.

    Args:
        data: a floating point tensor.
        reduce: "sum", "mean", "max", "min" or "prod".
        lengths: how long each stretch is, with the dimensions of data before ``axis`` in front; together they are all
            of it.
        indices: must not be given; PyTorch has the name only.
        offsets: in place of lengths: where each stretch begins, and where the last one ends.
        axis: the dimension, which is the last one of lengths or offsets.
        unsafe: leave out the check that the lengths fit.
        initial: what each stretch begins with; also the value of an empty one, which otherwise is 0, nan, -inf, inf
            or 1.

    Returns:
        data with one element for each stretch along ``axis``.

    Example:
        >>> fb.segment_reduce(fb.tensor([1.0, 2.0, 3.0]), "sum", lengths=fb.tensor([2, 0, 1]))
        tensor([3., 0., 3.])
    """
    start = {"sum": 0.0, "mean": 0.0, "max": -float("inf"), "min": float("inf"), "prod": 1.0}
    if reduce not in start:
        raise ArgumentError(f"segment_reduce: reduce must be one of {', '.join(start)}, got {reduce!r}")
    if not data.is_floating_point():
        raise DTypeError(f"segment_reduce: expected a floating point dtype, got {data.dtype}; convert by .to(flambeau.float32)")
    if indices is not None or (lengths is None) == (offsets is None):
        raise ArgumentError("segment_reduce: give either lengths or offsets, and no indices")
    given, name = (lengths, "lengths") if offsets is None else (offsets, "offsets")
    if given.dtype not in (fb.int32, fb.int64):
        raise DTypeError(f"segment_reduce: {name} must be int32 or int64, got {given.dtype}")
    dim = axis + data.dim() if axis < 0 else axis
    if not 0 <= dim < data.dim():
        raise OutOfRangeError(f"segment_reduce: axis {axis} is out of range for data of shape {tuple(data.shape)}")
    if given.dim() != dim + 1 or tuple(given.shape[:-1]) != tuple(data.shape[:dim]):
        raise ArgumentError(
            f"segment_reduce: {name} of shape {tuple(given.shape)} does not fit data of shape {tuple(data.shape)} and axis {axis}; "
            f"expected {(*data.shape[:dim], 'segments')}"
        )
    n = data.shape[dim]
    given = given.to(fb.int64)
    if offsets is None:
        if not unsafe and not given.is_meta and bool((given < 0).any() | (given.sum(-1) != n).any()):
            raise ArgumentError(
                f"segment_reduce: Expected all rows of lengths along axis {axis} to sum to {n}, the size of data, none negative"
            )
        given = fb.cat([given.new_zeros((*given.shape[:-1], 1)), given.cumsum(-1)], -1)
    elif given.shape[-1] == 0:
        raise ArgumentError("segment_reduce: offsets must not be empty: they end with the end of the last stretch")
    elif not unsafe and not given.is_meta and bool((given < 0).any() | (given > n).any() | (given.diff(dim=-1) < 0).any()):
        raise ArgumentError(f"segment_reduce: offsets must ascend and stay between 0 and {n}, the size of data along axis {axis}")
    count = given.shape[-1] - 1
    # Segment of each position; positions before the first and after the last get a segment that is dropped.
    positions = fb.arange(n, device=given.device).expand((*given.shape[:-1], n)).contiguous()
    place = fb.searchsorted(given.contiguous(), positions, right=True) - 1
    place = fb.where(place < 0, count, place)
    shape = (*data.shape[:dim], count + 1, *data.shape[dim + 1 :])
    place = place.reshape((*place.shape, *[1] * (data.dim() - dim - 1))).expand(data.shape)
    result = fb.full(shape, start[reduce] if initial is None else initial, dtype=data.dtype, device=data.device)
    kind = {"max": "amax", "min": "amin", "mean": "sum"}.get(reduce, reduce)
    if reduce in ("max", "min") and data.requires_grad and fb.is_grad_enabled():
        return _segment_extreme(result, dim, place, data, kind).narrow(dim, 0, count)
    if reduce == "prod" and data.requires_grad and fb.is_grad_enabled() and not data.is_meta and data.isnan().any():
        return _segment_product(result, dim, place, data).narrow(dim, 0, count)
    result = result.scatter_reduce(dim, place, data, kind).narrow(dim, 0, count)
    if reduce == "mean":
        sizes = given.diff(dim=-1).reshape((*given.shape[:-1], count, *[1] * (data.dim() - dim - 1)))
        result = result / (sizes if initial is None else sizes.clamp(min=1))
    return result


def _segment_extreme(start, dim, place, data, kind):
    """The extremes of segments, with the gradient shared among equal elements, NaN included."""
    with fb.no_grad():
        extreme = start.scatter_reduce(dim, place, data, kind)
        there = extreme.gather(dim, place)
        hits = (data == there) | (data.isnan() & there.isnan())
        ties = fb.zeros_like(start).scatter_add(dim, place, hits.to(data.dtype)).clamp(min=1).gather(dim, place)
    shared = fb.zeros_like(start).scatter_add(dim, place, fb.where(hits, data, 0) / ties)
    # Sums of equal shares may be off by rounding.
    return shared + fb.where(shared.isfinite(), extreme - shared, 0).detach()


def _segment_product(start, dim, place, data):
    """Products of segments with NaN in them: the gradient of a single NaN is the product of the others."""
    missing = data.isnan()
    zeros = fb.zeros_like(start)
    product = start.scatter_reduce(dim, place, fb.where(missing, 1, data), "prod")
    count = zeros.scatter_add(dim, place, missing.to(data.dtype))
    factor = zeros.scatter_add(dim, place, fb.where(missing, data, 0)) * fb.where(count > 1, float("nan"), 1.0).to(data.dtype)
    return product * fb.where(count == 0, 1, factor)


# ---- differences and integrals
# -----------------------------------------------------------------------------------------


@composite(
    "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    method=True,
    out=True,
)
def diff(input, n, dim, prepend, append):
    """Differences of neighbors along a dimension, taken n times.

    Args:
        input: the tensor; neighbors of bools differ or not.
        n: number of times.
        dim: dimension to run along.
        prepend: what to put in front first.
        append: values to append first.

    Example:
        >>> fb.diff(fb.tensor([1, 4, 9, 16]))
        tensor([3, 5, 7])
    """
    if input.dim() == 0:
        raise ArgumentError("diff: diff expects input to be at least one-dimensional, got a 0-d tensor")
    if n < 0:
        raise ArgumentError(f"diff: order must be non-negative but got {n}")
    dim = _wrapped("diff", dim, input.dim())
    for part in (prepend, append):
        if part is None:
            continue
        if part.dim() != input.dim():
            raise ArgumentError(
                "diff: diff expects prepend or append to be the same dimension as input, "
                f"got shapes {tuple(part.shape)} and {tuple(input.shape)}"
            )
        if any(d != dim and part.shape[d] != input.shape[d] for d in range(input.dim())):
            raise ArgumentError(
                "diff: diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension {dim}, got {tuple(part.shape)} and {tuple(input.shape)}"
            )
    if n == 0:
        return input.clone()
    parts = [p for p in (prepend, input, append) if p is not None]
    result = fb.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, result.shape[dim])):
        size = result.shape[dim]
        left, right = result.narrow(dim, 0, size - 1), result.narrow(dim, 1, size - 1)
        result = fb.ne(right, left) if result.dtype == fb.bool else right - left
    return result


def _wrapped(name: str, dim: int, ndim: int) -> int:
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise fb.errors.OutOfRangeError(
            f"{name}: dim {dim} is out of range for a tensor with {ndim} dimensions; expected {-max(ndim, 1)} to {max(ndim, 1) - 1}"
        )
    return dim % max(ndim, 1)


def _spacing(name: str, y, x, dim: int):
    """Widths of the steps along ``dim``, shaped to broadcast with adjacent elements of y."""
    if y.dtype == fb.bool or x.dtype == fb.bool:
        raise ArgumentError(f"{name}: bool is not supported; convert it to another dtype")
    if x.dim() == 1:
        if x.shape[0] != y.shape[dim]:
            raise ArgumentError(
                f"{name}: there must be one x for each sample point along dim {dim}, got {x.shape[0]} for {y.shape[dim]}"
            )
        shape = [1] * y.dim()
        shape[dim] = x.shape[0]
        x = x.reshape(shape)
    elif x.dim() < y.dim():
        x = x.reshape([1] * (y.dim() - x.dim()) + list(x.shape))
    size = x.shape[dim]
    return x.narrow(dim, 1, max(size - 1, 0)) - x.narrow(dim, 0, max(size - 1, 0)) if size else x


def _means(y, dim: int):
    """Sums of adjacent elements along ``dim``."""
    size = y.shape[dim]
    return y.narrow(dim, 0, size - 1) + y.narrow(dim, 1, size - 1)


def _check_rule(name: str, y, x, dx, dim: int) -> int:
    if x is not None and dx is not None:
        raise ArgumentError(f"{name}: x and dx exclude each other")
    if y.dtype == fb.bool:
        raise ArgumentError(f"{name}: bool is not supported; convert it to another dtype")
    return _wrapped(name, dim, y.dim())


@composite("trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor")
def trapezoid(y, x, dx, dim):
    """Integral along a dimension by the trapezoidal rule.

    Args:
        y: values at the sample points.
        x: the sample points; equally spaced when not given.
        dx: their distance when ``x`` is not given; 1 when neither is.
        dim: dimension to integrate along.

    Example:
        >>> fb.trapezoid(fb.tensor([1.0, 5.0, 10.0]))
        tensor(10.5000)
    """
    dim = _check_rule("trapezoid", y, x, dx, dim)
    if y.dim() == 0 or y.shape[dim] == 0:
        shape = list(y.shape)
        if shape:
            del shape[dim]
        return y.new_zeros(shape)
    if x is not None:
        return fb.sum(_means(y, dim) * _spacing("trapezoid", y, x, dim), dim) / 2.0
    ends = y.select(dim, 0) + y.select(dim, -1)
    return (fb.sum(y, dim) - ends / 2.0) * (1 if dx is None else dx)


alias("trapz", "trapezoid")


@composite("cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor")
def cumulative_trapezoid(y, x, dx, dim):
    """Running integral along a dimension by the trapezoidal rule.

    Args:
        y: values at the sample points.
        x: the sample points; equally spaced when not given.
        dx: their distance when ``x`` is not given; 1 when neither is.
        dim: dimension to integrate along.

    Example:
        >>> fb.cumulative_trapezoid(fb.tensor([1.0, 5.0, 10.0]))
        tensor([ 3.0000, 10.5000])
    """
    dim = _check_rule("cumulative_trapezoid", y, x, dx, dim)
    if y.dim() == 0 or y.shape[dim] == 0:
        return y.new_zeros(list(y.shape) or [0])
    if x is not None:
        return fb.cumsum(_means(y, dim) * _spacing("cumulative_trapezoid", y, x, dim), dim) / 2.0
    return fb.cumsum(_means(y, dim), dim) * ((1 if dx is None else dx) / 2.0)


# ---- covariance --------------------------------------------------------------------------------------------------------


def _check_weights(name: str, weights, count: int, kinds: str, ok: bool) -> None:
    if weights.dim() > 1:
        raise ArgumentError(f"cov: expected {name} to have one or fewer dimensions, got shape {tuple(weights.shape)}")
    if not ok:
        raise DTypeError(f"cov: expected {name} to have {kinds} dtype, got {weights.dtype}")
    if weights.numel() != count:
        raise ArgumentError(
            f"cov: expected {name} to have the same numel as there are observations: {count}, got {weights.numel()}"
        )
    if weights.numel() and not weights.is_meta and bool((weights < 0).any()):
        raise ArgumentError(f"cov: {name} cannot be negative")


@composite(
    "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", method=True
)
def cov(input, correction, fweights, aweights):
    """Covariance of variables, which are the rows of the input.

    Args:
        input: one row per variable, one column per observation; a 1-d tensor is one variable.
        correction: what is taken off the number of observations in the divisor.
        fweights: integer repetition count of each observation.
        aweights: how much each observation weighs, floating point.

    Example:
        >>> fb.cov(fb.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.dim() > 2:
        raise ArgumentError(f"cov: expected input to have two or fewer dimensions, got shape {tuple(input.shape)}")
    if input.dtype == fb.bool:
        raise DTypeError("cov: bool is not supported; convert it to another dtype")
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    count = rows.shape[1]
    weights = None
    if fweights is not None:
        integral = not (fweights.is_floating_point() or fweights.is_complex() or fweights.dtype == fb.bool)
        _check_weights("fweights", fweights, count, "integral", integral)
        weights = fweights.reshape(-1)
    if aweights is not None:
        _check_weights("aweights", aweights, count, "floating point", aweights.is_floating_point())
        own = aweights.reshape(-1)
        weights = own if weights is None else weights * own
    if not (rows.is_floating_point() or rows.is_complex()):
        rows = rows.to(fb.get_default_dtype())
    if weights is None:
        total = fb.tensor(count, dtype=fb.int64, device=rows.device)
        average = rows.mean(1, keepdim=True) if count else rows.sum(1, keepdim=True) / 0.0
    else:
        total = weights.sum()
        if count and not total.is_meta and total.item() == 0:
            raise ArgumentError("cov: the weights sum to zero, so they cannot be normalised")
        average = (rows * weights).sum(1, keepdim=True) / total
    if aweights is None or correction == 0:
        divisor = total - correction
    else:
        divisor = total - correction * (weights * aweights.reshape(-1)).sum() / total
    centred = rows - average
    weighted = centred if weights is None else centred * weights
    product = fb.matmul(weighted.to(centred.dtype), centred.t().conj())
    # The divisor stays a tensor: it has a gradient if the weights do.
    result = product / (divisor if divisor.is_meta or divisor.item() > 0 else centred.real.new_zeros(()))
    return result.reshape(()) if result.numel() == 1 else result


@composite("corrcoef(Tensor input) -> Tensor", method=True)
def corrcoef(input):
    """Correlation coefficients of variables, which are the rows of the input.

    Args:
        input: one row per variable, one column per observation.

    Example:
        >>> fb.corrcoef(fb.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.dim() > 2:
        raise ArgumentError(f"corrcoef: expected at most two dimensions, got shape {tuple(input.shape)}")
    c = fb.cov(input)
    if c.dim() == 0:
        return c / c
    spread = fb.sqrt(fb.diagonal(c).real if c.is_complex() else fb.diagonal(c))
    result = c / spread.reshape(-1, 1) / spread.reshape(1, -1)
    if result.is_complex():
        return fb.complex(result.real.clamp(-1, 1), result.imag.clamp(-1, 1))
    return result.clamp(-1, 1)


@composite("renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor", method=True, inplace=True, out=True)
def renorm(input, p, dim, maxnorm):
    """Scales slices along a dimension down to a greatest norm.

    Args:
        input: a floating point or complex tensor with at least two dimensions.
        p: order of the norm, positive.
        dim: dimension whose slices are scaled.
        maxnorm: the greatest norm; smaller slices are unchanged.

    Example:
        >>> fb.renorm(fb.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0, 2.5)
        tensor([[1.5000, 2.0000],
                [0.0000, 1.0000]])
    """
    if isinstance(p, complex) or isinstance(maxnorm, complex):
        raise ArgumentError("renorm: p and maxnorm must be real numbers")
    if p <= 0:
        raise ArgumentError(f"renorm: p must be positive, got {p}")
    if maxnorm < 0:
        raise ArgumentError(f"renorm: maxnorm must not be negative, got {maxnorm}")
    if input.dim() < 2:
        raise ArgumentError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions: shape {tuple(input.shape)}")
    dim = _wrapped("renorm", dim, input.dim())
    others = [d for d in range(input.dim()) if d != dim]
    wide = {fb.float16: fb.float32, fb.bfloat16: fb.float32}.get(input.dtype)
    size = fb.norm(input, p, others, True, dtype=wide)
    scale = fb.where(size > maxnorm, maxnorm / (size + 1e-7), fb.ones_like(size))
    return (input * scale.to(input.real.dtype)).to(input.dtype)
