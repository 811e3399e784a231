"""Reductions, cumulative ops, statistics."""

from __future__ import annotations

import numpy as np
from scipy import integrate

from .samples import LARGE, distinct, index, make, mask, over_dims, over_one_dim, specials
from .spec import ALL, BOOL, FLOATS, FULL_FLOATS, INEXACT, INTS, NUMERIC, REAL, OpSpec, S, T, bad

NOT_COMPLEX = BOOL + REAL
# Sums of many rounded terms: half precision keeps two or three digits.
SUMS = {"float16": (1e-2, 2e-2), "bfloat16": (5e-2, 6e-2), "float32": (2e-5, 1e-5), "complex64": (5e-5, 2e-5)}


def axis_of(dim):
    return tuple(dim) if isinstance(dim, list) else dim


def reduction(ref):
    """A NumPy reduction under PyTorch's argument names."""

    def wrapped(x, dim=None, keepdim=False, dtype=None, **kwargs):
        if dtype is not None:
            x = x.astype(np.float64)
        dim = axis_of(dim)
        if x.ndim == 0:
            dim = None
        return ref(x, axis=None if dim == () else dim, keepdims=keepdim, **kwargs)

    return wrapped


def bad_dims(many=True, dtype="float32"):
    x = T(np.ones((2, 3)), dtype)
    cases = (
        bad("a dim out of range", IndexError, x, 2),
        bad("a dim far below", IndexError, x, -3),
        bad("a string for dim", TypeError, x, "rows"),
        bad("a string for the tensor", TypeError, "x"),
    )
    return cases + ((bad("a dim given twice", RuntimeError, x, (0, 0)),) if many else ())


def large_dims(dtype):
    x = make(dtype, (401, 653))
    yield S(x)
    yield S(x, dim=0)
    yield S(x, dim=1)
    yield S(make(dtype, (41, 65, 99)), dim=1)


def large_one(dtype):
    for dim in (0, 1):
        yield S(make(dtype, (401, 653)), dim=dim)


def edge_dims(dtype):
    """Empty where the op has a neutral element, 0-d with and without a dim."""
    yield S(make(dtype, ()))
    yield S(make(dtype, ()), dim=0)
    yield S(make(dtype, (0,)))
    yield S(make(dtype, (0, 3)), dim=0)
    yield S(make(dtype, (2, 0)), dim=0)
    yield S(make(dtype, (1,)), dim=0, keepdim=True)


def edge_nonempty(dtype):
    yield S(make(dtype, ()))
    yield S(make(dtype, ()), dim=0)
    yield S(make(dtype, (2, 0)), dim=0)
    yield S(make(dtype, (1, 1)), dim=1, keepdim=True)


def empty_refused():
    return bad("nothing to choose from", (IndexError, RuntimeError), T(np.ones((0,)), "float32"))


def special_rows(dtype):
    if dtype in FLOATS:
        yield S(T([[1.0, np.nan], [np.inf, 1.0], [-np.inf, np.inf], [-0.0, -0.0]], dtype), dim=1)
    else:
        top = specials(dtype)
        yield S(T([top[:2], top[2:4]], dtype) if len(top) > 3 else T(top, dtype), dim=0)


def reduce_row(name, ref, dtypes=ALL, result="same", samples=None, edge=edge_dims, errors=(), many=True, special=True,
**kw):
    kw = {"tolerance": SUMS, "large": large_dims, "out": True, **kw}
    return OpSpec(name, reduction(ref), samples or over_dims(many=many), dtypes, result, edge=edge,
                  special=special_rows if special else None, errors=(*bad_dims(many), *errors), **kw)


def _sum_like(how):
    def ref(x, axis=None, keepdims=False):
        wide = x.astype(np.int64) if x.dtype.kind in "bui" else x
        return how(wide, axis=axis, keepdims=keepdims)

    return ref


