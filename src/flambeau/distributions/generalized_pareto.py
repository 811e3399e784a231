"""The generalised Pareto distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]
__dir__ = __all__.copy


class GeneralizedPareto(Distribution):
    """Generalised Pareto distribution: excesses over a threshold.

    Args:
        loc: the threshold.
        scale: the scale.
        concentration: the shape: 0 gives an exponential tail, positive numbers a heavy one, negative ones an end.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(fb.tensor(0.0))
        tensor(0.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parts = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, fb.where(self.concentration < 0, end, fb.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the shape counts as 0, and the shape with a harmless value there."""
        zero = fb.isclose(self.concentration, fb.zeros_like(self.concentration))
        return zero, self.concentration.masked_fill(zero, 1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = fb.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        zero, shape = self._shape()
        z = (value - self.loc) / self.scale
        return fb.where(zero, -z, -(1 / shape + 1) * fb.log1p(shape * z)) - fb.log(self.scale)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of exceeding a value."""
        if self._validate_args:
            self._validate_sample(value)
        zero, shape = self._shape()
        z = (value - self.loc) / self.scale
        return fb.where(zero, -z, -fb.log1p(shape * z) / shape)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of the cdf."""
        return fb.log1p(-fb.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return -fb.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        zero, shape = self._shape()
        log_rest = fb.log1p(-value)
        return self.loc + self.scale * fb.where(zero, -log_rest, fb.expm1(-shape * log_rest) / shape)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return fb.where(c < 1, self.loc + self.scale / (1 - c), fb.inf)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return fb.where(c < 0.5, self.scale.pow(2) / ((1 - c).pow(2) * (1 - 2 * c)), fb.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return fb.log(self.scale) + self.concentration + 1
