"""Relaxed categorical distributions."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.transforms import ExpTransform
from flambeau.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]
__dir__ = __all__.copy


class ExpRelaxedCategorical(Distribution):
    """Logarithm of a relaxed one-hot variable.

    Args:
        temperature: the lower, the closer to one-hot.
        probs: weights of the categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> d = fb.distributions.relaxed_categorical.ExpRelaxedCategorical(fb.tensor(1.0), fb.ones(3))
        >>> d.rsample().logsumexp(-1).abs() < 1e-6
        tensor(True)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True
    _parts = {"_categorical": 0}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Normalized log-probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = clamp_probs(fb.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-noise.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        parts = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = fb.as_tensor(self.temperature, dtype=logits.dtype)
        log_scale = math.lgamma(parts) + (parts - 1) * temperature.log()
        score = logits - value.mul(temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Relaxed one-hot categorical distribution: differentiable draws on the simplex (concrete, Gumbel-softmax).

    Args:
        temperature: the lower, the closer to one-hot.
        probs: weights of the categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.RelaxedOneHotCategorical(fb.tensor(0.5), fb.ones(3)).rsample().shape
        flambeau.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far from one-hot draws may be."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Normalized log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return self.base_dist.probs
