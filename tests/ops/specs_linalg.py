"""flambeau.linalg and its older names: factorisations are judged by what they must satisfy, not by their signs."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from .samples import make, spd, well_conditioned
from .spec import COMPLEX, FULL_FLOATS, INEXACT, LAPACK, OpSpec, S, T, bad, to_numpy

LOOSE = {"float32": (2e-4, 2e-4), "complex64": (2e-4, 2e-4), "float64": (1e-9, 1e-9), "complex128": (1e-9, 1e-9)}
SUMS = {"float16": (1e-2, 2e-2), "bfloat16": (5e-2, 6e-2), "float32": (2e-5, 1e-5), "complex64": (5e-5, 2e-5)}
V = T(np.ones(3), "float32")
WIDE = T(np.ones((2, 3)), "float32")
INTEGER = T(np.eye(2), "int64")
SINGULAR = T(np.zeros((2, 2)), "float32")


def matrix_errors(*tail, square=True, integers=True):
    """What a matrix op must refuse."""
    cases = (bad("a vector", RuntimeError, V, *tail),)
    if square:
        cases += (bad("a matrix that is not square", RuntimeError, WIDE, *tail),)
    if integers:
        cases += (bad("an integer matrix", RuntimeError, INTEGER, *tail),)
    return cases


def squares(maker=well_conditioned, *tail):
    def samples(dtype):
        yield S(maker(dtype, 4), *tail)
        yield S(maker(dtype, 3, (2,)), *tail)
        yield S(maker(dtype, 1), *tail)

    return samples


def rectangles(*cases):
    def samples(dtype):
        for shape in ((4, 3), (3, 4), (2, 4, 4), (5, 1)):
            yield S(make(dtype, shape))
        for case in cases:
            yield S(make(dtype, (4, 3)), **case)

    return samples


def empties(dtype):
    yield S(make(dtype, (0, 0)))
    yield S(make(dtype, (2, 0, 0)))


def close(a, b, what):
    eps = 1e-3 if a.dtype in (np.float32, np.complex64) else 1e-8
    assert a.shape == np.shape(b), f"{what}: shape {a.shape}, expected {np.shape(b)}"
    assert np.allclose(a, b, rtol=eps, atol=eps), f"{what}: largest difference {np.abs(a - b).max()}"


def herm(a):
    return np.conj(np.swapaxes(a, -1, -2))


# ---- checks --------------------------------------------------------------------------------------------------------


def check_cholesky(got, a, upper=False):
    factor = to_numpy(got)
    close(factor, np.triu(factor) if upper else np.tril(factor), "not triangular")
    close(herm(factor) @ factor if upper else factor @ herm(factor), a, "the factor does not give the matrix")


def check_cholesky_ex(got, a, upper=False, check_errors=False):
    factor, info = got
    assert (to_numpy(info) == 0).all(), "info is not zero"
    check_cholesky(factor, a, upper)


def check_qr(got, a, mode="reduced"):
    q, r = (to_numpy(t) for t in got)
    close(r, np.triu(r), "R is not triangular")
    if mode == "r":
        close(herm(r) @ r, herm(a) @ a, "R does not belong to the matrix")
        return
    close(herm(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])),
          "Q is not orthonormal")
    close(q @ r, a, "Q R is not the matrix")
    k = min(a.shape[-2:])
    assert q.shape[-1] == (a.shape[-2] if mode == "complete" else k), f"Q has shape {q.shape}"


def check_old_qr(got, a, some=True):
    check_qr(got, a, "reduced" if some else "complete")


def check_svd(got, a, full_matrices=True):
    u, s, vh = (to_numpy(t) for t in got)
    k = min(a.shape[-2:])
    assert (np.diff(s, axis=-1) <= 1e-6).all() and (s >= 0).all(), "singular values are not in descending order"
    close((u[..., :k] * s[..., None, :].astype(u.dtype)) @ vh[..., :k, :], a, "U S Vh is not the matrix")
    assert u.shape[-1] == (a.shape[-2] if full_matrices else k), f"U has shape {u.shape}"
    close(herm(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], u.shape[-1], u.shape[-1])),
          "U is not orthonormal")


def check_old_svd(got, a, some=True, compute_uv=True):
    u, s, v = got
    check_svd((u, s, v.mH), a, not some)


def check_eigh(got, a, UPLO="L"):
    w, v = (to_numpy(t) for t in got)
    assert (np.diff(w, axis=-1) >= -1e-5).all(), "eigenvalues are not ascending"
    close(a @ v.astype(np.result_type(a, v)), v * w[..., None, :],
          "not eigenvectors") if v.dtype.itemsize > 8 else close(
        (a @ v).astype(v.dtype), v * w[..., None, :].astype(v.dtype), "not eigenvectors")


def check_eig(got, a):
    w, v = (to_numpy(t) for t in got)
    close((a @ v).astype(v.dtype), v * w[..., None, :], "not eigenvectors")


def check_eigvals(got, a):
    have = np.sort_complex(to_numpy(got))
    close(have, np.sort_complex(np.linalg.eigvals(a)), "eigenvalues")


def check_lu(got, a, pivot=True):
    p, lower, upper = (to_numpy(t) for t in got)
    close(p @ lower @ upper, a, "P L U is not the matrix")
    close(lower, np.tril(lower), "L is not triangular")
    close(upper, np.triu(upper), "U is not triangular")


def check_lu_factor(got, a, pivot=True):
    packed, pivots = (to_numpy(t) for t in got[:2])
    lower, upper = np.tril(packed, -1) + np.eye(a.shape[-1]), np.triu(packed)
    product = lower @ upper
    for place in np.ndindex(pivots.shape[:-1]):
        for i, j in reversed(list(enumerate(pivots[place] - 1))):
            product[place][[i, j]] = product[place][[j, i]]
    close(product.astype(packed.dtype), a, "the packed factors do not give the matrix")


def check_lu_unpack(got, packed, pivots, unpack_data=True, unpack_pivots=True):
    p, lower, upper = (to_numpy(t) for t in got)
    product = (np.tril(packed, -1) + np.eye(packed.shape[-1])) @ np.triu(packed)
    for i, j in reversed(list(enumerate(pivots - 1))):
        product[[i, j]] = product[[j, i]]
    close(p @ lower @ upper, product, "P L U is not what was packed")


def check_lstsq(got, a, b, rcond=None, driver=None):
    want = np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(a, b, strict=True)]) if a.ndim > 2 else (
        np.linalg.lstsq(a, b, rcond=None)[0])
    close(to_numpy(got[0]), want, "solution")


def check_solve_ex(got, a, b=None, left=True, check_errors=False):
    close(to_numpy(got[0]), np.linalg.inv(a) if b is None else np.linalg.solve(a, b), "solution")
    assert (to_numpy(got[1]) == 0).all(), "info is not zero"


def check_geqrf(got, a):
    packed = to_numpy(got[0])
    r = np.triu(packed)[..., : a.shape[-1], :]
    close((herm(r) @ r).astype(packed.dtype), herm(a) @ a, "R does not belong to the matrix")


def _householder(a, tau):
    m, n = a.shape
    q = np.eye(m, dtype=a.dtype)
    for i in range(len(tau)):
        v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
        q = q @ (np.eye(m) - tau[i] * np.outer(v, np.conj(v)))
    return q[:, :n]


def _reflectors(dtype):
    a = make(dtype, (4, 3)).values
    (packed, tau), _ = scipy.linalg.qr(a, mode="raw")
    yield S(T(packed, dtype), T(tau, dtype))


def _ormqr(a, tau, other, left=True, transpose=False):
    q = _householder(np.pad(a, [(0, 0), (0, a.shape[0] - a.shape[1])]), tau)
    q = herm(q) if transpose else q
    return q @ other if left else other @ q


def _lowrank(dtype):
    yield S(T(make(dtype, (6, 2)).values @ make(dtype, (2, 5), salt=1).values, dtype), q=4)


def check_svd_lowrank(got, a, q=6, niter=2):
    u, s, v = (to_numpy(t) for t in got)
    close((u * s) @ herm(v), a, "U S Vh is not the matrix")


def check_pca(got, a, q=None, center=True, niter=2):
    check_svd_lowrank(got, a - a.mean(axis=-2, keepdims=True))


# ---- references ----------------------------------------------------------------------------------------------------


def _vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    axis = tuple(range(x.ndim)) if dim is None else dim
    axis = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    size = np.abs(x)
    if ord in (np.inf, -np.inf):
        return (size.max if ord > 0 else size.min)(axis=axis, keepdims=keepdim)
    if ord == 0:
        return (size != 0).sum(axis=axis, keepdims=keepdim).astype(float)
    return (size**ord).sum(axis=axis, keepdims=keepdim) ** (1 / ord)


def _matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return np.linalg.norm(x, ord, axis=tuple(dim), keepdims=keepdim)


def _norm(x, ord=None, dim=None, keepdim=False, dtype=None):
    if ord is None:
        return _vector_norm(x, 2, dim, keepdim)
    if isinstance(dim, int) or (dim is None and x.ndim == 1):
        return _vector_norm(x, ord, dim, keepdim)
    return _matrix_norm(x, ord, dim or (-2, -1), keepdim)


def _vector_norms(dtype):
    x = make(dtype, (3, 4, 2))
    for p in (2, 1, 3, np.inf, -np.inf, 0):
        yield S(x, p, dim=1)
    yield S(x)
    yield S(x, dim=(0, 2), keepdim=True)


def _norm_except_dim(v, pow=2, dim=0):
    rest = tuple(d for d in range(v.ndim) if dim == -1 or d != dim)
    return (np.abs(v) ** pow).sum(axis=rest, keepdims=dim != -1) ** (1 / pow)


def _matrix_norms(dtype):
    x = make(dtype, (2, 4, 3))
    for p in ("fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2):
        yield S(x, p)
    yield S(x, dim=(0, 1), keepdim=True)


def _norms(dtype):
    yield S(make(dtype, (3, 4)))
    yield S(make(dtype, (5,)), 3)
    yield S(make(dtype, (3, 4)), "fro")
    yield S(make(dtype, (3, 4)), ord=1, dim=(0, 1))
    yield S(make(dtype, (3, 4)), dim=1, keepdim=True)
    yield S(make(dtype, (2, 3, 4)), 2, dim=1)


def _cond(x, p=None):
    return np.linalg.cond(x, p)


def solve_samples(dtype):
    yield S(well_conditioned(dtype, 4), make(dtype, (4, 2)))
    yield S(well_conditioned(dtype, 4), make(dtype, (4,)))
    yield S(well_conditioned(dtype, 3, (2,)), make(dtype, (2, 3, 2)))
    yield S(well_conditioned(dtype, 3, (2,)), make(dtype, (3, 2)))


def _solve(a, b):
    return np.linalg.solve(a, b[..., None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)


def _triangular_samples(dtype):
    a = well_conditioned(dtype, 4).values
    b = make(dtype, (4, 2))
    yield S(T(np.triu(a), dtype), b, upper=True)
    yield S(T(np.tril(a), dtype), b, upper=False)
    yield S(T(np.triu(a), dtype), make(dtype, (2, 4)), upper=True, left=False)
    yield S(T(np.triu(a), dtype), b, upper=True, unitriangular=True)


def _solve_triangular(a, b, upper, left=True, unitriangular=False):
    if unitriangular:
        a = a - np.diag(np.diag(a)) + np.eye(len(a))
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.T, b.T).T


def _old_triangular(b, a, upper=True, transpose=False, unitriangular=False):
    return _solve_triangular(a.T if transpose else a, b, upper, True, unitriangular), a


def _cholesky_solve(b, factor, upper=False):
    a = herm(factor) @ factor if upper else factor @ herm(factor)
    return np.linalg.solve(a, b)


def _factors(dtype):
    factor = np.linalg.cholesky(spd(dtype, 4).values.astype(np.complex128 if dtype in COMPLEX else np.float64))
    return T(factor, dtype), T(herm(factor), dtype)


def _lu_solve_args(dtype):
    lu, pivots = scipy.linalg.lu_factor(well_conditioned(dtype, 4).values)
    return T(lu, dtype), T(pivots + 1, "int32"), make(dtype, (4, 2))


def _lu_solve(lu, pivots, b, left=True, adjoint=False):
    return scipy.linalg.lu_solve((lu, pivots - 1), b)


def _old_lu_solve(b, lu, pivots):
    return _lu_solve(lu, pivots, b)


def _ldl(dtype):
    """LAPACK's factors of a symmetric matrix."""
    a = make(dtype, (4, 4)).values
    a = a + a.T + 8 * np.eye(4)
    (factor,) = scipy.linalg.get_lapack_funcs(("sytrf",), (a,))
    packed, pivots, _ = factor(a, lower=1)
    return a, T(np.tril(packed), dtype), T(pivots, "int32"), make(dtype, (4, 2))


