"""Gradients of linear algebra: against differences of the function along a direction, and closed forms where known."""

import numpy as np
import pytest

import flambeau as fb

rng = np.random.default_rng(11)


def matrix(*shape, complex=False):
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if complex else x


def spread(*batch, n=3, complex=False):
    """Well-conditioned, with singular and eigenvalues apart."""
    return matrix(*batch, n, n, complex=complex) * 0.3 + np.diag(np.arange(1.0, n + 1) * 2)


def hermitian(a):
    return a + np.swapaxes(a, -1, -2).conj()


def positive(*batch, n=3, complex=False):
    a = matrix(*batch, n, n, complex=complex)
    return a @ np.swapaxes(a, -1, -2).conj() + np.eye(n)


def floats(result):
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in parts if t.requires_grad]


def scalar(parts, weights):
    return sum((part * fb.tensor(w).conj()).real.sum() for part, w in zip(parts, weights, strict=True))


def check(f, *arrays, tolerance=1e-6, second=True):
    """The slope of a weighted sum of the results along a direction, first and second, against central differences."""
    points = [fb.tensor(a, requires_grad=True) for a in arrays]
    shapes = [(t.shape, t.is_complex()) for t in floats(f(*points))]
    assert shapes, "no result has a history"
    weights = [matrix(*shape, complex=cplx) for shape, cplx in shapes]
    directions = [matrix(*a.shape, complex=np.iscomplexobj(a)) for a in arrays]

    def at(step):
        return [fb.tensor(a + step * d, requires_grad=True) for a, d in zip(arrays, directions, strict=True)]

    def value(step):
        return scalar(floats(f(*at(step))), weights).item()

    def slope(step):
        xs = at(step)
        grads = fb.autograd.grad(scalar(floats(f(*xs)), weights), xs, create_graph=True)
        return sum((g * fb.tensor(d).conj()).real.sum() for g, d in zip(grads, directions, strict=True)), xs

    h = 1e-5
    got, xs = slope(0.0)
    expected = (value(h) - value(-h)) / (2 * h)
    assert got.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)
    if second:
        found = fb.autograd.grad(got, xs, allow_unused=True)
        bend = sum(
            float((g * fb.tensor(d).conj()).real.sum()) for g, d in zip(found, directions, strict=True) if g is not None
        )
        expected = (slope(h)[0].item() - slope(-h)[0].item()) / (2 * h)
        assert bend == pytest.approx(expected, rel=tolerance, abs=tolerance)


BOTH = pytest.mark.parametrize("cplx", [False, True], ids=["real", "complex"])


# ---- determinants, inverses, systems ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "f", [fb.det, fb.slogdet, fb.logdet, fb.linalg.inv, fb.inverse, lambda a: fb.linalg.inv_ex(a)[0]]
)
def test_square(f, cplx):
    check(f, spread(2, complex=cplx))


def test_determinant_of_a_singular_matrix():
    for entries, cofactors in [
        ([[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]]),
        ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]], [[4.0, 4.0, -4.0], [-2.0, -2.0, 2.0], [0.0, 0.0, 0.0]]),
        ([[0.0]], [[1.0]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]),
    ]:
        a = fb.tensor(entries, dtype=fb.float64, requires_grad=True)
        fb.det(a).backward()
        np.testing.assert_allclose(a.grad.numpy(), cofactors, atol=1e-12)


def test_logarithm_of_a_zero_determinant_has_an_infinite_slope():
    a = fb.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    fb.slogdet(a)[1].backward()
    assert bool(a.grad.isinf().all())


@BOTH
@pytest.mark.parametrize("left", [True, False])
def test_solve(cplx, left):
    b = matrix(2, 3, 4, complex=cplx) if left else matrix(2, 4, 3, complex=cplx)
    check(lambda a, b: fb.linalg.solve(a, b, left=left), spread(2, complex=cplx), b)


def test_solve_vectors_and_broadcasting():
    check(fb.linalg.solve, spread(2), matrix(2, 3))
    check(fb.linalg.solve, spread(2), matrix(3))
    check(fb.linalg.solve, spread(), matrix(2, 3, 1))
    check(fb.linalg.tensorsolve, spread(n=4).reshape(2, 2, 4), matrix(2, 2))
    check(lambda a: fb.linalg.tensorinv(a, 2), spread(n=4).reshape(2, 2, 4))


