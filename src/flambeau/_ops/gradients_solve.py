"""Gradients of determinants, inverses, linear systems and the factorizations that solve them (Cholesky, LU).

Written for A X = B and related systems: G is the gradient of a result, `mH` the conjugate transpose, and gradients of
complex tensors follow the convention g = dL/d(re) + i dL/d(im). A formula such as `x @ y.mH` comes from d(A X) = dA X +
A dX.
"""

import flambeau as fb
from flambeau._registry.gradients import gradient


def _identity_like(a):
    return fb.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def _as_matrix(a):
    """One number per matrix, shaped to scale it."""
    return a[..., None, None]


def _is_vector(a_shape, b_shape):
    """Whether B is one vector per matrix in solve(A, B)."""
    return len(b_shape) == 1 or (len(a_shape) - 1 == len(b_shape) and tuple(a_shape[:-1]) == tuple(b_shape))


# ---- determinants ----------------------------------------------------------------------------------------------------


def _cofactors(a):
    """Gradient of det where no inverse exists: from A = U S Vh, with products that omit one singular value."""
    u, s, vh = fb.linalg.svd(a)
    n = s.shape[-1]
    others = s.unsqueeze(-2).expand(*s.shape, n).masked_fill(fb.eye(n, dtype=fb.bool, device=s.device), 1).prod(-1)
    phase = (fb.linalg.det(u) * fb.linalg.det(vh)).conj()
    return _as_matrix(phase) * ((u * others.unsqueeze(-2)) @ vh)


@gradient("linalg.det", uses={"A": "A result"})
@gradient("det", uses={"input": "input result"})
def det(c, g):
    name = "A" if "A" in c.args else "input"
    a = c.args[name]
    inverse, info = fb.linalg.inv_ex(a)
    if not info.is_meta and info.any():
        return {name: _as_matrix(g) * _cofactors(a)}
    return {name: _as_matrix(g * c.result.conj()) * inverse.mH}


@gradient("linalg.slogdet", uses={"A": "A result0"})
@gradient("slogdet", uses={"input": "input result0"})
def slogdet(c, g_sign, g_log):
    name = "A" if "A" in c.args else "input"
    a, sign = c.args[name], c.result
    if g_log is None and not (a.is_complex() and g_sign is not None):
        return {}
    inverse, info = fb.linalg.inv_ex(a)
    if not info.is_meta and info.any():
        # Divides by the zero on the diagonal: the derivative of the logarithm is infinite there.
        lu, pivots, _ = fb.linalg.lu_factor_ex(a)
        inverse = fb.linalg.lu_solve(lu, pivots, _identity_like(a).expand(a.shape))
    scale = g_log
    if a.is_complex() and g_sign is not None:
        # The sign's phase changes with the imaginary part of tr(A^-1 dA).
        turn = (g_sign.conj() * sign).imag
        scale = fb.complex(fb.zeros_like(turn) if g_log is None else g_log, -turn)
    return {name: _as_matrix(scale) * inverse.mH}


# ---- inverses and systems --------------------------------------------------------------------------------------------


@gradient("linalg.inv", uses={"A": "result"})
@gradient("linalg.inv_ex", uses={"A": "result"})
def inv(c, g, *_):
    return {"A": -(c.result.mH @ g @ c.result.mH)}


@gradient("inverse", uses={"input": "result"})
def inverse(c, g):
    return {"input": -(c.result.mH @ g @ c.result.mH)}


@gradient("linalg.solve", uses={"A": "A result", "B": "A"})
@gradient("linalg.solve_ex", uses={"A": "A result", "B": "A"})
def solve(c, g, *_):
    vector = _is_vector(c.shapes["A"], c.shapes["B"])
    if vector:
        g = g.unsqueeze(-1)
    g_b = fb.linalg.solve(c.A.mH, g, left=c.left)
    grads = {"B": g_b.squeeze(-1) if vector else g_b}
    if c.needs("A"):
        x = c.result.unsqueeze(-1) if vector else c.result
        grads["A"] = -(g_b @ x.mH if c.left else x.mH @ g_b)
    return grads


def _triangle(a, upper, unitriangular):
    return a.triu(int(unitriangular)) if upper else a.tril(-int(unitriangular))


@gradient("linalg.solve_triangular", uses={"A": "A result", "B": "A"})
def solve_triangular(c, g):
    g_b = fb.linalg.solve_triangular(c.A.mH, g, upper=not c.upper, left=c.left, unitriangular=c.unitriangular)
    grads = {"B": g_b}
    if c.needs("A"):
        g_a = -(g_b @ c.result.mH if c.left else c.result.mH @ g_b)
        grads["A"] = _triangle(g_a, c.upper, c.unitriangular)
    return grads


@gradient("triangular_solve", uses={"input": "A", "A": "A result"})
def triangular_solve(c, g, g_copy):
    grads = {"A": g_copy}
    if g is None:
        return grads
    # With transpose the system is A.mT X = B.
    adjoint = c.A.conj() if c.transpose else c.A.mH
    g_b = fb.linalg.solve_triangular(
        adjoint, g, upper=c.upper if c.transpose else not c.upper, unitriangular=c.unitriangular
    )
    grads["input"] = g_b
    if c.needs("A"):
        g_a = -(c.result.conj() @ g_b.mT) if c.transpose else -(g_b @ c.result.mH)
        g_a = _triangle(g_a, c.upper, c.unitriangular)
        grads["A"] = g_a if g_copy is None else g_a + g_copy
    return grads


# ---- Cholesky --------------------------------------------------------------------------------------------------------


