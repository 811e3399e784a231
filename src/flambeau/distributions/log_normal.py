"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.normal import Normal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]
__dir__ = __all__.copy


class LogNormal(TransformedDistribution):
    """Log-normal distribution: exp of a normal variable.

    Args:
        loc: mean of the logarithm.
        scale: standard deviation of the logarithm.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.LogNormal(0.0, 1.0).mean
        tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
