"""Divergences between families: KL(p ‖ q) = -H(p) - E_p[log q(x)].

Each q needs a few expectations under p: of x, x², log x, log(1 - x) or exp(-x / s); so the formulas are written once
per q.
Where p can draw what q excludes, the divergence is infinite.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.kl import register_kl
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.normal import Normal
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import euler_constant

# ---- infinite: p reaches beyond the support of q -------------------------------------------------------------------

_BEYOND: dict[type[Any], tuple[type[Any], ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    like = p.mean
    return fb.full(fb.broadcast_shapes(p.batch_shape, q.batch_shape), fb.inf, dtype=like.dtype, device=like.device)


for _p, _others in _BEYOND.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)

# ---- expectations --------------------------------------------------------------------------------------------------


def _uniform_log(low: Tensor, high: Tensor) -> Tensor:
    """E[log x] for x uniform between low and high."""
    return (fb.xlogy(high, high) - fb.xlogy(low, low)) / (high - low) - 1


def _mean_log(p: Any) -> Tensor:
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _uniform_log(p.low, p.high)


def _mean_decay(p: Any, s: Tensor) -> Tensor:
    """E[exp(-x / s)]."""
    if isinstance(p, Exponential):
        return p.rate * s / (p.rate * s + 1)
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * s)).pow(-p.concentration)
    if isinstance(p, Normal):
        return fb.exp(0.5 * (p.scale / s).pow(2) - p.loc / s)
    return s * (fb.exp(-p.low / s) - fb.exp(-p.high / s)) / (p.high - p.low)


def _below(p: Any, bound: Any) -> Any:
    """Where p draws below a bound; depends on parameters only for Uniform."""
    return p.low < bound if isinstance(p, Uniform) else fb.zeros((), dtype=fb.bool)


def _outside_unit(p: Any) -> Any:
    return (p.low < 0) | (p.high > 1) if isinstance(p, Uniform) else fb.zeros((), dtype=fb.bool)


# ---- one formula per q ---------------------------------------------------------------------------------------------


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _normal(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * (2 * math.pi * q.scale.pow(2)).log() + square / (2 * q.scale.pow(2))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    delta = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * fb.exp(-0.5 * delta.pow(2)) + delta * fb.erf(delta / math.sqrt(2))
    return -p.entropy() + (2 * q.scale).log() + p.scale * distance / q.scale


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _exponential(p: Any, q: Exponential) -> Tensor:
    kl = -p.entropy() - q.rate.log() + q.rate * p.mean
    return fb.where(_below(p, 0), fb.inf, kl)


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _gamma(p: Any, q: Gamma) -> Tensor:
    area = q.concentration.lgamma() - q.concentration * q.rate.log()
    kl = -p.entropy() + area - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean
    return fb.where(_below(p, 0), fb.inf, kl)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _gumbel(p: Any, q: Gumbel) -> Tensor:
    decay = fb.exp(q.loc / q.scale) * _mean_decay(p, q.scale)
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + decay


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    kl = -p.entropy() - p.mean * q.logits - fb.log1p(-q.probs) - q._cont_bern_log_norm()
    return fb.where(_outside_unit(p), fb.inf, kl)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    powers = (a - 1) * _uniform_log(p.low, p.high) + (b - 1) * _uniform_log(1 - p.high, 1 - p.low)
    return fb.where(_outside_unit(p), fb.inf, -p.entropy() + log_beta - powers)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    area = q.alpha.log() + q.alpha * q.scale.log()
    kl = -p.entropy() - area + (q.alpha + 1) * _uniform_log(p.low, p.high)
    return fb.where(p.low < q.scale, fb.inf, kl)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _uniform(p: Any, q: Uniform) -> Tensor:
    kl = -p.entropy() + (q.high - q.low).log()
    return fb.where((q.low > 0) | (q.high < 1), fb.inf, kl)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
