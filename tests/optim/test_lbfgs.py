"""L-BFGS against a dense BFGS in NumPy, known minima and its stopping rules."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fb

CURVATURE = np.diag([1.0, 3.0, 10.0]) + 0.3
TARGET = np.array([1.0, -2.0, 0.5])


def quadratic(p):
    """Loss and gradient of ½ (p - TARGET)ᵀ CURVATURE (p - TARGET)."""
    d = p - TARGET
    return 0.5 * d @ CURVATURE @ d, CURVATURE @ d


def closure_for(p, function, optimizer=None, count=None):
    """Sets the gradient from a NumPy function."""

    def closure():
        if count is not None:
            count.append(1)
        loss, gradient = function(p.detach().numpy().astype(np.float64))
        p.grad = fb.tensor(gradient, dtype=p.dtype)
        return fb.tensor(loss, dtype=p.dtype)

    return closure


def rosenbrock(x):
    a, b = 1 - x[0], x[1] - x[0] ** 2
    return a * a + 100 * b * b, np.array([-2 * a - 400 * x[0] * b, 200 * b])


def dense_bfgs(p, lr, iterations):
    """The same iterations with the inverse Hessian of BFGS as a matrix, rebuilt from the whole history."""
    history, g_before, step = [], None, None
    for i in range(iterations):
        g = quadratic(p)[1]
        if step is not None:
            history.append((g - g_before, step))
        h = np.eye(p.size)
        if history:
            y, s = history[-1]
            h *= (y @ s) / (y @ y)
        for y, s in history:
            rho = 1 / (y @ s)
            left = np.eye(p.size) - rho * np.outer(s, y)
            h = left @ h @ left.T + rho * np.outer(s, s)
        size = min(1.0, 1.0 / np.abs(g).sum()) * lr if i == 0 else lr
        step, g_before = -size * h @ g, g
        p = p + step
    return p


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_iterations_are_those_of_bfgs(iterations):
    start = np.array([2.0, 2.0, 2.0])
    p = fb.tensor(start)
    optimizer = fb.optim.LBFGS([p], lr=0.5, max_iter=iterations, max_eval=100)
    first = optimizer.step(closure_for(p, quadratic))
    assert first.item() == pytest.approx(quadratic(start)[0])
    np.testing.assert_allclose(p.numpy(), dense_bfgs(start, 0.5, iterations), rtol=1e-9)


def test_history_goes_on_from_step_to_step():
    start = np.array([2.0, 2.0, 2.0])
    p = fb.tensor(start)
    optimizer = fb.optim.LBFGS([p], lr=0.5, max_iter=2, max_eval=100)
    for _ in range(3):
        optimizer.step(closure_for(p, quadratic))
    np.testing.assert_allclose(p.numpy(), dense_bfgs(start, 0.5, 6), rtol=1e-8)
    assert optimizer.state[p]["n_iter"] == 6


def test_history_is_bounded():
    p = fb.tensor([2.0, 2.0, 2.0], dtype=fb.float64)
    optimizer = fb.optim.LBFGS([p], lr=0.3, history_size=2, max_iter=6, max_eval=100)
    optimizer.step(closure_for(p, quadratic))
    assert (
        len(optimizer.state[p]["old_dirs"]) == len(optimizer.state[p]["old_stps"]) == len(optimizer.state[p]["ro"]) == 2
    )


@pytest.mark.parametrize("start", [(-1.2, 1.0), (3.0, -4.0), (0.0, 0.0)])
def test_strong_wolfe_finds_the_valley(start):
    p = fb.tensor(start, dtype=fb.float64)
    optimizer = fb.optim.LBFGS([p], max_iter=100, max_eval=1000, tolerance_change=1e-14, line_search_fn="strong_wolfe")
    optimizer.step(closure_for(p, rosenbrock))
    np.testing.assert_allclose(p.numpy(), [1, 1], atol=1e-6)


def test_strong_wolfe_conditions_hold():
    for lr in (1e-3, 1.0, 100.0):
        p = fb.tensor([-1.2, 1.0], dtype=fb.float64)
        loss, gradient = rosenbrock(p.numpy())
        optimizer = fb.optim.LBFGS([p], lr=lr, max_iter=1, max_eval=100, line_search_fn="strong_wolfe")
        optimizer.step(closure_for(p, rosenbrock))
        step = p.numpy() - np.array([-1.2, 1.0])
        new_loss, new_gradient = rosenbrock(p.numpy())
        # Scaled by the step itself, both conditions do not depend on the length of the direction.
        assert new_loss <= loss + 1e-4 * gradient @ step
        assert abs(new_gradient @ step) <= 0.9 * abs(gradient @ step)


def test_limits_of_evaluations_and_iterations():
    count = []
    p = fb.tensor([-1.2, 1.0], dtype=fb.float64)
    optimizer = fb.optim.LBFGS([p], max_iter=50, max_eval=7, line_search_fn="strong_wolfe")
    optimizer.step(closure_for(p, rosenbrock, count=count))
    assert optimizer.state[p]["func_evals"] == len(count)
    # A line search that has begun comes to an end: one evaluation more at most.
    assert len(count) <= 8
    p = fb.tensor([2.0, 2.0, 2.0], dtype=fb.float64)
    optimizer = fb.optim.LBFGS([p], lr=0.1)
    assert optimizer.param_groups[0]["max_eval"] == 25
    optimizer.step(closure_for(p, quadratic))
    assert optimizer.state[p]["n_iter"] == 20


def test_nothing_happens_at_a_minimum():
    p = fb.tensor(TARGET)
    optimizer = fb.optim.LBFGS([p])
    optimizer.step(closure_for(p, quadratic))
    np.testing.assert_array_equal(p.numpy(), TARGET)
    assert optimizer.state[p]["n_iter"] == 0


def test_several_parameters_one_without_gradient():
    p, q, unused = fb.tensor([[3.0]]), fb.tensor([[1.0, -1.0]]), fb.ones(2)

    def closure():
        p.grad, q.grad = 2 * p, 2 * q
        return (p * p).sum() + (q * q).sum()

    fb.optim.LBFGS([p, q, unused], max_iter=50).step(closure)
    assert p.abs().max().item() < 1e-3
    assert q.abs().max().item() < 1e-3
    assert fb.equal(unused, fb.ones(2))


def test_complex_parameter():
    p = fb.tensor([1 + 2j, -1 - 1j])

    def closure():
        p.grad = 2 * p
        return (p.abs() ** 2).sum()

    fb.optim.LBFGS([p], line_search_fn="strong_wolfe").step(closure)
    assert p.abs().max().item() < 1e-4


def test_with_autograd():
    p = fb.tensor([3.0, -2.0], requires_grad=True)
    optimizer = fb.optim.LBFGS([p], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((p - 1) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(p.detach().numpy(), [1, 1], atol=1e-5)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_checkpoints_and_pickles(line_search):
    p = fb.tensor([2.0, 2.0, 2.0], dtype=fb.float64)
    optimizer = fb.optim.LBFGS([p], lr=0.5, max_iter=3, line_search_fn=line_search)
    optimizer.step(closure_for(p, quadratic))
    q = p.clone()
    other = fb.optim.LBFGS([q])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    third = pickle.loads(pickle.dumps(optimizer))
    r = third.param_groups[0]["params"][0]
    for tensor, which in ((p, optimizer), (q, other), (r, third)):
        which.step(closure_for(tensor, quadratic))
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    np.testing.assert_array_equal(p.numpy(), r.numpy())


def test_refused():
    with pytest.raises(ValueError, match="one group"):
        fb.optim.LBFGS([{"params": fb.zeros(1)}, {"params": fb.zeros(2)}])
    p = fb.ones(3, dtype=fb.float64)
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        fb.optim.LBFGS([p], line_search_fn="other").step(closure_for(p, quadratic))
    with pytest.raises(TypeError):
        fb.optim.LBFGS([p]).step()


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_maximize_climbs_as_the_negative_descends(line_search):
    p = fb.tensor([2.0, 2.0, 2.0], dtype=fb.float64)
    q = p.clone()

    def upside_down(x):
        loss, gradient = quadratic(x)
        return -loss, -gradient

    for _ in range(2):
        fb.optim.LBFGS([p], max_iter=4, line_search_fn=line_search).step(closure_for(p, quadratic))
        first = fb.optim.LBFGS([q], max_iter=4, line_search_fn=line_search, maximize=True).step(closure_for(q, upside_down))
        assert first.item() < 0
    np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_without_parameters_a_step_only_evaluates():
    assert fb.optim.LBFGS([{"params": []}]).step(lambda: 3.0) == 3.0
