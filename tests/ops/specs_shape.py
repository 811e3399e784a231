"""Views, shapes, joining and splitting."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.linalg

from .samples import index, make
from .spec import ALL, COMPLEX, FULL_FLOATS, NUMERIC, OpSpec, S, T, bad

X = T(np.ones((2, 3)), "float32")
V = T(np.ones(3), "float32")


def calls(*cases, shape=(3, 4, 2)):
    """The same tensor with each case's remaining arguments: a tuple, or a dict of keywords."""

    def samples(dtype):
        x = make(dtype, shape)
        for case in cases:
            if isinstance(case, dict):
                yield S(x, **case)
            else:
                yield S(x, *case)

    return samples


def of_shapes(*shapes):
    def samples(dtype):
        for shape in shapes:
            yield S(make(dtype, shape))

    return samples


def view(name, ref, samples, *errors, **kw):
    return OpSpec(name, ref, samples, ALL, errors=errors, **{"exact": True, "view": True, **kw})


def copy(name, ref, samples, *errors, **kw):
    return OpSpec(name, ref, samples, kw.pop("dtypes", ALL), errors=errors, **{"exact": True, **kw})


def lists(*groups, **kwargs):
    """Sequences of tensors with the given shapes."""

    def samples(dtype):
        for shapes in groups:
            yield S([make(dtype, s, salt=i) for i, s in enumerate(shapes)], **kwargs)

    return samples


def spread(*groups):
    """Tensors of the given shapes as separate arguments."""

    def samples(dtype):
        for shapes in groups:
            yield S(*(make(dtype, s, salt=i) for i, s in enumerate(shapes)))

    return samples


def out_of_range(*tail):
    return bad("a dim out of range", IndexError, X, 5, *tail)


def _flatten(x, start_dim=0, end_dim=-1):
    n = max(x.ndim, 1)
    a, b = start_dim % n, end_dim % n
    shape = x.shape or (1,)
    return x.reshape(shape[:a] + (int(np.prod(shape[a : b + 1])),) + shape[b + 1 :])


def _unflatten(x, dim, sizes):
    dim %= x.ndim
    return x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim + 1 :])


