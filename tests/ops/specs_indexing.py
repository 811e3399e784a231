"""Gather, scatter, index_*, masked_* and other ops that read or write chosen places."""

from __future__ import annotations

import numpy as np

from .samples import LARGE, index, make, mask
from .spec import ALL, BOOL, NUMERIC, REAL, OpSpec, S, T, bad

NOT_COMPLEX = BOOL + REAL
SUMS = {"float16": (1e-2, 2e-2), "bfloat16": (5e-2, 6e-2), "float32": (2e-5, 1e-5)}


def places(x, index, dim):
    """Fancy-index tuple that walks `index` and reads or writes along `dim`."""
    grid = list(np.indices(index.shape))
    if x.ndim:
        grid[dim] = index
    return tuple(grid)


def _gather(x, dim, index, sparse_grad=False):
    return x[places(x, index, dim)] if x.ndim else x.copy()


def _gather_samples(dtype):
    x = make(dtype, (3, 4))
    yield S(x, 1, index([[0, 3, 1], [2, 2, 0]]))
    yield S(x, 0, index([[0, 2, 1, 1]]))
    yield S(x, -1, index(np.zeros((3, 0))))
    yield S(make(dtype, ()), 0, index(0))


def _scatter(x, dim, index, src, reduce=None):
    out = x.copy()
    if not isinstance(src, np.ndarray):
        src = np.full(index.shape, src, dtype=x.dtype)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        value = src[place]
        if reduce == "add":
            value = out[tuple(target)] + value
        elif reduce == "multiply":
            value = out[tuple(target)] * value
        out[tuple(target)] = value
    return out


def _scatter_samples(dtype):
    x = make(dtype, (3, 5))
    where = index([[0, 2, 4], [1, 3, 0], [4, 0, 1]])
    yield S(x, 1, where, make(dtype, (3, 5), salt=1))
    yield S(x, 0, index([[0, 1, 2, 0, 1]]), make(dtype, (2, 5), salt=1))
    yield S(x, 1, where, 1)
    yield S(x, -1, index(np.zeros((0, 3))), 1)


def _scatter_reduce_old(dtype):
    yield from _scatter_samples(dtype)
    if dtype in NUMERIC:
        yield S(make(dtype, (3, 5)), 1, index([[0, 2], [1, 1], [4, 4]]), make(dtype, (3, 2), salt=1), reduce="add")


def _scatter_add_samples(dtype):
    x = make(dtype, (3, 5))
    yield S(x, 1, index([[0, 2, 2], [1, 1, 1], [4, 0, 4]]), make(dtype, (3, 3), salt=1))
    yield S(x, 0, index([[0, 0, 2, 0, 1]] * 2), make(dtype, (2, 5), salt=1))


def _fold(values, reduce):
    values = np.array(values)
    if reduce == "sum":
        return values.sum(axis=0)
    if reduce == "prod":
        return values.prod(axis=0)
    if reduce == "mean":
        total = values.sum(axis=0)
        return total / len(values) if values.dtype.kind == "f" else np.floor_divide(total, len(values))
    return values.max(axis=0) if reduce == "amax" else values.min(axis=0)


def _scatter_reduce(x, dim, index, src, reduce, include_self=True):
    out, groups = x.copy(), {}
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        groups.setdefault(tuple(target), []).append(src[place])
    for target, values in groups.items():
        out[target] = _fold(([x[target]] if include_self else []) + values, reduce).astype(x.dtype)
    return out


def _scatter_reduce_samples(dtype):
    x = make(dtype, (3, 5))
    where = index([[0, 2, 2], [1, 1, 1], [4, 0, 4]])
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        yield S(x, 1, where, make(dtype, (3, 3), salt=1), reduce)
        yield S(x, 1, where, make(dtype, (3, 3), salt=1), reduce, include_self=False)


def _index_add(x, dim, index, source, alpha=1):
    out = np.moveaxis(x.copy(), dim, 0)
    np.add.at(out, index, np.moveaxis(source, dim, 0) * x.dtype.type(alpha))
    return np.moveaxis(out, 0, dim)


def _index_copy(x, dim, index, source):
    out = np.moveaxis(x.copy(), dim, 0)
    out[index] = np.moveaxis(source, dim, 0)
    return np.moveaxis(out, 0, dim)


def _index_fill(x, dim, index, value):
    out = np.moveaxis(x.copy(), dim, 0)
    out[index] = value
    return np.moveaxis(out, 0, dim)


