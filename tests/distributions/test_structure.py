"""Shapes, checks, transforms, constraints and divergences."""

import pickle

import numpy as np
import pytest

import flambeau as fb

D = fb.distributions
C = D.constraints


def t(x):
    return fb.tensor(x, dtype=fb.float64)


# One of each, with a batch of 2.
EVERY = {
    "Bernoulli": lambda: D.Bernoulli(t([0.2, 0.7])),
    "Beta": lambda: D.Beta(t([0.5, 2.0]), 1.5),
    "Binomial": lambda: D.Binomial(4, t([0.2, 0.7])),
    "Categorical": lambda: D.Categorical(t([[1.0, 2.0, 3.0], [1.0, 0.5, 0.2]])),
    "Cauchy": lambda: D.Cauchy(t([0.0, 1.0]), 2.0),
    "Chi2": lambda: D.Chi2(t([0.5, 2.0])),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t([0.2, 0.5])),
    "Dirichlet": lambda: D.Dirichlet(t([[1.0, 2.0, 3.0], [1.0, 0.5, 0.2]])),
    "Exponential": lambda: D.Exponential(t([0.5, 2.0])),
    "FisherSnedecor": lambda: D.FisherSnedecor(t([0.5, 2.0]), 3.0),
    "Gamma": lambda: D.Gamma(t([0.5, 2.0]), 3.0),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(t([0.5, 2.0]), 3.0, -0.2),
    "Geometric": lambda: D.Geometric(t([0.2, 0.7])),
    "Gumbel": lambda: D.Gumbel(t([0.0, 1.0]), 2.0),
    "HalfCauchy": lambda: D.HalfCauchy(t([0.5, 2.0])),
    "HalfNormal": lambda: D.HalfNormal(t([0.5, 2.0])),
    "Independent": lambda: D.Independent(D.Normal(t([[0.0, 1.0], [2.0, 3.0]]), 1.0), 1),
    "InverseGamma": lambda: D.InverseGamma(t([0.5, 2.0]), 3.0),
    "Kumaraswamy": lambda: D.Kumaraswamy(t([0.5, 2.0]), 3.0),
    "LKJCholesky": lambda: D.LKJCholesky(3, t([0.5, 2.0])),
    "Laplace": lambda: D.Laplace(t([0.0, 1.0]), 2.0),
    "LogNormal": lambda: D.LogNormal(t([0.0, 1.0]), 2.0),
    "LogisticNormal": lambda: D.LogisticNormal(t([[0.0, 1.0], [2.0, 3.0]]), 1.0),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(
        t([[0.0, 1.0], [2.0, 3.0]]), t([[1.0], [0.5]]), t([1.0, 2.0])
    ),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(
        D.Categorical(t([[1.0, 2.0]] * 2)), D.Normal(t([[0.0, 1.0]] * 2), 1.0)
    ),
    "Multinomial": lambda: D.Multinomial(5, t([[1.0, 2.0, 3.0], [1.0, 0.5, 0.2]])),
    "MultivariateNormal": lambda: D.MultivariateNormal(t([[0.0, 1.0], [2.0, 3.0]]), t([[2.0, 0.5], [0.5, 1.0]])),
    "NegativeBinomial": lambda: D.NegativeBinomial(t([1.5, 3.0]), 0.4),
    "Normal": lambda: D.Normal(t([0.0, 1.0]), 2.0),
    "OneHotCategorical": lambda: D.OneHotCategorical(t([[1.0, 2.0, 3.0], [1.0, 0.5, 0.2]])),
    "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(t([[1.0, 2.0], [1.0, 0.5]])),
    "Pareto": lambda: D.Pareto(t([0.5, 2.0]), 3.0),
    "Poisson": lambda: D.Poisson(t([0.5, 2.0])),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(t(0.7), t([0.2, 0.7])),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(t(0.7), t([[1.0, 2.0], [1.0, 0.5]])),
    "StudentT": lambda: D.StudentT(t([3.0, 4.0])),
    "TransformedDistribution": lambda: D.TransformedDistribution(D.Normal(t([0.0, 1.0]), 1.0), [D.TanhTransform()]),
    "Uniform": lambda: D.Uniform(t([0.0, 1.0]), 2.0),
    "VonMises": lambda: D.VonMises(t([0.0, 1.0]), 2.0),
    "Weibull": lambda: D.Weibull(t([0.5, 2.0]), 3.0),
    "Wishart": lambda: D.Wishart(t([3.5, 4.0]), t([[2.0, 0.5], [0.5, 1.0]])),
}


