"""The linear algebra and Fourier extensions of the namespace."""

import numpy as np
import pytest

from flambeau import array_api as xp

from . import standard

FLOATS = ["float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-10, "complex128": 1e-10}
REAL = {"complex64": "float32", "complex128": "float64"}


def matrices(shape, name, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if "complex" in name else x).astype(name)


def close(found, want, name, dtype=None):
    assert tuple(found.shape) == np.shape(want)
    assert found.dtype == getattr(xp, dtype or name)
    np.testing.assert_allclose(np.asarray(found), want, rtol=TOLERANCE[name], atol=TOLERANCE[name])


@pytest.mark.parametrize("name", [n for n in standard.DTYPES if n != "bool"])
def test_products(name):
    dtype = getattr(xp, name)
    a = np.arange(24).reshape(2, 3, 4).astype(name)
    b = np.arange(8).reshape(4, 2).astype(name)
    x, y = xp.asarray(a), xp.asarray(b)
    for found, want in (
        (xp.matmul(x, y), a @ b), (xp.matmul(x, y[:, 0]), a @ b[:, 0]), (xp.matmul(x[0, 0], y), a[0, 0] @ b),
        (xp.tensordot(x, y, axes=1), np.tensordot(a, b, 1)), (xp.tensordot(x, y, axes=0), np.tensordot(a, b, 0)),
        (xp.tensordot(x, x, axes=((0, -1), (0, 2))), np.tensordot(a, a, ((0, 2), (0, 2)))),
        (xp.vecdot(x, y[:, 0]), (a * b[:, 0]).sum(-1, dtype=name)), (xp.linalg.outer(y[0], y[1]), np.outer(b[0], b[1])),
        (xp.linalg.cross(x[:, :, :3], x[:1, :1, 1:]), np.cross(a[:, :, :3], np.broadcast_to(a[:1, :1, 1:], (2, 3, 3)))),
        (xp.linalg.diagonal(x, offset=1), np.diagonal(a, 1, -2, -1)),
        (xp.matrix_transpose(x), np.swapaxes(a, -1, -2)),
    ):  # fmt: skip
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found), want)
    wide = {"i": xp.int64, "u": xp.uint64}.get(a.dtype.kind, dtype)
    assert xp.linalg.trace(x).dtype == wide
    assert xp.linalg.trace(x, offset=1).tolist() == np.trace(a, 1, -2, -1).tolist()
    assert xp.linalg.trace(x, dtype=xp.float64).dtype == xp.float64


def test_vecdot_conjugates_and_axes():
    x = xp.asarray([[1j, 2.0], [3.0, 4j]])
    assert xp.vecdot(x, x).tolist() == [5, 25]
    assert xp.vecdot(x, x, axis=-2).tolist() == [10, 20]
    with pytest.raises(IndexError):
        xp.vecdot(x, x, axis=-3)
    with pytest.raises(ValueError):
        xp.vecdot(xp.ones((2, 3)), xp.ones((2, 1)))


