"""Probability distributions: draws, log-probabilities, moments, entropies and divergences.

A distribution holds parameters, which may require gradients. `sample` draws; `rsample`, where there is one, draws as a
differentiable function of the parameters; `log_prob` serves likelihoods and score-function estimates.

Example:
    >>> probs = fb.tensor([0.2, 0.8], requires_grad=True)
    >>> policy = fb.distributions.Categorical(probs)
    >>> action = policy.sample()
    >>> loss = -policy.log_prob(action) * 1.0  # times the reward
    >>> loss.backward()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributions import constraints as constraints
from flambeau.distributions import transforms as transforms
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.fishersnedecor import FisherSnedecor
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.generalized_pareto import GeneralizedPareto
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.half_cauchy import HalfCauchy
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.independent import Independent
from flambeau.distributions.inverse_gamma import InverseGamma
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.kumaraswamy import Kumaraswamy
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.lkj_cholesky import LKJCholesky
from flambeau.distributions.log_normal import LogNormal
from flambeau.distributions.logistic_normal import LogisticNormal
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.mixture_same_family import MixtureSameFamily
from flambeau.distributions.multinomial import Multinomial
from flambeau.distributions.multivariate_normal import MultivariateNormal
from flambeau.distributions.negative_binomial import NegativeBinomial
from flambeau.distributions.normal import Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.relaxed_bernoulli import RelaxedBernoulli
from flambeau.distributions.relaxed_categorical import RelaxedOneHotCategorical
from flambeau.distributions.studentT import StudentT
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.von_mises import VonMises
from flambeau.distributions.weibull import Weibull
from flambeau.distributions.wishart import Wishart

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy",
    "Chi2", "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "Dirichlet", "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform",
    "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart",
    "biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to",
]  # fmt: skip
__dir__ = _package_dir(__name__)
