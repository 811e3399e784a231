"""Gradients flow through steps of differentiable optimizers."""

import numpy as np
import pytest

import flambeau as fb

from . import references
from .cases import DIFFERENTIABLE, case_name

STEPS = 3


def after_steps(name, options, start, grads):
    """The parameter after some steps, differentiable in all tensors given."""
    p = start.clone()
    optimizer = getattr(fb.optim, name)([p], **options, differentiable=True)
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
    return p


def numeric_gradient(f, x, eps=1e-6):
    """Of a function of one array, by central differences."""
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[i] += eps
        low[i] -= eps
        result[i] = (f(high) - f(low)) / (2 * eps)
    return result


def by_the_rule(name, options, start, grads):
    rule = getattr(references, name)(**options)
    for g in grads:
        start = rule.step(start, g)
    return start


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=case_name)
def test_gradients_for_parameters_and_gradients(case):
    name, options = case
    fb.set_default_dtype(fb.float64)
    rng = np.random.default_rng(0)
    start, grads, weights = rng.standard_normal(4), rng.standard_normal((STEPS, 4)), rng.standard_normal(4)
    p = fb.tensor(start, requires_grad=True)
    g = [fb.tensor(value, requires_grad=True) for value in grads]
    after_steps(name, options, p, g).backward(fb.tensor(weights))

    def loss(start, grads):
        return (by_the_rule(name, options, start, grads) * weights).sum()

    np.testing.assert_allclose(p.grad.numpy(), numeric_gradient(lambda x: loss(x, grads), start), rtol=1e-5, atol=1e-7)
    expected = numeric_gradient(lambda x: loss(start, x), grads)
    np.testing.assert_allclose(np.stack([x.grad.numpy() for x in g]), expected, rtol=1e-5, atol=1e-7)


# Rprop's and ASGD's states hold the learning rate as a constant.
@pytest.mark.parametrize("case", [c for c in DIFFERENTIABLE if c[0] not in ("Rprop", "ASGD")], ids=case_name)
def test_gradient_for_the_learning_rate(case):
    name, options = case
    fb.set_default_dtype(fb.float64)
    rng = np.random.default_rng(0)
    start, grads = rng.standard_normal(4), rng.standard_normal((STEPS, 4))
    lr = fb.tensor(0.1, requires_grad=True)
    options = options | {"lr": lr}
    after_steps(name, options, fb.tensor(start), [fb.tensor(g) for g in grads]).backward(fb.ones(4))
    expected = numeric_gradient(
        lambda x: by_the_rule(name, options | {"lr": x[0]}, start, grads).sum(), np.array([0.1])
    )
    np.testing.assert_allclose(lr.grad.item(), expected[0], rtol=1e-5)


def test_gradients_for_betas_and_weight_decay():
    fb.set_default_dtype(fb.float64)
    rng = np.random.default_rng(0)
    start, grads = rng.standard_normal(4), rng.standard_normal((STEPS, 4))
    for name in ("Adam", "SGD"):
        values = np.array([0.6, 0.8, 0.3])
        b1, b2, decay = (fb.tensor(v, requires_grad=True) for v in values)
        options = {"lr": 0.1, "weight_decay": decay} | ({"betas": (b1, b2)} if name == "Adam" else {})
        after_steps(name, options, fb.tensor(start), [fb.tensor(g) for g in grads]).backward(fb.ones(4))

        def loss(x, name=name):
            options = {"lr": 0.1, "weight_decay": x[2]} | ({"betas": tuple(x[:2])} if name == "Adam" else {})
            return by_the_rule(name, options, start, grads).sum()

        expected = numeric_gradient(loss, values)
        assert decay.grad.item() == pytest.approx(expected[2], rel=1e-5)
        if name == "Adam":
            assert [b1.grad.item(), b2.grad.item()] == pytest.approx(expected[:2], rel=1e-5)


def test_other_steps_record_nothing():
    p = fb.ones(3, requires_grad=True)
    p.grad = fb.ones(3)
    optimizer = fb.optim.Adam([p], lr=fb.tensor(0.1, requires_grad=True))
    optimizer.step()
    assert p.is_leaf
    assert not optimizer.state[p]["exp_avg"].requires_grad


def test_step_count_must_not_require_a_gradient():
    p = fb.ones(3)
    p.grad = fb.ones(3)
    optimizer = fb.optim.Adam([p], differentiable=True)
    optimizer.step()
    optimizer.state[p]["step"] = fb.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="step counts"):
        optimizer.step()
