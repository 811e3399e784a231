"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits

__all__ = ["Bernoulli"]
__dir__ = __all__.copy


class Bernoulli(ExponentialFamily):
    """Bernoulli distribution: 1 with probability `probs`, else 0.

    Args:
        probs: probabilities of 1; either these or the logits.
        logits: log-odds of 1.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Bernoulli(0.25).log_prob(fb.tensor(1.0)).exp()
        tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _parts = {"probs": 0, "logits": 0, "_param": 0}
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = one_of("Bernoulli", probs=probs, logits=logits)
        (self._param,) = broadcast_all(value)
        setattr(self, name, self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, fb.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

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
        with fb.no_grad():
            return fb.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = fb.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (fb.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return fb.log1p(fb.exp(x))
