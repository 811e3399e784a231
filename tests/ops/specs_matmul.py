"""Products of matrices and vectors."""

from __future__ import annotations

import numpy as np
from scipy.spatial import distance

from .samples import make
from .spec import FULL_FLOATS, INEXACT, NUMERIC, OpSpec, S, T, bad

SUMS = {
    "float16": (2e-2, 5e-2),
    "bfloat16": (8e-2, 2e-1),
    "float32": (2e-5, 2e-5),
    "complex64": (5e-5, 5e-5),
}
X = T(np.ones((2, 3)), "float32")
V = T(np.ones(3), "float32")


def pairs(*shapes):
    def samples(dtype):
        for a, b in shapes:
            yield S(make(dtype, a), make(dtype, b, salt=1))

    return samples


def product(name, ref, samples, *errors, dtypes=NUMERIC, **kw):
    kw = {"tolerance": SUMS, "out": True, "expand": True, **kw}
    return OpSpec(name, ref, samples, dtypes, errors=errors, **kw)


def added(ref):
    """beta * input + alpha * product."""

    def wrapped(x, a, b, beta=1, alpha=1):
        kind = np.result_type(a, b).type
        total = kind(alpha) * ref(a, b)
        base = 0 if beta == 0 else kind(beta) * x
        return np.broadcast_to(base + total, np.broadcast_shapes(np.shape(base), total.shape))

    return wrapped


def triples(*shapes):
    def samples(dtype):
        for shape in shapes:
            x = [make(dtype, s, salt=i) for i, s in enumerate(shape)]
            yield S(*x)
            yield S(*x, beta=2, alpha=3)
            if dtype in INEXACT:
                yield S(*x, beta=0.5, alpha=-1.5)
                yield S(T(np.full(shape[0], np.nan), dtype), *x[1:], beta=0)

    return samples


def _einsum_samples(dtype):
    a, b, c = make(dtype, (3, 4)), make(dtype, (4, 2), salt=1), make(dtype, (2, 3, 4), salt=2)
    yield S("ij,jk->ik", a, b)
    yield S("ij,jk", a, b)
    yield S("ij->ji", a)
    if dtype in INEXACT:
        yield S("ij->", a)
    yield S("ii->i", make(dtype, (3, 3)))
    if dtype in INEXACT:
        yield S("ii", make(dtype, (3, 3)))
    yield S("bij,jk->bik", c, b)
    yield S("...ij,...kj->...ik", c, a)
    yield S("i,j->ij", make(dtype, (3,)), make(dtype, (2,)))
    yield S("ij,jk,kl->il", a, b, make(dtype, (2, 5)))


def _tensordot_samples(dtype):
    yield S(make(dtype, (2, 3, 4)), make(dtype, (3, 4, 5)))
    yield S(make(dtype, (2, 3)), make(dtype, (4,)), dims=0)
    yield S(make(dtype, (2, 3, 4)), make(dtype, (4, 3)), dims=([1, 2], [1, 0]))


def _tensordot(a, b, dims=2):
    return np.tensordot(a, b, dims)


def _cross(a, b, dim=None):
    if dim is None:
        dim = next(i for i, n in enumerate(np.broadcast_shapes(a.shape, b.shape)) if n == 3)
    return np.cross(a, b, axis=dim)


def _linalg_cross(a, b, dim=-1):
    return np.cross(a, b, axis=dim)


def _cdist(a, b, p=2.0):
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    out = np.empty((*batch, a.shape[-2], b.shape[-2]))
    for place in np.ndindex(batch):
        out[place] = distance.cdist(a[place], b[place], "minkowski", p=p) if p != np.inf else distance.cdist(
            a[place], b[place], "chebyshev")
    return out


def _vecdot(a, b, dim=-1):
    return (np.conj(a) * b).sum(axis=dim)


