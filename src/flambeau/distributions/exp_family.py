"""ExponentialFamily: distributions whose entropy follows from their log-normalizer."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]
__dir__ = __all__.copy


class ExponentialFamily(Distribution):
    """Densities of the form exp(⟨t(x), θ⟩ - F(θ) + k(x)).

    A subclass that gives the natural parameters θ, the log-normalizer F and the mean of k has its entropy and its
    Kullback-Leibler divergences by differentiation (Bregman divergences of F).

    Example:
        >>> isinstance(fb.distributions.Normal(0.0, 1.0), fb.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define its natural parameters")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define its log-normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define the mean of its carrier measure")

    def entropy(self) -> Tensor:
        with fb.enable_grad():
            params = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
            log_normalizer = self._log_normalizer(*params)
            gradients = fb.autograd.grad(log_normalizer.sum(), params, create_graph=True)
        result = log_normalizer - self._mean_carrier_measure
        for param, gradient in zip(params, gradients, strict=True):
            inner = param * gradient
            result = result - inner.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
