"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import AffineTransform, ExpTransform
from flambeau.distributions.utils import broadcast_all

__all__ = ["Pareto"]
__dir__ = __all__.copy


class Pareto(TransformedDistribution):
    """Pareto distribution of the first kind.

    Args:
        scale: the smallest value.
        alpha: the exponent of the tail.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Pareto(1.0, 2.0).mean
        tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parts = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite up to there
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # infinite up to there
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