def _index_reduce(x, dim, index, source, reduce, include_self=True):
    out, rows = np.moveaxis(x.copy(), dim, 0).copy(), np.moveaxis(source, dim, 0)
    for i in np.unique(index):
        values = [out[i]] if include_self else []
        out[i] = _fold(values + [rows[j] for j in np.flatnonzero(index == i)], reduce).astype(x.dtype)
    return np.moveaxis(out, 0, dim)


def _index_put(x, indices, values, accumulate=False):
    out = x.copy()
    where = tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        np.add.at(out, where, values)
    else:
        out[where] = values
    return out


def _index_put_samples(dtype):
    x = make(dtype, (3, 4))
    yield S(x, (index([0, 2]), index([1, 3])), make(dtype, (2,), salt=1))
    yield S(x, [index([1])], make(dtype, (4,), salt=1))
    yield S(x, (mask([[True, False, False, True]] * 3),), make(dtype, (), salt=1))
    if dtype in NUMERIC:
        yield S(x, (index([0, 0, 2]), index([1, 1, 3])), make(dtype, (3,), salt=1), accumulate=True)


def _put(x, index, source, accumulate=False):
    out = x.copy().reshape(-1)
    if accumulate:
        np.add.at(out, index.reshape(-1), source.reshape(-1))
    else:
        out[index.reshape(-1)] = source.reshape(-1)
    return out.reshape(x.shape)


def _take_along_dim(x, indices, dim=None):
    if dim is None:
        return x.reshape(-1)[indices.reshape(-1)]
    return np.take_along_axis(x, indices, dim)


def _masked_fill(x, mask, value):
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def _masked_scatter(x, mask, source):
    full = np.broadcast_to(mask, x.shape)
    out = x.copy()
    out[full] = source.reshape(-1)[: int(full.sum())]
    return out


def _assigned(change):
    def ref(x, *args, **kwargs):
        out = x.copy()
        change(out, *args, **kwargs)
        return out

    return ref


def _select_scatter(out, src, dim, index):
    np.moveaxis(out, dim, 0)[index] = src


def _slice_scatter(out, src, dim=0, start=None, end=None, step=1):
    np.moveaxis(out, dim, 0)[slice(start, end, step)] = np.moveaxis(src, dim, 0)


def _diagonal_scatter(out, src, offset=0, dim1=0, dim2=1):
    n = src.shape[-1]
    rows = np.arange(n) + max(-offset, 0)
    cols = np.arange(n) + max(offset, 0)
    out[rows, cols] = src


def _as_strided_scatter(out, src, size, stride, storage_offset=0):
    flat = out.reshape(-1)
    for place in np.ndindex(*size):
        flat[storage_offset + sum(p * s for p, s in zip(place, stride, strict=True))] = src[place]


def large_index(dtype):
    rows, cols = 512, LARGE // 512
    yield make(dtype, (rows, cols)), T((np.arange(rows * cols).reshape(rows, cols) * 7919) % cols, "int64")


X = T(np.ones((2, 3)), "float32")
PLACES = index([[0, 1, 2], [2, 1, 0]])


def index_errors(*tail):
    """What every op with (input, dim, index, …) must refuse."""
    return (
        bad("an index out of range", IndexError, X, 1, index([[0, 3, 0], [0, 0, 0]]), *tail),
        bad("a negative index", IndexError, X, 1, index([[0, -4, 0], [0, 0, 0]]), *tail),
        bad("a dim out of range", IndexError, X, 2, PLACES, *tail),
        bad("a float index", (RuntimeError, IndexError, TypeError), X, 1, T(np.zeros((2, 3)), "float32"), *tail),
        bad("an index of another rank", RuntimeError, X, 1, index([0, 1]), *tail),
    )


def index_1d_errors(*tail):
    return (
        bad("an index out of range", IndexError, X, 1, index([0, 3, 1]), *tail),
        bad("a dim out of range", IndexError, X, 2, index([0, 1, 2]), *tail),
        bad("a float index", (RuntimeError, IndexError, TypeError), X, 1, T(np.zeros(3), "float32"), *tail),
    )


# fmt: off
ROWS = [
    OpSpec("gather", _gather, _gather_samples, ALL, out=True, keywords=False, errors=index_errors(), expand=False,
           large=lambda d: [S(x, 1, i) for x, i in large_index(d)]),
    OpSpec("scatter", _scatter, _scatter_reduce_old, ALL, inplace=True, out=True, errors=(*index_errors(X),
           bad("a source of another dtype", RuntimeError, X, 1, PLACES, T(np.ones((2, 3)), "float64")),
           bad("a source that is too small", RuntimeError, X, 1, PLACES, T(np.ones((2, 2)), "float32")),
           bad("an unknown reduce", RuntimeError, X, 1, PLACES, X, reduce="median")), expand=False),
    OpSpec("scatter_add", lambda x, dim, i, src: _scatter(x, dim, i, src, "add"), _scatter_add_samples, NUMERIC,
           inplace=True,
           out=True, errors=index_errors(X), expand=False, tolerance=SUMS,
           large=lambda d: [S(x, 1, i, make(d, x.shape, salt=1)) for x, i in large_index(d)]),
    OpSpec("scatter_reduce", _scatter_reduce, _scatter_reduce_samples, REAL, inplace=True, out=True, tolerance=SUMS,
           errors=(*index_errors(X, "sum"), bad("an unknown reduce", (ValueError, RuntimeError), X, 1, PLACES, X,
           "median")),
           expand=False),
    OpSpec("index_select", lambda x, dim, i: np.take(x, i, axis=dim), lambda d: [S(make(d, (3, 4)), 0,
           index([2, 0, 2])),
           S(make(d, (3, 4)), -1, index([1])), S(make(d, (3, 4)), 1, index([]))], ALL, out=True,
           errors=index_1d_errors(),
           large=lambda d: [S(make(d, (512, 600)), 0, T(np.arange(700) * 7919 % 512, "int64"))], expand=False),
    OpSpec("index_add", _index_add, lambda d: [S(make(d, (3, 4)), 0, index([2, 0, 2]), make(d, (3, 4), salt=1)),
           S(make(d, (3, 4)), 1, index([1, 1]), make(d, (3, 2), salt=1), alpha=2)], NUMERIC, inplace=True, out=True,
           tolerance=SUMS, expand=False, errors=(*index_1d_errors(X),
           bad("a source of another shape", (RuntimeError, IndexError), X, 1, index([0, 1]), X))),
    OpSpec("index_copy", _index_copy, lambda d: [S(make(d, (3, 4)), 0, index([2, 0]), make(d, (2, 4), salt=1)),
           S(make(d, (3, 4)), 1, index([1, 3]), make(d, (3, 2), salt=1))], ALL, inplace=True, out=True, expand=False,
           errors=(*index_1d_errors(X), bad("a source of another shape", (RuntimeError, IndexError), X, 1,
           index([0, 1]), X))),
    OpSpec("index_fill", _index_fill, lambda d: [S(make(d, (3, 4)), 0, index([2, 0]), 1),
           S(make(d, (3, 4)), 1, index([1]),
           T(1, d))], ALL, inplace=True, expand=False, errors=index_1d_errors(1)),
    OpSpec("index_reduce", _index_reduce, lambda d: [S(make(d, (3, 4), 1, 3), 0, index([2, 0, 2]),
           make(d, (3, 4), 1, 3, 1),
           how, include_self=keep) for how in ("prod", "amax", "amin") for keep in (True, False)], REAL, inplace=True,
           out=True, expand=False, tolerance=SUMS, errors=(*index_1d_errors(X, "prod"),
           bad("an unknown reduce", RuntimeError, X, 1, index([0, 1, 2]), X, "median"))),
    OpSpec("index_put", _index_put, _index_put_samples, ALL, inplace=True, expand=False, tolerance=SUMS, errors=(
           bad("an index out of range", IndexError, X, (index([2]),), T(1.0, "float32")),
           bad("too many indices", IndexError, X, (index([0]),) * 3, T(1.0, "float32")),
           bad("values that do not broadcast", RuntimeError, X, (index([0, 1]),), T(np.ones((5, 7)), "float32")))),
    OpSpec("put", _put, lambda d: [S(make(d, (3, 4)), index([0, 5, 11]), make(d, (3,), salt=1)),
           S(make(d, (3, 4)), index([[0, -1]]), make(d, (1, 2), salt=1))], ALL, function=False, inplace=True,
           expand=False,
           errors=(bad("an index out of range", IndexError, X, index([6]), T([1.0], "float32")),
                   bad("a source of another size", RuntimeError, X, index([0, 1]), T([1.0], "float32")))),
    OpSpec("take", lambda x, i: x.reshape(-1)[i], lambda d: [S(make(d, (3, 4)), index([0, 5, -1])),
           S(make(d, (3, 4)), index([[0, 11], [2, 2]])), S(make(d, (3, 4)), index([]))], ALL, out=True, expand=False,
           errors=(bad("an index out of range", IndexError, X, index([6])),
           bad("a float index", (RuntimeError, TypeError,
                   IndexError), X, X))),
    OpSpec("take_along_dim", _take_along_dim, lambda d: [S(make(d, (3, 4)), index([[0, 3], [1, 1], [2, 0]]), 1),
           S(make(d, (3, 4)), index([[0, 2, 1, 1]]), dim=0), S(make(d, (3, 4)), index([3, 1]))], ALL, out=True,
           expand=False,
           errors=(bad("an index out of range", IndexError, X, index([[3], [0]]), 1),)),
    OpSpec("masked_fill", _masked_fill, lambda d: [S(make(d, (3, 4)), mask([[True, False, True, False]] * 3), 1),
           S(make(d, (3, 4)), mask([True, False, False, True]), T(1, d)), S(make(d, ()), mask(True), 0)], ALL,
           inplace=True,
           expand=False, errors=(bad("an integer mask", RuntimeError, X, index([0, 1, 1]), 1.0),
           bad("a mask that does not broadcast", RuntimeError, X, mask([True, False]), 1.0),
           bad("a value with dimensions", RuntimeError, X, mask([True, False, True]), T([1.0], "float32"))),
           large=lambda d: [S(make(d, (LARGE,)), T(np.arange(LARGE) % 3 == 0, "bool"), 1)]),
    OpSpec("masked_scatter", _masked_scatter, lambda d: [S(make(d, (3, 4)), mask([[True, False, True, False]] * 3),
           make(d, (7,), salt=1)), S(make(d, (3, 4)), mask([True, False, False, True]), make(d, (2, 3), salt=1))], ALL,
           inplace=True, expand=False, errors=(bad("too few source elements", RuntimeError, X, mask([True] * 3),
           T([1.0], "float32")), bad("another dtype", RuntimeError, X, mask([True] * 3), T(np.ones(9), "float64")))),
    OpSpec("select_scatter", _assigned(_select_scatter), lambda d: [S(make(d, (3, 4)), make(d, (4,), salt=1), 0, 1),
           S(make(d, (3, 4)), make(d, (3,), salt=1), 1, -1)], ALL, keywords=False, errors=(
           bad("an index out of range", IndexError, X, T(np.ones(3), "float32"), 0, 2),
           bad("a source of another shape", RuntimeError, X, T(np.ones(4), "float32"), 0, 1))),
    OpSpec("slice_scatter", _assigned(_slice_scatter), lambda d: [S(make(d, (5, 4)), make(d, (2, 4), salt=1), 0, 1, 3),
           S(make(d, (5, 4)), make(d, (5, 2), salt=1), dim=1, start=0, end=4, step=2)], ALL, errors=(
           bad("a source of another shape", RuntimeError, X, X, 0, 0, 1),
           bad("a step of zero", (ValueError, RuntimeError), X, X,
               0, 0, 2, 0))),
    OpSpec("diagonal_scatter", _assigned(_diagonal_scatter), lambda d: [S(make(d, (3, 3)), make(d, (3,), salt=1)),
           S(make(d, (3, 4)), make(d, (3,), salt=1), 1), S(make(d, (3, 3)), make(d, (2,), salt=1), offset=-1)], ALL,
           errors=(bad("a source of another shape", RuntimeError, X, T(np.ones(5), "float32")),)),
    OpSpec("as_strided_scatter", _assigned(_as_strided_scatter), lambda d: [S(make(d, (3, 4)), make(d, (2, 2), salt=1),
           (2, 2),
           (4, 1), 1)], ALL, layouts=False, errors=(bad("out of the storage", RuntimeError, X, X, (2, 3), (100, 1)),)),
    OpSpec("unravel_index", lambda i, shape: tuple(np.unravel_index(i, shape)), lambda d: [S(T([0, 5, 11], d), (3, 4)),
           S(T([[1, 2]], d), (2, 2, 3))], ("int32", "int64"), "int64", method=False,
           errors=(bad("a float index", (TypeError, RuntimeError), X, (2, 3)),)),
]
# fmt: on
