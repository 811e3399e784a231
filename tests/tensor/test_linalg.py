"""Decompositions against their definitions, NumPy, and inputs that must end in an error."""

import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb

DTYPES = [fb.float32, fb.float64, fb.complex64, fb.complex128]
BATCHES = [(), (3,), (2, 0), (6,)]


def tolerance(dtype):
    return 2e-3 if dtype in (fb.float32, fb.complex64) else 1e-9


def close(a, b, dtype):
    assert a.shape == b.shape
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance(dtype), atol=tolerance(dtype))


def adjoint(a):
    return a.mT.conj()


def positive(*shape, dtype):
    a = fb.randn(*shape, dtype=dtype)
    return a @ adjoint(a) + shape[-1] * fb.eye(shape[-1], dtype=dtype)


@pytest.fixture(autouse=True)
def seed():
    fb.manual_seed(5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_square_matrices(dtype, batch, n):
    a = fb.randn(*batch, n, n, dtype=dtype) + 2 * n**0.5 * fb.eye(n, dtype=dtype)
    eye = fb.eye(n, dtype=dtype).expand(*batch, n, n)
    close(fb.linalg.inv(a) @ a, eye, dtype)
    b = fb.randn(*batch, n, 3, dtype=dtype)
    close(a @ fb.linalg.solve(a, b), b, dtype)
    close(fb.linalg.solve(a, b.mT, left=False) @ a, b.mT, dtype)
    P, L, U = fb.linalg.lu(a)
    close(P @ L @ U, a, dtype)
    lu, pivots = fb.linalg.lu_factor(a)
    close(adjoint(a) @ fb.linalg.lu_solve(lu, pivots, b, adjoint=True), b, dtype)
    sign, log = fb.linalg.slogdet(a)
    small = a / max(1, n)
    np.testing.assert_allclose(fb.linalg.det(small).numpy(), np.linalg.det(small.numpy()), rtol=1e-2, atol=1e-3)
    close(sign.abs(), fb.ones(batch, dtype=log.dtype), log.dtype)
    values, vectors = fb.linalg.eig(a)
    wide = a.to(values.dtype)
    close(wide @ vectors, vectors * values.unsqueeze(-2), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 6, 300])
def test_positive_definite(dtype, n):
    a = positive(n, n, dtype=dtype)
    L = fb.linalg.cholesky(a)
    scale = max(1, n)
    close(L @ adjoint(L) / scale, a / scale, dtype)
    U = fb.linalg.cholesky(a, upper=True)
    close(adjoint(U) @ U / scale, a / scale, dtype)
    assert bool((L.triu(1) == 0).all())
    b = fb.randn(n, 2, dtype=dtype)
    close(a @ fb.cholesky_solve(b, L), b, dtype)
    close(fb.cholesky_inverse(L) @ a, fb.eye(n, dtype=dtype), dtype)
    values, vectors = fb.linalg.eigh(a)
    close(vectors * values.unsqueeze(-2) @ adjoint(vectors) / scale, a / scale, dtype)
    assert bool((values[1:] >= values[:-1]).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 6, 3), (0, 3), (3, 0), (200, 30)])
def test_rectangular(dtype, shape):
    a = fb.randn(*shape, dtype=dtype)
    for mode in ("reduced", "complete"):
        Q, R = fb.linalg.qr(a, mode)
        close(Q @ R, a, dtype)
        close(adjoint(Q) @ Q, fb.eye(Q.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1), dtype)
    for full in (True, False):
        U, S, Vh = fb.linalg.svd(a, full_matrices=full)
        k = S.shape[-1]
        close(U[..., :k] * S.unsqueeze(-2).to(dtype) @ Vh[..., :k, :], a, dtype)
    close(fb.linalg.svdvals(a), S, S.dtype)
    close(a @ fb.linalg.pinv(a) @ a, a, dtype)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver):
    a, b = fb.randn(3, 20, 4, dtype=fb.float64), fb.randn(3, 20, 2, dtype=fb.float64)
    result = fb.linalg.lstsq(a, b, driver=driver)
    for i in range(3):
        expected, residuals, rank, _ = np.linalg.lstsq(a[i].numpy(), b[i].numpy(), rcond=None)
        np.testing.assert_allclose(result.solution[i].numpy(), expected, rtol=1e-9)
        if driver != "gelsy":
            np.testing.assert_allclose(result.residuals[i].numpy(), residuals, rtol=1e-9)
        if driver != "gels":
            assert result.rank[i] == rank