def _ldl_solve(packed, pivots, b, hermitian=False):
    (solve,) = scipy.linalg.get_lapack_funcs(("sytrs",), (packed, b))
    return solve(packed, pivots, b, lower=1)[0]


def check_ldl_factor(got, a, hermitian=False, check_errors=False):
    packed, pivots = to_numpy(got[0]), to_numpy(got[1])
    inverse = _ldl_solve(packed, pivots, np.eye(len(a), dtype=packed.dtype))
    close(inverse.astype(packed.dtype), np.linalg.inv(a), "the factors do not solve")


def _logdet(a):
    sign, value = np.linalg.slogdet(a)
    return value + np.log(sign.astype(complex)) if np.iscomplexobj(a) else np.where(sign > 0, value, np.nan)


def _pinv(a, rcond=None, atol=None, rtol=None, hermitian=False):
    return np.linalg.pinv(a)


def _matrix_rank(a, tol=None, atol=None, rtol=None, hermitian=False):
    return np.linalg.matrix_rank(a)


def _ranks(dtype):
    yield S(T(np.outer([1, 2, 3], [1, 1]), dtype))
    yield S(well_conditioned(dtype, 3, (2,)))
    yield S(T(np.zeros((2, 2)), dtype))


def _tensors(dtype):
    yield S(T(well_conditioned(dtype, 6).values.reshape(2, 3, 6), dtype), 2)
    yield S(T(well_conditioned(dtype, 4).values.reshape(4, 2, 2), dtype), ind=1)


