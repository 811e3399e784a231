"""The beta distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all

__all__ = ["Beta"]
__dir__ = __all__.copy


class Beta(ExponentialFamily):
    """Beta distribution on (0, 1).

    Args:
        concentration1: the parameter often called α.
        concentration0: the parameter often called β.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Beta(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parts = {"_dirichlet": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = fb.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The parameter often called α."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The parameter often called β."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(fb.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    @property
    def _mean_carrier_measure(self) -> Tensor:
        return self._dirichlet._mean_carrier_measure

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return fb.lgamma(x) + fb.lgamma(y) - fb.lgamma(x + y)