def _indices_keep(pick):
    def ref(x, dim=None, keepdim=False):
        if dim is None:
            found = pick(x.reshape(-1))
            return np.reshape(found, (1,) * x.ndim) if keepdim else found
        if x.ndim == 0:
            return np.int64(0)
        found = pick(x, axis=dim)
        return np.expand_dims(found, dim) if keepdim else found

    return ref


def _extreme(values, indices):
    """max and min: of everything, along a dimension with indices, or of two tensors."""

    def ref(x, other=None, keepdim=False, dim=None):
        if isinstance(other, np.ndarray):
            return (np.maximum if values is np.max else np.minimum)(x, other)
        dim = other if dim is None else dim
        if dim is None:
            return values(x)
        return values(x, axis=dim, keepdims=keepdim), _indices_keep(indices)(x, dim, keepdim)

    return ref


def _extreme_samples(dtype):
    x = distinct(dtype, (3, 4, 2))
    yield S(x, _dtype=dtype)
    if dtype not in BOOL:
        for dim in (0, 1, -1):
            yield S(x, dim)
        yield S(x, dim=1, keepdim=True)
    yield S(x, distinct(dtype, (3, 4, 2), 1), _dtype=dtype)


def _aminmax(x, dim=None, keepdim=False):
    return reduction(np.min)(x, dim, keepdim), reduction(np.max)(x, dim, keepdim)


def _spread(power):
    def ref(x, dim=None, unbiased=None, correction=None, keepdim=False):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else (0 if unbiased is False else 1)
        axis = None if x.ndim == 0 else axis_of(dim)
        mean = x.mean(axis=axis, keepdims=True)
        count = x.size / max(mean.size, 1)
        total = (np.abs(x - mean) ** 2).sum(axis=axis, keepdims=keepdim)
        return (total / max(count - ddof, 0)) ** power

    return ref


def _with_mean(spread):
    def ref(x, dim=None, **kwargs):
        return spread(x, dim, **kwargs), reduction(np.mean)(x, dim, kwargs.get("keepdim", False))

    return ref


def _spread_samples(dtype):
    yield from over_dims()(dtype)
    x = make(dtype, (3, 4, 2))
    yield S(x, dim=1, correction=0)
    yield S(x, dim=1, correction=2, keepdim=True)
    yield S(x, 1, unbiased=False)


def _norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    size = np.abs(x)
    p = 2 if p in ("fro", None) else p
    axis = axis_of(dim)
    if p == np.inf:
        return size.max(axis=axis, keepdims=keepdim)
    if p == -np.inf:
        return size.min(axis=axis, keepdims=keepdim)
    if p == 0:
        return (size != 0).sum(axis=axis, keepdims=keepdim).astype(float)
    return (size**p).sum(axis=axis, keepdims=keepdim) ** (1 / p)


def _norm_samples(dtype):
    x = make(dtype, (3, 4, 2))
    yield S(x)
    yield S(x, 2, 1)
    yield S(x, p=1, dim=0)
    yield S(x, p=3, dim=-1, keepdim=True)
    yield S(x, p=np.inf, dim=(0, 1))
    yield S(x, p=-np.inf)
    yield S(x, p=0, dim=1)


