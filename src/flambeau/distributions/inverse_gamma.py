"""The inverse gamma distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]
__dir__ = __all__.copy


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: 1 / x for a gamma variable x.

    Args:
        concentration: the shape parameter.
        rate: the rate of the gamma variable, and so the scale of this one.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.InverseGamma(3.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape parameter."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        finite = self.rate / (self.concentration - 1)
        return fb.where(self.concentration > 1, finite, fb.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        finite = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return fb.where(self.concentration > 2, finite, fb.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
