"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions._half import HalfDistribution
from flambeau.distributions.cauchy import Cauchy

__all__ = ["HalfCauchy"]
__dir__ = __all__.copy


class HalfCauchy(HalfDistribution):
    """Half-Cauchy distribution: the absolute value of a centered Cauchy variable.

    Args:
        scale: the scale of that variable.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.HalfCauchy(1.0).cdf(fb.tensor(1.0))
        tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return fb.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
