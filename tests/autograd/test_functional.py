"""autograd.functional: products and matrices of derivatives, against formulas."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def double(*values):
    return fb.tensor(values, dtype=fb.float64)


def close(a, b):
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


X, Y = double(0.5, -1.0, 2.0), double(1.5, 0.25, -0.75)
U, V = double(1.0, 2.0, 3.0), double(-1.0, 0.5, 2.0)


def pair(x, y):
    return x.sin() * y, (x * y).sum()


def cubic(x, y):
    return (x**3 * y).sum()


def test_vjp():
    (a, b), (gx, gy) = vjp(pair, (X, Y), (U, double(2.0)[0]))
    close(a, X.sin() * Y)
    close(gx, U * X.cos() * Y + 2 * Y)
    close(gy, U * X.sin() + 2 * X)
    out, g = vjp(lambda x: (x**2).sum(), X)
    close(g, 2 * X)
    assert not g.requires_grad and not out.requires_grad


def test_jvp():
    (a, b), (ta, tb) = jvp(pair, (X, Y), (U, V))
    close(ta, X.cos() * Y * U + X.sin() * V)
    close(tb, (Y * U + X * V).sum())
    close(jvp(lambda x: x * U, double(2.0)[0])[1], U)


def test_vhp_and_hvp():
    for product in (vhp, hvp):
        value, (hx, hy) = product(cubic, (X, Y), (U, V))
        close(value, cubic(X, Y))
        close(hx, 6 * X * Y * U + 3 * X**2 * V)
        close(hy, 3 * X**2 * U)
        value, h = product(lambda x: (x**3).sum(), X, U)
        close(h, 6 * X * U)
        close(product(lambda x: x.sum(), X, U)[1], fb.zeros_like(X))


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_jacobian(options):
    (ax, ay), (bx, by) = jacobian(pair, (X, Y), **options)
    close(ax, fb.diag(X.cos() * Y))
    close(ay, fb.diag(X.sin()))
    close(bx, Y)
    close(by, X)
    close(jacobian(lambda x: x**2, X, **options), fb.diag(2 * X))
    assert isinstance(jacobian(lambda x: (x, x), X, **options), tuple)
    m = jacobian(lambda x: x.sum(0), X.reshape(3, 1).expand(3, 2).clone(), **options)
    assert m.shape == (2, 3, 2)


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}])
def test_hessian(options):
    (xx, xy), (yx, yy) = hessian(cubic, (X, Y), **options)
    close(xx, fb.diag(6 * X * Y))
    close(xy, fb.diag(3 * X**2))
    close(yx, fb.diag(3 * X**2))
    close(yy, fb.zeros(3, 3, dtype=fb.float64))
    close(hessian(lambda x: (x**3).sum().reshape(1), X, **options), fb.diag(6 * X))


def test_create_graph():
    x = X.clone().requires_grad_()
    for compute in (
        lambda: vjp(lambda t: (t**3).sum(), x, create_graph=True)[1],
        lambda: jvp(lambda t: t**3, x, fb.ones_like(x), create_graph=True)[1],
        lambda: jacobian(lambda t: t**3, x, create_graph=True).sum(0),
        lambda: jacobian(lambda t: t**3, x, create_graph=True, vectorize=True).sum(0),
    ):
        (g,) = fb.autograd.grad(compute().sum(), x)
        close(g, 6 * X)
    for compute in (
        lambda: hessian(lambda t: (t**3).sum(), x, create_graph=True).sum(0),
        lambda: hvp(lambda t: (t**3).sum(), x, fb.ones_like(x), create_graph=True)[1],
        lambda: vhp(lambda t: (t**3).sum(), x, fb.ones_like(x), create_graph=True)[1],
    ):
        (g,) = fb.autograd.grad(compute().sum(), x)
        close(g, fb.full_like(X, 6.0))


def test_inputs_are_left_alone():
    x = X.clone().requires_grad_()
    jacobian(lambda t: t**2, x)
    assert x.grad is None and X.grad is None and not X.requires_grad


def test_under_no_grad():
    with fb.no_grad():
        close(jacobian(lambda t: t**2, X), fb.diag(2 * X))


def test_independent_outputs():
    f = lambda x, y: x * 2  # noqa: E731
    close(vjp(f, (X, Y), U)[1][1], fb.zeros_like(Y))
    close(jacobian(f, (X, Y))[1], fb.zeros(3, 3, dtype=fb.float64))
    constant = lambda x: Y * 1  # noqa: E731
    for call in (
        lambda: vjp(f, (X, Y), U, strict=True),
        lambda: vjp(constant, X, U, strict=True),
        lambda: jvp(constant, X, U, strict=True),
        lambda: jacobian(f, (X, Y), strict=True),
        lambda: jacobian(constant, X, strict=True),
        lambda: hessian(lambda x: x.sum(), X, strict=True),
        lambda: vhp(lambda x: x.sum(), X, U, strict=True),
        lambda: hvp(lambda x: x.sum(), X, U, strict=True),
    ):
        with pytest.raises(RuntimeError, match="strict=True"):
            call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vjp(lambda x: x, X), ValueError, "v may be left out"),
        (lambda: jvp(lambda x: x, X), ValueError, "v may be left out"),
        (lambda: vjp(lambda x: x, X, X[:1]), ValueError, "shape"),
        (lambda: vjp(lambda x: x, X, (X, X)), ValueError, "expected 1"),
        (lambda: vjp(lambda x: 3, X), TypeError, "result of the function"),
        (lambda: vjp(lambda x: x, 3.0), TypeError, "inputs"),
        (lambda: vhp(lambda x: x, X, X), ValueError, "single element"),
        (lambda: hessian(lambda x: (x.sum(), x.sum()), X), ValueError, "one tensor"),
        (lambda: jacobian(lambda x: x, X, strategy="sideways"), ValueError, "strategy"),
        (lambda: jacobian(lambda x: x, X, strategy="forward-mode"), ValueError, "vectorize"),
        (lambda: jacobian(lambda x: x, X, vectorize=True, strict=True), ValueError, "strict"),
        (lambda: jacobian(lambda x: x, X, vectorize=True, strategy="forward-mode", create_graph=True), ValueError, "reverse-mode"),
        (lambda: hessian(lambda x: x.sum(), X, outer_jacobian_strategy="up"), ValueError, "outer_jacobian_strategy"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