def _cholesky(lower, g):
    """Gradient of A = L L^H. dL is L times the triangle of L^-1 dA L^-H, its diagonal halved."""
    inner = (lower.mH @ g).tril()
    inner = 0.5 * (inner + inner.tril(-1).mH)
    right = fb.linalg.solve_triangular(lower, inner, upper=False, left=False)
    return fb.linalg.solve_triangular(lower.mH, right, upper=True)


@gradient("linalg.cholesky_ex", uses={"A": "result"})
@gradient("linalg.cholesky", uses={"A": "result"})
@gradient("cholesky", uses={"input": "result"})
def cholesky(c, g, *_):
    name = "A" if "A" in c.args else "input"
    return {name: _cholesky(c.result.mH, g.mH) if c.upper else _cholesky(c.result, g)}


@gradient("cholesky_inverse", uses={"input": "input result"})
def cholesky_inverse(c, g):
    inverse = c.result
    both = inverse @ (g + g.mH) @ inverse
    return {"input": -(c.input @ both if c.upper else both @ c.input)}


@gradient("cholesky_solve", uses={"input": "input2", "input2": "input2 result"})
def cholesky_solve(c, g):
    g_b = fb.cholesky_solve(g, c.input2, c.upper)
    grads = {"input": g_b}
    if c.needs("input2"):
        both = g_b @ c.result.mH
        both = both + both.mH
        grads["input2"] = -(c.input2 @ both if c.upper else both @ c.input2)
    return grads


# ---- LU --------------------------------------------------------------------------------------------------------------


def _lu(p, low, u, g_l, g_u):
    """Gradient of A = P L U, square or not. p is None for the identity; g_l and g_u may be None."""
    m, n, k = low.shape[-2], u.shape[-1], low.shape[-1]
    g_l = fb.zeros_like(low) if g_l is None else g_l
    g_u = fb.zeros_like(u) if g_u is None else g_u
    l1, u1 = low[..., :k, :], u[..., :, :k]
    extra = None
    if m > k:
        # The rows below: L2 = A2 U^-1.
        extra = fb.linalg.solve_triangular(u1.mH, g_l[..., k:, :], upper=False, left=False)
        g_u = g_u - low[..., k:, :].mH @ extra
    elif n > k:
        # The columns to the right: U2 = L^-1 A2.
        extra = fb.linalg.solve_triangular(l1.mH, g_u[..., k:], upper=True, unitriangular=True)
        g_l = g_l - extra @ u[..., k:].mH
    g_l, g_u = g_l[..., :k, :], g_u[..., :k]
    inner = (l1.mH @ g_l).tril(-1) + (g_u @ u1.mH).triu()
    inner = fb.linalg.solve_triangular(l1.mH, inner, upper=True, unitriangular=True)
    g = fb.linalg.solve_triangular(u1.mH, inner, upper=False, left=False)
    if extra is not None:
        g = fb.cat([g, extra], -2 if m > k else -1)
    return g if p is None else p @ g


@gradient("linalg.lu", uses={"A": "result0 result1 result2"}, constants=(0,))
def lu(c, _, g_l, g_u):
    p, low, u = c.results
    return {"A": _lu(p if c.pivot else None, low, u, g_l, g_u)}


@gradient("linalg.lu_factor", uses={"A": "result0 result1"})
@gradient("linalg.lu_factor_ex", uses={"A": "result0 result1"})
def lu_factor(c, g, *_):
    k = min(g.shape[-2:])
    p, low, u = fb.lu_unpack(c.results[0], c.results[1])
    return {"A": _lu(p if c.pivot else None, low, u, g[..., :, :k], g[..., :k, :])}


@gradient("lu_unpack", constants=(0,))
def lu_unpack(c, _, g_l, g_u):
    m, n = c.shapes["LU_data"][-2:]
    parts = []
    if g_l is not None:
        part = g_l.tril(-1)
        if n > m:
            part = fb.cat([part, part.new_zeros(*part.shape[:-1], n - m)], -1)
        parts.append(part)
    if g_u is not None:
        part = g_u.triu()
        if m > n:
            part = fb.cat([part, part.new_zeros(*part.shape[:-2], m - n, n)], -2)
        parts.append(part)
    return {"LU_data": sum(parts[1:], parts[0])} if parts else {}


def _lu_solve(lu, pivots, x, g, left, adjoint, wants_lu):
    """Gradients of the right side and of the packed factors."""
    g_b = fb.linalg.lu_solve(lu, pivots, g, left=left, adjoint=not adjoint)
    if not wants_lu:
        return g_b, None
    # First for A: A X = B, X A = B, A^H X = B or X A^H = B.
    if left:
        g_a = -(x @ g_b.mH) if adjoint else -(g_b @ x.mH)
    else:
        g_a = -(g_b.mH @ x) if adjoint else -(x.mH @ g_b)
    p, low, u = fb.lu_unpack(lu, pivots)
    g_a = p.mT @ g_a
    return g_b, (g_a @ u.mH).tril(-1) + (low.mH @ g_a).triu()


@gradient("linalg.lu_solve", uses={"LU": "LU pivots result", "B": "LU pivots"})
def lu_solve(c, g):
    g_b, g_lu = _lu_solve(c.LU, c.pivots, c.result if c.results else None, g, c.left, c.adjoint, c.needs("LU"))
    return {"B": g_b, "LU": g_lu}


@gradient("lu_solve", uses={"input": "LU_data LU_pivots", "LU_data": "LU_data LU_pivots result"})
def lu_solve_named(c, g):
    x = c.result if c.results else None
    g_b, g_lu = _lu_solve(c.LU_data, c.LU_pivots, x, g, True, False, c.needs("LU_data"))
    return {"input": g_b, "LU_data": g_lu}
