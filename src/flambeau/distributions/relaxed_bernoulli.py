"""Relaxed Bernoulli distributions."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import SigmoidTransform
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    one_of,
    probs_to_logits,
)

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]
__dir__ = __all__.copy


class LogitRelaxedBernoulli(Distribution):
    """Log-odds of a relaxed Bernoulli variable.

    Args:
        temperature: the lower, the closer to 0 and 1.
        probs: probabilities of 1; either these or the logits.
        logits: log-odds of 1.
        validate_args: whether to check parameters and values.

    Example:
        >>> d = fb.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(fb.tensor(1.0), logits=fb.zeros(2))
        >>> d.batch_shape
        flambeau.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _parts = {"probs": 0, "logits": 0, "_param": 0}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name, value = one_of("LogitRelaxedBernoulli", probs=probs, logits=logits)
        self.temperature = temperature
        (self._param,) = broadcast_all(value)
        setattr(self, name, self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

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

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        noise = clamp_probs(fb.rand(shape, dtype=probs.dtype, device=probs.device))
        return (noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return fb.as_tensor(self.temperature).log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Relaxed Bernoulli distribution: differentiable draws between 0 and 1 (binary concrete).

    Args:
        temperature: the lower, the closer to 0 and 1.
        probs: probabilities of 1; either these or the logits.
        logits: log-odds of 1.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.RelaxedBernoulli(fb.tensor(0.5), fb.tensor([0.1, 0.9])).rsample().shape
        flambeau.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    @property
    def temperature(self) -> Any:
        """How far from 0 and 1 draws may be."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
