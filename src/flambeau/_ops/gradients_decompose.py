"""Gradients of QR, singular values, eigenvalues, products of reflections and least squares.

Vectors of a decomposition are only determined up to a phase; a loss that depends on the phase has no gradient, which is
checked.
"""

import flambeau as fb
from flambeau._registry.gradients import gradient
from flambeau.errors import StateError

# ---- QR --------------------------------------------------------------------------------------------------------------


def _qr(q, r, g_q, g_r):
    """Gradient of A = Q R, where Q has as many columns as the smaller side of A."""
    m, n = q.shape[-2], r.shape[-1]
    if m < n:
        # A = [X Y] with X = Q R1 square and R2 = Q^H Y.
        y = q @ r[..., m:]
        if g_r is None:
            g_y = fb.zeros_like(y)
            g_x = _qr(q, r[..., :m], g_q, None)
        else:
            g_y = q @ g_r[..., m:]
            from_y = y @ g_r[..., m:].mH
            g_x = _qr(q, r[..., :m], from_y if g_q is None else g_q + from_y, g_r[..., :m])
        return fb.cat([g_x, g_y], -1)
    inner = 0
    if g_r is not None:
        inner = r @ g_r.mH
    if g_q is not None:
        inner = inner - g_q.mH @ q
    # The strict lower triangle on both sides; the diagonal of R is real.
    lower = inner.tril(-1)
    diagonal = inner.diagonal(dim1=-2, dim2=-1)
    inner = lower + lower.mH + fb.diag_embed(diagonal.real.to(diagonal.dtype))
    g = q @ inner
    if g_q is not None:
        g = g + g_q
    return fb.linalg.solve_triangular(r.mH, g, upper=False, left=False)


@gradient("linalg.qr", uses={"A": "result0 result1"})
def linalg_qr(c, g_q, g_r):
    if c.mode == "r":
        raise StateError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'; use mode='reduced'"
        )
    m, n = c.shapes["A"][-2:]
    if c.mode == "complete" and m > n:
        raise StateError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    return {"A": _qr(*c.results, g_q, g_r)}


@gradient("qr", uses={"input": "result0 result1"})
def qr(c, g_q, g_r):
    m, n = c.shapes["input"][-2:]
    if not c.some and m > n:
        raise StateError("The QR decomposition is not differentiable when some=False and nrows > ncols")
    return {"input": _qr(*c.results, g_q, g_r)}


# ---- reflections -----------------------------------------------------------------------------------------------------


def _reflectors(a, count):
    """The vectors in the columns of geqrf's result: zeros, a one, then the stored entries."""
    m = a.shape[-2]
    return a[..., :count].tril(-1) + fb.eye(m, count, dtype=a.dtype, device=a.device)


def _reflections(vectors, scales, x, g):
    """Gradients for H_1 H_2 … H_k X with H_i = I - scale_i v_i v_i^H: of the vectors, the scales and X."""
    count = scales.shape[-1]
    v = [vectors[..., i : i + 1] for i in range(count)]
    t = [scales[..., i : i + 1, None] for i in range(count)]
    steps = [x]
    for i in range(count - 1, 0, -1):
        steps.append(steps[-1] - t[i] * (v[i] @ (v[i].mH @ steps[-1])))
    g_v, g_t = [], []
    for i in range(count):
        inside = steps[count - 1 - i]
        across, along = inside.mH @ v[i], g.mH @ v[i]
        # With g inside^H for the gradient of H_i.
        g_t.append(-(along.mH @ across).squeeze(-1))
        g_v.append(-(t[i].conj() * (g @ across)) - t[i] * (inside @ along))
        g = g - t[i].conj() * (v[i] @ (v[i].mH @ g))
    if not count:
        return fb.zeros_like(vectors), fb.zeros_like(scales), g
    return fb.cat(g_v, -1), fb.cat(g_t, -1), g


def _into_columns(g, shape):
    """Gradients of the stored parts of the vectors, in a matrix as wide as the argument."""
    g = g.tril(-1)
    if g.shape[-1] < shape[-1]:
        g = fb.cat([g, g.new_zeros(*g.shape[:-1], shape[-1] - g.shape[-1])], -1)
    return g


def _householder(a, tau, g):
    count = tau.shape[-1]
    start = fb.eye(*g.shape[-2:], dtype=a.dtype, device=a.device).expand(g.shape)
    g_v, g_tau, _ = _reflections(_reflectors(a, count), tau, start, g)
    return _into_columns(g_v, a.shape), g_tau


