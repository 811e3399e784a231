"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all

__all__ = ["Poisson"]
__dir__ = __all__.copy


class Poisson(ExponentialFamily):
    """Poisson distribution: numbers of events.

    Args:
        rate: the mean number of events.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Poisson(2.0).log_prob(fb.tensor(0.0))
        tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parts = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with fb.no_grad():
            return fb.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return fb.xlogy(value, rate) - rate - fb.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (fb.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return fb.exp(x)
