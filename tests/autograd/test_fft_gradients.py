"""Gradients of Fourier transforms, checked with their definition as a matrix."""

import numpy as np
import pytest

import flambeau as fb

NORMS = ("backward", "ortho", "forward")


def matrix(n, sign, scale):
    k = np.arange(n)
    return scale * np.exp(sign * 2j * np.pi * np.outer(k, k) / n)


def scales(n, norm):
    """Factors of the forward and the inverse transform."""
    return {"backward": (1, 1 / n), "ortho": (n**-0.5, n**-0.5), "forward": (1 / n, 1)}[norm]


def signal(*shape, complex=False):
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if complex else x


def gradient(f, x, g):
    x = fb.tensor(x, requires_grad=True)
    return fb.autograd.grad(f(x), x, fb.tensor(g))[0].numpy()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("inverse", [False, True])
def test_complex_transform_goes_back_by_the_adjoint_matrix(norm, inverse):
    n = 5
    f = fb.fft.ifft if inverse else fb.fft.fft
    m = matrix(n, 1 if inverse else -1, scales(n, norm)[inverse])
    g = signal(n, complex=True) * 2
    got = gradient(lambda x: f(x, norm=norm), signal(n, complex=True), g)
    np.testing.assert_allclose(got, m.conj().T @ g, atol=1e-12)
    # A real input takes the real part.
    got = gradient(lambda x: f(x, norm=norm), signal(n), g)
    np.testing.assert_allclose(got, (m.conj().T @ g).real, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [5, 6])
def test_half_spectrum(norm, n):
    half = n // 2 + 1
    m = matrix(n, -1, scales(n, norm)[0])[:half]
    g = signal(half, complex=True)
    got = gradient(lambda x: fb.fft.rfft(x, norm=norm), signal(n), g)
    np.testing.assert_allclose(got, (m.conj().T @ g).real, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [5, 6])
@pytest.mark.parametrize("hermitian", [False, True])
def test_real_result_from_half_a_spectrum(norm, n, hermitian):
    half = n // 2 + 1
    f = fb.fft.hfft if hermitian else fb.fft.irfft
    x, g = signal(half, complex=True), signal(n)

    def loss(value):
        return float((f(fb.tensor(value), n=n, norm=norm) * fb.tensor(g)).sum())

    # The transform is linear over the reals: one evaluation per unit gives the gradient exactly.
    unit = np.eye(half)
    expected = np.array([loss(u) + 1j * loss(1j * u) for u in unit])
    np.testing.assert_allclose(gradient(lambda v: f(v, n=n, norm=norm), x, g), expected, atol=1e-12)


@pytest.mark.parametrize("n", [3, 8])
def test_cut_and_padded(n):
    g = signal(n, complex=True)
    got = gradient(lambda x: fb.fft.fft(x, n=n), signal(5, complex=True), g)
    m = matrix(n, -1, 1)[:, : min(n, 5)]
    expected = np.zeros(5, complex)
    expected[: min(n, 5)] = m.conj().T @ g
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fft2", "irfft2"])
def test_several_dimensions(name):
    f = getattr(fb.fft, name)
    x = signal(3, 4, 4, complex=name not in ("rfftn", "ihfftn"))
    y = f(fb.tensor(x), dim=(1, 2))
    g = signal(*y.shape, complex=y.is_complex())
    got = gradient(lambda v: f(v, dim=(1, 2)), x, g)
    # <g, F x> = <F* g, x>, over the reals.
    np.testing.assert_allclose(np.vdot(g, y.numpy()).real, np.vdot(got, x).real, rtol=1e-12)


def test_second_gradient_of_the_power_spectrum():
    # sum |rfft(x)|^2 is quadratic: its gradient is H x, so grad of <v, H x> is H v, the gradient at v.
    def slope(x):
        spectrum = fb.fft.rfft(x)
        return fb.autograd.grad((spectrum * spectrum.conj()).real.sum(), x, create_graph=True)[0]

    x = fb.tensor(signal(6), requires_grad=True)
    v = fb.tensor(signal(6)[::-1].copy(), requires_grad=True)
    (second,) = fb.autograd.grad(slope(x), x, v.detach())
    np.testing.assert_allclose(second.numpy(), slope(v).detach().numpy(), rtol=1e-12)


def test_shift_moves_the_gradient_back():
    got = gradient(fb.fft.fftshift, np.zeros(5), np.arange(5.0))
    np.testing.assert_array_equal(got, np.fft.ifftshift(np.arange(5.0)))


def test_float32_stays_float32():
    x = fb.ones(4, requires_grad=True)
    fb.fft.rfft(x).abs().sum().backward()
    assert x.grad.dtype == fb.float32


def test_out_refuses_to_be_recorded():
    x = fb.ones(4, dtype=fb.complex64, requires_grad=True)
    out = fb.empty(4, dtype=fb.complex64)
    with pytest.raises(RuntimeError, match="fft: functions with out"):
        fb.fft.fft(x, out=out)
    with fb.no_grad():
        assert fb.fft.fft(x, out=out)[0] == 4


def test_short_time_transform_and_back():
    x = fb.tensor(signal(32), requires_grad=True)
    window = fb.hann_window(8, dtype=fb.float64).requires_grad_()
    spectrum = fb.stft(x, 8, window=window, return_complex=True)
    back = fb.istft(spectrum, 8, window=window, length=32)
    weights = fb.tensor(signal(32)[::-1].copy())
    g_x, g_window = fb.autograd.grad(back, [x, window], weights)
    # istft undoes stft whatever the window.
    np.testing.assert_allclose(g_x.numpy(), weights.numpy(), atol=1e-12)
    np.testing.assert_allclose(g_window.numpy(), 0, atol=1e-10)


def test_inside_vmap():
    x = signal(3, 5, 4)
    each = fb.func.vmap(lambda v: fb.fft.irfftn(v, s=(6, 7)))(fb.tensor(x))
    np.testing.assert_allclose(each.numpy(), np.fft.irfftn(x, s=(6, 7), axes=(1, 2)), atol=1e-12)
    power = fb.func.vmap(fb.func.grad(lambda v: fb.fft.fft(v).abs().square().sum()))(fb.tensor(x[0]))
    np.testing.assert_allclose(power.numpy(), 2 * 4 * x[0], atol=1e-12)  # Parseval: n times the energy
    with pytest.raises(RuntimeError, match="fft: out= cannot be used inside vmap"):
        fb.func.vmap(lambda v: fb.fft.fft(v, out=fb.empty(4, dtype=fb.complex128)))(fb.tensor(x[0]))