@gradient("linalg.householder_product", uses={"A": "A tau", "tau": "A tau"})
def householder_product(c, g):
    g_a, g_tau = _householder(c.A, c.tau, g)
    return {"A": g_a, "tau": g_tau}


@gradient("orgqr", uses={"input": "input input2", "input2": "input input2"})
def orgqr(c, g):
    g_a, g_tau = _householder(c.input, c.input2, g)
    return {"input": g_a, "input2": g_tau}


@gradient("ormqr", uses=dict.fromkeys(("input", "input2", "input3"), "input input2 input3"))
def ormqr(c, g):
    # C Q is (Q^H C^H)^H, and Q^H = H_k^H … H_1^H: the same product in reverse order.
    x, backwards = c.input3, c.left == c.transpose
    if not c.left:
        x, g = x.mH, g.mH
    vectors, scales = _reflectors(c.input, c.input2.shape[-1]), c.input2
    if backwards:
        vectors, scales = vectors.flip(-1), scales.conj().flip(-1)
    g_v, g_t, g_x = _reflections(vectors, scales, x, g)
    if backwards:
        g_v, g_t = g_v.flip(-1), g_t.conj().flip(-1)
    return {
        "input": _into_columns(g_v, c.shapes["input"]),
        "input2": g_t,
        "input3": g_x if c.left else g_x.mH,
    }


# ---- singular values -------------------------------------------------------------------------------------------------


def _check_phase(name, phase, what):
    """phase: the change of the loss when a vector's phase changes; must be zero for a meaningful gradient."""
    size = phase.detach().abs()
    if not size.is_meta and not bool((size < 1e-2).all()):
        raise StateError(
            f"{name}: the {what} in the complex case are specified up to multiplication by e^{{i phi}}. The loss "
            "depends on this phase, making it ill-defined"
        )


def _differences(x):
    """x_j - x_i in row i, column j, with ones on the diagonal."""
    return (x.unsqueeze(-2) - x.unsqueeze(-1)) + fb.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _svd(name, u, s, vh, g_u, g_s, g_vh):
    """Gradient of A = U S Vh with k = len(S) columns and rows; missing gradients are None."""
    inner = None if g_s is None else fb.diag_embed(g_s.to(u.dtype))
    if g_u is None and g_vh is None:
        return u @ inner @ vh if inner.is_complex() else (u * g_s.unsqueeze(-2)) @ vh
    uh_gu = None if g_u is None else u.mH @ g_u
    vh_gv = None if g_vh is None else vh @ g_vh.mH
    if u.is_complex():
        turn = sum(x.diagonal(dim1=-2, dim2=-1).imag for x in (uh_gu, vh_gv) if x is not None)
        _check_phase(name, turn, "singular vectors")
    gaps = _differences(s * s)
    both = 0
    if uh_gu is not None:
        both = ((uh_gu - uh_gu.mH) / gaps) * s.unsqueeze(-2)
    if vh_gv is not None:
        both = both + s.unsqueeze(-1) * ((vh_gv - vh_gv.mH) / gaps)
    # Off the diagonal; on it only a complex phase remains.
    both = both.masked_fill(fb.eye(s.shape[-1], dtype=fb.bool, device=s.device), 0)
    if u.is_complex() and uh_gu is not None:
        phase = uh_gu.diagonal(dim1=-2, dim2=-1).imag / s
        both = both + fb.diag_embed(fb.complex(fb.zeros_like(phase), phase))
    inner = both if inner is None else inner + both
    g = u @ inner @ vh
    if g_u is not None and u.shape[-2] > s.shape[-1]:
        g = g + ((g_u - u @ uh_gu) / s.unsqueeze(-2)) @ vh
    if g_vh is not None and vh.shape[-1] > s.shape[-1]:
        g = g + u @ ((g_vh - vh_gv.mH @ vh) / s.unsqueeze(-1))
    return g


def _narrowed(u, vh, g_u, g_vh, k):
    """Of full matrices, only the part belonging to the singular values is differentiable."""
    return u[..., :k], vh[..., :k, :], None if g_u is None else g_u[..., :k], None if g_vh is None else g_vh[..., :k, :]


@gradient("linalg.svd", uses={"A": "result0 result1 result2"})
def linalg_svd(c, g_u, g_s, g_vh):
    u, s, vh = c.results
    u, vh, g_u, g_vh = _narrowed(u, vh, g_u, g_vh, s.shape[-1])
    return {"A": _svd("linalg.svd", u, s, vh, g_u, g_s, g_vh)}


