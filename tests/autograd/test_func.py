"""fb.func: gradients and Jacobians as functions of functions."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import flambeau as fb
from flambeau.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from flambeau.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten


def double(*values):
    return fb.tensor(values, dtype=fb.float64)


def close(a, b):
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


X = double(0.5, -1.0, 2.0)
Y = double(1.5, 0.25, -0.75)


# ---- grad ----------------------------------------------------------------------------------------------------------------


def test_grad_and_value():
    g, value = grad_and_value(lambda x: (x**3).sum())(X)
    close(g, 3 * X**2)
    close(value, (X**3).sum())
    assert not g.requires_grad and not value.requires_grad and not X.requires_grad


def test_argnums():
    f = lambda x, y: (x * y**2).sum()  # noqa: E731
    close(grad(f, 1)(X, Y), 2 * X * Y)
    close(grad(f, -1)(X, Y), 2 * X * Y)
    gx, gy = grad(f, (0, 1))(X, Y)
    close(gx, Y**2)
    close(gy, 2 * X * Y)
    (only,) = grad(f, (1,))(X, Y)
    close(only, 2 * X * Y)


@pytest.mark.parametrize(
    ("argnums", "words"),
    [
        (2, "Got argnum=2, but only 2 positional inputs"),
        (-3, "but only"),
        ((), "must be non-empty"),
        ((0, 0), "must be unique"),
        ("x", "argnum must be int or Tuple"),
        ((0, 5), "but only"),
        ((0, "x"), "argnum must be int"),
    ],
)
def test_wrong_argnums(argnums, words):
    with pytest.raises((ValueError, IndexError), match=words):
        grad(lambda x, y: x.sum(), argnums)(X, Y)


def test_has_aux():
    g, aux = grad(lambda x: (x.sum(), {"twice": 2 * x}), has_aux=True)(X)
    close(g, fb.ones_like(X))
    close(aux["twice"], 2 * X)
    assert not aux["twice"].requires_grad
    g, (value, aux) = grad_and_value(lambda x: (x.sum(), x), has_aux=True)(X)
    close(value, X.sum())
    with pytest.raises(ValueError, match="has_aux"):
        grad(lambda x: x.sum(), has_aux=True)(X)


@pytest.mark.parametrize("aux", [1, None, "a", [X, 2.0]])
@pytest.mark.parametrize(
    "call",
    [
        lambda f: grad(f, has_aux=True)(X),
        lambda f: vjp(f, X, has_aux=True),
        lambda f: jvp(f, (X,), (X,), has_aux=True),
        lambda f: jacrev(f, has_aux=True)(X),
        lambda f: jacfwd(f, has_aux=True)(X),
    ],
    ids=["grad", "vjp", "jvp", "jacrev", "jacfwd"],
)
def test_aux_holds_tensors(call, aux):
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
        call(lambda x: (x.sum(), aux))


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_are_real(jacobian):
    z = fb.complex(X, Y)
    with pytest.raises(RuntimeError, match=f"{jacobian.__name__}: Expected all inputs to be real"):
        jacobian(fb.conj)(z)
    with pytest.raises(RuntimeError, match=f"{jacobian.__name__}: Expected all outputs to be real"):
        jacobian(lambda x: x * 0.5j)(X)


def test_vjp_under_no_grad_keeps_the_history_of_the_primals():
    x = fb.tensor(3.0, requires_grad=True)
    with fb.no_grad():
        out, pull = vjp(lambda x: x**2, x)
    assert not out.requires_grad
    (y,) = pull(fb.tensor(1.0))
    (z,) = fb.autograd.grad(y, x)
    assert y.item() == 6 and z.item() == 2


def test_containers():
    Point = collections.namedtuple("Point", "x y")
    g = grad(lambda p: (p["a"][0] * p["b"].x * p["b"].y).sum())({"a": [X], "b": Point(Y, X)})
    close(g["a"][0], Y * X)
    close(g["b"].x, X * X)
    assert isinstance(g["b"], Point)


def test_nested():
    f = lambda x: x**5  # noqa: E731
    x = double(2.0)[0]
    for order, expected in enumerate([80.0, 160.0, 240.0, 240.0, 120.0, 0.0], 1):
        g = f
        for _ in range(order):
            g = grad(g)
        assert float(g(x)) == expected
        assert not g(x).requires_grad


def test_a_derivative_inside_a_derivative():
    """The inner derivative is by y at x; what the outer sees depends on both."""
    outer = grad(lambda x: x * grad(lambda y: x * y * y)(x))
    assert float(outer(double(3.0)[0])) == 6 * 9


def test_history_only_where_it_leads_outside():
    w = double(1.0, 2.0, 3.0).requires_grad_()
    g = grad(lambda x: (x * x * w).sum())(X)
    assert g.requires_grad
    g.sum().backward()
    close(w.grad, 2 * X)
    assert not grad(lambda x: (x * x).sum() + w.sum())(X).requires_grad
    leaf = X.clone().requires_grad_()
    g = grad(lambda x: (x**3).sum())(leaf)
    g.sum().backward()
    close(leaf.grad, 6 * X)


def test_grad_modes():
    w = double(1.0, 2.0, 3.0).requires_grad_()
    with fb.no_grad():
        g = grad(lambda x: (x * w).sum())(X)
        assert not g.requires_grad
    close(g, w)

    def with_block(x):
        with fb.no_grad():
            c = x * x
        return (x - c).sum()

    close(grad(with_block)(X), fb.ones_like(X))


def test_an_input_without_influence_has_zero_gradient():
    gx, gy = grad(lambda x, y: x.sum(), (0, 1))(X, Y)
    close(gy, fb.zeros_like(Y))
    close(grad(lambda x: double(1.0)[0])(X), fb.zeros_like(X))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: grad(lambda x: x)(X), "0-d tensor"),
        (lambda: grad(lambda x: 3)(X), "must return a tensor"),
        (lambda: grad(lambda x: x.sum())(fb.arange(3)), "floating or complex"),
        (lambda: grad(lambda x: x)(3.0), "floating or complex"),
        (lambda: grad(lambda x: x.sum() > 0)(X), "real floating"),
        (lambda: grad(lambda: X.sum())(), "but only 0 positional inputs"),
        (lambda: vjp(lambda x: x), "no primals"),
        (lambda: vjp(lambda x: 3, X), r"vjp\(f, \*primals\): expected f\(\*primals\) to return only tensors"),
        (lambda: jacrev(lambda x: None)(X), r"jacrev: vjp\(f, \*primals\): Expected f to be a function that has non-empty output"),
        (lambda: vjp(lambda x: (), X), r"vjp\(f, \*primals\): Expected f to be a function that has non-empty output"),
        (lambda: vjp(lambda x: [x, x], X, has_aux=True), r"vjp\(f, \*primals\): output of function f should be a tuple"),
        (lambda: jvp(lambda x: x, (X,), ((X,),)), "same python structure"),
        (lambda: vjp(lambda x: x, X)[1](X[:2]), "shape of its output"),
        (lambda: vjp(lambda x: x, X)[1]((X, X)), "structure"),
        (lambda: jvp(lambda x: x, X, X), "Expected primals to be a tuple"),
        (lambda: jvp(lambda x: x, (), ()), "at least one Tensor"),
        (lambda: jvp(lambda x: x, (X,), X), "same python structure"),
        (lambda: jvp(lambda x: x, (X,), (1,)), "Expected tangents to only contain Tensors"),
        (lambda: jvp(lambda x: x, (X,), (X[:1],)), "shape of its primal"),
        (lambda: jvp(lambda x: X, (X,), (X,), strict=True), "strict"),
        (lambda: jacrev(lambda x: x, chunk_size=0), "`chunk_size` should be greater than 0"),
        (lambda: jacfwd(lambda x: x, randomness="no"), "randomness"),
        (lambda: linearize(lambda x: x, X)[1](X[:1]), "in flattened pytree doesn't match the shape"),
        (lambda: linearize(lambda x: x, X)[1](X, X), "to have the same argspec as the primals"),
    ],
)
def test_errors(call, words):
    with pytest.raises((ValueError, IndexError), match=words):
        call()


# ---- products ------------------------------------------------------------------------------------------------------------


def pair(x, y):
    return {"a": x.sin() * y.sum(), "b": [(x * y).sum()]}


def dense(x, y):
    """The Jacobian of pair, flattened, by hand."""
    top = fb.cat([fb.diag(x.cos() * y.sum()), x.sin().unsqueeze(1).expand(3, 3)], 1)
    return fb.cat([top, fb.cat([y, x]).unsqueeze(0)])


def test_vjp():
    out, pull = vjp(pair, X, Y)
    close(out["a"], X.sin() * Y.sum())
    v = {"a": double(1.0, -2.0, 0.5), "b": [double(3.0)[0]]}
    gx, gy = pull(v)
    close(fb.cat([gx, gy]), dense(X, Y).T @ double(1.0, -2.0, 0.5, 3.0))
    close(pull(v)[0], gx)
    assert not gx.requires_grad
    out, pull, aux = vjp(lambda x: (x * 2, x + 1), X, has_aux=True)
    close(aux, X + 1)
    close(pull(X)[0], 2 * X)


def test_jvp_and_linearize():
    u = (double(1.0, 2.0, 3.0), double(-1.0, 0.5, 2.0))
    expected = dense(X, Y) @ fb.cat(u)
    out, t = jvp(pair, (X, Y), u)
    close(out["b"][0], (X * Y).sum())
    close(fb.cat([t["a"], t["b"][0].reshape(1)]), expected)
    out, push = linearize(pair, X, Y)
    for _ in range(2):
        t = push(*u)
        close(fb.cat([t["a"], t["b"][0].reshape(1)]), expected)
    assert not t["a"].requires_grad
    _, t, aux = jvp(lambda x: (x * 2, x + 7), (X,), (X,), has_aux=True)
    close(t, 2 * X)
    close(aux, X + 7)


def test_jvp_of_a_constant_is_zero():
    close(jvp(lambda x: Y, (X,), (X,))[1], fb.zeros_like(Y))


def test_vjp_of_a_result_that_is_linear_in_the_vector():
    """The pulled-back vector can be differentiated by the vector."""
    _, pull = vjp(lambda x: x.sin(), X)
    v = Y.clone().requires_grad_()
    pull(v)[0].sum().backward()
    close(v.grad, X.cos())


def test_complex():
    z = fb.complex(X, Y)
    out, pull = vjp(lambda z: z * z, z)
    close(pull(fb.ones_like(z))[0], (2 * z).conj())
    close(jvp(lambda z: z * z, (z,), (z,))[1], 2 * z * z)


# ---- matrices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian):
    j = jacobian(pair, (0, 1))(X, Y)
    got = fb.cat([fb.cat(j["a"], 1), fb.cat(j["b"][0]).unsqueeze(0)])
    close(got, dense(X, Y))
    close(jacobian(lambda x: x.reshape(3, 1) * x)(X).reshape(9, 3), fb.stack([_unit_outer(k) for k in range(3)], 1))
    j, aux = jacobian(lambda x: (x * 2, x + 1), has_aux=True)(X)
    close(j, 2 * fb.eye(3, dtype=fb.float64))
    close(aux, X + 1)
    assert jacobian(lambda x: x[:0])(X).shape == (0, 3)
    assert not jacobian(lambda x: x * 2)(X).requires_grad


def _unit_outer(k):
    e = fb.eye(3, dtype=fb.float64)[k]
    return (e.reshape(3, 1) * X + X.reshape(3, 1) * e).reshape(9)


def test_jacobian_of_jacobian():
    f = lambda x: (x**3).sum() * x  # noqa: E731
    third = jacrev(jacrev(f))(X)
    mixed = jacfwd(jacrev(f))(X)
    close(third, mixed)
    close(third, jacrev(jacfwd(f))(X))
    close(third, third.transpose(1, 2))


def test_hessian():
    f = lambda x, y: (x**2 * y).sum()  # noqa: E731
    close(hessian(f)(X, Y), fb.diag(2 * Y))
    (xx, xy), (yx, yy) = hessian(f, (0, 1))(X, Y)
    close(xy, fb.diag(2 * X))
    close(yx, fb.diag(2 * X))
    close(yy, fb.zeros(3, 3, dtype=fb.float64))


# ---- containers ----------------------------------------------------------------------------------------------------------


def test_trees():
    Point = collections.namedtuple("Point", "x y")
    tree = {"a": [1, (2, None)], "b": Point(3, collections.OrderedDict(c=4)), "d": ()}
    leaves, spec = tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4] == tree_leaves(tree)
    assert tree_unflatten(leaves, spec) == tree
    assert type(tree_unflatten(leaves, spec)["b"]) is Point
    assert tree_structure(tree) == spec and tree_structure([1]) != tree_structure((1,))
    assert tree_structure({"a": 1}) != tree_structure({"b": 1})
    assert tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert tree_map(lambda x: x * 2, fb.sort(fb.tensor([2, 1]))).values.tolist() == [2, 4]
    with pytest.raises(ValueError, match="differ"):
        tree_map(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="leaves"):
        tree_unflatten([1], spec)


def test_jvp_of_a_function_that_changes_its_argument():
    x, u = fb.tensor([1.0, 2.0]), fb.tensor([1.0, 3.0])
    value, tangent = fb.func.jvp(lambda t: t.mul_(t).add_(1), (x,), (u,))
    assert value.tolist() == [2, 5] and tangent.tolist() == [2, 12]
    assert x.tolist() == [2, 5]  # as any function that changes its argument
    _, tangents = fb.func.vmap(lambda a, b: fb.func.jvp(lambda t: t.mul_(t), (a,), (b,)))(fb.ones(3, 2), fb.ones(3, 2))
    assert tangents.tolist() == [[2, 2]] * 3