def test_product_errors():
    square, row, scalar = xp.ones((2, 2)), xp.ones((1, 3)), xp.asarray(1.0)
    for call in (
        lambda: xp.matmul(square, scalar),
        lambda: xp.matmul(scalar, square),
        lambda: xp.matmul(square, row),
        lambda: xp.tensordot(square, row, axes=1),
        lambda: xp.tensordot(square, row, axes=3),
        lambda: xp.tensordot(square, xp.ones((1, 2)), axes=((0,), (0,))),
        lambda: xp.tensordot(square, square, axes=-1),
        lambda: xp.linalg.cross(square, square),
        lambda: xp.linalg.cross(xp.ones((2, 3)), xp.ones((2, 1))),
        lambda: xp.linalg.outer(square, square),
        lambda: xp.linalg.diagonal(xp.ones(3)),
        lambda: xp.linalg.trace(scalar),
        lambda: xp.matrix_transpose(xp.ones(3)),
        lambda: xp.linalg.solve(square, row),
        lambda: xp.linalg.solve(row, square),
        lambda: xp.linalg.inv(row),
        lambda: xp.linalg.det(row),
        lambda: xp.linalg.eigh(row),
        lambda: xp.linalg.cholesky(row),
        lambda: xp.linalg.matrix_power(row, 2),
        lambda: xp.linalg.qr(square, mode="raw"),
        lambda: xp.linalg.svd(xp.ones(3)),
        lambda: xp.linalg.matrix_norm(square, ord=3),
        lambda: xp.linalg.matrix_norm(xp.ones(3)),
    ):
        with pytest.raises(ValueError):
            call()
    whole = xp.ones((2, 2), dtype=xp.int64)
    for name in (
        "cholesky",
        "det",
        "eig",
        "eigh",
        "eigvals",
        "eigvalsh",
        "inv",
        "matrix_norm",
        "matrix_rank",
        "pinv",
        "qr",
        "slogdet",
        "svd",
        "svdvals",
        "vector_norm",
    ):
        with pytest.raises(TypeError):
            getattr(xp.linalg, name)(whole)
    with pytest.raises(TypeError):
        xp.linalg.solve(whole, whole)
    with pytest.raises(TypeError):
        xp.matmul(square, 2.0)
    with pytest.raises(TypeError):
        xp.matmul(xp.ones((2, 2), dtype=xp.bool), xp.ones((2, 2), dtype=xp.bool))
    with pytest.raises(TypeError):
        xp.matmul(square, whole)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("stack", [(), (2,), (0,), (2, 3)])
def test_decompositions(name, stack):
    real = REAL.get(name, name)
    a = matrices((*stack, 4, 4), name)
    x = xp.asarray(a)
    hermitian = a + np.conj(np.swapaxes(a, -1, -2))
    positive = a @ np.conj(np.swapaxes(a, -1, -2)) + 4 * np.eye(4, dtype=name)
    for upper in (False, True):
        lower = np.linalg.cholesky(positive)
        want = np.conj(np.swapaxes(lower, -1, -2)) if upper else lower
        close(xp.linalg.cholesky(xp.asarray(positive), upper=upper), want, name)
    close(xp.linalg.det(x), np.linalg.det(a), name)
    sign, logabsdet = xp.linalg.slogdet(x)
    close(sign, np.linalg.slogdet(a)[0], name)
    close(logabsdet, np.linalg.slogdet(a)[1], name, real)
    close(xp.linalg.inv(x) @ x, np.broadcast_to(np.eye(4), a.shape), name)
    values, vectors = xp.linalg.eigh(xp.asarray(hermitian))
    close(values, np.linalg.eigvalsh(hermitian), name, real)
    close(xp.asarray(hermitian) @ vectors, np.asarray(vectors) * np.asarray(values)[..., None, :], name)
    close(xp.linalg.eigvalsh(xp.asarray(hermitian)), np.linalg.eigvalsh(hermitian), name, real)
    complex_name = {"float32": "complex64", "float64": "complex128"}.get(name, name)
    values, vectors = xp.linalg.eig(x)
    assert values.dtype == vectors.dtype == getattr(xp, complex_name)
    np.testing.assert_allclose(
        a @ np.asarray(vectors), np.asarray(vectors) * np.asarray(values)[..., None, :], atol=1e-3
    )
    assert xp.linalg.eigvals(x).dtype == getattr(xp, complex_name)
    close(xp.linalg.matrix_power(x, 3), a @ a @ a, name)
    close(xp.linalg.matrix_power(x, 0), np.broadcast_to(np.eye(4, dtype=name), a.shape), name)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4), (0, 2, 2)])
def test_rectangular(name, shape):
    real = REAL.get(name, name)
    a = matrices(shape, name, seed=1)
    x = xp.asarray(a)
    rows, cols, least = shape[-2], shape[-1], min(shape[-2:])
    for mode, inner in (("reduced", least), ("complete", rows)):
        result = xp.linalg.qr(x, mode=mode)
        assert result._fields == ("Q", "R") and result.Q.shape == (*shape[:-2], rows, inner)
        close(result.Q @ result.R, a, name)
    close(xp.linalg.svdvals(x), np.linalg.svd(a, compute_uv=False), name, real)
    for full in (False, True):
        result = xp.linalg.svd(x, full_matrices=full)
        assert result._fields == ("U", "S", "Vh")
        assert result.U.shape[-1] == (rows if full else least) and result.Vh.shape[-2] == (cols if full else least)
        u, s, vh = (np.asarray(r) for r in result)
        np.testing.assert_allclose(u[..., :least] * s[..., None, :] @ vh[..., :least, :], a, atol=1e-3)
    close(xp.linalg.pinv(x), np.linalg.pinv(a), name)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for keepdims in (False, True):
            want = np.linalg.norm(a, order, axis=(-2, -1), keepdims=keepdims)
            close(xp.linalg.matrix_norm(x, ord=order, keepdims=keepdims), want, name, real)
    for order in (0, 1, 2, 3, 0.5, np.inf, -np.inf, -1):
        if a.size:
            close(xp.linalg.vector_norm(x, ord=order, axis=-1), np.linalg.norm(a, order, axis=-1), name, real)
    flat = np.linalg.norm(a.ravel())
    close(xp.linalg.vector_norm(x), flat, name, real)
    assert xp.linalg.vector_norm(x, keepdims=True).shape == (1,) * x.ndim
    close(xp.linalg.vector_norm(x, axis=()), np.abs(a), name, real)
    close(xp.linalg.vector_norm(x, axis=(0, -1)), np.sqrt((np.abs(a) ** 2).sum((0, -1))), name, real)


@pytest.mark.parametrize("name", FLOATS)
def test_rank_and_tolerance(name):
    a = np.diag([3.0, 1.0, 1e-2]).astype(name)
    x = xp.asarray(a)
    stack = xp.stack([x, x])
    assert xp.linalg.matrix_rank(x).tolist() == 3 and xp.linalg.matrix_rank(x, rtol=0.1).tolist() == 2
    rtol = xp.asarray([0.1, 0.5], dtype=getattr(xp, REAL.get(name, name)))
    assert xp.linalg.matrix_rank(stack, rtol=rtol).tolist() == [2, 1]
    assert xp.linalg.matrix_rank(xp.zeros((2, 3), dtype=x.dtype)).tolist() == 0
    assert xp.linalg.matrix_rank(xp.zeros((4, 0, 3), dtype=x.dtype)).tolist() == [0] * 4
    cut = np.linalg.pinv(a, rcond=0.1)
    close(xp.linalg.pinv(x, rtol=0.1), cut, name)
    close(xp.linalg.pinv(stack, rtol=rtol)[0], cut, name)
    with pytest.raises(TypeError):
        xp.linalg.matrix_rank(x, rtol="big")


@pytest.mark.parametrize("name", FLOATS)
def test_solve(name):
    a = matrices((2, 3, 3), name, seed=2) + 3 * np.eye(3, dtype=name)
    for shape in ((3,), (3, 1), (3, 2), (2, 3, 2), (4, 1, 3, 2)):
        b = matrices(shape, name, seed=3)
        got = xp.linalg.solve(xp.asarray(a), xp.asarray(b))
        columns = b[:, None] if b.ndim == 1 else b
        want = np.linalg.solve(
            np.broadcast_to(a, np.broadcast_shapes(a.shape[:-2], columns.shape[:-2]) + (3, 3)), columns
        )
        close(got, want[..., 0] if b.ndim == 1 else want, name)
    # a matrix whose shape could pass for a stack of vectors
    square = matrices((3, 3, 3), name, seed=4) + 3 * np.eye(3, dtype=name)
    right = matrices((3, 3), name, seed=5)
    close(
        xp.linalg.solve(xp.asarray(square), xp.asarray(right)),
        np.linalg.solve(square, np.broadcast_to(right, (3, 3, 3))),
        name,
    )


