"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits

__all__ = ["NegativeBinomial"]
__dir__ = __all__.copy


class NegativeBinomial(Distribution):
    """Negative binomial distribution: successes before a number of failures.

    Args:
        total_count: the number of failures to stop at; need not be whole.
        probs: probabilities of success, below 1; either these or the logits.
        logits: log-odds of success.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.NegativeBinomial(3.0, 0.5).mean
        tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parts = {"total_count": 0, "probs": 0, "logits": 0, "_param": 0}

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name, value = one_of("NegativeBinomial", probs=probs, logits=logits)
        self.total_count, self._param = broadcast_all(total_count, value)
        self.total_count = self.total_count.type_as(self._param)
        setattr(self, name, self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * fb.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / fb.sigmoid(-self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._param.size()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        # A Poisson variable with a gamma distributed rate.
        rates = Gamma(self.total_count, fb.exp(-self.logits), validate_args=False)
        with fb.no_grad():
            return fb.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        area = -fb.lgamma(n + value) + fb.lgamma(1.0 + value) + fb.lgamma(n)
        # No failures to wait for: the only value is 0.
        return unnormalized - area.masked_fill(n + value == 0.0, 0.0)