def test_triangular_systems_read_one_triangle():
    a, b = fb.randn(4, 4, dtype=fb.float64) + 3 * fb.eye(4, dtype=fb.float64), fb.randn(4, 2, dtype=fb.float64)
    close(a.tril() @ fb.linalg.solve_triangular(a, b, upper=False), b, fb.float64)
    close(a.triu() @ fb.linalg.solve_triangular(a, b, upper=True), b, fb.float64)
    unit = a.tril(-1) + fb.eye(4, dtype=fb.float64)
    close(unit @ fb.linalg.solve_triangular(a, b, upper=False, unitriangular=True), b, fb.float64)


def test_broadcast_right_sides():
    a, b = fb.randn(4, 4) + 3 * fb.eye(4), fb.randn(5, 4, 2)
    close(a @ fb.linalg.solve(a, b), b, fb.float32)
    vectors = fb.randn(3, 4)
    close(
        (a.expand(3, 4, 4) @ fb.linalg.solve(a.expand(3, 4, 4), vectors).unsqueeze(-1)).squeeze(-1), vectors, fb.float32
    )


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_matrix_norms(ord):
    a = fb.randn(4, 5, dtype=fb.float64)
    expected = np.linalg.norm(a.numpy(), ord)
    np.testing.assert_allclose(fb.linalg.norm(a, ord).item(), expected, rtol=1e-10)
    turned = a[None].permute(2, 0, 1)
    result = fb.linalg.matrix_norm(turned, ord, dim=(2, 0), keepdim=True)
    assert result.shape == (1, 1, 1)
    np.testing.assert_allclose(result.item(), expected, rtol=1e-10)


def test_matrix_functions():
    a = fb.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=fb.float64)
    turn = fb.linalg.matrix_exp(a * 3)
    np.testing.assert_allclose(turn.numpy(), [[np.cos(3), -np.sin(3)], [np.sin(3), np.cos(3)]], atol=1e-14)
    large = fb.diag(fb.tensor([30.0, -30.0]))
    np.testing.assert_allclose(fb.matrix_exp(large).diagonal().numpy(), np.exp([30.0, -30.0]), rtol=1e-4)
    assert fb.linalg.matrix_rank(fb.ones(4, 4)).item() == 1
    assert fb.linalg.cond(fb.diag(fb.tensor([4.0, 2.0]))).item() == 2.0
    assert fb.linalg.cond(fb.zeros(2, 2), 1).item() == float("inf")


@pytest.mark.parametrize("threads", [2, 3])
def test_thread_count_changes_no_bit(threads):
    a = fb.randn(400, 400)
    spd = a @ a.T + 400 * fb.eye(400)

    def everything():
        return [
            fb.linalg.cholesky(spd),
            fb.linalg.inv(spd),
            fb.linalg.solve(a, spd),
            fb.linalg.det(spd / 400),
            fb.linalg.qr(a).R,
            fb.linalg.svdvals(a[:60]),
            fb.linalg.eigvalsh(spd[:60, :60]),
        ]

    fb.set_num_threads(1)
    first = everything()
    fb.set_num_threads(threads)
    for x, y in zip(first, everything(), strict=True):
        assert bool((x == y).all())