def _squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [d % x.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    return np.squeeze(x, axis=tuple(d for d in dims if x.shape[d] == 1))


def _split(x, size, dim=0):
    if isinstance(size, int):
        n = x.shape[dim]
        cuts = list(range(size, n, size))
    else:
        cuts = list(np.cumsum(size)[:-1])
    return np.split(x, cuts, axis=dim)


def _chunk(x, chunks, dim=0):
    return _split(x, -(-x.shape[dim] // chunks), dim)


def _tensor_split(x, parts, dim=0):
    return np.array_split(x, parts.tolist() if isinstance(parts, np.ndarray) else parts, axis=dim)


def _narrow(x, dim, start, length):
    return np.take(x, range(int(start) % max(x.shape[dim], 1), int(start) % max(x.shape[dim], 1) + length), axis=dim)


def _unfold(x, dimension, size, step):
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dimension)
    return np.take(windows, range(0, windows.shape[dimension], step), axis=dimension)


def _as_strided(x, size, stride, storage_offset=0):
    flat = x.reshape(-1)
    out = np.empty(size, x.dtype)
    for place in np.ndindex(*size):
        out[place] = flat[storage_offset + sum(p * s for p, s in zip(place, stride, strict=True))]
    return out


def _diag_embed(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _repeat_interleave(x, repeats, dim=None, output_size=None):
    return np.repeat(x, repeats, axis=dim)


def _roll(x, shifts, dims=None):
    return np.roll(x, shifts, axis=dims)


def _repeat(x, *sizes):
    sizes = sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes
    return np.tile(x, sizes)


def _combinations(x, r=2, with_replacement=False):
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(pick(x, r)), x.dtype).reshape(-1, r)


def _cartesian_prod(*parts):
    return parts[0] if len(parts) == 1 else np.array(list(itertools.product(*parts)), parts[0].dtype)


def _meshgrid(*parts, indexing="ij"):
    return list(np.meshgrid(*parts, indexing=indexing))


def _reshape(x, *shape):
    shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
    return x.reshape(shape)


def _expand(x, *shape):
    shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
    full = tuple(o if s == -1 else s for s, o in zip(shape, (1,) * (len(shape) - x.ndim) + x.shape, strict=True))
    return np.broadcast_to(x, full)


def _t(x):
    return x.T


def _pixel_shuffle(x, r):
    n, c, h, w = x.shape
    return x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


def _pixel_unshuffle(x, r):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r**2, h // r, w // r)


def _constant_pad(x, pad, value=0):
    """Pairs from the last dimension on; a negative width cuts."""
    widths = [(0, 0)] * (x.ndim - len(pad) // 2) + [tuple(pad[i : i + 2]) for i in range(len(pad) - 2, -1, -2)]
    for dim, (before, after) in enumerate(widths):
        n = x.shape[dim]
        x = np.take(x, range(max(-before, 0), n - max(-after, 0)), axis=dim)
    return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=value)


def _channel_shuffle(x, g):
    n, c, h, w = x.shape
    return x.reshape(n, g, c // g, h, w).swapaxes(1, 2).reshape(n, c, h, w)


THREE = calls((0, 1), (1, -1), (-1, 0))
CAT_ERRORS = (
    bad("no tensors", (ValueError, RuntimeError), []),
    bad("shapes that do not fit", RuntimeError, [X, T(np.ones((3, 4)), "float32")], 0),
    bad("a dim out of range", IndexError, [X, X], 3),
    bad("a tensor instead of a list", TypeError, "x"),
)


def _cat_samples(dtype):
    x = make(dtype, (2, 3))
    yield S([x, make(dtype, (1, 3), salt=1)])
    yield S([x, make(dtype, (2, 1), salt=1), make(dtype, (2, 0))], 1)
    yield S((x, make(dtype, (2, 3), salt=1)), dim=-1)


def _large_cat(dtype):
    yield S([make(dtype, (300, 300)), make(dtype, (300, 500), salt=1)], 1)



# fmt: off
VIEWS = [
    view("reshape", _reshape, calls(((4, 6),), ((-1,),), ((2, 3, 4),), ((3, -1, 1),)),
         bad("a wrong size", RuntimeError, X, (4, 2)), bad("two unknown sizes", RuntimeError, X, (-1, -1)),
         bad("a negative size", RuntimeError, X, (-2, 3)), bad("an overflow", RuntimeError, X, (2**40, 2**40)),
         view=False),
    view("view", _reshape, calls(((4, 6),), (-1,), (2, 12), ((3, -1, 1),)),
         bad("a wrong size", RuntimeError, X, (4, 2)), bad("two unknown sizes", RuntimeError, X, (-1, -1)),
         function=False, layouts=False),
    view("view_as", lambda x, o: x.reshape(o.shape), lambda d: [S(make(d, (3, 4)), make(d, (2, 6)))],
         bad("a wrong size", RuntimeError, X, V), function=False, layouts=False),
    view("reshape_as", lambda x, o: x.reshape(o.shape), lambda d: [S(make(d, (3, 4)), make(d, (2, 6)))],
         bad("a wrong size", RuntimeError, X, V), function=False, view=False),
    view("permute", lambda x, dims: x.transpose(dims), calls(((2, 0, 1),), ((0, -1, 1),)),
         bad("too few dims", RuntimeError, X, (0,)), bad("a dim given twice", RuntimeError, X, (0, 0)),
         bad("a dim out of range", IndexError, X, (0, 2))),
    view("transpose", np.swapaxes, THREE, bad("a dim out of range", IndexError, X, 0, 2)),
    view("swapaxes", np.swapaxes, THREE, bad("a dim out of range", IndexError, X, 0, 2), canonical="transpose"),
    view("swapdims", np.swapaxes, THREE, bad("a dim out of range", IndexError, X, 0, 2), canonical="transpose"),
    view("t", _t, of_shapes((3, 4), (3,), ()), bad("three dimensions", RuntimeError, T(np.ones((1, 1, 1)), "float32"))),
    view("adjoint", lambda x: np.conj(np.swapaxes(x, -1, -2)), of_shapes((3, 4), (2, 3, 4)),
         bad("a vector", RuntimeError, V), view=False, exact=False),
    view("movedim", np.moveaxis, calls((0, 2), ((0, 1), (2, 0)), (-1, 0)),
         bad("a dim out of range", IndexError, X, 0, 2),
         bad("lengths that differ", (ValueError, RuntimeError), X, (0, 1), (0,))),
    view("moveaxis", np.moveaxis, calls((0, 2), ((0, 1), (2, 0))), bad("a dim out of range", IndexError, X, 0, 2),
         canonical="movedim"),
    view("squeeze", _squeeze, calls((), (0,), (-1,), ((0, 2),), (1,), shape=(1, 4, 1)), out_of_range()),
    view("unsqueeze", lambda x, dim: np.expand_dims(x, dim), calls((0,), (-1,), (3,), {"dim": 1}), out_of_range(),
         bad("a string", TypeError, X, "x")),
    view("flatten", _flatten, lambda d: [S(make(d, (3, 4, 2))), S(make(d, (3, 4, 2)), 1), S(make(d, (3, 4, 2)), 0, 1),
         S(make(d, ())), S(make(d, (3, 4, 2)), start_dim=-2)],
         bad("an end before the start", RuntimeError, X, 1, 0), out_of_range(), view=False),
    view("unflatten", _unflatten, calls((1, (2, 2)), (-1, (1, -1)), (0, (3,))), out_of_range((1, 5)),
         bad("a wrong size", RuntimeError, X, 1, (2, 2))),
    view("ravel", np.ravel, of_shapes((3, 4), (), (0, 2)), view=False),
    view("expand", _expand, calls(((3, 4),), (5, 3, 4), ((2, -1, -1),), shape=(3, 1)), bad("a size that does not fit",
         RuntimeError, X, (5, 3)), bad("too few sizes", RuntimeError, X, (3,)), function=False),
    view("expand_as", lambda x, o: np.broadcast_to(x, o.shape), lambda d: [S(make(d, (3, 1)), make(d, (2, 3, 4)))],
         bad("a shape that does not fit", RuntimeError, X, V), function=False),
    view("broadcast_to", np.broadcast_to, calls(((3, 4),), ((5, 3, 4),), shape=(3, 1)),
         bad("a size that does not fit", RuntimeError, X, (5, 3))),
    view("diagonal", lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2), calls((), (1,), (-1, 0, 2),
         {"dim1": 1, "dim2": 2}), bad("the same dim twice", RuntimeError, X, 0, 1, 1),
         bad("a vector", (RuntimeError, IndexError), V)),
    view("select", lambda x, dim, i: np.take(x, i, axis=dim), calls((0, 1), (1, -1), (-1, 0)),
         bad("an index out of range", IndexError, X, 0, 2), out_of_range(0)),
    view("narrow", _narrow, calls((0, 1, 2), (1, 0, 3), (2, -1, 1), (1, 4, 0)),
         bad("past the end", RuntimeError, X, 1, 2, 2),
         bad("a negative length", RuntimeError, X, 1, 0, -1), out_of_range(0, 1)),
    view("unbind", lambda x, dim=0: [np.take(x, i, axis=dim) for i in range(x.shape[dim])],
         calls((), (1,), {"dim": -1}),
         out_of_range(), bad("a 0-d tensor", (RuntimeError, IndexError), T(1.0, "float32"))),
    view("unfold", _unfold, calls((1, 2, 1), (1, 3, 2), (0, 3, 1)), bad("a window too large", RuntimeError, X, 1, 4, 1),
         bad("a step of zero", RuntimeError, X, 1, 2, 0), function=False),
    view("as_strided", _as_strided, calls(((2, 2), (8, 1)), ((3,), (5,), 2), ((2, 3), (0, 1)), shape=(3, 4, 2)),
         bad("past the storage", RuntimeError, X, (10,), (1,)), bad("a negative offset", RuntimeError, X, (1,), (1,),
         -1),
         bad("an overflow", RuntimeError, X, (2**40, 2**40), (2**40, 1)),
         bad("lengths that differ", RuntimeError, X, (1, 2), (1,)),
         layouts=False),
    view("split", _split, calls((2,), (3, 1), ((1, 3), 1), ([1, 1], -1)),
         bad("a wrong sum", RuntimeError, X, (1, 3), 1),
         bad("a negative size", RuntimeError, X, -1), bad("a dim out of range", IndexError, X, 1, 2)),
    view("split_with_sizes", _split, calls(((1, 3), 1), ([1, 1], -1)), bad("a wrong sum", RuntimeError, X, (1, 3), 1)),
    view("chunk", _chunk, calls((2,), (3, 1), (9, 0)), bad("no chunks", RuntimeError, X, 0)),
    view("tensor_split", _tensor_split, lambda d: [S(make(d, (5, 4)), 3), S(make(d, (5, 4)), (1, 3), 1),
         S(make(d, (5, 4)), index([1, 2])), S(make(d, (5, 4)), 2, dim=-1)], bad("no parts", RuntimeError, X, 0)),
    view("hsplit", np.hsplit, calls((2,), ((1, 3),)), bad("parts that do not divide", RuntimeError, X, 2)),
    view("vsplit", np.vsplit, calls((3,), ((1, 2),)), bad("parts that do not divide", RuntimeError,
         T(np.ones((3, 2)), "float32"), 2),
         bad("a vector", RuntimeError, V, 3)),
    view("dsplit", np.dsplit, calls((2,), ((1,),)), bad("two dimensions", RuntimeError, X, 1)),
    OpSpec("view_as_real", lambda x: np.stack([x.real, x.imag], -1), of_shapes((3, 4), ()), COMPLEX, "real", view=True,
           method=False, errors=(bad("a real tensor", RuntimeError, X),)),
    OpSpec("view_as_complex", lambda x: x[..., 0] + 1j * x[..., 1], of_shapes((3, 4, 2), (2,)), FULL_FLOATS, "complex",
           view=True, method=False, layouts=False, errors=(bad("a last dimension of 3", RuntimeError, X),
           bad("a 0-d tensor", RuntimeError, T(1.0, "float32")))),
]

COPIES = [
    copy("contiguous", lambda x: x, of_shapes((3, 4), (), (0, 2)), function=False),
    copy("narrow_copy", _narrow, calls((0, 1, 2), (1, 0, 3)), bad("past the end", RuntimeError, X, 1, 2, 2)),
    copy("repeat", _repeat, calls((2, 1, 3), ((2, 1, 1, 2),), ((0, 1, 1),)), bad("too few sizes", RuntimeError, X, 2),
         bad("a negative count", RuntimeError, X, -1, 2), bad("an overflow", RuntimeError, X, 2**40, 2**40),
         function=False),
    copy("tile", np.tile, calls(((2,),), ((2, 1, 3),), ((2, 1, 1, 1),)),
         bad("a negative count", RuntimeError, X, (-1,))),
    copy("repeat_interleave", _repeat_interleave, lambda d: [S(make(d, (3, 2)), 2), S(make(d, (3, 2)), 2, dim=0),
         S(make(d, (3, 2)), index([1, 0, 3]), 0), S(make(d, (3, 2)), index([2]), dim=1)],
         bad("a negative count", RuntimeError, X, -1), bad("counts of another length", RuntimeError, X, index([1, 2]),
         1)),
    copy("roll", _roll, calls((1,), (2, 0), (-1, 1), ((1, 2), (0, 1)), {"shifts": 7, "dims": -1}),
         bad("lengths that differ", RuntimeError, X, (1, 2), (0,)), bad("a dim out of range", IndexError, X, 1, 2)),
    copy("flip", lambda x, dims: np.flip(x, dims), calls(((0,),), ((0, 2),), ((-1, 1),)),
         bad("a dim out of range", IndexError, X,
         (2,)), bad("a dim given twice", RuntimeError, X, (0, 0)),
         large=lambda d: [S(make(d, (500, 600)), (0, 1))]),
    copy("fliplr", np.fliplr, of_shapes((3, 4)), bad("a vector", RuntimeError, V)),
    copy("flipud", np.flipud, of_shapes((3, 4), (3,)), bad("a 0-d tensor", RuntimeError, T(1.0, "float32"))),
    copy("rot90", lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims), calls((), (2,), (3, (1, 2)), (-1, (0, 2))),
         bad("the same dim twice", RuntimeError, X, 1, (0, 0)), bad("one dimension", RuntimeError, V)),
    copy("tril", np.tril, lambda d: [S(make(d, (4, 5))), S(make(d, (4, 5)), 1), S(make(d, (2, 3, 3)), -1)],
         bad("a vector", RuntimeError, V), inplace=True, out=True),
    copy("triu", np.triu, lambda d: [S(make(d, (4, 5))), S(make(d, (4, 5)), 1), S(make(d, (2, 3, 3)), -1)],
         bad("a vector", RuntimeError, V), inplace=True, out=True),
    copy("diag", np.diag, lambda d: [S(make(d, (3,))), S(make(d, (3,)), 1), S(make(d, (3, 4))), S(make(d, (3, 4)), -1)],
         bad("three dimensions", RuntimeError, T(np.ones((1, 1, 1)), "float32")), out=True),
    copy("diag_embed", _diag_embed, lambda d: [S(make(d, (3,))), S(make(d, (2, 3)), 1),
         S(make(d, (2, 3)), dim1=0, dim2=2)],
         bad("the same dim twice", RuntimeError, X, 0, 1, 1)),
    copy("diagflat", np.diagflat, lambda d: [S(make(d, (2, 2))), S(make(d, (3,)), -1)]),
]

JOINS = [
    OpSpec("cat", lambda t, dim=0: np.concatenate(t, axis=dim), _cat_samples, method=False, out=True,
           errors=CAT_ERRORS, large=_large_cat),
    OpSpec("concat", lambda t, dim=0: np.concatenate(t, axis=dim), _cat_samples, method=False, out=True,
           errors=CAT_ERRORS, canonical="cat"),
    OpSpec("concatenate", lambda t, dim=0: np.concatenate(t, axis=dim), _cat_samples, method=False, out=True,
           errors=CAT_ERRORS,
           canonical="cat"),
    OpSpec("stack", lambda t, dim=0: np.stack(t, axis=dim), lambda d: [S([make(d, (2, 3)), make(d, (2, 3), salt=1)],
           dim=k) for k
           in (0, 1, -1)], method=False, out=True, errors=(bad("shapes that differ", RuntimeError, [X, V]),
           bad("no tensors", (ValueError, RuntimeError), []), bad("a dim out of range", IndexError, [X], 4))),
    OpSpec("hstack", np.hstack, lists([(2, 3), (2, 1)], [(2,), (3,)], [(), ()]), method=False, out=True, errors=(
           bad("shapes that do not fit", RuntimeError, [X, T(np.ones((3, 3)), "float32")]),)),
    OpSpec("vstack", np.vstack, lists([(2, 3), (1, 3)], [(3,), (3,)]), method=False, out=True, errors=(
           bad("shapes that do not fit", RuntimeError, [X, T(np.ones((3, 4)), "float32")]),)),
    OpSpec("row_stack", np.vstack, lists([(2, 3), (1, 3)]), method=False, out=True, canonical="vstack"),
    OpSpec("dstack", np.dstack, lists([(2, 3), (2, 3)], [(3,), (3,)]), method=False, out=True),
    OpSpec("column_stack", np.column_stack, lists([(3,), (3, 2)], [(3,), (3,)]), method=False, out=True),
    OpSpec("block_diag", scipy.linalg.block_diag, spread(((2, 3), (1, 1), (3,))), NUMERIC, method=False),
    OpSpec("broadcast_tensors", lambda *t: list(np.broadcast_arrays(*t)), spread(((3, 1), (4,)), ((), (2,))),
           method=False,
           errors=(bad("shapes that do not broadcast", RuntimeError, X, T(np.ones(4), "float32")),)),
    OpSpec("meshgrid", _meshgrid, lambda d: [S(make(d, (3,)), make(d, (2,)), indexing="ij"),
           S(make(d, (3,)), make(d, (2,)), indexing="xy")], method=False, errors=(
           bad("an unknown indexing", RuntimeError, V, V, indexing="yx"),
           bad("a matrix", RuntimeError, X, V, indexing="ij"))),
    OpSpec("cartesian_prod", _cartesian_prod, spread(((3,), (2,)), ((2,),)), method=False,
           errors=(bad("a matrix", RuntimeError, X, V),)),
    OpSpec("combinations", _combinations, lambda d: [S(make(d, (4,))), S(make(d, (4,)), 3), S(make(d, (3,)),
           with_replacement=True)], method=False, errors=(bad("a matrix", RuntimeError, X),)),
    *(OpSpec(f"atleast_{n}d", ref, of_shapes((), (3,), (2, 3), (1, 2, 3)) if n < 3 else of_shapes((2, 3, 4)),
    method=False)
      for n, ref in ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d))),
    OpSpec("constant_pad_nd", _constant_pad, calls(((1, 2),), ((0, 1, 2, 0),), ((-1, 1), 1), ((1, 1, -1, 0, 2, 0), 0)),
           method=False, exact=True, errors=(bad("an odd number of widths", RuntimeError, X, (1,)),
           bad("more pairs than dimensions", RuntimeError, X, (1,) * 6),
           bad("cut to nothing and beyond", RuntimeError, X, (-2, -2)))),
    OpSpec("pixel_shuffle", _pixel_shuffle, lambda d: [S(make(d, (2, 8, 3, 2)), 2)], FULL_FLOATS, method=False,
           exact=True,
           errors=(bad("channels that do not divide", RuntimeError, T(np.ones((1, 3, 2, 2)), "float32"), 2),)),
    OpSpec("pixel_unshuffle", _pixel_unshuffle, lambda d: [S(make(d, (2, 2, 4, 6)), 2)], FULL_FLOATS, method=False,
           exact=True,
           errors=(bad("sizes that do not divide", RuntimeError, T(np.ones((1, 3, 3, 3)), "float32"), 2),)),
    OpSpec("channel_shuffle", _channel_shuffle, lambda d: [S(make(d, (2, 6, 2, 2)), 3)], FULL_FLOATS, method=False,
           exact=True),
]
# fmt: on
ROWS = VIEWS + COPIES + JOINS