INNER = bad("inner sizes that differ", RuntimeError, X, X)
MIXED = bad("dtypes that differ", RuntimeError, X, T(np.ones((3, 2)), "float64"))
# fmt: off
ROWS = [
    product("matmul", np.matmul, pairs(((3, 4), (4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)),
            ((2, 3, 4), (4, 2)),
            ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2)), ((2, 3, 4), (4,))), INNER, MIXED,
            bad("a 0-d tensor", RuntimeError, T(1.0, "float32"), V), bad("a number", TypeError, X, 2.0),
            bad("batches that do not broadcast", RuntimeError, T(np.ones((2, 3, 3)), "float32"),
            T(np.ones((3, 3, 3)), "float32")),
            large=lambda d: [S(make(d, (200, 301)), make(d, (301, 150))),
            S(make(d, (6, 60, 70)), make(d, (6, 70, 50)))]),
    product("mm", np.matmul, pairs(((3, 4), (4, 2)), ((1, 5), (5, 1)), ((0, 4), (4, 2)), ((3, 0), (0, 2))), INNER,
            MIXED,
            bad("a vector", RuntimeError, X, V), large=lambda d: [S(make(d, (200, 301)), make(d, (301, 150)))]),
    product("bmm", np.matmul, pairs(((2, 3, 4), (2, 4, 5)), ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 5))),
            bad("a matrix", RuntimeError, X, X), bad("batches that differ", RuntimeError,
            T(np.ones((2, 3, 3)), "float32"),
            T(np.ones((3, 3, 3)), "float32")), large=lambda d: [S(make(d, (16, 60, 70)), make(d, (16, 70, 50)))]),
    product("mv", np.matmul, pairs(((3, 4), (4,)), ((0, 4), (4,)), ((3, 0), (0,))),
            bad("inner sizes that differ", RuntimeError,
            X, T(np.ones(2), "float32")), bad("a matrix", RuntimeError, X, X), large=lambda d: [S(make(d, (700, 600)),
            make(d, (600,)))]),
    product("dot", np.dot, pairs(((5,), (5,)), ((0,), (0,))), bad("lengths that differ", RuntimeError, V,
            T(np.ones(4), "float32")),
            bad("a matrix", RuntimeError, X, X), large=lambda d: [S(make(d, (300001,)), make(d, (300001,), salt=1))]),
    product("vdot", np.vdot, pairs(((5,), (5,)), ((0,), (0,))), bad("lengths that differ", RuntimeError, V,
            T(np.ones(4), "float32"))),
    product("inner", np.inner, pairs(((3, 4), (2, 4)), ((4,), (4,)), ((2, 3, 4), (4,))), bad("last sizes that differ",
            RuntimeError, X, T(np.ones(4), "float32"))),
    product("outer", np.outer, pairs(((3,), (4,)), ((0,), (2,))), bad("a matrix", RuntimeError, X, V)),
    product("ger", np.outer, pairs(((3,), (4,))), bad("a matrix", RuntimeError, X, V), canonical="outer"),
    product("kron", np.kron, pairs(((2, 3), (3, 2)), ((3,), (2,)), ((2, 2), (3,)))),
    product("addmm", added(np.matmul), triples(((3, 2), (3, 4), (4, 2)), ((2,), (3, 4), (4, 2))),
            bad("inner sizes that differ",
            RuntimeError, X, X, X), bad("an input that does not fit", RuntimeError, T(np.ones(7), "float32"), X,
            T(np.ones((3, 2)), "float32")), inplace=True, expand=False),
    product("addmv", added(np.matmul), triples(((3,), (3, 4), (4,))), bad("inner sizes that differ", RuntimeError, V,
            X, X),
            inplace=True, expand=False),
    product("addr", added(np.outer), triples(((3, 4), (3,), (4,)), ((4,), (3,), (4,))),
            bad("a matrix", RuntimeError, X, X, V),
            inplace=True, expand=False),
    product("addbmm", added(lambda a, b: np.matmul(a, b).sum(axis=0)), triples(((3, 2), (2, 3, 4), (2, 4, 2))),
            bad("matrices", RuntimeError, X, X, X), inplace=True, expand=False,
            tolerance={**SUMS, "float16": (5e-2, 2e-1), "bfloat16": (1e-1, 1.0)}),
    product("baddbmm", added(np.matmul), triples(((2, 3, 2), (2, 3, 4), (2, 4, 2)), ((3, 2), (2, 3, 4), (2, 4, 2))),
            bad("matrices", RuntimeError, X, X, X), inplace=True, expand=False),
    OpSpec("einsum", np.einsum, _einsum_samples, NUMERIC, method=False, tolerance=SUMS, expand=True, errors=(
           bad("sizes that differ", RuntimeError, "ij,jk->ik", X, X), bad("too few operands",
           (ValueError, RuntimeError), "ij,jk", X),
           bad("an unknown output letter", RuntimeError, "ij->k", X), bad("too many letters", RuntimeError, "ijk", X),
           bad("a digit", RuntimeError, "i1", X))),
    OpSpec("tensordot", _tensordot, _tensordot_samples, NUMERIC, method=False, out=True, tolerance=SUMS, errors=(
           bad("sizes that differ", RuntimeError, X, X, 1), bad("a negative count", RuntimeError, X, X, -1),
           bad("a dim out of range", (IndexError, RuntimeError), X, X, ([5], [0])))),
    product("cross", _cross, lambda d: [S(make(d, (4, 3)), make(d, (4, 3), salt=1), dim=1),
            S(make(d, (3, 4)), make(d, (3, 4),
            salt=1), 0), S(make(d, (3,)), make(d, (3,), salt=1))], bad("no dimension of 3", RuntimeError,
            T(np.ones(4), "float32"),
            T(np.ones(4), "float32"))),
    product("linalg.cross", _linalg_cross, lambda d: [S(make(d, (4, 3)), make(d, (4, 3), salt=1)),
            S(make(d, (3, 4)), make(d,
            (3, 1), salt=1), dim=0)], bad("a dimension of 4", RuntimeError, T(np.ones(4), "float32"),
            T(np.ones(4), "float32")),
            method=False),
    product("linalg.matmul", np.matmul, pairs(((3, 4), (4, 2)), ((2, 3, 4), (4, 2))), INNER, method=False,
            canonical="matmul"),
    product("linalg.vecdot", _vecdot, lambda d: [S(make(d, (3, 4)), make(d, (3, 4), salt=1)),
            S(make(d, (3, 4)), make(d, (3, 1),
            salt=1), dim=0)], bad("shapes that do not fit", RuntimeError, X, T(np.ones(2), "float32")), method=False,
            dtypes=INEXACT),
    OpSpec("linalg.multi_dot", np.linalg.multi_dot, lambda d: [S([make(d, (3, 4)), make(d, (4, 2)), make(d, (2, 5))]),
           S([make(d, (4,)), make(d, (4, 2)), make(d, (2,))])], NUMERIC, method=False, out=True, tolerance=SUMS,
           errors=(bad("one matrix", (ValueError, RuntimeError), [X]), bad("sizes that differ", RuntimeError, [X, X]))),
    OpSpec("chain_matmul", lambda *m: np.linalg.multi_dot(m), lambda d: [S(make(d, (3, 4)), make(d, (4, 2)),
           make(d, (2, 5)))],
           NUMERIC, method=False, tolerance=SUMS),
    OpSpec("cdist", _cdist, lambda d: [S(make(d, (4, 3)), make(d, (5, 3), salt=1)),
           S(make(d, (2, 4, 3)), make(d, (5, 3), salt=1),
           p=1.0), S(make(d, (4, 3)), make(d, (5, 3), salt=1), p=np.inf),
           S(make(d, (4, 3)), make(d, (5, 3), salt=1), 3.0)],
           FULL_FLOATS, method=False, tolerance={"float32": (1e-3, 1e-3), "float64": (1e-6, 1e-6)}, errors=(
           bad("last sizes that differ", RuntimeError, X, T(np.ones((2, 4)), "float32")),
           bad("a vector", RuntimeError, V, V),
           bad("a negative p", RuntimeError, X, X, -1.0))),
    OpSpec("pdist", lambda x, p=2.0: distance.pdist(x, "minkowski", p=p),
           lambda d: [S(make(d, (5, 3))), S(make(d, (4, 2)), 1.0)],
           FULL_FLOATS, method=False, tolerance=SUMS, errors=(bad("a vector", RuntimeError, V),)),
]
# fmt: on