@pytest.mark.parametrize(
    "call",
    [
        lambda: fb.linalg.inv(fb.zeros(2, 2)),
        lambda: fb.linalg.solve(fb.ones(2, 2), fb.ones(2)),
        lambda: fb.linalg.cholesky(-fb.eye(3)),
        lambda: fb.linalg.cholesky(-fb.eye(400)),
        lambda: fb.inverse(fb.zeros(300, 300)),
    ],
)
def test_singular_input(call):
    with pytest.raises(fb.linalg.LinAlgError, match="singular|positive-definite|is zero"):
        call()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_are_not_finite_neither_hang_nor_crash(bad, dtype):
    a = fb.eye(12, dtype=dtype)
    a[3, 4] = bad
    for decompose in (
        fb.linalg.svd,
        fb.linalg.svdvals,
        fb.linalg.eig,
        fb.linalg.eigvals,
        fb.linalg.eigh,
        fb.linalg.eigvalsh,
    ):
        with pytest.raises(fb.linalg.LinAlgError, match="infs or NaNs"):
            decompose(a)
    for accepted in (fb.linalg.det, fb.linalg.qr, fb.linalg.inv_ex, fb.linalg.cholesky_ex, fb.linalg.lu, fb.matrix_exp):
        accepted(a)


def test_codes_instead_of_errors():
    a = fb.stack([fb.eye(2), fb.zeros(2, 2)])
    assert fb.linalg.inv_ex(a).info.tolist() == [0, 1]
    assert fb.linalg.cholesky_ex(a - 0.5 * fb.eye(2)).info.tolist() == [0, 1]
    with pytest.raises(fb.linalg.LinAlgError, match=r"^linalg.inv_ex: \(Batch element 1\): The diagonal element 1 is zero"):
        fb.linalg.inv_ex(a, check_errors=True)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fb.linalg.inv(fb.ones(2, 3)), ValueError, "square"),
        (lambda: fb.linalg.det(fb.ones(3)), ValueError, "at least 2 dimensions"),
        (lambda: fb.linalg.svd(fb.ones(3, 3, dtype=fb.int64)), ValueError, "float32, float64"),
        (lambda: fb.linalg.solve(fb.eye(3), fb.ones(4)), ValueError, "do not fit"),
        (lambda: fb.linalg.solve(fb.eye(3), fb.ones(3).double()), ValueError, "same dtype"),
        (lambda: fb.linalg.qr(fb.ones(3, 3), "full"), ValueError, "qr received unrecognized mode 'full'"),
        (lambda: fb.linalg.eigh(fb.eye(3), UPLO="X"), ValueError, "UPLO"),
        (lambda: fb.linalg.lstsq(fb.eye(3), fb.ones(3), driver="x"), ValueError, "driver"),
        (lambda: fb.lu_unpack(fb.eye(2), fb.tensor([1, 9], dtype=fb.int32)), ValueError, "greater or equal to 1 and at most 2"),
        (
            lambda: fb.linalg.lu_solve(fb.eye(2), fb.tensor([0, 1], dtype=fb.int32), fb.ones(2, 1)),
            ValueError,
            "greater or equal to 1 and at most",
        ),
        (
            lambda: fb.linalg.ldl_solve(fb.eye(2), fb.tensor([1, -2], dtype=fb.int32), fb.ones(2, 1)),
            ValueError,
            "pairs",
        ),
        (lambda: fb.linalg.matrix_norm(fb.eye(2), 3), ValueError, "matrix_norm: Order 3 not supported"),
        (lambda: fb.linalg.householder_product(fb.eye(2), fb.ones(3)), ValueError, "greater than or equal to tau"),
        (lambda: fb.linalg.matrix_norm(fb.eye(2), dim=(0, 5)), IndexError, "out of range"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Sizes around the edges of the blocks that the factorisations work in.
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("shape", [(16, 16), (17, 33), (64, 64), (65, 65), (130, 70), (70, 130), (200, 129)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_in_blocks(dtype, shape, mode):
    a = fb.randn(2, *shape, dtype=dtype)
    q, r = fb.linalg.qr(a, mode)
    close(q @ r, a, dtype)
    close(q.mT @ q, fb.eye(q.shape[-1], dtype=dtype).expand(2, -1, -1), dtype)
    assert fb.equal(r, r.triu())
    close(r[0], fb.from_numpy(np.linalg.qr(a[0].numpy(), mode)[1]), dtype)  # signs as LAPACK chooses them


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e305])
def test_qr_and_eigh_of_extreme_sizes(scale):
    a = fb.randn(20, 20, dtype=fb.float64)
    q, r = fb.linalg.qr(a * scale)
    close(q.mT @ q, fb.eye(20, dtype=fb.float64), fb.float64)
    close(q @ (r / scale), a, fb.float64)
    a = a + a.mT
    values, vectors = fb.linalg.eigh(a * scale)
    close(vectors.mT @ vectors, fb.eye(20, dtype=fb.float64), fb.float64)
    close(a @ vectors, vectors * (values / scale), fb.float64)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [1, 2, 26, 65, 130])
