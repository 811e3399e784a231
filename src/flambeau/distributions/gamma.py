"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all

__all__ = ["Gamma"]
__dir__ = __all__.copy


class Gamma(ExponentialFamily):
    """Gamma distribution.

    Args:
        concentration: the shape parameter.
        rate: the inverse scale.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Gamma(3.0, 2.0).mean
        tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parts = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = private.standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # A sample too small for the dtype is raised to its smallest number, which keeps log_prob finite.
        value.detach().clamp_(min=fb.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        value = fb.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        power = fb.xlogy(self.concentration, self.rate) + fb.xlogy(self.concentration - 1, value)
        return power - self.rate * value - fb.lgamma(self.concentration)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return fb.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - fb.log(self.rate) + fb.lgamma(a) + (1.0 - a) * fb.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return fb.lgamma(x + 1) + (x + 1) * fb.log(-y.reciprocal())
