"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits

__all__ = ["Binomial"]
__dir__ = __all__.copy


class Binomial(Distribution):
    """Binomial distribution: successes in a number of trials.

    Args:
        total_count: numbers of trials.
        probs: probabilities of success; either these or the logits.
        logits: log-odds of success.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Binomial(4, 0.25).mean
        tensor(1.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parts = {"total_count": 0, "probs": 0, "logits": 0, "_param": 0}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name, value = one_of("Binomial", probs=probs, logits=logits)
        self.total_count, self._param = broadcast_all(total_count, value)
        self.total_count = self.total_count.type_as(self._param)
        setattr(self, name, self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

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
        shape = self._extended_shape(sample_shape)
        with fb.no_grad():
            return fb.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = fb.lgamma(n + 1) - fb.lgamma(value + 1) - fb.lgamma(n - value + 1)
        # n log(1 + exp(logits)), which neither overflows nor loses digits.
        normalizer = n * fb.logaddexp(logits, fb.zeros_like(logits))
        return value * logits + ways - normalizer

    def entropy(self) -> Tensor:
        if not (self.total_count == self.total_count.max()).all():
            raise NotImplementedError("Binomial: the entropy needs one total_count for the whole batch")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(fb.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = int(self.total_count.max())
        if not (self.total_count == total).all():
            raise NotImplementedError(
                "Binomial: its values can only be listed with one total_count for the whole batch"
            )
        values = fb.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values
