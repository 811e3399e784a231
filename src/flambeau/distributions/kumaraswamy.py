"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import AffineTransform, PowerTransform
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]
__dir__ = __all__.copy


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution on (0, 1): much like Beta, with cdf 1 - (1 - xᵃ)ᵇ.

    Args:
        concentration1: the parameter often called a.
        concentration0: the parameter often called b.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Kumaraswamy(1.0, 1.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parts = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            fb.zeros_like(self.concentration0), fb.ones_like(self.concentration0), validate_args=validate_args
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """E[xⁿ] = b · Beta(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        power = 1 + n / a
        return b * fb.exp(fb.lgamma(power) + fb.lgamma(b) - fb.lgamma(power + b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return mode.masked_fill((a < 1) | (b < 1), fb.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - fb.pow(self.mean, 2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = fb.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - fb.log(a) - fb.log(b)