@BOTH
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular(cplx, upper, unit):
    a, b = spread(complex=cplx), matrix(3, 2, complex=cplx)
    check(lambda a, b: fb.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit), a, b)
    check(lambda a, b: fb.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit, left=False), a, b.T.copy())
    for transpose in (False, True):
        check(lambda b, a: fb.triangular_solve(b, a, upper, transpose, unit)[0], b, a)  # noqa: B023


@BOTH
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky(cplx, upper):
    a = positive(2, complex=cplx)
    symmetric = lambda a: 0.5 * (a + a.mH)  # noqa: E731
    check(lambda a: fb.linalg.cholesky(symmetric(a), upper=upper), a)
    check(lambda a: fb.cholesky(symmetric(a), upper), a)
    factor = np.linalg.cholesky(a)
    factor = np.swapaxes(factor, -1, -2).conj().copy() if upper else factor

    def triangle(f):
        # A factor's diagonal is real.
        diagonal = fb.diag_embed(f.diagonal(dim1=-2, dim2=-1).real.to(f.dtype))
        return (f.triu(1) if upper else f.tril(-1)) + diagonal

    check(lambda f: fb.cholesky_inverse(triangle(f), upper), factor)
    check(lambda b, f: fb.cholesky_solve(b, triangle(f), upper), matrix(2, 3, 2, complex=cplx), factor)


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_lu(cplx, shape):
    a = matrix(*shape, complex=cplx)
    check(fb.linalg.lu, a)
    check(lambda a: fb.linalg.lu_factor(a)[0], a)
    check(lambda a: fb.lu_unpack(*fb.linalg.lu_factor(a)), a)
    p, low, up = fb.linalg.lu(fb.tensor(a, requires_grad=True))
    assert (p.requires_grad, low.requires_grad, up.requires_grad) == (False, True, True)


@BOTH
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(cplx, left, adjoint):
    packed, pivots = fb.linalg.lu_factor(fb.tensor(spread(complex=cplx)))
    b = matrix(3, 2, complex=cplx) if left else matrix(2, 3, complex=cplx)
    check(lambda x, b: fb.linalg.lu_solve(x, pivots, b, left=left, adjoint=adjoint), packed.numpy(), b)
    if left and not adjoint:
        check(lambda b, x: fb.lu_solve(b, x, pivots), b, packed.numpy())


# ---- decompositions --------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_qr(cplx, shape):
    check(fb.linalg.qr, matrix(*shape, complex=cplx))
    check(lambda a: fb.qr(a)[1], matrix(*shape, complex=cplx))
    check(lambda a: fb.linalg.qr(a)[0], matrix(*shape, complex=cplx))


def test_qr_that_cannot_be_differentiated():
    a = fb.tensor(matrix(4, 2), requires_grad=True)
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        fb.linalg.qr(a, "complete")[1].sum().backward()
    with pytest.raises(RuntimeError, match="some=False and nrows > ncols"):
        fb.qr(a, some=False)[1].sum().backward()
    with pytest.raises(RuntimeError, match="not computed when mode='r'"):
        fb.linalg.qr(a, "r")[1].sum().backward()


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_svd(cplx, shape):
    a = matrix(*shape, complex=cplx)
    check(fb.linalg.svdvals, a)
    check(lambda a: fb.svd(a, compute_uv=False)[1], a)
    # Results that do not depend on the vectors' phases.
    check(
        lambda a: (lambda u, s, vh: (u.abs(), s, vh.abs()))(*fb.linalg.svd(a, full_matrices=False)), a, tolerance=1e-4
    )
    check(lambda a: (lambda u, s, v: u[..., :2] @ v[..., :2].mH)(*fb.svd(a)), a, tolerance=1e-4)


@pytest.mark.parametrize(("f", "vectors"), [(fb.linalg.svd, 0), (fb.linalg.eigh, 1), (fb.linalg.eig, 1)])
def test_phase_of_complex_vectors(f, vectors):
    a = fb.tensor(matrix(3, 3, complex=True), requires_grad=True)
    with pytest.raises(RuntimeError, match="linalg.*: the .* up to multiplication by e"):
        fb.autograd.grad(f(a)[vectors], a, fb.tensor(matrix(3, 3, complex=True)))


@BOTH
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(cplx, uplo):
    a = hermitian(spread(complex=cplx))
    symmetric = lambda a: 0.5 * (a + a.mH)  # noqa: E731
    check(lambda a: fb.linalg.eigvalsh(symmetric(a), uplo), a)
    check(lambda a: (lambda w, v: (w, v.abs()))(*fb.linalg.eigh(symmetric(a), uplo)), a, tolerance=1e-4)


