"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    one_of,
    probs_to_logits,
)

__all__ = ["ContinuousBernoulli"]
__dir__ = __all__.copy


class ContinuousBernoulli(ExponentialFamily):
    """Continuous Bernoulli distribution on [0, 1]: density proportional to λˣ (1 - λ)¹⁻ˣ.

    Near λ = 1/2 the closed forms divide zero by zero; there a Taylor series stands in.

    Args:
        probs: λ; either these or the logits.
        logits: the log-odds of λ.
        lims: between these bounds the series is used.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.ContinuousBernoulli(0.5).mean
        tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _parts = {"probs": 0, "logits": 0, "_param": 0}
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        name, value = one_of("ContinuousBernoulli", probs=probs, logits=logits)
        (param,) = broadcast_all(value)
        if name == "probs":
            if validate_args is not False and not self.arg_constraints["probs"].check(param).all():
                raise ValueError(f"ContinuousBernoulli: probs must be from 0 to 1, got {param}")
            param = clamp_probs(param)
        self._param, self._lims = param, lims
        setattr(self, name, param)
        super().__init__(param.shape, validate_args=validate_args)

    def _closed(self) -> tuple[Tensor, Tensor]:
        """Where the closed forms hold, and λ with a harmless value elsewhere."""
        closed = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return closed, fb.where(closed, self.probs, self._lims[0] * fb.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> Tensor:
        closed, cut = self._closed()
        low, high = fb.where(cut <= 0.5, cut, 0.0), fb.where(cut >= 0.5, cut, 1.0)
        area = fb.where(cut <= 0.5, fb.log1p(-2.0 * low), fb.log(2.0 * high - 1.0))
        exact = fb.log(fb.abs(fb.log1p(-cut) - fb.log(cut))) - area
        x = (self.probs - 0.5).pow(2)
        return fb.where(closed, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        closed, cut = self._closed()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (fb.log1p(-cut) - fb.log(cut))
        x = self.probs - 0.5
        return fb.where(closed, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        return fb.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        closed, cut = self._closed()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (fb.log1p(-cut) - fb.log(cut)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return fb.where(closed, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds of λ."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """λ."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._param.size()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = fb.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        bernoulli = -fb.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return bernoulli + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        closed, cut = self._closed()
        exact = (fb.pow(cut, value) * fb.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = fb.where(closed, exact, value)
        return fb.where(value <= 0.0, fb.zeros_like(inside), fb.where(value >= 1.0, fb.ones_like(inside), inside))

    def icdf(self, value: Tensor) -> Tensor:
        closed, cut = self._closed()
        exact = fb.log1p(-cut + value * (2.0 * cut - 1.0)) - fb.log1p(-cut)
        return fb.where(closed, exact / (fb.log(cut) - fb.log1p(-cut)), value)

    def entropy(self) -> Tensor:
        log_rest = fb.log1p(-self.probs)
        return self.mean * (log_rest - fb.log(self.probs)) - self._cont_bern_log_norm() - log_rest

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        closed = (x <= math.log(self._lims[0] / (1 - self._lims[0]))) | (
            x > math.log(self._lims[1] / (1 - self._lims[1]))
        )
        cut = fb.where(closed, x, fb.ones_like(x))
        exact = fb.log(fb.abs(fb.special.expm1(cut))) - fb.log(fb.abs(cut))
        return fb.where(closed, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
