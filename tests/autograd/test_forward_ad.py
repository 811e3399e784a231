"""Dual tensors against derivatives known by hand and against func.jvp."""

import numpy as np
import pytest

import flambeau as fb

fwd = fb.autograd.forward_ad


def test_tangents_of_functions_of_several_inputs():
    x, y = fb.randn(3, dtype=fb.float64), fb.randn(3, dtype=fb.float64)
    dx, dy = fb.randn(3, dtype=fb.float64), fb.randn(3, dtype=fb.float64)
    with fwd.dual_level():
        a, b = fwd.make_dual(x, dx), fwd.make_dual(y, dy)
        primal, tangent = fwd.unpack_dual((a * b).sin())
        only_a = fwd.unpack_dual(a.exp()).tangent
        constant = fwd.unpack_dual(x.exp())
        again = fwd.unpack_dual(a)
    np.testing.assert_allclose(primal.numpy(), np.sin((x * y).numpy()))
    np.testing.assert_allclose(tangent.numpy(), ((x * y).cos() * (dx * y + x * dy)).numpy())
    np.testing.assert_allclose(only_a.numpy(), (x.exp() * dx).numpy())
    assert constant.tangent is None and again.tangent is dx
    assert not primal.requires_grad and not tangent.requires_grad


def test_a_module_in_the_direction_of_its_parameters():
    fb.manual_seed(0)
    model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.Tanh(), fb.nn.Linear(4, 2))
    values = {name: p.detach() for name, p in model.named_parameters()}
    directions = {name: fb.randn_like(p) for name, p in values.items()}
    x = fb.randn(5, 3)
    with fwd.dual_level():
        duals = {name: fwd.make_dual(p, directions[name]) for name, p in values.items()}
        tangent = fwd.unpack_dual(fb.func.functional_call(model, duals, (x,))).tangent
    expected = fb.func.jvp(lambda v: fb.func.functional_call(model, v, (x,)), (values,), (directions,))[1]
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-5)


def test_gradients_of_tangents():
    x = fb.tensor(2.0, requires_grad=True)
    with fwd.dual_level():
        tangent = fwd.unpack_dual(fwd.make_dual(x, fb.tensor(1.0)) ** 3).tangent
    assert tangent.item() == 12
    (second,) = fb.autograd.grad(tangent, x)
    assert second.item() == 12  # 6 x


def test_misuse():
    with pytest.raises(RuntimeError, match="no dual level"):
        fwd.make_dual(fb.ones(1), fb.ones(1))
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported at the moment"):
            fwd.enter_dual_level()
        with pytest.raises(ValueError, match="Trying to set a forward gradient that has a different size"):
            fwd.make_dual(fb.ones(1), fb.ones(2))
        with pytest.raises(ValueError, match="to be floating point or complex"):
            fwd.make_dual(fb.ones(1, dtype=fb.int64), fb.ones(1, dtype=fb.int64))
        with fb.no_grad(), pytest.raises(RuntimeError, match="no_grad"):
            fwd.make_dual(fb.ones(1), fb.ones(1))
    with pytest.raises(RuntimeError, match="not open"):
        fwd.exit_dual_level()


def test_outside_of_a_level_nothing_has_a_tangent():
    x = fb.ones(2)
    primal, tangent = fwd.unpack_dual(x)
    assert primal is x and tangent is None
    with pytest.raises(RuntimeError, match="level"):
        fwd.unpack_dual(x, level=0)
