"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    one_of,
    open_uniform,
    probs_to_logits,
)

__all__ = ["Geometric"]
__dir__ = __all__.copy


class Geometric(Distribution):
    """Geometric distribution: failures before the first success.

    Args:
        probs: probabilities of success; either these or the logits.
        logits: log-odds of success.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Geometric(0.25).mean
        tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parts = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = one_of("Geometric", probs=probs, logits=logits)
        (param,) = broadcast_all(value)
        setattr(self, name, param)
        super().__init__(param.shape, validate_args=validate_args)
        if self._validate_args and name == "probs" and not (param > 0).all():
            raise ValueError(f"Geometric: probs must be above 0, or no success ever comes, got {param}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return fb.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with fb.no_grad():
            return (open_uniform(self._extended_shape(sample_shape), self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 · log(0) counts as 0: with certain success there are no failures.
        failure = (-probs.masked_fill((probs == 1) & (value == 0), 0)).log1p()
        return value * failure + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