def _linalg_vander(x, N=None):
    return np.stack([x**i for i in range(N or x.shape[-1])], -1)


NOT_POSITIVE = T(-np.eye(2), "float32")
# fmt: off
ROWS = [
    OpSpec("linalg.cholesky", None, squares(spd), LAPACK, check=check_cholesky, method=False, out=True, expand=False,
           edge=empties,
           errors=(*matrix_errors(), bad("a matrix that is not positive", RuntimeError, NOT_POSITIVE))),
    OpSpec("linalg.cholesky_ex", None, squares(spd), LAPACK, ("same", "int32"), check=check_cholesky_ex, method=False,
           expand=False,
           errors=matrix_errors()),
    OpSpec("cholesky", None, squares(spd), LAPACK, check=check_cholesky, expand=False,
           errors=(*matrix_errors(), bad("a matrix that is not positive", RuntimeError, NOT_POSITIVE))),
    OpSpec("cholesky_solve", _cholesky_solve, lambda d: [S(make(d, (4, 2)), _factors(d)[0]),
           S(make(d, (4, 2)), _factors(d)[1],
           upper=True)], LAPACK, out=True, tolerance=LOOSE, expand=False),
    OpSpec("cholesky_inverse", lambda f, upper=False: _cholesky_solve(np.eye(len(f)), f, upper),
           lambda d: [S(_factors(d)[0]),
           S(_factors(d)[1], upper=True)], LAPACK, out=True, tolerance=LOOSE, expand=False, errors=matrix_errors()),
    OpSpec("linalg.qr", None, rectangles({"mode": "complete"}), LAPACK, ("same", "same"), check=check_qr, method=False,
           expand=False, errors=(*matrix_errors(square=False), bad("an unknown mode", RuntimeError, WIDE,
           mode="best"))),
    OpSpec("qr", None, rectangles({"some": False}), LAPACK, ("same", "same"), check=check_old_qr, expand=False),
    OpSpec("geqrf", None, lambda d: [S(make(d, (4, 3)))], LAPACK, ("same", "same"), check=check_geqrf, expand=False),
    OpSpec("linalg.householder_product", _householder, _reflectors, LAPACK, method=False, tolerance=LOOSE,
           expand=False),
    OpSpec("orgqr", _householder, _reflectors, LAPACK, tolerance=LOOSE, expand=False,
           canonical="linalg.householder_product"),
    OpSpec("ormqr", _ormqr, lambda d: [S(*s.args, make(d, (4, 2))) for s in _reflectors(d)], LAPACK, tolerance=LOOSE,
           expand=False),
    OpSpec("linalg.svd", None, rectangles({"full_matrices": False}), LAPACK, ("same", "real", "same"), check=check_svd,
           method=False,
           expand=False, errors=matrix_errors(square=False)),
    OpSpec("svd", None, rectangles({"some": False}), LAPACK, ("same", "real", "same"), check=check_old_svd,
           expand=False),
    OpSpec("linalg.svdvals", lambda a: np.linalg.svd(a, compute_uv=False), rectangles(), LAPACK, "real", method=False,
           out=True,
           tolerance=LOOSE, errors=matrix_errors(square=False)),
    OpSpec("svd_lowrank", None, _lowrank, FULL_FLOATS, ("same", "same", "same"), method=False, check=check_svd_lowrank,
           expand=False),
    OpSpec("pca_lowrank", None, _lowrank, FULL_FLOATS, ("same", "same", "same"), method=False, check=check_pca,
           expand=False),
    OpSpec("linalg.eigh", None, squares(spd), LAPACK, ("real", "same"), check=check_eigh, method=False, expand=False,
           errors=matrix_errors()),
    OpSpec("linalg.eigvalsh", lambda a, UPLO="L": np.linalg.eigvalsh(a, UPLO), squares(spd), LAPACK, "real",
           method=False, out=True,
           tolerance=LOOSE, expand=False, errors=matrix_errors()),
    OpSpec("linalg.eig", None, squares(), LAPACK, ("complex", "complex"), check=check_eig, method=False, expand=False,
           errors=matrix_errors()),
    OpSpec("linalg.eigvals", None, squares(), LAPACK, "complex", check=check_eigvals, method=False, expand=False,
           errors=matrix_errors()),
    OpSpec("linalg.inv", np.linalg.inv, squares(), LAPACK, method=False, out=True, tolerance=LOOSE, expand=False,
           edge=empties,
           errors=(*matrix_errors(), bad("a singular matrix", RuntimeError, SINGULAR))),
    OpSpec("inverse", np.linalg.inv, squares(), LAPACK, out=True, tolerance=LOOSE, expand=False, canonical="linalg.inv",
           errors=(*matrix_errors(), bad("a singular matrix", RuntimeError, SINGULAR))),
    OpSpec("linalg.inv_ex", None, squares(), LAPACK, ("same", "int32"), check=check_solve_ex, method=False,
           expand=False),
    OpSpec("linalg.det", np.linalg.det, squares(), LAPACK, method=False, out=True, tolerance=LOOSE, edge=empties,
           errors=matrix_errors()),
    OpSpec("det", np.linalg.det, squares(), LAPACK, tolerance=LOOSE, canonical="linalg.det", errors=matrix_errors()),
    OpSpec("linalg.slogdet", lambda a: tuple(np.linalg.slogdet(a)), squares(), LAPACK, ("same", "real"), method=False,
           tolerance=LOOSE, expand=False, errors=matrix_errors()),
    OpSpec("slogdet", lambda a: tuple(np.linalg.slogdet(a)), squares(), LAPACK, ("same", "real"), tolerance=LOOSE,
           expand=False,
           canonical="linalg.slogdet"),
    OpSpec("logdet", _logdet, squares(spd), LAPACK, tolerance=LOOSE, expand=False, errors=matrix_errors()),
    OpSpec("linalg.solve", _solve, solve_samples, LAPACK, method=False, out=True, tolerance=LOOSE, expand=False,
           errors=(
           bad("a singular matrix", RuntimeError, SINGULAR, T(np.ones(2), "float32")),
           bad("a matrix that is not square",
           RuntimeError, WIDE, WIDE), bad("sizes that differ", RuntimeError, T(np.eye(2), "float32"),
           T(np.ones((3, 2)), "float32")),
           bad("dtypes that differ", RuntimeError, T(np.eye(2), "float32"), T(np.ones((2, 2)), "float64")))),
    OpSpec("linalg.solve_ex", None, lambda d: [S(well_conditioned(d, 4), make(d, (4, 2)))], LAPACK, ("same", "int32"),
           check=check_solve_ex, method=False, expand=False),
    OpSpec("linalg.solve_triangular", _solve_triangular, _triangular_samples, LAPACK, method=False, out=True,
           tolerance=LOOSE,
           expand=False, errors=(bad("a matrix that is not square", RuntimeError, WIDE, WIDE, upper=True),)),
    OpSpec("triangular_solve", _old_triangular, lambda d: [S(make(d, (4, 2)),
           T(np.triu(well_conditioned(d, 4).values), d))],
           LAPACK, ("same", "same"), tolerance=LOOSE, expand=False),
    OpSpec("linalg.lu", None, squares(), LAPACK, ("same", "same", "same"), check=check_lu, method=False, expand=False,
           errors=matrix_errors(square=False)),
    OpSpec("linalg.lu_factor", None, squares(), LAPACK, ("same", "int32"), check=check_lu_factor, method=False,
           expand=False,
           errors=matrix_errors(square=False)),
    OpSpec("linalg.lu_factor_ex", None, squares(), LAPACK, ("same", "int32", "int32"), check=check_lu_factor,
           method=False,
           expand=False),
    OpSpec("lu", None, squares(), LAPACK, ("same", "int32"), function=False, check=check_lu_factor, expand=False),
    OpSpec("lu_unpack", None, lambda d: [S(*_lu_solve_args(d)[:2])], LAPACK, ("same", "same", "same"), method=False,
           check=check_lu_unpack, expand=False),
    OpSpec("linalg.lu_solve", _lu_solve, lambda d: [S(*_lu_solve_args(d))], LAPACK, method=False, out=True,
           tolerance=LOOSE,
           expand=False),
    OpSpec("lu_solve", _old_lu_solve, lambda d: [S(_lu_solve_args(d)[2], *_lu_solve_args(d)[:2])], LAPACK, out=True,
           tolerance=LOOSE, expand=False),
    OpSpec("linalg.lstsq", None, lambda d: [S(make(d, (6, 3)), make(d, (6, 2))),
           S(make(d, (2, 5, 3)), make(d, (2, 5, 1)))], LAPACK,
           "any", check=check_lstsq, method=False, expand=False, errors=(bad("sizes that differ", RuntimeError, WIDE,
           T(np.ones((3, 1)), "float32")),)),
    OpSpec("linalg.ldl_factor", None, lambda d: [S(T(_ldl(d)[0], d))], FULL_FLOATS, ("same", "int32"), method=False,
           check=check_ldl_factor, expand=False, errors=matrix_errors()),
    OpSpec("linalg.ldl_factor_ex", None, lambda d: [S(T(_ldl(d)[0], d))], FULL_FLOATS, ("same", "int32", "int32"),
           method=False, check=check_ldl_factor, expand=False, errors=matrix_errors()),
    OpSpec("linalg.ldl_solve", _ldl_solve, lambda d: [S(*_ldl(d)[1:])], FULL_FLOATS, method=False, tolerance=LOOSE,
           expand=False),
    OpSpec("linalg.pinv", _pinv, rectangles(), LAPACK, method=False, out=True, tolerance=LOOSE, expand=False,
           errors=matrix_errors(square=False)),
    OpSpec("pinverse", _pinv, rectangles(), LAPACK, tolerance=LOOSE, expand=False, canonical="linalg.pinv"),
    OpSpec("linalg.matrix_rank", _matrix_rank, _ranks, LAPACK, "int64", method=False, out=True,
           errors=matrix_errors(square=False)),
    OpSpec("linalg.matrix_exp", scipy.linalg.expm, squares(lambda d, n, b=(): make(d, (*b, n, n), -1, 1)), LAPACK,
           method=False,
           tolerance=LOOSE, edge=empties, errors=matrix_errors()),
    OpSpec("matrix_exp", scipy.linalg.expm, squares(lambda d, n, b=(): make(d, (*b, n, n), -1, 1)), LAPACK,
           tolerance=LOOSE,
           canonical="linalg.matrix_exp"),
    OpSpec("linalg.matrix_power", np.linalg.matrix_power, lambda d: [S(well_conditioned(d, 3), n) for n in (0, 1, 2, 5,
           -2)], LAPACK,
           method=False, out=True, tolerance=LOOSE, expand=False, errors=(bad("a matrix that is not square",
           RuntimeError, WIDE, 2),)),
    OpSpec("matrix_power", np.linalg.matrix_power, lambda d: [S(well_conditioned(d, 3), n) for n in (0, 1, 2, 5)],
           LAPACK,
           tolerance=LOOSE, canonical="linalg.matrix_power", errors=(bad("a matrix that is not square", RuntimeError,
           WIDE, 2),)),
    OpSpec("linalg.vector_norm", _vector_norm, _vector_norms, INEXACT, "real", method=False, out=True, tolerance=SUMS,
           errors=(
           bad("an integer tensor", RuntimeError, INTEGER), bad("a dim out of range", IndexError, WIDE, 2, 5))),
    OpSpec("linalg.matrix_norm", _matrix_norm, _matrix_norms, LAPACK, "real", method=False, out=True, tolerance=LOOSE,
           errors=(
           *matrix_errors(square=False), bad("an unknown norm", RuntimeError, WIDE, "best"),
           bad("the same dim twice", RuntimeError, WIDE, dim=(0, 0)))),
    OpSpec("linalg.norm", _norm, _norms, LAPACK, "real", method=False, out=True, tolerance=LOOSE, canonical="linalg.matrix_norm", errors=(
           bad("an integer tensor", RuntimeError, INTEGER), bad("an unknown norm", RuntimeError, WIDE, "best"))),
    OpSpec("nuclear_norm", lambda x, dim=None, keepdim=False: _matrix_norm(x, "nuc", dim or (-2, -1), keepdim),
           lambda d: [S(make(d, (3, 2))), S(make(d, (2, 3, 4)), (0, 2)), S(make(d, (3, 3)), keepdim=True)], LAPACK, "real",
           method=False, out=True, tolerance=LOOSE, errors=(
           bad("a vector", RuntimeError, T([1.0, 2.0], "float32")), bad("the same dim twice", RuntimeError, WIDE, (0, 0)))),
    OpSpec("frobenius_norm", lambda x, dim, keepdim=False: _vector_norm(x, 2, dim, keepdim),
           lambda d: [S(make(d, (3, 2)), 1), S(make(d, (2, 3, 4)), (0, 2), True)], LAPACK, "real",
           method=False, out=True, tolerance=LOOSE, errors=(
           bad("three dimensions", RuntimeError, WIDE, (0, 1, 2)), bad("an integer tensor", RuntimeError, INTEGER, 0))),
    OpSpec("norm_except_dim", _norm_except_dim, lambda d: [S(make(d, (3, 2))), S(make(d, (3, 2)), 2, 1), S(make(d, (2, 3, 4)), 1, -1)],
           LAPACK, "real", method=False, tolerance=LOOSE, errors=(bad("an integer tensor", RuntimeError, INTEGER),)),
    OpSpec("linalg.cond", _cond, lambda d: [S(well_conditioned(d, 3), p) for p in (None, 2, 1, "fro", np.inf)], LAPACK,
           "real",
           method=False, out=True, tolerance=LOOSE, expand=False, errors=matrix_errors(square=False)),
    OpSpec("linalg.diagonal", lambda a, offset=0, dim1=-2, dim2=-1: np.diagonal(a, offset, dim1, dim2),
           lambda d: [S(make(d,
           (2, 3, 4))), S(make(d, (2, 3, 4)), offset=1, dim1=0, dim2=1)], LAPACK, method=False, view=True,
           keywords=False),
    OpSpec("linalg.tensorinv", lambda a, ind=2: np.linalg.tensorinv(a, ind), _tensors, LAPACK, method=False, out=True,
           tolerance=LOOSE,
           expand=False),
    OpSpec("linalg.tensorsolve", lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
           lambda d: [S(T(well_conditioned(d,
           6).values.reshape(2, 3, 6), d), make(d, (2, 3)))], LAPACK, method=False, out=True, tolerance=LOOSE,
           expand=False),
    OpSpec("linalg.vander", _linalg_vander, lambda d: [S(make(d, (4,))), S(make(d, (2, 3)), N=4)], LAPACK, method=False,
           tolerance=LOOSE),
]
# fmt: on
