"""Log-probabilities, cdfs, quantiles, moments and entropies against scipy.stats; samples against the cdf or the moments."""

import math

import numpy as np
import pytest
from scipy import stats

import flambeau as fb

D = fb.distributions

# name: (distribution, reference, values); parameters in double precision so that the comparison is sharp
CONTINUOUS = {
    "Normal": (lambda: D.Normal(t(0.5), t(2.0)), stats.norm(0.5, 2.0), [-3.0, 0.5, 4.0]),
    "Uniform": (lambda: D.Uniform(t(-1.0), t(3.0)), stats.uniform(-1, 4), [-0.5, 0.0, 2.9]),
    "Laplace": (lambda: D.Laplace(t(0.5), t(2.0)), stats.laplace(0.5, 2.0), [-3.0, 0.5, 4.0]),
    "Cauchy": (lambda: D.Cauchy(t(0.5), t(2.0)), stats.cauchy(0.5, 2.0), [-3.0, 0.5, 40.0]),
    "Exponential": (lambda: D.Exponential(t(3.0)), stats.expon(scale=1 / 3), [0.01, 0.5, 4.0]),
    "Gamma": (lambda: D.Gamma(t(2.5), t(3.0)), stats.gamma(2.5, scale=1 / 3), [0.01, 0.5, 4.0]),
    "Gamma small": (lambda: D.Gamma(t(0.2), t(1.0)), stats.gamma(0.2), [1e-6, 0.5, 4.0]),
    "Chi2": (lambda: D.Chi2(t(3.0)), stats.chi2(3.0), [0.01, 0.5, 4.0]),
    "Beta": (lambda: D.Beta(t(0.7), t(2.0)), stats.beta(0.7, 2.0), [0.01, 0.5, 0.9]),
    "StudentT": (lambda: D.StudentT(t(5.0), t(0.5), t(2.0)), stats.t(5.0, 0.5, 2.0), [-3.0, 0.5, 4.0]),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0), t(9.0)), stats.f(3.0, 9.0), [0.1, 1.0, 3.0]),
    "LogNormal": (lambda: D.LogNormal(t(0.5), t(0.8)), stats.lognorm(0.8, scale=math.exp(0.5)), [0.1, 1.0, 5.0]),
    "HalfNormal": (lambda: D.HalfNormal(t(2.0)), stats.halfnorm(scale=2.0), [0.0, 1.0, 5.0]),
    "HalfCauchy": (lambda: D.HalfCauchy(t(2.0)), stats.halfcauchy(scale=2.0), [0.0, 1.0, 50.0]),
    "Gumbel": (lambda: D.Gumbel(t(0.5), t(2.0)), stats.gumbel_r(0.5, 2.0), [-3.0, 0.5, 9.0]),
    "Pareto": (lambda: D.Pareto(t(2.0), t(3.5)), stats.pareto(3.5, scale=2.0), [2.01, 3.0, 9.0]),
    "Weibull": (lambda: D.Weibull(t(2.0), t(1.5)), stats.weibull_min(1.5, scale=2.0), [0.1, 1.0, 5.0]),
    "InverseGamma": (lambda: D.InverseGamma(t(3.5), t(2.0)), stats.invgamma(3.5, scale=2.0), [0.1, 1.0, 5.0]),
    "GeneralizedPareto": (
        lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(0.2)), stats.genpareto(0.2, 1.0, 2.0), [1.1, 3.0, 9.0]
    ),
    "GeneralizedPareto flat": (
        lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(0.0)), stats.genpareto(0.0, 1.0, 2.0), [1.1, 3.0, 9.0]
    ),
    "GeneralizedPareto ended": (
        lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(-0.5)), stats.genpareto(-0.5, 1.0, 2.0), [1.1, 3.0, 4.9]
    ),
    "VonMises": (lambda: D.VonMises(t(0.5), t(2.0)), stats.vonmises(2.0, 0.5), [-2.0, 0.5, 2.0]),
    "VonMises narrow": (lambda: D.VonMises(t(0.5), t(200.0)), stats.vonmises(200.0, 0.5), [0.4, 0.5, 0.6]),
}  # fmt: skip
DISCRETE = {
    "Bernoulli": (lambda: D.Bernoulli(t(0.3)), stats.bernoulli(0.3), [0.0, 1.0]),
    "Bernoulli logits": (lambda: D.Bernoulli(logits=t(-1.0)), stats.bernoulli(1 / (1 + math.e)), [0.0, 1.0]),
    "Geometric": (lambda: D.Geometric(t(0.3)), stats.geom(0.3, loc=-1), [0.0, 1.0, 7.0]),
    "Binomial": (lambda: D.Binomial(9, t(0.3)), stats.binom(9, 0.3), [0.0, 4.0, 9.0]),
    "NegativeBinomial": (lambda: D.NegativeBinomial(t(2.5), t(0.3)), stats.nbinom(2.5, 0.7), [0.0, 2.0, 7.0]),
    "Poisson": (lambda: D.Poisson(t(3.5)), stats.poisson(3.5), [0.0, 3.0, 12.0]),
}  # fmt: skip
ALL = CONTINUOUS | DISCRETE