def test_eigh_reads_one_triangle(dtype, uplo, n):
    a = fb.randn(n, n, dtype=dtype)
    a = a + a.mT
    values, vectors = fb.linalg.eigh(a.tril() if uplo == "L" else a.triu(), uplo)
    close(a @ vectors, vectors * values, dtype)
    close(vectors.mT @ vectors, fb.eye(n, dtype=dtype), dtype)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("count", [4, 16, 17, 40])
@pytest.mark.parametrize("n", [1, 5, 8, 16])
def test_cholesky_of_many_small_matrices(dtype, count, n):
    a = positive(count, n, n, dtype=dtype)
    lower = fb.linalg.cholesky(a)
    close(lower @ lower.mT, a, dtype)
    assert fb.equal(lower, lower.tril())
    close(fb.linalg.cholesky(a, upper=True), lower.mT, dtype)
    a[3, n - 1, n - 1] = -1
    assert fb.linalg.cholesky_ex(a).info.tolist() == [n * (i == 3) for i in range(count)]


def test_results_go_into_wider_tensors():
    a = fb.tensor([[2.0, 1.0], [1.0, 3.0]])
    out = (fb.empty(0, dtype=fb.float64), fb.empty(2))
    assert fb.geqrf(a, out=out)[0] is out[0]
    assert fb.equal(out[0].float(), fb.geqrf(a).a)
    values = fb.empty(0, dtype=fb.complex128)
    fb.linalg.eig(a, out=(values, fb.empty(0, dtype=fb.complex128)))
    assert values.dtype == fb.complex128 and values.shape == (2,)
    with pytest.raises(TypeError, match="Expected a to be safely castable from Float dtype, but got a with dtype Long"):
        fb.geqrf(a, out=(fb.empty(0, dtype=fb.int64), fb.empty(2)))
    with pytest.raises(TypeError, match="Expected out tensor to have dtype float, but got double instead .*'Q' must be of dtype float32"):
        fb.linalg.qr(a, out=(fb.empty(0, dtype=fb.float64), fb.empty(0, dtype=fb.float64)))
    packed = fb.empty(0, dtype=fb.float64)
    assert fb.lu(a, out=(packed, fb.empty(0, dtype=fb.int64)))[0] is packed
    assert fb.equal(packed.float(), fb.lu(a)[0])
    with pytest.raises(ValueError, match="expected a tuple of 2 tensors as out, got 1"):
        fb.lu(a, out=(packed,))


@pytest.mark.parametrize("ord", [2, 3, -2, 0.5])
def test_the_norm_of_one_number_does_not_overflow(ord):
    x = fb.tensor([[1e30], [-1e-30]])
    assert fb.equal(fb.linalg.vector_norm(x, ord, dim=1), x.abs()[:, 0])


@pytest.mark.parametrize("dtype", [fb.uint8, fb.int8, fb.int32])
def test_powers_of_small_integers_are_int64(dtype):
    x = fb.tensor([1, 100], dtype=dtype)
    assert fb.equal(fb.linalg.vander(x, N=3), fb.tensor([[1, 1, 1], [1, 100, 10000]]))
    assert fb.equal(fb.vander(x, N=3, increasing=True), fb.tensor([[1, 1, 1], [1, 100, 10000]]))


