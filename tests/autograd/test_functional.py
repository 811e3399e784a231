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
    G = X.clone().requires_grad_()  # noqa: N806
    f = lambda x, y: x * 2  # noqa: E731
    close(vjp(f, (X, Y), U)[1][1], fb.zeros_like(Y))
    close(jacobian(f, (X, Y))[1], fb.zeros(3, 3, dtype=fb.float64))
    constant = lambda x: Y * 1  # noqa: E731
    unused, flat = "The output of the user-provided function is independent of input ", "Output 0 .* does not require gradients"
    loose = lambda x: x.long().double().requires_grad_().clone()  # noqa: E731
    by_slope = "The jacobian of the user-provided function with respect to input 0 is"
    for words, call in (
        (unused + "1", lambda: vjp(f, (X, Y), U, strict=True)),
        (flat, lambda: vjp(constant, X, U, strict=True)),
        (unused + "0", lambda: vjp(loose, X, U, strict=True)),
        ("jacobian .* is independent of input 0", lambda: vjp(lambda x: x.clone(), G, U, create_graph=True, strict=True)),
        (flat, lambda: jvp(constant, X, U, strict=True)),
        (unused + "0", lambda: jvp(loose, X, U, strict=True)),
        ("Output 0 .* is independent of input 1", lambda: jacobian(f, (X, Y), strict=True)),
        (flat, lambda: jacobian(constant, X, strict=True)),
        ("jacobian .* is independent of input 0", lambda: jacobian(lambda x: x.clone(), G, create_graph=True, strict=True)),
        (by_slope, lambda: hessian(lambda x: x.sum(), X, strict=True)),
        (by_slope, lambda: vhp(lambda x: x.sum(), X, U, strict=True)),
        (unused + "0", lambda: vhp(lambda x: loose(x).sum(), X, U, strict=True)),
        (by_slope, lambda: hvp(lambda x: x.sum(), X, U, strict=True)),
    ):
        with pytest.raises(RuntimeError, match=f"{words}.*strict=True"):
            call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vjp(lambda x: x, X), ValueError, "The vector v can only be None if the user-provided function returns"),
        (lambda: jvp(lambda x: x, X), ValueError, "The vector v can only be None if the input to the user-provided function"),
        (lambda: vjp(lambda x: x, X, X[:1]), ValueError, "v has invalid size: should be .*Size"),
        (lambda: vjp(lambda x: x, X, (X, X)), ValueError, "The given v should contain a single Tensor"),
        (lambda: vjp(lambda x: 3, X), TypeError, "The outputs of the user-provided function given to vjp must be"),
        (lambda: vjp(lambda x: x, (X, 3.0)), TypeError, "The inputs given to vjp must be either a Tensor.*float as entry 1"),
        (lambda: hvp(lambda x: x.sum(), X, "v"), TypeError, "The v given to hvp must be either a Tensor"),
        (lambda: vhp(lambda x: x, X, X), ValueError, "The Tensor returned by the function given to vhp should contain a single"),
        (lambda: hessian(lambda x: (x.sum(), x.sum()), X), ValueError, "The function given to hessian should return a single"),
        (lambda: jacobian(lambda x: x, X, strategy="sideways"), ValueError, "strategy"),
        (lambda: jacobian(lambda x: x, X, strategy="forward-mode"), ValueError, "vectorize"),
        (lambda: jacobian(lambda x: x, X, vectorize=True, strict=True), ValueError, "not supported together"),
        (lambda: jacobian(lambda x: x, X, vectorize=True, strategy="forward-mode", create_graph=True), ValueError, "reverse-mode"),
        (lambda: hessian(lambda x: x.sum(), X, outer_jacobian_strategy="up"), ValueError, "outer_jacobian_strategy"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