def t(x):
    return fb.tensor(x, dtype=fb.float64)


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def optional(f):
    """The result, or None where a distribution has no closed form."""
    try:
        return f()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("name", ALL)
def test_log_prob(name):
    make, reference, values = ALL[name]
    log_prob = reference.logpmf if name in DISCRETE else reference.logpdf
    close(make().log_prob(t(values)), log_prob(values))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_and_icdf(name):
    make, reference, values = CONTINUOUS[name]
    d, levels = make(), np.array([0.05, 0.5, 0.9])
    cdf, icdf = optional(lambda: d.cdf(t(values))), optional(lambda: d.icdf(t(levels)))
    if name.startswith(("Beta", "StudentT", "Fisher", "VonMises")):
        assert cdf is None and icdf is None
        return
    close(cdf, reference.cdf(values))
    if icdf is None:
        assert name.startswith(("Gamma", "Chi2", "InverseGamma"))
    else:
        close(icdf, reference.ppf(levels))


@pytest.mark.parametrize("name", ALL)
def test_moments(name):
    make, reference, _ = ALL[name]
    d = make()
    if name.startswith("VonMises"):
        close(d.mean, 0.5)
        close(d.variance, 1 - stats.vonmises(reference.args[0]).expect(np.cos))
        return
    mean = np.nan if name == "Cauchy" else reference.mean()
    close(d.mean, mean)
    variance = np.inf if "Cauchy" in name else reference.var()
    close(d.variance, variance)
    close(d.stddev, np.sqrt(variance))


@pytest.mark.parametrize("name", ALL)
def test_entropy(name):
    make, reference, _ = ALL[name]
    entropy = optional(make().entropy)
    if entropy is None:
        assert name.startswith(("FisherSnedecor", "NegativeBinomial", "Poisson", "VonMises"))
    else:
        close(entropy, reference.entropy(), 1e-6)
        close(make().perplexity(), np.exp(reference.entropy()), 1e-5)


@pytest.mark.parametrize("name", ALL)
def test_samples_follow_the_distribution(name):
    make, reference, _ = ALL[name]
    fb.manual_seed(0)
    samples = make().sample((4000,)).numpy()
    assert samples.shape == (4000,)
    if name in CONTINUOUS:
        assert stats.kstest(samples, reference.cdf).pvalue > 1e-3
        return
    low, high = int(samples.min()), int(samples.max())
    observed = np.bincount(samples.astype(int), minlength=high + 1)[low:]
    expected = reference.pmf(np.arange(low, high + 1)) * 4000
    common = expected > 5
    assert (((observed - expected) ** 2 / expected)[common].sum()) < stats.chi2(common.sum()).ppf(0.999)


