"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.normal import Normal
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]
__dir__ = __all__.copy


class LogisticNormal(TransformedDistribution):
    """Logistic-normal distribution over parts of a whole: stick breaking of a normal vector.

    Args:
        loc: means of the k normal variables in the last dimension; values have k + 1 parts.
        scale: their standard deviations.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.LogisticNormal(fb.zeros(3), fb.ones(3)).event_shape
        flambeau.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any  # Independent(Normal)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale
