"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import AffineTransform, ExpTransform
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]
__dir__ = __all__.copy


class Gumbel(TransformedDistribution):
    """Gumbel distribution: of the largest of many.

    Args:
        loc: the mode.
        scale: the scale.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Gumbel(0.0, 1.0).mean
        tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parts = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = fb.finfo(self.loc.dtype)
        low, high = fb.full_like(self.loc, info.tiny), fb.full_like(self.loc, 1 - info.eps)
        # x = loc - scale · log(-log u)
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-fb.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return fb.exp(-fb.exp((self.loc - value) / self.scale))

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