@BOTH
def test_eig(cplx):
    a = spread(complex=cplx)
    check(fb.linalg.eigvals, a, tolerance=1e-5)
    check(lambda a: (lambda w, v: (w, v.abs()))(*fb.linalg.eig(a)), a, tolerance=1e-4)


def test_eigenvalue_slope_is_the_outer_product_of_its_vector():
    a = fb.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=fb.float64, requires_grad=True)
    fb.linalg.eigvalsh(a)[1].backward()
    np.testing.assert_allclose(a.grad.numpy(), [[0.5, 0.5], [0.5, 0.5]], atol=1e-12)


# ---- reflections and least squares -----------------------------------------------------------------------------------


@BOTH
def test_householder_product(cplx):
    for columns, count in ((2, 2), (3, 2), (3, 3)):
        a, tau = matrix(2, 4, columns, complex=cplx), matrix(2, count, complex=cplx)
        check(fb.linalg.householder_product, a, tau)
    check(fb.orgqr, matrix(4, 2, complex=cplx), matrix(2, complex=cplx))


@BOTH
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(cplx, left, transpose):
    a, tau = matrix(4, 2, complex=cplx), matrix(2, complex=cplx)
    c = matrix(4, 3, complex=cplx) if left else matrix(3, 4, complex=cplx)
    check(lambda a, tau, c: fb.ormqr(a, tau, c, left, transpose), a, tau, c)


def test_geqrf_and_ldl_have_no_derivative():
    a = fb.tensor(positive(), requires_grad=True)
    for f in (fb.geqrf, fb.linalg.ldl_factor):
        with pytest.raises(NotImplementedError, match="the derivative for .* is not implemented"):
            f(a)[0].sum().backward()


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_least_squares(cplx, shape):
    a, b = matrix(*shape, complex=cplx), matrix(shape[0], 2, complex=cplx)
    check(lambda a, b: fb.linalg.lstsq(a, b)[0], a, b)
    if shape[0] > shape[1]:
        check(lambda a, b: fb.linalg.lstsq(a, b, driver="gelsd")[1], a, b)
    check(fb.linalg.pinv, a)


def test_pseudo_inverse_of_a_matrix_without_full_rank():
    # With the rank held at 1: pinv(x y^T) = y x^T / (|x|² |y|²).
    check(lambda x, y: fb.linalg.pinv(x @ y.mT), matrix(3, 1), matrix(4, 1))
    # Equal singular values are no trouble.
    check(fb.linalg.pinv, np.eye(3))


# ---- composites ------------------------------------------------------------------------------------------------------


@BOTH
def test_matrix_functions(cplx):
    a = spread(complex=cplx)
    check(fb.linalg.matrix_exp, a * 0.3)
    check(fb.matrix_exp, a * 3, tolerance=1e-5)  # scaled and squared
    check(lambda a: fb.linalg.matrix_power(a, 3), a)
    check(lambda a: fb.linalg.matrix_power(a, -2), a)
    check(lambda a, b, c: fb.linalg.multi_dot([a, b, c]), matrix(2, 4, complex=cplx), matrix(4, 3, complex=cplx), a)


@BOTH
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_norms(cplx, ord):
    check(lambda a: fb.linalg.matrix_norm(a, ord), spread(2, complex=cplx))
    check(lambda a: fb.linalg.cond(a, ord), spread(complex=cplx), tolerance=1e-5)


def test_derivative_of_the_exponential_at_zero_is_the_identity():
    a = fb.zeros(3, 3, dtype=fb.float64, requires_grad=True)
    g = fb.tensor(matrix(3, 3))
    np.testing.assert_allclose(fb.autograd.grad(fb.matrix_exp(a), a, g)[0].numpy(), g.numpy(), atol=1e-14)


def test_lobpcg_has_the_gradient_of_both_halves_of_its_matrix():
    x = fb.tensor(rng.normal(size=(6, 6)))
    a = (x @ x.mT / 10).requires_grad_()
    assert fb.autograd.gradcheck(lambda m: fb.lobpcg(m, k=2)[0], (a,))
    fb.lobpcg(a, k=1)[1].square().sum().backward()
    assert fb.allclose(a.grad, a.grad.mT)
