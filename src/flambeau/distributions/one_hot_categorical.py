"""Categorical distributions over one-hot vectors."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]
__dir__ = __all__.copy


class OneHotCategorical(Distribution):
    """Categorical distribution whose values are one-hot vectors.

    Args:
        probs: weights of the categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.OneHotCategorical(fb.tensor([0.0, 1.0])).sample()
        tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _parts = {"_categorical": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Normalized log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self._event_shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[-1]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = fb.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + tuple(self._batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradient is that of the probabilities (straight-through estimator).

    Args:
        probs: weights of the categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.OneHotCategoricalStraightThrough(fb.tensor([0.0, 1.0])).rsample()
        tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())
