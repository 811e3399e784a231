"""Divergences between two distributions of one family."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Tensor
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.independent import Independent
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    lowrank_log_det,
    lowrank_mahalanobis,
)
from flambeau.distributions.multivariate_normal import MultivariateNormal, half_log_det, mahalanobis
from flambeau.distributions.normal import Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import euler_constant, sum_rightmost

# ---- discrete ------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    one = fb.where(p.probs == 0, 0.0, fb.where(q.probs == 0, fb.inf, one))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zero = fb.where(p.probs == 1, 0.0, fb.where(q.probs == 1, fb.inf, zero))
    return one + zero


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence: between Binomials where q has more trials there is no closed form")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return fb.where(p.total_count > q.total_count, fb.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    return fb.where(p.probs == 0, 0.0, fb.where(q.probs == 0, fb.inf, each)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - fb.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


# ---- continuous, of one number -------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    area_p = p._cont_bern_log_norm() + fb.log1p(-p.probs)
    area_q = q._cont_bern_log_norm() + fb.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + area_p - area_q


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    area = q.concentration * (p.rate / q.rate).log() + fb.lgamma(q.concentration) - fb.lgamma(p.concentration)
    shape = (p.concentration - q.concentration) * fb.digamma(p.concentration)
    return area + shape + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + shift + ratio * euler_constant + fb.exp(fb.lgamma(1 + ratio) - shift) - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * fb.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return fb.where(p.scale < q.scale, fb.inf, kl)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return fb.where((q.low > p.low) | (q.high < p.high), fb.inf, kl)


# ---- vectors -------------------------------------------------------------------------------------------------------


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    area = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return area + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


def _check_sizes(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: both distributions must have the same number of components, got {tuple(p.event_shape)} and "
            f"{tuple(q.event_shape)}"
        )


def _solve_square(factor: Tensor, matrix: Tensor) -> Tensor:
    """Squared Frobenius norm of factor⁻¹ · matrix; batches broadcast."""
    return fb.linalg.solve_triangular(factor, matrix, upper=False).pow(2).sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_sizes(p, q)
    lp, lq = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    area = half_log_det(lq) - half_log_det(lp)
    return area + 0.5 * (_solve_square(lq, lp) + mahalanobis(lq, q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    area = lowrank_log_det(q._unbroadcasted_cov_diag, q._capacitance_tril)
    area = area - lowrank_log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)
    root = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = _low_rank_trace(q, p._unbroadcasted_cov_factor) + _low_rank_trace(q, root)
    return _low_rank_sum(p, q, area, trace)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    factor = p._unbroadcasted_scale_tril
    area = lowrank_log_det(q._unbroadcasted_cov_diag, q._capacitance_tril) - 2 * half_log_det(factor)
    return _low_rank_sum(p, q, area, _low_rank_trace(q, factor))


def _low_rank_trace(q: LowRankMultivariateNormal, root: Tensor) -> Tensor:
    """Trace of q's precision times root · rootᵀ, by Woodbury's identity."""
    w, d = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag.unsqueeze(-1)
    return (root.pow(2) / d).sum((-2, -1)) - _solve_square(q._capacitance_tril, (w / d).mT @ root)


def _low_rank_sum(p: Any, q: LowRankMultivariateNormal, area: Tensor, trace: Tensor) -> Tensor:
    _check_sizes(p, q)
    w, d, factor = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    return 0.5 * (area + trace + lowrank_mahalanobis(w, d, q.loc - p.loc, factor) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _from_low_rank(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_sizes(p, q)
    factor = q._unbroadcasted_scale_tril
    area = 2 * half_log_det(factor) - lowrank_log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)
    trace = _solve_square(factor, p._unbroadcasted_cov_factor)
    trace = trace + _solve_square(factor, p._unbroadcasted_cov_diag.sqrt().diag_embed())
    return 0.5 * (area + trace + mahalanobis(factor, q.loc - p.loc) - p.event_shape[0])


# ---- by structure --------------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log-normalizer, its gradient taken by differentiation."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence: no formula is registered for ({type(p).__name__}, {type(q).__name__}); register_kl adds one"
        )
    with fb.enable_grad():
        ours = [n if n.requires_grad else n.detach().requires_grad_() for n in p._natural_params]
        area = p._log_normalizer(*ours)
        gradients = fb.autograd.grad(area.sum(), ours, create_graph=True)
    theirs = q._natural_params
    result = q._log_normalizer(*theirs) - area
    for a, b, gradient in zip(ours, theirs, gradients, strict=True):
        result = result - sum_rightmost((b - a) * gradient, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: transformed distributions need the same transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: both Independents must take the same number of batch dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