def test_solve_promotes():
    assert xp.linalg.solve(xp.eye(2), xp.ones(2, dtype=xp.complex128)).dtype == xp.complex128


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 8])
def test_fft_lines(norm, n):
    for name in FLOATS:
        a = matrices((2, 5), name, seed=6)
        z = a.astype({"float32": "complex64", "float64": "complex128"}.get(name, name))
        args = {"n": n, "axis": 1, "norm": norm}
        x, complex_name, real = xp.asarray(a), z.dtype.name, REAL.get(name, name)
        for function in ("fft", "ifft"):
            close(getattr(xp.fft, function)(x, **args), getattr(np.fft, function)(a, **args), name, complex_name)
        for function in ("irfft", "hfft"):
            close(getattr(xp.fft, function)(xp.asarray(z), **args), getattr(np.fft, function)(z, **args), name, real)
        if name in ("float32", "float64"):
            for function in ("rfft", "ihfft"):
                close(getattr(xp.fft, function)(x, **args), getattr(np.fft, function)(a, **args), name, complex_name)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(("s", "axes"), [(None, None), (None, (0, 2)), ((3, 5), (2, 0)), ((-1, 4), (0, 1))])
def test_fft_grids(norm, s, axes):
    a = matrices((3, 4, 5), "float64", seed=7)
    z = matrices((3, 4, 5), "complex128", seed=8)
    x, y = xp.asarray(a), xp.asarray(z)
    args = {"s": s, "axes": axes, "norm": norm}
    sizes = None if s is None else [a.shape[ax] if n == -1 else n for n, ax in zip(s, axes, strict=True)]
    numpy_args = {"s": sizes, "axes": axes, "norm": norm}
    for function in ("fftn", "ifftn"):
        close(getattr(xp.fft, function)(y, **args), getattr(np.fft, function)(z, **numpy_args), "complex128")
    close(xp.fft.rfftn(x, **args), np.fft.rfftn(a, **numpy_args), "complex128")
    close(xp.fft.irfftn(y, **args), np.fft.irfftn(z, **numpy_args), "complex128", "float64")


def test_fft_frequencies_shifts_and_errors():
    assert xp.fft.fftfreq(5, d=0.5, dtype=xp.float64).tolist() == np.fft.fftfreq(5, 0.5).tolist()
    assert xp.fft.rfftfreq(4).tolist() == np.fft.rfftfreq(4).tolist() and xp.fft.rfftfreq(4).dtype == xp.float32
    x = xp.asarray(np.arange(6.0).reshape(2, 3))
    for axes in (None, 1, (0, 1), (0,)):
        assert xp.fft.fftshift(x, axes=axes).tolist() == np.fft.fftshift(np.arange(6.0).reshape(2, 3), axes).tolist()
        assert xp.fft.ifftshift(x, axes=axes).tolist() == np.fft.ifftshift(np.arange(6.0).reshape(2, 3), axes).tolist()
    whole, real, z = xp.asarray([1, 2, 3]), xp.ones(3), xp.ones(3, dtype=xp.complex64)
    for function, bad in (
        (xp.fft.fft, whole),
        (xp.fft.rfft, z),
        (xp.fft.irfft, real),
        (xp.fft.hfft, real),
        (xp.fft.ihfft, z),
        (xp.fft.rfftn, z),
        (xp.fft.irfftn, real),
        (xp.fft.fftshift, whole),
    ):
        with pytest.raises(TypeError):
            function(bad)
    with pytest.raises(ValueError, match="axes"):
        xp.fft.fftn(z, s=(3,))
    for n in (0, -2):
        with pytest.raises(ValueError):
            xp.fft.fft(z, n=n)
    with pytest.raises(ValueError):
        xp.fft.fft(z, norm="none")
    with pytest.raises(IndexError):
        xp.fft.fft(z, axis=1)
    with pytest.raises(TypeError):
        xp.fft.fftfreq(4, dtype=xp.complex64)
