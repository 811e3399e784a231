"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]
__dir__ = __all__.copy


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution over the parts of a whole.

    Args:
        concentration: one positive number per part, in the last dimension.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Dirichlet(fb.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parts = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have at least one dimension, got a 0-d tensor")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        # Below 1 the density has its poles in the corners: the largest part becomes 1.
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1, keepdim=True)
        corner = fb.nn.functional.one_hot(mode.nan_to_num().argmax(dim=-1), above.shape[-1]).to(mode)
        return fb.where(flat, corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return private.sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return fb.xlogy(a - 1.0, value).sum(-1) + fb.lgamma(a.sum(-1)) - fb.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, parts = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        log_beta = fb.lgamma(a).sum(-1) - fb.lgamma(total)
        return log_beta - (parts - total) * fb.digamma(total) - ((a - 1.0) * fb.digamma(a)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    @property
    def _mean_carrier_measure(self) -> Tensor:
        # The carrier is 1 / ∏ x, its mean logarithm minus that of the parts.
        a = self.concentration
        return (fb.digamma(a.sum(-1, True)) - fb.digamma(a)).sum(-1)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - fb.lgamma(x.sum(-1))