def test_vander_needs_two_powers_and_numbers():
    for x in (fb.tensor([3.0]), fb.zeros(0), fb.tensor(3.0)):
        with pytest.raises(ValueError, match="greater than 1"):
            fb.linalg.vander(x)
    with pytest.raises(RuntimeError, match="bool"):
        fb.linalg.vander(fb.tensor([True, False]))


COMPLEX_CALLS = """
import flambeau as fb
fb.set_num_threads(1)
for dtype in (fb.complex64, fb.complex128):
    for m, n in ((17, 1), (1, 17), (17, 17), (33, 5), (5, 33), (9, 8), (16, 16)):
        a, b = fb.randn(m, n, dtype=dtype), fb.randn(n, dtype=dtype)
        fb.pca_lowrank(a, q=1)
        fb.linalg.qr(a, mode="complete")
        fb.linalg.svd(a)
        fb.addmv(fb.randn(m, dtype=dtype), a, b, beta=0.5)
        fb.linalg.lstsq(a, fb.randn(m, 3, dtype=dtype))
        fb.linalg.lu(a)
        if m == n:
            fb.linalg.eig(a), fb.linalg.eigh(a), fb.linalg.inv(a), fb.linalg.det(a), fb.linalg.solve(a, b)
print("done")
"""


def test_complex_matrices_before_a_protected_page():
    """OpenBLAS looks at the element after the last of complex vectors that it scales: it must be ours."""
    environment = {**os.environ, "FLAMBEAU_GUARD": "1"}
    done = subprocess.run([sys.executable, "-c", COMPLEX_CALLS], env=environment, capture_output=True, text=True)
    assert done.stdout == "done\n", f"exit code {done.returncode}: {done.stderr[-500:]}"


def test_lobpcg():
    fb.manual_seed(0)
    a = fb.randn(30, 30, dtype=fb.float64)
    A, B = a @ a.t() + fb.eye(30), fb.diag(fb.linspace(1, 2, 30, dtype=fb.float64))
    exact = fb.linalg.eigvalsh(A)
    for largest, expected in ((True, exact.flip(0)[:3]), (False, exact[:3])):
        values, vectors = fb.lobpcg(A, k=3, largest=largest, tol=1e-10)
        assert values.shape == (3,) and vectors.shape == (30, 3) and fb.allclose(values, expected, rtol=1e-7)
        assert fb.allclose(A @ vectors, vectors * values, atol=1e-6)
    seen = []
    values, vectors = fb.lobpcg(A.to_sparse_csr(), k=2, B=B, X=fb.randn(30, 4, dtype=fb.float64), tracker=seen.append)
    assert fb.allclose(A @ vectors, B @ vectors * values, atol=1e-3) and len(seen) > 1 and seen[-1].ivars["converged_count"] == 2
    root = B.sqrt().inverse()
    assert fb.allclose(values, fb.linalg.eigvalsh(root @ A @ root).flip(0)[:2], rtol=1e-6)
    both, _ = fb.lobpcg(fb.stack([A, 2 * A]), k=1)
    assert both.shape == (2, 1) and fb.allclose(both[1], 2 * both[0], rtol=1e-5)
    A.requires_grad_()
    fb.lobpcg(A, k=1)[0].sum().backward()
    assert fb.allclose(A.grad.trace(), fb.ones((), dtype=fb.float64))  # a projection onto one vector
    with pytest.raises(ValueError, match="LOBPCG algorithm is not applicable when the number of A rows"):
        fb.lobpcg(A, k=11)
    with pytest.raises(ValueError, match="A must be square"):
        fb.lobpcg(A[:3])
    with pytest.raises(ValueError, match="floating point"):
        fb.lobpcg(fb.eye(9, dtype=fb.int64))
