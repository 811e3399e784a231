"""Special functions: accuracy against SciPy over wide ranges, limits, and whole-tensor comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special as sc

import flambeau as fb

inf, nan = math.inf, math.nan


def spread(low, high, n=300):
    """Numbers on a logarithmic scale, 10**low to 10**high."""
    return 10.0 ** np.linspace(low, high, n)


def line(low, high, n=300):
    return np.linspace(low, high, n)


def both(x):
    return np.concatenate([x, -x])


UNARY = {
    "erfinv": (
        sc.erfinv,
        np.concatenate([line(-0.999, 0.999), both(1 - spread(-15, -3)), both(spread(-200, -3))]),
        2e-15,
    ),
    "digamma": (sc.psi, np.concatenate([line(1.6, 30), spread(-8, 0), spread(1, 12), line(-7.4, -7.1)]), 2e-14),
    "gammaln": (sc.gammaln, np.concatenate([line(2.5, 60), spread(-8, -1), spread(1, 100)]), 4e-15),
    "i0": (sc.i0, line(-700, 700), 4e-14),
    "i0e": (sc.i0e, both(spread(-5, 10)), 4e-15),
    "i1": (sc.i1, line(-700, 700), 4e-14),
    "i1e": (sc.i1e, both(spread(-5, 10)), 4e-15),
    "ndtr": (sc.ndtr, line(-37, 8), 4e-13),
    "ndtri": (sc.ndtri, np.concatenate([line(0.001, 0.999), spread(-300, -3), 1 - spread(-15, -3)]), 4e-15),
    "log_ndtr": (sc.log_ndtr, np.concatenate([line(-60, 8), -spread(1, 9)]), 2e-14),
    "erfcx": (sc.erfcx, np.concatenate([line(-26, 30), spread(-5, 200)]), 4e-15),
    "entr": (sc.entr, line(-1, 10), 1e-15),
    "bessel_j0": (sc.j0, line(-2.2, 2.2), 2e-15),
    "bessel_j1": (sc.j1, line(-3.6, 3.6), 4e-15),
    "bessel_y0": (sc.y0, line(1.1, 3.7), 4e-15),
    "bessel_y1": (sc.y1, spread(-5, 0), 4e-15),
    "modified_bessel_k0": (sc.k0, spread(-8, 2.8), 4e-14),
    "modified_bessel_k1": (sc.k1, spread(-8, 2.8), 4e-14),
    "scaled_modified_bessel_k0": (sc.k0e, spread(-8, 10), 4e-15),
    "scaled_modified_bessel_k1": (sc.k1e, spread(-8, 10), 4e-15),
    "spherical_bessel_j0": (lambda x: np.sinc(x / np.pi), line(-3, 3), 2e-15),
    "airy_ai": (lambda x: sc.airy(x)[0], np.concatenate([line(-2.2, 30), line(-2.2, 2.2)]), 2e-14),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_accuracy(name):
    reference, x, tolerance = UNARY[name]
    f = getattr(fb.special, name)
    want = reference(x)
    np.testing.assert_allclose(f(fb.tensor(x)).numpy(), want, rtol=tolerance)
    with np.errstate(over="ignore", under="ignore"):
        single = x.astype(np.float32)
        exact = reference(single.astype(np.float64)).astype(np.float32)
    normal = np.abs(exact) > 1e-37
    np.testing.assert_allclose(f(fb.tensor(single)).numpy()[normal], exact[normal], rtol=3e-7)
    half = f(fb.tensor(x).to(fb.bfloat16))
    assert half.dtype is fb.bfloat16
    assert f(fb.tensor([1])).dtype is fb.float32


def test_bessel_functions_are_absolutely_exact_in_their_oscillating_part():
    x = line(0.1, 500, 2000)
    for name, f in {"bessel_j0": sc.j0, "bessel_j1": sc.j1, "bessel_y0": sc.y0, "bessel_y1": sc.y1}.items():
        np.testing.assert_allclose(getattr(fb.special, name)(fb.tensor(x)).numpy(), f(x), atol=5e-15, rtol=1e-14)
    x = line(-60, 0, 2000)
    np.testing.assert_allclose(fb.special.airy_ai(fb.tensor(x)).numpy(), sc.airy(x)[0], atol=4e-14)


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma(upper):
    ours, reference = (fb.igammac, sc.gammaincc) if upper else (fb.igamma, sc.gammainc)
    a, x = (v.ravel() for v in np.meshgrid(spread(-4, 3, 60), spread(-4, 3.2, 60)))
    want = reference(a, x)
    got = ours(fb.tensor(a), fb.tensor(x)).numpy()
    normal = want > 1e-280
    np.testing.assert_allclose(got[normal], want[normal], rtol=2e-12)
    # Near the median of a large shape parameter.
    a = spread(2, 6, 50)
    for offset in (-3, -1, -0.1, 0, 0.1, 1, 3):
        x = a + offset * np.sqrt(a)
        np.testing.assert_allclose(ours(fb.tensor(a), fb.tensor(x)).numpy(), reference(a, x), rtol=1e-9)


def test_incomplete_gamma_edges():
    a = fb.tensor([0.0, 0.0, 2.0, inf, inf, 2.0, -1.0, 1.0, nan])
    x = fb.tensor([1.0, 0.0, 0.0, 5.0, inf, inf, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(fb.igamma(a, x).numpy(), [1, nan, 0, 0, nan, 1, nan, nan, nan])
    np.testing.assert_array_equal(fb.igammac(a, x).numpy(), [0, nan, 1, 1, nan, 0, nan, nan, nan])
    with pytest.raises(NotImplementedError, match="int64"):
        fb.igamma(fb.tensor([1]), fb.tensor([2]))


def test_zeta_and_polygamma():
    s, q = (v.ravel() for v in np.meshgrid(line(1.01, 40, 50), spread(-3, 5, 50)))
    np.testing.assert_allclose(fb.special.zeta(fb.tensor(s), fb.tensor(q)).numpy(), sc.zeta(s, q), rtol=1e-14)
    assert fb.special.zeta(fb.tensor(2.0), 1).item() == pytest.approx(math.pi**2 / 6, rel=1e-6)
    assert fb.special.zeta(3.0, fb.tensor([1.0, -2.0, inf])).tolist()[1:] == [inf, 0]
    np.testing.assert_array_equal(
        fb.special.zeta(fb.tensor([1.0, 0.5, 2.5, inf, nan]), fb.tensor([2.0, 2.0, -1.5, 2.0, 1.0])).numpy(),
        [inf, nan, nan, 0, nan],
    )
    x = np.concatenate([spread(-2, 3), line(0.5, 20)])
    for n in range(6):
        got = fb.polygamma(n, fb.tensor(x)).numpy()
        np.testing.assert_allclose(got, sc.polygamma(n, x), rtol=2e-14, atol=1e-15 if n == 0 else 0)
    assert fb.tensor([1.0]).polygamma(1).item() == pytest.approx(math.pi**2 / 6, rel=1e-6)
    with pytest.raises(ValueError, match="must not be negative"):
        fb.polygamma(-1, fb.ones(2))


def test_mvlgamma():
    x = line(5, 50)
    for p in (1, 2, 9):
        np.testing.assert_allclose(fb.mvlgamma(fb.tensor(x), p).numpy(), sc.multigammaln(x, p), rtol=1e-13)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        fb.mvlgamma(fb.ones(2), 0)


POLYNOMIALS = {
    "chebyshev_polynomial_t": sc.eval_chebyt, "chebyshev_polynomial_u": sc.eval_chebyu,
    "shifted_chebyshev_polynomial_t": sc.eval_sh_chebyt, "shifted_chebyshev_polynomial_u": sc.eval_sh_chebyu,
    "hermite_polynomial_h": sc.eval_hermite, "hermite_polynomial_he": sc.eval_hermitenorm,
    "laguerre_polynomial_l": sc.eval_laguerre, "legendre_polynomial_p": sc.eval_legendre,
}  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    n, x = (v.ravel() for v in np.meshgrid(np.arange(13), line(-2, 3, 41)))
    got = getattr(fb.special, name)(fb.tensor(x), fb.tensor(n)).numpy()
    want = POLYNOMIALS[name](n, x)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11 * np.abs(want).max() / 1e3)
    assert getattr(fb.special, name)(fb.tensor([0.3]), -1).item() == 0
    assert getattr(fb.special, name)(0.5, fb.tensor([0.0, 1.0])).numpy()[0] == 1
    # A huge degree must not loop for ages.
    huge = getattr(fb.special, name)(fb.tensor([0.3, 1.0], dtype=fb.float64), fb.tensor([1e12, 9e18], dtype=fb.float64))
    assert huge.shape == (2,)


def test_chebyshev_polynomials_of_the_third_and_fourth_kind():
    x = line(-0.999, 0.999)
    angle = np.arccos(x)
    for n in (0, 1, 5, 7, 30):
        v, w = np.cos((n + 0.5) * angle) / np.cos(angle / 2), np.sin((n + 0.5) * angle) / np.sin(angle / 2)
        np.testing.assert_allclose(fb.special.chebyshev_polynomial_v(fb.tensor(x), n).numpy(), v, atol=1e-11)
        np.testing.assert_allclose(fb.special.chebyshev_polynomial_w(fb.tensor(x), n).numpy(), w, atol=1e-11)
    # Above 1 both sides of the change from loop to closed form follow the recurrence.
    for kind in "tuvw":
        f = getattr(fb.special, f"chebyshev_polynomial_{kind}")
        for at in (-1.5, 1.5, 1.0, -1.0):
            p = [f(fb.tensor(at, dtype=fb.float64), n).item() for n in range(10)]
            for k in range(2, 10):
                assert p[k] == pytest.approx(2 * at * p[k - 1] - p[k - 2], rel=1e-12)


def test_limits():
    x = fb.tensor([0.0, inf, -inf, nan])
    for name, want in {
        "i0e": [1, 0, 0, nan], "erfcx": [1, 0, inf, nan],
        "ndtr": [0.5, 1, 0, nan], "ndtri": [-inf, nan, nan, nan], "entr": [0, -inf, -inf, nan], "digamma": [-inf, inf, nan, nan],
        "gammaln": [inf, inf, inf, nan], "erfinv": [0, nan, nan, nan], "modified_bessel_k0": [inf, 0, nan, nan],
        "bessel_j0": [1, 0, 0, nan], "bessel_y0": [-inf, 0, nan, nan], "spherical_bessel_j0": [1, 0, 0, nan],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(getattr(fb.special, name)(x).numpy(), want, err_msg=name)
    assert fb.erfinv(fb.tensor([1.0, -1.0, 1.5])).numpy().tolist()[:2] == [inf, -inf]
    assert fb.special.log_ndtr(fb.tensor([-inf, inf])).tolist() == [-inf, 0]


def test_xlog1py():
    x, y = fb.tensor([0.0, 0.0, 2.0, 1.0]), fb.tensor([-1.0, nan, 1e-10, -1.0])
    np.testing.assert_allclose(fb.special.xlog1py(x, y).numpy(), [0, nan, 2e-10, -inf], rtol=1e-6)
    assert fb.special.xlog1py(2, fb.tensor([0.0])).tolist() == [0]
    with pytest.raises(TypeError):
        fb.special.xlog1py(1.0, 2.0)


def test_frexp_and_ldexp_are_inverse():
    for dtype in (fb.float16, fb.bfloat16, fb.float32, fb.float64):
        x = fb.tensor([0.0, -0.0, 1.0, -6.0, 3.5, 1e-4, inf, nan]).to(dtype)
        m, e = fb.frexp(x)
        assert m.dtype is dtype and e.dtype is fb.int32 and (m[:6].abs() < 1).all()
        np.testing.assert_array_equal(fb.ldexp(m, e).float().numpy(), x.float().numpy())
    tiny = fb.tensor([5e-324, 1e308], dtype=fb.float64)
    m, e = fb.frexp(tiny)
    assert fb.ldexp(m, e).tolist() == tiny.tolist() and e[0] == -1073
    assert fb.ldexp(fb.tensor([1, 2]), fb.tensor([3, 4])).tolist() == [8, 32]
    with pytest.raises(TypeError, match="floating-point"):
        fb.frexp(fb.tensor([1, 2]))


def test_closeness_and_equality():
    a, b = fb.tensor([1.0, 2.0, inf, nan]), fb.tensor([1.0 + 1e-6, 2.1, inf, nan])
    assert fb.isclose(a, b).tolist() == [True, False, True, False]
    assert fb.isclose(a, b, equal_nan=True).tolist() == [True, False, True, True]
    assert a.isclose(b, atol=1).tolist() == [True, True, True, False]
    assert fb.isclose(fb.tensor([inf, 1.0]), fb.tensor([1.0, inf]), rtol=10).tolist() == [False, False]
    assert fb.isclose(fb.tensor([100, 5]), fb.tensor([101, 7]), rtol=0.01).tolist() == [True, False]
    assert fb.isclose(fb.tensor([1 + 1j]), fb.tensor([1 + 1.000001j])).all()
    assert fb.allclose(fb.ones(3, 1), fb.ones(4)) is True and fb.allclose(a, a) is False
    assert fb.equal(fb.arange(3), fb.arange(3.0)) and not fb.equal(fb.ones(2), fb.ones(3)) and not fb.equal(a, a)
    assert fb.equal(fb.arange(6).view(2, 3).t(), fb.tensor([[0, 3], [1, 4], [2, 5]])) and fb.equal(
        fb.empty(0), fb.empty(0)
    )
    for kwargs in ({"rtol": -1}, {"atol": -1}):
        with pytest.raises(ValueError, match="greater than or equal to zero"):
            fb.isclose(a, b, **kwargs)
    with pytest.raises(RuntimeError, match="did not match"):
        fb.isclose(a, b.double())


@pytest.mark.parametrize("dtype, step", [(fb.float16, 2.0**-10), (fb.bfloat16, 2.0**-7)])
def test_nextafter_takes_the_steps_of_half_types(dtype, step):
    inf, nan = float("inf"), float("nan")
    info = fb.finfo(dtype)
    x = fb.tensor([1.0, 1.0, -1.0, 0.0, -0.0, 3.0, inf, info.max, nan, 1.0], dtype=dtype)
    y = fb.tensor([2.0, 0.0, 0.0, -1.0, 1.0, 3.0, 0.0, inf, 1.0, nan], dtype=dtype)
    tiny = info.smallest_normal * step
    expected = [1 + step, 1 - step / 2, step / 2 - 1, -tiny, tiny, 3, info.max, inf, nan, nan]
    fb.testing.assert_close(fb.nextafter(x, y).double(), fb.tensor(expected, dtype=fb.float64), rtol=0, atol=0, equal_nan=True)
    assert fb.nextafter(x[:1], fb.tensor(2.0)).tolist() == [1 + step]
    assert x.nextafter_(y).dtype == dtype