def _median(x, dim=None, keepdim=False, skip_nan=False):
    """The lower of the two middle values, and one of its places."""
    if dim is None:
        flat = np.sort(x.reshape(-1))
        flat = flat[~np.isnan(flat)] if skip_nan and flat.dtype.kind == "f" else flat
        return flat[(len(flat) - 1) // 2] if len(flat) else np.nan
    values = np.apply_along_axis(lambda v: _median(v, skip_nan=skip_nan), dim, x)
    places = np.argmax(x == np.expand_dims(values, dim), axis=dim)
    if keepdim:
        return np.expand_dims(values, dim), np.expand_dims(places, dim)
    return values, places


def _one_or_pair(dtype):
    x = distinct(dtype, (3, 5))
    yield S(x, _dtype=dtype)
    yield S(x, 0)
    yield S(x, dim=1)
    yield S(x, dim=1, keepdim=True)


def _mode(x, dim=-1, keepdim=False):
    def most(v):
        values, counts = np.unique(v, return_counts=True)
        return values[np.argmax(counts)]

    values = np.apply_along_axis(most, dim, x)
    return np.expand_dims(values, dim) if keepdim else values


def _mode_check(got, x, dim=-1, keepdim=False):
    values, places = (t.numpy() for t in (got.values, got.indices))
    want = _mode(x, dim, keepdim)
    assert np.array_equal(values, want), f"values {values}, expected {want}"
    if not keepdim:
        values, places = np.expand_dims(values, dim), np.expand_dims(places, dim)
    assert np.array_equal(np.take_along_axis(x, places, dim), values), "an index does not point at its value"


def _quantile(how):
    def ref(x, q, dim=None, keepdim=False, interpolation="linear"):
        return how(x, q, axis=dim, keepdims=keepdim, method=interpolation)

    return ref


def _quantile_samples(dtype):
    x = make(dtype, (4, 5))
    yield S(x, 0.3)
    yield S(x, 0.5, dim=1)
    yield S(x, T([0.0, 0.25, 1.0], dtype), dim=0)
    yield S(x, 0.4, dim=0, keepdim=True)
    for how in ("lower", "higher", "midpoint", "nearest"):
        yield S(x, 0.3, dim=1, interpolation=how)


def _with_nan(samples):
    def wrapped(dtype):
        for s in samples(dtype):
            yield s
            if dtype in FLOATS and s.args[0].values.ndim:
                values = s.args[0].values.copy()
                values[..., 1] = np.nan
                yield S(T(values, dtype), *s.args[1:], _dtype=s.dtype, **s.kwargs)

    return wrapped


def _cumulative(how):
    def ref(x, dim, dtype=None):
        wide = x.astype(np.int64) if x.dtype.kind in "bui" else x
        return how(wide, axis=dim) if x.ndim else wide

    return ref


def _cum_extreme(how):
    def ref(x, dim):
        values = how(x, axis=dim)
        moved, best = np.moveaxis(x, dim, 0), np.moveaxis(values, dim, 0)
        places = np.zeros(moved.shape, np.int64)
        for i in range(1, len(moved)):
            places[i] = np.where(moved[i] == best[i], i, places[i - 1])
        return values, np.moveaxis(places, 0, dim)

    return ref


def _cum_edge(dtype):
    yield S(make(dtype, ()), dim=0)
    yield S(make(dtype, (0,)), dim=0)
    yield S(make(dtype, (2, 0)), dim=1)


def _logcumsumexp(x, dim):
    return np.logaddexp.accumulate(x, axis=dim)


def _diff_samples(dtype):
    x = make(dtype, (4, 5), 0, 9)
    yield S(x)
    yield S(x, n=2)
    yield S(x, dim=0)
    yield S(x, dim=0, prepend=make(dtype, (1, 5)), append=make(dtype, (2, 5)))


def _diff(x, n=1, dim=-1, prepend=None, append=None):
    parts = [p for p in (prepend, x, append) if p is not None]
    whole = np.concatenate(parts, axis=dim)
    for _ in range(n):
        whole = np.diff(whole, axis=dim)
    return whole


def _trapezoid(how):
    def ref(y, x=None, dx=1.0, dim=-1):
        return how(y, x=x, dx=dx, axis=dim)

    return ref


def _trapezoid_samples(dtype):
    y = make(dtype, (3, 5))
    yield S(y)
    yield S(y, dx=0.5)
    yield S(y, dim=0)
    yield S(y, make(dtype, (5,), 0.5, 3))


def _renorm(x, p, dim, maxnorm):
    axes = tuple(i for i in range(x.ndim) if i != dim % x.ndim)
    norms = (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p)
    return np.where(norms > maxnorm, x * (maxnorm / (norms + 1e-7)), x)


def _cov(x, correction=1, fweights=None, aweights=None):
    return np.cov(x, ddof=correction, fweights=fweights, aweights=aweights)


def _cov_samples(dtype):
    x = make(dtype, (3, 6))
    yield S(x)
    yield S(x, correction=0)
    yield S(make(dtype, (5,)))
    if dtype in FULL_FLOATS:
        yield S(x, fweights=index([1, 2, 1, 3, 1, 1]))
        yield S(x, aweights=make(dtype, (6,), 0.5, 2))


def _hash(x, dim=None, keepdim=False):
    wide = x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x.astype(np.int64)
    dims = tuple(range(x.ndim)) if dim is None else dim
    return np.bitwise_xor.reduce(wide.view(np.uint64), axis=dims, keepdims=keepdim)


def _hash_samples(dtype):
    x = make(dtype, (3, 5, 2))
    for options in ({}, {"dim": 1}, {"dim": (0, -1)}, {"dim": (2, 1), "keepdim": True}):
        yield S(x, **options)
    yield S(T(1, dtype))


def _gradient_samples(dtype):
    x = make(dtype, (4, 5))
    yield S(x)
    yield S(x, spacing=2.0)
    yield S(x, dim=1)
    yield S(x, dim=1, edge_order=2)


def _gradient(x, spacing=1.0, dim=None, edge_order=1):
    got = np.gradient(x, spacing, axis=dim, edge_order=edge_order)
    return list(got) if isinstance(got, (list, tuple)) else [got]


def _sum_to_size(x, *size):
    size = size[0] if size and isinstance(size[0], (tuple, list)) else size
    lead = x.ndim - len(size)
    kept = tuple(lead + i for i, n in enumerate(size) if n == 1)
    return x.sum(axis=kept, keepdims=True).sum(axis=tuple(range(lead))) if lead else x.sum(axis=kept, keepdims=True)


def _segment_reduce(x, reduce, lengths=None, offsets=None, axis=0, initial=None):
    """Segment by segment; the dimensions before the axis have lengths of their own."""
    empty = {"sum": 0.0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1.0}
    given = lengths if offsets is None else np.diff(offsets)
    result = np.empty((*x.shape[:axis], given.shape[-1], *x.shape[axis + 1 :]))
    for outer in np.ndindex(*x.shape[:axis]):
        at = 0
        for k, n in enumerate(given[outer]):
            part = x[outer][at : at + n]
            first = [] if initial is None else [np.full(x.shape[axis + 1 :], initial)]
            both = np.concatenate([np.reshape(first, (len(first), *x.shape[axis + 1 :])), part])
            value = both.sum(0) / max(n, 1) if reduce == "mean" else getattr(np, reduce)(both, axis=0) if len(both) else None
            result[(*outer, k)] = empty[reduce] if not len(both) else value
            at += n
    return result


def segments(dtype):
    for reduce in ("sum", "mean", "max", "min", "prod"):
        yield S(make(dtype, (7,)), reduce, lengths=index([3, 0, 2, 2]))
        yield S(make(dtype, (5, 3)), reduce, offsets=index([0, 4, 4, 5]))
        yield S(make(dtype, (2, 4, 2)), reduce, lengths=index([[1, 3], [4, 0]]), axis=1, initial=0.5)


PAIR_ERRORS = (*bad_dims(many=False), empty_refused())
# fmt: off
ROWS = [
    reduce_row("sum", _sum_like(np.sum), result="sum"),
    reduce_row("nansum", _sum_like(np.nansum), NOT_COMPLEX, "sum"),
    reduce_row("prod", _sum_like(np.prod), result="sum", many=False, samples=over_dims(-1.5, 1.5, many=False),
               large=lambda d: [S(make(d, (401, 653), 0.9, 1.1), dim=0)]),
    reduce_row("mean", np.mean, INEXACT, errors=(bad("an integer tensor", (TypeError, RuntimeError),
               T([1, 2], "int64")),)),
    reduce_row("nanmean", np.nanmean, FLOATS, special=False, edge=edge_nonempty),
    reduce_row("amax", np.max, NOT_COMPLEX, edge=edge_nonempty, errors=(empty_refused(),), exact=True),
    reduce_row("amin", np.min, NOT_COMPLEX, edge=edge_nonempty, errors=(empty_refused(),), exact=True),
    reduce_row("all", np.all, result="truth"),
    reduce_row("any", np.any, result="truth"),
    reduce_row("count_nonzero", lambda x, axis, keepdims: np.count_nonzero(x, axis=axis), result="int64", out=False,
               samples=lambda d: [s for s in over_dims(-1, 1)(d) if "keepdim" not in s.kwargs], special=False,
               edge=lambda d: [S(make(d, ())), S(make(d, (0, 2)), dim=0)]),
    OpSpec("argmax", _indices_keep(np.argmax), over_dims(many=False, maker=distinct), REAL, "int64", out=True,
           edge=lambda d: [S(make(d, ())), S(make(d, ()), dim=0), S(make(d, (1, 2)), dim=0)], large=large_dims,
           special=lambda d: [S(T([1.0, np.nan, np.inf, -np.inf], d))], special_dtypes=FLOATS,
           errors=(*bad_dims(many=False), empty_refused())),
    OpSpec("argmin", _indices_keep(np.argmin), over_dims(many=False, maker=distinct), REAL, "int64", out=True,
           edge=lambda d: [S(make(d, ())), S(make(d, ()), dim=0), S(make(d, (1, 2)), dim=0)], large=large_dims,
           special=lambda d: [S(T([1.0, np.nan, np.inf, -np.inf], d))], special_dtypes=FLOATS,
           errors=(*bad_dims(many=False), empty_refused())),
    OpSpec("max", _extreme(np.max, np.argmax), _extreme_samples, NOT_COMPLEX, ("same", "int64"), large=large_one,
           special=lambda d: [S(T([[1.0, np.nan], [np.inf, 1.0]], d), dim=1)], special_dtypes=FLOATS,
           errors=PAIR_ERRORS,
           expand=False),
    OpSpec("min", _extreme(np.min, np.argmin), _extreme_samples, NOT_COMPLEX, ("same", "int64"), large=large_one,
           special=lambda d: [S(T([[1.0, np.nan], [-np.inf, 1.0]], d), dim=1)], special_dtypes=FLOATS,
           errors=PAIR_ERRORS,
           expand=False),
    OpSpec("aminmax", _aminmax, lambda d: [S(make(d, (3, 4))), S(make(d, (3, 4)), dim=0), S(make(d, (3, 4)), dim=1,
           keepdim=True)], NOT_COMPLEX, ("same", "same"), out=True, errors=(empty_refused(),),
           large=lambda d: [S(make(d, (LARGE,)))]),
    OpSpec("std", _spread(0.5), _spread_samples, INEXACT, "real", out=True, large=large_dims, tolerance=SUMS,
           edge=lambda d: [S(make(d, (2, 0)), dim=0), S(make(d, (0, 2)), dim=0), S(make(d, (1, 2)), dim=1)],
           errors=(*bad_dims(), bad("an integer tensor", (TypeError, RuntimeError), T([1, 2], "int64")))),
    OpSpec("var", _spread(1), _spread_samples, INEXACT, "real", out=True, large=large_dims, tolerance=SUMS,
           edge=lambda d: [S(make(d, (2, 0)), dim=0), S(make(d, (0, 2)), dim=0), S(make(d, (1, 2)), dim=1)],
           errors=(*bad_dims(), bad("an integer tensor", (TypeError, RuntimeError), T([1, 2], "int64")))),
    OpSpec("std_mean", _with_mean(_spread(0.5)), _spread_samples, INEXACT, ("real", "same"), method=False,
           tolerance=SUMS,
           errors=bad_dims()),
    OpSpec("var_mean", _with_mean(_spread(1)), _spread_samples, INEXACT, ("real", "same"), method=False, tolerance=SUMS,
           errors=bad_dims()),
    OpSpec("norm", _norm, _norm_samples, INEXACT, "real", out=False, tolerance=SUMS,
           errors=(bad("an integer tensor", RuntimeError, T([1, 2], "int64")),)),
    OpSpec("dist", lambda a, b, p=2: _norm(a - b, p), lambda d: [S(make(d, (3, 4)), make(d, (3, 4), salt=1)),
           S(make(d, (3, 4)), make(d, (4,), salt=1), 1), S(make(d, (3, 4)), make(d, (3, 4), salt=1), p=np.inf)],
           INEXACT, "real", tolerance=SUMS, expand=False),
    OpSpec("median", _median, _one_or_pair, REAL, ("same", "int64"), expand=False,
           special=lambda d: [S(T([1.0, np.nan, 3.0], d), _dtype=d)], special_dtypes=(), errors=bad_dims(many=False)),
    OpSpec("nanmedian", lambda *a, **k: _median(*a, **k, skip_nan=True), _with_nan(_one_or_pair), REAL,
           ("same", "int64"),
           expand=False, errors=bad_dims(many=False)),
    OpSpec("mode", None, lambda d: [S(make(d, (3, 7), 0, 3)), S(make(d, (3, 7), 0, 3), 0),
           S(make(d, (3, 7), 0, 3), dim=1,
           keepdim=True)], INTS + FULL_FLOATS, ("same", "int64"), check=_mode_check, errors=bad_dims(many=False)),
    OpSpec("quantile", _quantile(np.quantile), _quantile_samples, FULL_FLOATS, out=True, expand=False, errors=(
           bad("q above one", (ValueError, RuntimeError), T([1.0], "float32"), 1.5),
           bad("an integer tensor", (TypeError, RuntimeError), T([1, 2], "int64"), 0.5),
           bad("an unknown interpolation", (ValueError, RuntimeError), T([1.0], "float32"), 0.5, interpolation="x"))),
    OpSpec("nanquantile", _quantile(np.nanquantile), _with_nan(_quantile_samples), FULL_FLOATS, out=True, expand=False),
    OpSpec("cumsum", _cumulative(np.cumsum), over_one_dim(), ALL, "sum", inplace=True, out=True, edge=_cum_edge,
           large=large_one,
           tolerance=SUMS, errors=(*bad_dims(many=False)[:3],)),
    OpSpec("cumprod", _cumulative(np.cumprod), over_one_dim(-1.5, 1.5), ALL, "sum", inplace=True, out=True,
           edge=_cum_edge,
           tolerance=SUMS, large=lambda d: [S(make(d, (401, 653), 0.9, 1.1), dim=1)],
           errors=(*bad_dims(many=False)[:3],)),
    OpSpec("cummax", _cum_extreme(np.maximum.accumulate), over_one_dim(), REAL, ("same", "int64"), out=True,
           edge=lambda d: [S(make(d, (0,)), dim=0)], large=large_one, errors=(*bad_dims(many=False)[:3],)),
    OpSpec("cummin", _cum_extreme(np.minimum.accumulate), over_one_dim(), REAL, ("same", "int64"), out=True,
           edge=lambda d: [S(make(d, (0,)), dim=0)], large=large_one, errors=(*bad_dims(many=False)[:3],)),
    OpSpec("logcumsumexp", _logcumsumexp, over_one_dim(), FLOATS, out=True, large=large_one, tolerance=SUMS,
           errors=(*bad_dims(many=False)[:3],)),
    OpSpec("diff", _diff, _diff_samples, NUMERIC, out=True, expand=False,
           errors=(bad("a 0-d tensor", RuntimeError, T(1.0, "float32")),)),
    OpSpec("trapezoid", _trapezoid(np.trapezoid), _trapezoid_samples, FULL_FLOATS, method=False),
    OpSpec("trapz", _trapezoid(np.trapezoid), _trapezoid_samples, FULL_FLOATS, method=False, canonical="trapezoid"),
    OpSpec("cumulative_trapezoid", _trapezoid(integrate.cumulative_trapezoid), _trapezoid_samples, FULL_FLOATS,
           method=False),
    OpSpec("hash_tensor", _hash, _hash_samples, NOT_COMPLEX, "uint64", out=True, exact=True,
           errors=(*bad_dims(), bad("complex numbers", TypeError, T([1j], "complex64")),
           bad("another mode", RuntimeError, T([1], "int64"), mode=1),
           bad("nothing to reduce", RuntimeError, T(np.zeros((0, 2)), "float32")))),
    OpSpec("gradient", _gradient, _gradient_samples, FULL_FLOATS, method=False, result="same", expand=True,
           errors=(bad("an edge order of 3", RuntimeError, T(np.ones(5), "float32"), edge_order=3),)),
    OpSpec("renorm", _renorm, lambda d: [S(make(d, (3, 4)), 2, 0, 1.5), S(make(d, (3, 4)), 1, 1, 2.0)], FULL_FLOATS,
           inplace=True, out=True, errors=(bad("a vector", RuntimeError, T([1.0], "float32"), 2, 0, 1.0),)),
    OpSpec("cov", _cov, _cov_samples, LAPACK_LIKE := FULL_FLOATS + ("complex64", "complex128"), expand=False,
           tolerance=SUMS, errors=(bad("three dimensions", RuntimeError, T(np.ones((1, 2, 3)), "float32")),)),
    OpSpec("corrcoef", lambda x: np.corrcoef(x), lambda d: [S(make(d, (3, 6))), S(make(d, (5,)))], LAPACK_LIKE,
           expand=False, tolerance=SUMS, errors=(bad("three dimensions", RuntimeError,
           T(np.ones((1, 2, 3)), "float32")),)),
    OpSpec("trace", lambda x: _sum_like(np.sum)(np.diagonal(x)), lambda d: [S(make(d, (3, 4))), S(make(d, (0, 2)))],
           NUMERIC,
           "sum", errors=(bad("a vector", RuntimeError, T([1.0], "float32")),)),
    OpSpec("sum_to_size", _sum_to_size, lambda d: [S(make(d, (2, 3, 4)), (3, 1)), S(make(d, (2, 3)), 1, 3),
           S(make(d, (2, 3)), (2, 3))], INEXACT, function=False, tolerance=SUMS,
           errors=(bad("a size that does not fit", RuntimeError, T(np.ones((2, 3)), "float32"), (2, 2)),)),
    OpSpec("segment_reduce", _segment_reduce, segments, FLOATS, method=False, expand=False, tolerance=SUMS, errors=(
           bad("an unknown reduction", RuntimeError, T([1.0], "float32"), "median", lengths=index([1]), words="median"),
           bad("lengths that do not fit", RuntimeError, T([1.0, 2.0], "float32"), "sum", lengths=index([1])),
           bad("a negative length", RuntimeError, T([1.0], "float32"), "sum", lengths=index([2, -1])),
           bad("neither lengths nor offsets", RuntimeError, T([1.0], "float32"), "sum", words="lengths or offsets"),
           bad("offsets that fall", RuntimeError, T([1.0, 2.0], "float32"), "sum", offsets=index([0, 2, 1]), words="offsets must ascend"),
           bad("offsets behind the end", RuntimeError, T([1.0, 2.0], "float32"), "sum", offsets=index([0, 9])),
           bad("a 0-d tensor", IndexError, T(1.0, "float32"), "sum", lengths=index([1])),
           bad("lengths of another shape", RuntimeError, T([[1.0]], "float32"), "sum", lengths=index([1]), axis=1),
           bad("float lengths", TypeError, T([1.0], "float32"), "sum", lengths=T([1.0], "float32")),
           bad("integers", TypeError, index([1]), "sum", lengths=index([1])))),
    OpSpec("masked_select", lambda x, m: np.broadcast_arrays(x, m)[0][np.broadcast_arrays(x, m)[1]], lambda d: [
           S(make(d, (3, 4)), mask([[True, False, True, True]] * 3)), S(make(d, (3, 4)),
           mask([True, False, False, True])),
           S(make(d, (2,)), mask([False, False]))], ALL, out=True,
           errors=(bad("an integer mask", RuntimeError, T([1.0, 2.0], "float32"), index([0, 1])),)),
]
# fmt: on