def test_every_distribution_is_here():
    named = {
        name
        for name in D.__all__
        if isinstance(getattr(D, name), type) and issubclass(getattr(D, name), D.Distribution)
    }
    assert named - {"Distribution", "ExponentialFamily"} == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_draws_have_the_promised_shape_and_support(name):
    fb.manual_seed(0)
    d = EVERY[name]()
    assert d.batch_shape == (2,)
    for sample_shape in ((), (5,), (3, 4)):
        for draw in (d.sample, d.rsample) if d.has_rsample else (d.sample,):
            value = draw(sample_shape)
            assert value.shape == sample_shape + d.batch_shape + d.event_shape
            assert d.support.check(value).all()
            log_prob = d.log_prob(value)
            assert log_prob.shape == sample_shape + d.batch_shape and log_prob.isfinite().all()
    if not d.has_rsample:
        with pytest.raises(NotImplementedError, match=name):
            d.rsample()


@pytest.mark.parametrize("name", EVERY)
def test_expand(name):
    fb.manual_seed(0)
    d = EVERY[name]()
    wide = d.expand((4, 2))
    assert type(wide) is type(d) and wide.batch_shape == (4, 2) and wide.event_shape == d.event_shape
    value = wide.sample((3,))
    assert value.shape == (3, 4, 2) + tuple(d.event_shape)
    np.testing.assert_allclose(wide.log_prob(value).numpy(), d.log_prob(value).numpy(), rtol=1e-9)
    try:
        mean = d.mean
    except NotImplementedError:
        return
    np.testing.assert_allclose(wide.mean.numpy(), np.broadcast_to(mean.numpy(), (4, *mean.shape)), equal_nan=True)


@pytest.mark.parametrize("name", EVERY)
def test_values_outside_are_refused(name):
    d = EVERY[name]()
    bad = fb.full(d.batch_shape + d.event_shape, fb.nan, dtype=fb.float64)
    with pytest.raises(ValueError, match=name if name != "Independent" else "Normal"):
        d.log_prob(bad)


@pytest.mark.parametrize("name", [name for name, make in EVERY.items() if make().has_enumerate_support])
def test_listed_values_sum_to_one(name):
    d = EVERY[name]()
    values = d.enumerate_support()
    assert values.shape[1:] == d.batch_shape + d.event_shape
    np.testing.assert_allclose(d.log_prob(values).exp().sum(0).numpy(), 1)
    assert d.enumerate_support(expand=False).shape[1] == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Normal(0.0, -1.0),
        lambda: D.Normal(fb.nan, 1.0),
        lambda: D.Normal("0", 1.0),
        lambda: D.Uniform(1.0, 0.0),
        lambda: D.Bernoulli(1.5),
        lambda: D.Bernoulli(),
        lambda: D.Bernoulli(0.5, 0.0),
        lambda: D.Geometric(0.0),
        lambda: D.Categorical(fb.tensor(1.0)),
        lambda: D.Categorical(fb.tensor([-1.0, 2.0])),
        lambda: D.Dirichlet(fb.tensor(1.0)),
        lambda: D.Gamma(fb.tensor([1.0, 0.0]), 1.0),
        lambda: D.Binomial(-1, 0.5),
        lambda: D.MultivariateNormal(fb.zeros(2)),
        lambda: D.MultivariateNormal(fb.zeros(2), fb.eye(2), fb.eye(2)),
        lambda: D.MultivariateNormal(fb.zeros(2), fb.tensor([[1.0, 2.0], [2.0, 1.0]])),
        lambda: D.LowRankMultivariateNormal(fb.zeros(2), fb.ones(3, 1), fb.ones(2)),
        lambda: D.Wishart(0.5, fb.eye(2)),
        lambda: D.LKJCholesky(1),
        lambda: D.Independent(D.Normal(0.0, 1.0), 1),
        lambda: D.MixtureSameFamily(D.Categorical(fb.ones(3)), D.Normal(fb.zeros(2), 1.0)),
        lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(fb.zeros(2), 1.0)),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [fb.exp]),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(ValueError):
        make()


def test_checks_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match=r"last dimensions.*\(3,\)"):
        D.Dirichlet(fb.ones(3)).log_prob(fb.ones(2))
    with pytest.raises(ValueError, match="does not broadcast"):
        D.Normal(fb.zeros(3), 1.0).log_prob(fb.zeros(2))
    with pytest.raises(ValueError, match="must be a Tensor"):
        D.Normal(0.0, 1.0).log_prob(0.5)


