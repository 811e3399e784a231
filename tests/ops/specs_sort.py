"""Sorting, searching, counting."""

from __future__ import annotations

import numpy as np

from .samples import distinct, index, make, specials
from .spec import ALL, BOOL, FLOATS, FULL_FLOATS, INTS, REAL, OpSpec, S, T, bad, to_numpy

NOT_COMPLEX = BOOL + REAL


def _order(x, dim, descending):
    """Stable order with nan as the largest value, as in NumPy."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    turned = np.flip(x, dim)
    back = np.argsort(turned, axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - back, dim)


def _sort(x, dim=-1, descending=False, stable=False):
    if x.ndim == 0:
        return x, np.int64(0)
    order = _order(x, dim, descending)
    return np.take_along_axis(x, order, dim), order


def _argsort(x, dim=-1, descending=False, stable=False):
    return _sort(x, dim, descending)[1]


def _sort_samples(dtype):
    stable = {"stable": True} if dtype in BOOL else {}
    x = distinct(dtype, (3, 5))
    yield S(x, **stable)
    yield S(x, dim=0, **stable)
    yield S(x, dim=1, descending=True, **stable)
    yield S(make(dtype, (9,), 0, 2), dim=0, stable=True)
    yield S(make(dtype, (9,), 0, 2), dim=0, stable=True, descending=True)


def _sort_special(dtype):
    yield S(T(specials(dtype), dtype), dim=0, stable=True)
    yield S(T(specials(dtype), dtype), dim=0, stable=True, descending=True)


def _topk(x, k, dim=-1, largest=True, sorted=True):
    values, order = _sort(x, dim, largest)
    keep = np.arange(k)
    return np.take(values, keep, axis=dim), np.take(order, keep, axis=dim)


def _topk_samples(dtype):
    x = distinct(dtype, (4, 6))
    yield S(x, 3)
    yield S(x, 1, dim=0)
    yield S(x, 2, 1, False)
    yield S(x, 6, dim=-1, largest=True, sorted=True)
    yield S(x, 0)


def _kthvalue(x, k, dim=-1, keepdim=False):
    values, order = _sort(x, dim)
    pick = (np.take(values, k - 1, axis=dim), np.take(order, k - 1, axis=dim))
    return tuple(np.expand_dims(p, dim) for p in pick) if keepdim else pick


def _unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    parts = np.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)
    if return_inverse and dim is None:
        parts = (parts[0], parts[1].reshape(x.shape), *parts[2:])
    return parts


def _unique_samples(dtype):
    x = make(dtype, (3, 4), 0, 3)
    x = T(np.round(x.values), dtype) if dtype in FLOATS else x
    yield S(x)
    yield S(x, return_inverse=True, _dtype=(dtype, "int64"))
    yield S(x, return_counts=True, _dtype=(dtype, "int64"))
    yield S(x, return_inverse=True, return_counts=True, _dtype=(dtype, "int64", "int64"))
    yield S(T(np.repeat(x.values, 2, axis=0), dtype), dim=0)
    yield S(make(dtype, (0,)))


def _unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    flat = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    new = np.ones(len(flat), bool)
    for i in range(1, len(flat)):
        new[i] = not np.array_equal(flat[i], flat[i - 1])
    values = flat[new] if dim is None else np.moveaxis(flat[new], 0, dim)
    result = [values]
    if return_inverse:
        places = np.cumsum(new) - 1
        result.append(places.reshape(x.shape) if dim is None else places)
    if return_counts:
        starts = np.append(np.flatnonzero(new), len(flat))
        result.append(np.diff(starts))
    return tuple(result) if len(result) > 1 else values


def _consecutive_samples(dtype):
    x = T([1, 1, 0, 0, 0, 1, 1], dtype)
    yield S(x)
    yield S(x, return_inverse=True, return_counts=True, _dtype=(dtype, "int64", "int64"))
    yield S(T([[1, 1], [1, 1], [0, 1]], dtype), dim=0)
    yield S(T([[1, 1], [0, 0]], dtype), return_inverse=True, _dtype=(dtype, "int64"))


def _searchsorted(a, v, out_int32=False, right=False, side=None, sorter=None):
    side = side or ("right" if right else "left")
    if a.ndim == 1:
        a = a if sorter is None else a[sorter]
        return np.searchsorted(a, v, side)
    rows = [np.searchsorted(x, y, side) for x, y in zip(a.reshape(-1, a.shape[-1]), v.reshape(-1, v.shape[-1]),
    strict=True)]
    return np.reshape(rows, v.shape)


def _searchsorted_samples(dtype):
    edges = T(np.arange(6) * 2, dtype)
    probes = make(dtype, (3, 4), 0, 12)
    yield S(edges, probes)
    yield S(edges, probes, right=True)
    yield S(edges, probes, side="right", out_int32=True, _dtype="int32")
    yield S(T(np.arange(6).reshape(2, 3), dtype), make(dtype, (2, 4), 0, 6))
    yield S(T([4, 0, 2], dtype), probes, sorter=index([1, 2, 0]))


def _bucketize_samples(dtype):
    edges = T(np.arange(6) * 2, dtype)
    yield S(make(dtype, (3, 4), 0, 12), edges)
    yield S(make(dtype, (3, 4), 0, 12), edges, right=True)
    yield S(make(dtype, (3, 4), 0, 12), edges, out_int32=True, _dtype="int32")
    yield S(make(dtype, (0,)), edges)


def _isin_samples(dtype):
    x, y = make(dtype, (3, 4), 0, 6), make(dtype, (5,), 0, 6, 1)
    if dtype in FLOATS:
        x, y = T(np.round(x.values), dtype), T(np.round(y.values), dtype)
    yield S(x, y)
    yield S(x, y, invert=True)
    yield S(x, y, assume_unique=False)


def _nonzero_samples(dtype):
    yield S(make(dtype, (3, 4), -1, 1))
    yield S(T([0, 1, 0, 1], dtype))
    yield S(T(np.zeros((2, 2)), dtype))


def _nonzero(x, as_tuple=False):
    return tuple(np.nonzero(x)) if as_tuple else np.argwhere(x)


def _nonzero_static(x, size, fill_value=-1):
    found = np.argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)])


def _bincount(x, weights=None, minlength=0):
    return np.bincount(x, weights, minlength)


def _bincount_samples(dtype):
    x = make(dtype, (9,), 0, 5)
    yield S(x)
    yield S(x, minlength=9)
    yield S(x, make("float64", (9,)), _dtype="float64")
    yield S(make(dtype, (0,)), minlength=3)


def _histc(x, bins=100, min=0, max=0):
    lo, hi = (x.min(), x.max()) if min == max == 0 else (min, max)
    if lo == hi:
        lo, hi = lo - 1, hi + 1
    return np.histogram(x, bins, (lo, hi))[0]


def _histc_samples(dtype):
    x = make(dtype, (40,), 0, 9)
    yield S(x, bins=4)
    yield S(x, 5, 1, 7)
    yield S(x, bins=3, min=-2, max=2)


def _histogram_check(got, x, bins, range=None, weight=None, density=False):
    hist, edges = (to_numpy(t) for t in (got.hist, got.bin_edges))
    want, want_edges = np.histogram(x, bins, range=range, weights=weight, density=density)
    assert np.allclose(hist, want, atol=1e-5), f"hist {hist}, expected {want}"
    assert np.allclose(edges, want_edges, atol=1e-5), f"edges {edges}, expected {want_edges}"


def _histogram_samples(dtype):
    x = make(dtype, (40,), 0, 9)
    yield S(x, 4)
    yield S(x, 5, range=(1.0, 7.0))
    yield S(x, T([0.0, 1.0, 4.0, 9.0], dtype))
    yield S(x, 4, density=True)
    yield S(x, 4, weight=make(dtype, (40,), 0, 1, 2))


def _histogramdd_check(got, x, bins, range=None):
    hist, edges = got.hist, got.bin_edges
    pairs = None if range is None else [range[0:2], range[2:4]]
    want, want_edges = np.histogramdd(x, bins, pairs)
    assert np.allclose(to_numpy(hist), want), "hist differs"
    assert all(np.allclose(to_numpy(e), w, atol=1e-5) for e, w in zip(edges, want_edges, strict=True)), "edges differ"


def _large(dtype):
    yield S(make(dtype, (300, 900), -1e6, 1e6), dim=1, stable=True)
    yield S(make(dtype, (900, 300), -1e6, 1e6), dim=0, stable=True, descending=True)


X = T(np.ones((2, 3)), "float32")
# fmt: off
ROWS = [
    OpSpec("sort", _sort, _sort_samples, NOT_COMPLEX, ("same", "int64"), out=True, special=_sort_special,
           special_dtypes=FLOATS + INTS, edge=lambda d: [S(make(d, ())), S(make(d, (0,))), S(make(d, (2, 0)), dim=0)],
           large=_large, expand=False, errors=(bad("a dim out of range", IndexError, X, 2),
           bad("a complex tensor", RuntimeError, T([1j], "complex64")), bad("a string", TypeError, "x"))),
    OpSpec("argsort", _argsort, _sort_samples, NOT_COMPLEX, "int64", special=_sort_special,
           special_dtypes=FLOATS + INTS,
           large=_large, expand=False, errors=(bad("a dim out of range", IndexError, X, 2),)),
    OpSpec("msort", lambda x: np.sort(x, axis=0), lambda d: [S(make(d, (4, 3)))], NOT_COMPLEX, out=True),
    OpSpec("topk", _topk, _topk_samples, REAL, ("same", "int64"), out=True, expand=False,
           large=lambda d: [S(make(d, (300, 900), -1e6, 1e6), 5)],
           errors=(bad("k too large", (RuntimeError, IndexError), X, 4),
           bad("a negative k", (RuntimeError, IndexError), X, -1),
                   bad("a dim out of range", IndexError, X, 1, 5))),
    OpSpec("kthvalue", _kthvalue, lambda d: [S(distinct(d, (4, 5)), 2), S(distinct(d, (4, 5)), 1, 0),
           S(distinct(d, (4, 5)), 5, dim=1, keepdim=True)], REAL, ("same", "int64"), out=True, expand=False,
           errors=(bad("k = 0", (RuntimeError, IndexError), X, 0), bad("k too large", (RuntimeError, IndexError), X,
           4))),
    OpSpec("unique", _unique, _unique_samples, NOT_COMPLEX, errors=(bad("a dim out of range", IndexError, X, dim=2),)),
    OpSpec("unique_consecutive", _unique_consecutive, _consecutive_samples, NOT_COMPLEX),
    OpSpec("searchsorted", _searchsorted, _searchsorted_samples, REAL, "int64", method=False, out=True, expand=False,
           errors=(bad("rows that do not match", RuntimeError, T(np.ones((2, 3)), "float32"),
           T(np.ones((3, 3)), "float32")),
                   bad("an unknown side", RuntimeError, T([1.0], "float32"), T([1.0], "float32"), side="middle"))),
    OpSpec("bucketize", lambda x, b, out_int32=False, right=False: np.searchsorted(b, x, "right" if right else "left"),
           _bucketize_samples, REAL, "int64", method=False, out=True, expand=False,
           errors=(bad("boundaries with two dimensions", RuntimeError, T([1.0], "float32"),
           T(np.ones((2, 2)), "float32")),)),
    OpSpec("isin", lambda a, b, assume_unique=False, invert=False: np.isin(a, b, invert=invert), _isin_samples, REAL,
           "bool",
           method=False, errors=(bad("two numbers", (TypeError, RuntimeError), 1, 2),)),
    OpSpec("nonzero", _nonzero, _nonzero_samples, ALL, "int64",
           edge=lambda d: [S(make(d, (3, 4), -1, 1), as_tuple=True), S(T(1, d)), S(T(0, d)), S(make(d, (0, 3)))],
           errors=(bad("out for several results", RuntimeError, T([0, 1], "int64"), as_tuple=True,
           out=(T([0], "int64"),)),)),
    OpSpec("nonzero_numpy", lambda x: list(np.nonzero(x)), _nonzero_samples, ALL, "int64", function=False),
    OpSpec("nonzero_static", _nonzero_static, lambda d: [S(T([0, 1, 0, 1], d), size=3),
           S(T([[0, 1], [1, 1]], d), size=2),
           S(T([0, 1], d), size=4, fill_value=7)], REAL, "int64"),
    OpSpec("argwhere", np.argwhere, _nonzero_samples, ALL, "int64"),
    OpSpec("bincount", _bincount, _bincount_samples, ("uint8", "int32", "int64"), "int64",
           errors=(bad("a negative entry", RuntimeError, index([1, -1])),
           bad("a matrix", RuntimeError, index([[1, 2]])),
                   bad("a float tensor", RuntimeError, X), bad("weights of another length", RuntimeError,
                   index([1, 2]), X))),
    OpSpec("histc", _histc, _histc_samples, FULL_FLOATS, out=True,
           errors=(bad("no bins", RuntimeError, X, 0), bad("an upper end below", RuntimeError, X, 3, 2, 1))),
    OpSpec("histogram", None, _histogram_samples, FULL_FLOATS, ("same", "same"), check=_histogram_check, expand=False,
           errors=(bad("no bins", RuntimeError, X, 0),)),
    OpSpec("histogramdd", None, lambda d: [S(make(d, (40, 2), 0, 9), [3, 4]),
           S(make(d, (40, 2), 0, 9), [2, 2], range=[0.0, 8.0, 0.0, 9.0])], FULL_FLOATS, "any", method=False,
           check=_histogramdd_check, layouts=False),
]
# fmt: on
