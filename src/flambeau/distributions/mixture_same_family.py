"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]
__dir__ = __all__.copy


class MixtureSameFamily(Distribution):
    """Mixture whose components are the last batch dimension of one distribution.

    Args:
        mixture_distribution: a Categorical that chooses the component.
        component_distribution: the components.
        validate_args: whether to check parameters and values.

    Example:
        >>> D = fb.distributions
        >>> D.MixtureSameFamily(D.Categorical(fb.ones(2)), D.Normal(fb.tensor([0.0, 4.0]), 1.0)).mean
        tensor(2.)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(f"MixtureSameFamily: the mixture must be a Categorical, got {type(mixture).__name__}")
        if not isinstance(component, Distribution):
            raise ValueError(
                f"MixtureSameFamily: expected a Distribution of components, got {type(component).__name__}"
            )
        if not component.batch_shape:
            raise ValueError("MixtureSameFamily: the components must be the last batch dimension, but there is none")
        batch_shape = component.batch_shape[:-1]
        for got, size in zip(reversed(mixture.batch_shape), reversed(batch_shape), strict=False):
            if 1 not in (got, size) and got != size:
                raise ValueError(
                    f"MixtureSameFamily: the mixture's batch shape {tuple(mixture.batch_shape)} does not fit the components' "
                    f"{tuple(batch_shape)}"
                )
        chosen, available = mixture.logits.shape[-1], component.batch_shape[-1]
        if chosen != available:
            raise ValueError(
                f"MixtureSameFamily: the mixture chooses from {chosen}, but there are {available} components"
            )
        self._mixture_distribution, self._component_distribution = mixture, component
        self._num_component = available
        super().__init__(batch_shape, component.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand(new._batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(new._batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """Probabilities of the components, shaped to multiply values of them."""
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Tensor:
        axis, component = -1 - len(self._event_shape), self._component_distribution
        within = (self._weights() * component.variance).sum(axis)
        between = (self._weights() * (component.mean - self.mean.unsqueeze(axis)).pow(2)).sum(axis)
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.cdf(self._pad(value))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.log_prob(self._pad(value))
        return fb.logsumexp(each + fb.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        with fb.no_grad():
            axis = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (len(self._event_shape) + 1))
            each = self._component_distribution.sample(sample_shape)
            index = chosen.expand(sample_shape + self._batch_shape + (1,) + self._event_shape)
            return each.gather(axis, index).squeeze(axis)

    def _pad(self, value: Tensor) -> Tensor:
        """The value for every component."""
        return value.unsqueeze(-1 - len(self._event_shape))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
