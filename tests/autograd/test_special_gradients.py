"""Gradients of special functions: slopes known in closed form, and the integrals they come from."""

import math

import numpy as np
import pytest

import flambeau as fb

EULER = 0.5772156649015329


def slope(f, *values, wrt=0):
    xs = [fb.tensor(v, dtype=fb.float64, requires_grad=i == wrt) for i, v in enumerate(values)]
    return fb.autograd.grad(f(*xs), xs[wrt])[0].item()


def curvature(f, value):
    x = fb.tensor(value, dtype=fb.float64, requires_grad=True)
    (g,) = fb.autograd.grad(f(x), x, create_graph=True)
    return fb.autograd.grad(g, x)[0].item()


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (fb.lgamma, 1.0, -EULER),
        (fb.digamma, 1.0, math.pi**2 / 6),
        (lambda x: fb.polygamma(1, x), 1.0, -2 * 1.2020569031595943),  # -2 ζ(3)
        (lambda x: x.polygamma(2), 1.0, math.pi**4 / 15),
        (lambda x: fb.mvlgamma(x, 2), 1.5, (-EULER - 2 * math.log(2) + 2) + -EULER),  # ψ(3/2) + ψ(1)
        (fb.erfinv, 0.0, math.sqrt(math.pi) / 2),
        (fb.special.erfcx, 0.0, -2 / math.sqrt(math.pi)),
        (fb.special.ndtr, 1.0, math.exp(-0.5) / math.sqrt(2 * math.pi)),
        (fb.special.ndtri, 0.5, math.sqrt(2 * math.pi)),
        (fb.special.log_ndtr, 0.0, math.sqrt(2 / math.pi)),
        (fb.special.log_ndtr, -100.0, 100.009998000999),  # x + 1/x - 2/x³ far to the left, in size
        (fb.special.entr, 2.0, -1 - math.log(2)),
        (fb.i0, 1.0, 0.565159103992485),
        (fb.special.i0e, 1.0, 0.2079104153497085 - 0.46575960759364043),
        (fb.special.i1, 0.0, 0.5),
        (fb.special.i1, 1.0, 1.2660658777520082 - 0.565159103992485),
        (fb.special.i1e, 0.0, 0.5),
        (lambda x: fb.frexp(x)[0], 6.0, 1 / 8),
        (lambda x: fb.ldexp(x, fb.tensor(3.0, dtype=fb.float64)), 5.0, 8.0),
    ],
)
def test_slopes(f, x, expected):
    assert slope(f, x) == pytest.approx(expected, rel=1e-9)


def test_second_argument():
    # igamma(a, x) for a = 1 is 1 - exp(-x); zeta(s, q) sums (k + q)^-s, so d/dq = -s zeta(s + 1, q).
    assert slope(fb.igamma, 1.0, 0.7, wrt=1) == pytest.approx(math.exp(-0.7))
    assert slope(fb.igammac, 1.0, 0.7, wrt=1) == pytest.approx(-math.exp(-0.7))
    assert slope(fb.special.zeta, 2.0, 1.0, wrt=1) == pytest.approx(-2 * 1.2020569031595943)
    assert slope(fb.special.xlog1py, 3.0, 0.5, wrt=1) == pytest.approx(2.0)
    assert slope(fb.special.xlog1py, 0.0, -1.0, wrt=0) == 0
    assert slope(fb.ldexp, 3.0, 2.0, wrt=1) == pytest.approx(12 * math.log(2))
    assert slope(fb.nextafter, 3.0, 2.0, wrt=0) == 1
    assert slope(fb.nextafter, 3.0, 2.0, wrt=1) == 0


@pytest.mark.parametrize("f", [fb.igamma, fb.igammac, fb.special.zeta])
def test_first_argument_is_refused(f):
    a = fb.tensor(2.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match="with respect to 'input' is not implemented"):
        f(a, fb.tensor(1.5)).backward()


def test_curvature():
    assert curvature(fb.lgamma, 1.0) == pytest.approx(math.pi**2 / 6)
    # erfcx' = 2 x erfcx - 2/sqrt(π), so erfcx'' = 2 at zero.
    assert curvature(fb.special.erfcx, 0.0) == pytest.approx(2.0)
    # i0'' = i0 - i0'/x.
    assert curvature(fb.i0, 1.0) == pytest.approx(1.2660658777520082 - 0.565159103992485)


def test_functions_without_a_derivative_are_constants():
    x = fb.tensor([0.5], requires_grad=True)
    for f in (fb.special.bessel_j0, fb.special.airy_ai, lambda t: fb.special.legendre_polynomial_p(t, 2)):
        assert not f(x).requires_grad


def test_broadcast_gradients_are_summed():
    a = fb.full((3, 1), 2.0, dtype=fb.float64)
    x = fb.tensor([0.5, 1.5], dtype=fb.float64, requires_grad=True)
    fb.igamma(a, x).sum().backward()
    # d igamma(2, x)/dx = x exp(-x), three times.
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.detach().numpy() * np.exp(-x.detach().numpy()))


@pytest.mark.parametrize("f", [fb.logaddexp, fb.logaddexp2])
def test_sums_of_exponentials_at_the_ends(f):
    x = fb.tensor([math.inf, -math.inf, 1e4, -1e4, 0.0], requires_grad=True)
    y = fb.zeros(5, requires_grad=True)
    slopes = fb.autograd.grad(f(x, y).sum(), (x, y))
    assert [g.tolist() for g in slopes] == [[1, 0, 1, 0, 0.5], [0, 1, 0, 1, 0.5]]


def test_complex_sums_of_exponentials_follow_the_first_where_both_are_as_large():
    x = fb.tensor([1 + 2j, 1 - 2j])
    assert fb.logaddexp(x, x.conj()).imag.sign().tolist() == [1, -1]


def test_float_power_of_halves_keeps_its_gradient_in_range():
    x = fb.tensor([0.05], dtype=fb.float16, requires_grad=True)
    fb.float_power(x, fb.tensor([-3.0], dtype=fb.float16)).backward(fb.tensor([0.01], dtype=fb.float64))
    expected = 0.01 * -3 * float(x.detach()) ** -4
    assert x.grad.dtype is fb.float16 and abs(x.grad.item() / expected - 1) < 1e-3
