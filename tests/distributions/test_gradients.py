"""Draws as differentiable functions of their parameters."""

import numpy as np
import pytest
from scipy import special

import flambeau as fb
from flambeau._registry import private

D = fb.distributions


def leaf(values):
    return fb.tensor(values, dtype=fb.float64, requires_grad=True)


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 2.5, 40.0, 3000.0])
def test_gamma_samples_move_at_their_quantile(shape):
    levels = np.linspace(0.02, 0.98, 9)
    samples = special.gammaincinv(shape, levels)
    step = 1e-5 * shape
    expected = (special.gammaincinv(shape + step, levels) - special.gammaincinv(shape - step, levels)) / (2 * step)
    slope = private.standard_gamma_grad(fb.full((9,), shape, dtype=fb.float64), fb.tensor(samples))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=2e-5)
    single = private.standard_gamma_grad(fb.full((9,), shape), fb.tensor(samples).float())
    normal = samples > 1e-37
    np.testing.assert_allclose(single.numpy()[normal], expected[normal], rtol=1e-4)


@pytest.mark.parametrize("a, b", [(0.1, 0.1), (0.5, 3.0), (1.0, 1.0), (5.0, 0.2), (60.0, 90.0), (2000.0, 5.0)])
def test_beta_samples_move_at_their_quantile(a, b):
    levels = np.linspace(0.02, 0.98, 9)
    samples = special.betaincinv(a, b, levels)
    inside = (samples > 1e-300) & (samples < 1 - 1e-9)
    levels, samples = levels[inside], samples[inside]
    step = 1e-5 * a
    expected = (special.betaincinv(a + step, b, levels) - special.betaincinv(a - step, b, levels)) / (2 * step)
    total = fb.tensor(a + b, dtype=fb.float64)
    slope = private.dirichlet_grad(fb.tensor(samples), fb.tensor(a, dtype=fb.float64), total) * (1 - fb.tensor(samples))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=2e-4)


# name: (distribution of one parameter, derivative of the mean by it)
MEANS = {
    "Gamma": (lambda a: D.Gamma(a, 2.0), lambda a: 1 / 2.0),
    "Chi2": (lambda a: D.Chi2(a), lambda a: 1.0),
    "Beta": (lambda a: D.Beta(a, 2.0), lambda a: 2.0 / (a + 2.0) ** 2),
    "Normal": (lambda a: D.Normal(a, 1.0), lambda a: 1.0),
    "Exponential": (lambda a: D.Exponential(a), lambda a: -1 / a**2),
    "Laplace": (lambda a: D.Laplace(a, 1.0), lambda a: 1.0),
    "Uniform": (lambda a: D.Uniform(0.0, a), lambda a: 0.5),
    "LogNormal": (lambda a: D.LogNormal(a, 0.5), lambda a: np.exp(a + 0.125)),
    "Gumbel": (lambda a: D.Gumbel(a, 1.0), lambda a: 1.0),
    "HalfNormal": (lambda a: D.HalfNormal(a), lambda a: np.sqrt(2 / np.pi)),
    "StudentT": (lambda a: D.StudentT(9.0, a, 1.0), lambda a: 1.0),
}


@pytest.mark.parametrize("name", MEANS)
def test_gradient_of_the_mean(name):
    make, slope = MEANS[name]
    fb.manual_seed(0)
    for value in (0.6, 2.5):
        a = leaf(value)
        make(a).rsample((6000,)).mean().backward()
        assert abs(a.grad.item() - slope(value)) < 0.08 * (1 + abs(slope(value))), (a.grad, slope(value))


def test_parts_of_a_dirichlet_sample_sum_to_one_and_so_do_not_move_together():
    a = leaf([0.5, 2.0, 3.0])
    D.Dirichlet(a).rsample((50,)).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 0, atol=1e-12)
    fb.manual_seed(0)
    a.grad = None
    D.Dirichlet(a).rsample((6000,))[:, 0].mean().backward()
    np.testing.assert_allclose(a.grad.numpy(), np.array([5.0, -0.5, -0.5]) / 5.5**2, atol=0.01)