@gradient("svd", uses={"input": "input result0 result1 result2"})
def svd(c, g_u, g_s, g_v):
    if not c.compute_uv:
        if g_u is not None or g_v is not None:
            raise StateError("svd: with compute_uv=False there are no singular vectors to differentiate")
        return {"input": _singular_values(c.input, g_s)}
    u, s, v = c.results
    u, vh, g_u, g_vh = _narrowed(u, v.mH, g_u, None if g_v is None else g_v.mH, s.shape[-1])
    return {"input": _svd("svd", u, s, vh, g_u, g_s, g_vh)}


def _singular_values(a, g):
    u, _, vh = fb.linalg.svd(a, full_matrices=False)
    return (u * g.unsqueeze(-2)) @ vh


@gradient("linalg.svdvals", uses={"A": "A"})
def svdvals(c, g):
    return {"A": _singular_values(c.A, g)}


# ---- eigenvalues -----------------------------------------------------------------------------------------------------


@gradient("linalg.eigh", uses={"A": "result0 result1"})
def eigh(c, g_values, g_vectors):
    values, v = c.results
    if g_vectors is None:
        return {"A": (v * g_values.unsqueeze(-2)) @ v.mH}
    turned = v.mH @ g_vectors
    if v.is_complex():
        _check_phase("linalg.eigh", turned.diagonal(dim1=-2, dim2=-1).imag, "eigenvectors")
    # Half of both sides: A is symmetric, and so is its gradient.
    inner = (turned - turned.mH) / (2 * _differences(values))
    inner = inner.masked_fill(fb.eye(v.shape[-1], dtype=fb.bool, device=v.device), 0)
    if g_values is not None:
        inner = inner + fb.diag_embed(g_values)
    return {"A": v @ inner @ v.mH}


@gradient("linalg.eigvalsh", uses={"A": "A"})
def eigvalsh(c, g):
    _, v = fb.linalg.eigh(c.A, c.UPLO)
    return {"A": (v * g.unsqueeze(-2)) @ v.mH}


def _eig(v, inner):
    return fb.linalg.solve(v.mH, inner @ v.mH)


@gradient("linalg.eig", uses={"A": "result0 result1"})
def eig(c, g_values, g_vectors):
    values, v = c.results
    if g_vectors is None:
        return {"A": _eig(v, fb.diag_embed(g_values))}
    turned = v.mH @ g_vectors
    diagonal = turned.diagonal(dim1=-2, dim2=-1)
    _check_phase("linalg.eig", diagonal.imag, "eigenvectors")
    # The vectors have unit length: components along them do not count.
    inner = (turned - (v.mH @ v) * diagonal.real.unsqueeze(-2)) / _differences(values).conj()
    inner = inner.masked_fill(fb.eye(v.shape[-1], dtype=fb.bool, device=v.device), 0)
    if g_values is not None:
        inner = inner + fb.diag_embed(g_values)
    return {"A": _eig(v, inner)}


@gradient("linalg.eigvals", uses={"A": "A"})
def eigvals(c, g):
    _, v = fb.linalg.eig(c.A)
    return {"A": _eig(v, fb.diag_embed(g))}


# ---- least squares ---------------------------------------------------------------------------------------------------


def pinv_gradient(a, inverse, g):
    """Gradient of the pseudo-inverse, where the rank is constant; includes everything outside of A's range."""
    gh, ih = g.mH, inverse.mH
    outside = gh - a @ (inverse @ gh)  # (I - A A+) g^H
    beyond = gh - (gh @ inverse) @ a  # g^H (I - A+ A)
    return -(ih @ g @ ih) + outside @ (inverse @ ih) + (ih @ inverse) @ beyond


@gradient("linalg.lstsq", uses={"A": "A B result0", "B": "A B result0"}, constants=(3,))
def lstsq(c, g, g_residuals, *_):
    vector = c.shapes["B"] == c.shapes["A"][:-1]
    a, b, x = c.A, c.B, c.result
    if vector:
        b, x = b.unsqueeze(-1), x.unsqueeze(-1)
        g = None if g is None else g.unsqueeze(-1)
    g_a = g_b = None
    if g is not None:
        inverse = fb.linalg.pinv(a)
        g_b = inverse.mH @ g
        g_a = pinv_gradient(a, inverse, g @ b.mH)
    if g_residuals is not None and g_residuals.numel():
        # The solution minimises the residual, so its own change does not matter.
        rest = 2 * (a @ x - b) * g_residuals.unsqueeze(-2)
        more_a, more_b = rest @ x.mH, -rest
        g_a = more_a if g_a is None else g_a + more_a
        g_b = more_b if g_b is None else g_b + more_b
    return {"A": g_a, "B": g_b if g_b is None or not vector else g_b.squeeze(-1)}
