"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import lazy_property, logits_to_probs, one_of, probs_to_logits

__all__ = ["Categorical"]
__dir__ = __all__.copy


class Categorical(Distribution):
    """Categorical distribution over the indices 0 … k - 1.

    Args:
        probs: weights of the k categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Categorical(fb.tensor([1.0, 3.0])).log_prob(fb.tensor(1)).exp()
        tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parts = {"probs": 1, "logits": 1, "_param": 1}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = one_of("Categorical", probs=probs, logits=logits)
        if value.dim() < 1:
            raise ValueError(f"Categorical: {name} must have at least one dimension, got a 0-d tensor")
        if name == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(dim=-1, keepdim=True)
        self._param = vars(self)[name]
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Normalized log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        return fb.full(self._extended_shape(), fb.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return fb.full(self._extended_shape(), fb.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = fb.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = fb.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # An impossible category adds 0 · log 0, which counts as 0.
        logits = self.logits.clamp(min=fb.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = fb.arange(self._num_events, dtype=fb.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values
