"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["Multinomial"]
__dir__ = __all__.copy


class Multinomial(Distribution):
    """Multinomial distribution: how often each category came in a number of draws.

    Args:
        total_count: the number of draws, one for the whole batch.
        probs: weights of the categories in the last dimension, which are normalized; either these or the logits.
        logits: unnormalized log-probabilities.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Multinomial(4, fb.tensor([1.0, 3.0])).mean
        tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _parts = {"_categorical": 0}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be one int for the whole batch")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

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
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        draws = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, draws, fb.ones_like(draws))
        return counts.type_as(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        # An impossible category that did not come adds 0 · log 0, which counts as 0.
        logits = logits.masked_fill((value == 0) & (logits == -fb.inf), 0)
        return fb.lgamma(value.sum(-1) + 1) - fb.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = fb.tensor(self.total_count, dtype=self.probs.dtype, device=self.probs.device)
        draws = n * self._categorical.entropy() - fb.lgamma(n + 1)
        counts = Binomial(self.total_count, probs=self.probs)
        support = counts.enumerate_support(expand=False)[1:]
        return draws + (fb.exp(counts.log_prob(support)) * fb.lgamma(support + 1)).sum([0, -1])
