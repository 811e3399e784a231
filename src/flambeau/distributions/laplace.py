"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["Laplace"]
__dir__ = __all__.copy


class Laplace(Distribution):
    """Laplace (two-sided exponential) distribution.

    Args:
        loc: the mean.
        scale: the mean distance from it.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Laplace(0.0, 1.0).variance
        tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parts = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        info = fb.finfo(self.loc.dtype)
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(info.eps - 1, 1)
        # The tiny bound keeps log1p finite at the ends.
        return self.loc - self.scale * noise.sign() * fb.log1p(-noise.abs().clamp(min=info.tiny))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -fb.log(2 * self.scale) - fb.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * fb.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * fb.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + fb.log(2 * self.scale)