def test_subclasses_and_pickles():
    class Noisy(D.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    assert Noisy(fb.zeros(2)).expand((3, 2)).batch_shape == (3, 2)
    with pytest.raises(NotImplementedError, match="cannot be expanded"):
        Noisy(fb.zeros(2))._get_checked_instance(D.Normal)
    for make in EVERY.values():
        d = make()
        again = pickle.loads(pickle.dumps(d))
        assert repr(again) == repr(d)


# ---- transforms ----------------------------------------------------------------------------------------------------

TRANSFORMS = {
    "exp": (D.ExpTransform(), [0.3, -1.0]),
    "power": (D.PowerTransform(t(2.5)), [0.3, 1.7]),
    "sigmoid": (D.SigmoidTransform(), [0.3, -1.0]),
    "softplus": (D.SoftplusTransform(), [0.3, -1.0]),
    "tanh": (D.TanhTransform(), [0.3, -1.0]),
    "affine": (D.AffineTransform(t(1.0), t(-2.0)), [0.3, -1.0]),
    "cdf": (D.CumulativeDistributionTransform(D.Normal(t(0.0), t(1.0))), [0.3, -1.0]),
    "composed": (D.ComposeTransform([D.TanhTransform(), D.AffineTransform(1.0, 2.0), D.ExpTransform()]), [0.3, -1.0]),
    "inverse": (D.ExpTransform().inv, [0.3, 2.0]),
    "stick": (D.StickBreakingTransform(), [0.3, -1.0, 0.5]),
    "correlation": (D.CorrCholeskyTransform(), [0.3, -1.0, 0.5]),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), [0.3, -1.0]),
    "reshape": (D.ReshapeTransform((4,), (2, 2)), [0.3, -1.0, 0.5, 0.1]),
    "cat": (D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [1, 2]), [0.3, -1.0, 0.5]),
    "stack": (D.StackTransform([D.ExpTransform(), D.TanhTransform()], -1), [0.3, -1.0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_bijections(name):
    transform, values = TRANSFORMS[name]
    x = t(values).requires_grad_()
    y = transform(x)
    assert transform.bijective and transform.codomain.check(y).all()
    np.testing.assert_allclose(transform.inv(y).detach().numpy(), values, rtol=1e-9)
    assert y.shape == transform.forward_shape(x.shape) and x.shape == transform.inverse_shape(y.shape)
    assert transform.inv.inv is transform or transform.inv.inv == transform
    determinant = transform.log_abs_det_jacobian(x, y).detach()
    jacobian = fb.autograd.functional.jacobian(transform, x.detach())
    if name == "stick":
        jacobian = jacobian[:-1]  # the last part follows from the others
    elif name == "correlation":
        jacobian = jacobian[[1, 2, 2], [0, 0, 1]]
    square = jacobian.reshape(len(values), len(values))
    expected = fb.linalg.slogdet(square).logabsdet.item()
    assert abs(determinant.sum().item() - expected) < 1e-8
    if name != "stack":  # keeps one number per slice
        assert determinant.dim() == 1 - transform.domain.event_dim
    wide = x.detach().expand(3, len(values)) if name not in ("reshape",) else x.detach().expand(3, 4)
    assert transform.log_abs_det_jacobian(wide, transform(wide)).shape == (3, *determinant.shape)


def test_transforms_that_are_no_bijections():
    for transform, x in [
        (D.AbsTransform(), t([-1.0, 2.0])),
        (D.SoftmaxTransform(), t([-1.0, 2.0])),
        (D.LowerCholeskyTransform(), t([[0.1, 0.2], [0.3, 0.4]])),
        (D.PositiveDefiniteTransform(), t([[0.1, 0.2], [0.3, 0.4]])),
    ]:
        assert not transform.bijective
        y = transform(x)
        assert transform.codomain.check(y).all()
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy())


def test_cache_keeps_what_rounding_loses():
    x = fb.tensor([30.0])
    assert D.TanhTransform().inv(D.TanhTransform()(x)).isinf()
    cached = D.TanhTransform(cache_size=1)
    assert cached.inv(cached(x)) is x
    with pytest.raises(ValueError, match="cache_size"):
        D.TanhTransform(cache_size=2)


def test_registries():
    for constraint in (
        C.real, C.positive, C.nonnegative, C.greater_than(2.0), C.greater_than_eq(-1.0), C.less_than(3.0), C.unit_interval,
        C.interval(-1.0, 2.0), C.half_open_interval(0.0, 2.0), C.simplex, C.corr_cholesky, C.real_vector,
    ):  # fmt: skip
        for registry in (D.biject_to, D.transform_to):
            transform = registry(constraint)
            y = transform(t([0.3, -0.2, 1.0]))
            assert constraint.check(y).all() and transform.codomain.check(y).all()
        assert D.biject_to(constraint).bijective
    for constraint in (C.lower_cholesky, C.positive_definite, C.positive_semidefinite):
        assert constraint.check(D.transform_to(constraint)(t([[0.3, 0.2], [1.0, -1.0]]))).all()
    with pytest.raises(NotImplementedError, match="Boolean"):
        D.biject_to(C.boolean)
    with pytest.raises(TypeError):
        D.biject_to.register(3, lambda c: D.ExpTransform())


def test_constraints():
    cases = [
        (C.boolean, [0.0, 1.0, 2.0], [True, True, False]),
        (C.real, [0.0, fb.inf, fb.nan], [True, True, False]),
        (C.nonnegative_integer, [0.0, 1.5, -1.0], [True, False, False]),
        (C.positive_integer, [0.0, 1.0, 2.5], [False, True, False]),
        (C.integer_interval(1, 3), [0.0, 1.0, 3.0], [False, True, True]),
        (C.one_hot, [[0.0, 1.0], [1.0, 1.0]], [True, False]),
        (C.simplex, [[0.3, 0.7], [0.5, 0.6]], [True, False]),
        (C.multinomial(3), [[1.0, 2.0], [3.0, 1.0]], [True, False]),
        (C.lower_triangular, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [2.0, 1.0]]], [True, False]),
        (C.lower_cholesky, [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]], [True, False]),
        (C.symmetric, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, 1.0]]], [True, False]),
        (C.positive_definite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
        (C.positive_semidefinite, [[[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
    ]
    for constraint, values, expected in cases:
        assert constraint.check(t(values)).tolist() == expected, constraint
    assert not C.square.check(fb.zeros(3, 2, 3)).any()
    assert C.is_dependent(D.Uniform.support) and not C.is_dependent(D.Uniform(0.0, 1.0).support)
    with pytest.raises(ValueError, match="depends on other parameters"):
        C.dependent.check(fb.zeros(1))


# ---- divergences ---------------------------------------------------------------------------------------------------


def sampled_kl(p, q, count=40000):
    x = p.sample((count,))
    return (p.log_prob(x) - q.log_prob(x)).mean(0)


PAIRS = [
    (lambda: D.Normal(t(0.2), 1.3), lambda: D.Normal(t(-0.5), 2.0)),
    (lambda: D.Normal(t(0.2), 1.3), lambda: D.Laplace(t(-0.5), 2.0)),
    (lambda: D.Normal(t(0.2), 1.3), lambda: D.Gumbel(t(-0.5), 2.0)),
    (lambda: D.Laplace(t(0.2), 1.3), lambda: D.Laplace(t(-0.5), 2.0)),
    (lambda: D.Laplace(t(0.2), 1.3), lambda: D.Normal(t(-0.5), 2.0)),
    (lambda: D.Cauchy(t(0.2), 1.3), lambda: D.Cauchy(t(-0.5), 2.0)),
    (lambda: D.Gumbel(t(0.2), 1.3), lambda: D.Gumbel(t(-0.5), 2.0)),
    (lambda: D.Gumbel(t(0.2), 1.3), lambda: D.Normal(t(-0.5), 2.0)),
    (lambda: D.Gamma(t(2.0), 1.5), lambda: D.Gamma(t(1.2), 0.7)),
    (lambda: D.Gamma(t(2.0), 1.5), lambda: D.Exponential(t(0.7))),
    (lambda: D.Gamma(t(2.0), 1.5), lambda: D.Gumbel(t(0.3), 1.1)),
    (lambda: D.Exponential(t(1.5)), lambda: D.Gamma(t(1.2), 0.7)),
    (lambda: D.Exponential(t(1.5)), lambda: D.Gumbel(t(0.3), 1.1)),
    (lambda: D.Beta(t(2.0), 1.5), lambda: D.Beta(t(1.2), 0.7)),
    (lambda: D.Beta(t(2.0), 1.5), lambda: D.ContinuousBernoulli(t(0.3))),
    (lambda: D.Beta(t(2.0), 1.5), lambda: D.Uniform(t(-0.5), 1.5)),
    (lambda: D.Uniform(t(0.2), 0.9), lambda: D.Beta(t(1.2), 0.7)),
    (lambda: D.Uniform(t(0.2), 0.9), lambda: D.Pareto(t(0.1), 0.7)),
    (lambda: D.Uniform(t(0.2), 0.9), lambda: D.Gumbel(t(0.3), 1.1)),
    (lambda: D.Pareto(t(1.2), 4.0), lambda: D.Pareto(t(1.0), 3.0)),
    (lambda: D.Pareto(t(1.2), 4.0), lambda: D.Gamma(t(1.2), 0.7)),
    (lambda: D.Bernoulli(t(0.3)), lambda: D.Bernoulli(t(0.6))),
    (lambda: D.Bernoulli(t(0.3)), lambda: D.Poisson(t(0.6))),
    (lambda: D.Poisson(t(3.0)), lambda: D.Poisson(t(2.0))),
    (lambda: D.Geometric(t(0.3)), lambda: D.Geometric(t(0.6))),
    (lambda: D.Categorical(t([1.0, 2.0, 3.0])), lambda: D.Categorical(t([2.0, 2.0, 1.0]))),
    (lambda: D.Dirichlet(t([1.0, 2.0, 3.0])), lambda: D.Dirichlet(t([2.0, 2.0, 1.0]))),
    (lambda: D.LogNormal(t(0.2), 1.3), lambda: D.LogNormal(t(-0.5), 2.0)),
    (lambda: D.Wishart(t(5.0), t([[1.0, 0.2], [0.2, 1.0]])), lambda: D.Wishart(t(4.0), t([[1.5, 0.0], [0.0, 1.0]]))),
]


@pytest.mark.parametrize("p, q", PAIRS, ids=[f"{type(p()).__name__}-{type(q()).__name__}" for p, q in PAIRS])
def test_divergence_against_samples(p, q):
    fb.manual_seed(0)
    p, q = p(), q()
    kl = D.kl_divergence(p, q)
    assert kl > 0 and abs(kl - sampled_kl(p, q)) < 0.05 * (1 + kl)
    assert abs(D.kl_divergence(p, p)) < 1e-12


def test_divergences_of_multivariate_normals_agree():
    p = D.LowRankMultivariateNormal(t([0.0, 1.0]), t([[1.0], [0.5]]), t([1.0, 2.0]))
    q = D.LowRankMultivariateNormal(t([0.5, 0.0]), t([[0.3], [0.9]]), t([2.0, 0.7]))
    forms = [(a, b) for a in (p, as_full(p)) for b in (q, as_full(q))]
    values = [D.kl_divergence(a, b).item() for a, b in forms]
    assert np.ptp(values) < 1e-12
    assert abs(values[0] - sampled_kl(p, q).item()) < 0.05


def as_full(d):
    return D.MultivariateNormal(d.loc, d.covariance_matrix)


def test_divergence_is_infinite_where_q_excludes_draws_of_p():
    for p, q in [
        (D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)),
        (D.Normal(0.0, 1.0), D.Gamma(1.0, 1.0)),
        (D.Uniform(-1.0, 2.0), D.Exponential(1.0)),
        (D.Categorical(fb.tensor([0.5, 0.5])), D.Categorical(fb.tensor([1.0, 0.0]))),
        (D.Poisson(1.0), D.Bernoulli(0.5)),
    ]:
        assert D.kl_divergence(p, q).isinf()


def test_registering_divergences():
    with pytest.raises(NotImplementedError, match="Normal, Poisson"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
    with pytest.raises(TypeError, match="Distribution subclass"):
        D.register_kl(D.Normal(0.0, 1.0), D.Normal)

    class Left(D.Normal): ...

    class Right(D.Normal): ...

    D.register_kl(Left, D.Normal)(lambda p, q: fb.tensor(1.0))
    assert D.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)).item() == 1
    D.register_kl(D.Normal, Right)(lambda p, q: fb.tensor(2.0))
    with pytest.warns(RuntimeWarning, match="two registrations"):
        D.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0))


@pytest.mark.parametrize("name", sorted(name for name in EVERY if isinstance(EVERY[name](), D.ExponentialFamily)))
def test_entropy_from_the_exponential_family(name):
    d = EVERY[name]()
    try:
        from_family = D.ExponentialFamily.entropy(d)
    except NotImplementedError:
        assert name == "Poisson"  # the mean of log(k!) has no closed form
        return
    np.testing.assert_allclose(from_family.detach(), d.entropy().detach(), rtol=1e-10)


def test_degrees_of_freedom_may_be_whole_numbers():
    d = D.Wishart(fb.tensor(3), fb.eye(2, dtype=fb.float64))
    assert d.df.dtype == fb.float64
    assert d.sample().shape == (2, 2)


def test_checks_say_what_people_search_for():
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Tensor of shape \(\)\) to satisfy the constraint Gre"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"Expected value argument \(Tensor of shape \(1,\)\) to be within the support \(Bool"):
        D.Bernoulli(0.5).log_prob(fb.tensor([0.5]))