def test_straight_through_passes_the_gradient_of_the_probabilities():
    logits = leaf([0.1, 0.5, -0.3])
    draw = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(draw.tolist())[:2] == [0, 0]
    weights = fb.tensor([1.0, 2.0, 3.0], dtype=fb.float64)
    (gradient,) = fb.autograd.grad((draw * weights).sum(), logits)
    (expected,) = fb.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy())


def test_log_prob_and_entropy_gradients():
    for make in (
        lambda a, b: D.Normal(a, b),
        lambda a, b: D.Gamma(a, b),
        lambda a, b: D.Beta(a, b),
        lambda a, b: D.Weibull(a, b),
        lambda a, b: D.Kumaraswamy(a, b),
    ):
        assert fb.autograd.gradcheck(
            lambda a, b, make=make: make(a, b).log_prob(fb.tensor([0.3, 0.8], dtype=fb.float64)), (leaf(0.7), leaf(1.6))
        )
        assert fb.autograd.gradcheck(lambda a, b, make=make: make(a, b).entropy(), (leaf(0.7), leaf(1.6)))
    matrix = fb.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=fb.float64, requires_grad=True)
    value = fb.tensor([0.3, 0.8], dtype=fb.float64)
    assert fb.autograd.gradcheck(
        lambda loc, m: D.MultivariateNormal(loc, m + m.mT).log_prob(value), (leaf([0.1, 0.2]), matrix)
    )


def test_samples_have_no_history():
    a = leaf([1.0, 2.0])
    for d in (D.Normal(a, a), D.Gamma(a, a), D.Categorical(a), D.LogNormal(a, a), D.Bernoulli(logits=a)):
        assert not d.sample((3,)).requires_grad


def test_errors_of_the_sampling_ops():
    with pytest.raises(ValueError, match="not negative"):
        private.standard_gamma(fb.tensor([-1.0]))
    with pytest.raises(TypeError, match="floating"):
        private.standard_gamma(fb.tensor([1]))
    with pytest.raises(ValueError, match="0-d"):
        private.sample_dirichlet(fb.tensor(1.0))
    assert private.standard_gamma(fb.empty(0, 3)).shape == (0, 3)
    assert private.sample_dirichlet(fb.empty(3, 0)).shape == (3, 0)
    a = leaf([0.5, 2.0])
    with pytest.raises(NotImplementedError, match="second derivatives"):
        (g,) = fb.autograd.grad(private.standard_gamma(a).sum(), a, create_graph=True)
        g.sum().backward()


def test_sampling_under_vmap():
    shapes = fb.tensor([[0.5, 2.0], [3.0, 4.0]])
    draw = fb.vmap(lambda a: D.Gamma(a, 1.0, validate_args=False).sample(), randomness="different")
    assert draw(shapes).shape == (2, 2)
    parts = fb.vmap(lambda a: D.Dirichlet(a, validate_args=False).rsample(), randomness="different")(shapes)
    np.testing.assert_allclose(parts.sum(-1).numpy(), 1, rtol=1e-6)
    with pytest.raises(RuntimeError, match="randomness='error'"):
        fb.vmap(private.standard_gamma)(shapes)


def test_binomial_slope_where_the_logit_is_zero():
    p = fb.tensor(0.5, dtype=fb.float64, requires_grad=True)
    D.Binomial(5, p).log_prob(fb.tensor(4.0, dtype=fb.float64)).backward()
    assert p.grad.item() == pytest.approx(4 / 0.5 - 1 / 0.5)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_samples_of_tiny_concentrations_stay_inside_the_support(dtype):
    small = fb.tensor(1e-3, dtype=dtype)
    tiny = fb.finfo(dtype).tiny
    for d in (D.Beta(small, small), D.Beta(100 * small, small), D.Dirichlet(small.repeat(3))):
        x = d.sample((2000,))
        assert ((x >= tiny) & (x < 1)).all() and d.log_prob(x).isfinite().all()
    for d in (D.Gamma(small, small), D.Chi2(small)):
        x = d.sample((2000,))
        assert (x >= tiny).all() and d.log_prob(x).isfinite().all()
    assert (private.standard_gamma(fb.full((2000,), 1e-3, dtype=dtype)) >= tiny).all()
    a = small.repeat(3).requires_grad_()
    D.Dirichlet(a).rsample((100,)).log().sum().backward()
    assert a.grad.isfinite().all()