def test_vectors():
    a = np.array([0.5, 2.0, 3.0])
    value = np.array([0.2, 0.3, 0.5])
    d = D.Dirichlet(t(a))
    close(d.log_prob(t(value)), stats.dirichlet(a).logpdf(value))
    close(d.entropy(), stats.dirichlet(a).entropy())
    close(d.variance, stats.dirichlet(a).var())
    probs, counts = np.array([0.2, 0.3, 0.5]), np.array([1.0, 2.0, 4.0])
    close(D.Multinomial(7, t(probs)).log_prob(t(counts)), stats.multinomial(7, probs).logpmf(counts))
    close(D.Multinomial(7, t(probs)).entropy(), stats.multinomial(7, probs).entropy())
    close(D.Categorical(t(probs)).entropy(), stats.entropy(probs))


def test_multivariate_normal_by_any_matrix():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    covariance, loc, value = root @ root.T + np.eye(3), rng.normal(size=3), rng.normal(size=(4, 3))
    reference = stats.multivariate_normal(loc, covariance)
    for key, matrix in [
        ("covariance_matrix", covariance),
        ("precision_matrix", np.linalg.inv(covariance)),
        ("scale_tril", np.linalg.cholesky(covariance)),
    ]:
        d = D.MultivariateNormal(t(loc), **{key: t(matrix)})
        close(d.log_prob(t(value)), reference.logpdf(value), 1e-8)
        close(d.entropy(), reference.entropy(), 1e-8)
        close(d.covariance_matrix, covariance, 1e-8)
        close(d.precision_matrix, np.linalg.inv(covariance), 1e-8)
        close(d.variance, np.diag(covariance), 1e-8)
    factor, diagonal = rng.normal(size=(3, 2)), np.exp(rng.normal(size=3))
    low = D.LowRankMultivariateNormal(t(loc), t(factor), t(diagonal))
    whole = stats.multivariate_normal(loc, factor @ factor.T + np.diag(diagonal))
    close(low.log_prob(t(value)), whole.logpdf(value), 1e-8)
    close(low.entropy(), whole.entropy(), 1e-8)
    close(low.scale_tril @ low.scale_tril.mT @ low.precision_matrix, np.eye(3), 1e-8)


def test_wishart():
    scale = np.array([[2.0, 0.3], [0.3, 1.0]])
    d, reference = D.Wishart(t(4.5), t(scale)), stats.wishart(4.5, scale)
    value = np.array([[3.0, 0.5], [0.5, 2.0]])
    close(d.log_prob(t(value)), reference.logpdf(value))
    close(d.entropy(), reference.entropy())
    close(d.mean, reference.mean())
    close(d.variance, reference.var())
    fb.manual_seed(0)
    close(d.sample((20000,)).mean(0), reference.mean(), 0.15)


def test_lkj_correlations():
    fb.manual_seed(0)
    d = D.LKJCholesky(3, t(2.0))
    factors = d.sample((4000,))
    correlations = factors @ factors.mT
    # Every off-diagonal entry of such a matrix is 2 Beta(η + 1/2, η + 1/2) - 1 for size 3.
    marginal = stats.beta(2.5, 2.5, loc=-1, scale=2)
    for i, j in [(1, 0), (2, 0), (2, 1)]:
        assert stats.kstest(correlations[:, i, j].numpy(), marginal.cdf).pvalue > 1e-3
    # The density integrates to one, for size 2 over its single free entry.
    r = fb.linspace(-0.999, 0.999, 4001, dtype=fb.float64)
    rows = fb.stack([fb.stack([fb.ones_like(r), fb.zeros_like(r)], -1), fb.stack([r, (1 - r**2).sqrt()], -1)], -2)
    density = D.LKJCholesky(2, t(2.0)).log_prob(rows).exp()
    assert abs(fb.trapezoid(density, r).item() - 1) < 1e-3
