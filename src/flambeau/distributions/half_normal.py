"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Tensor
from flambeau.distributions._half import HalfDistribution
from flambeau.distributions.normal import Normal

__all__ = ["HalfNormal"]
__dir__ = __all__.copy


class HalfNormal(HalfDistribution):
    """Half-normal distribution: the absolute value of a centered normal variable.

    Args:
        scale: the scale of that variable.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.HalfNormal(1.0).mean
        tensor(0.7979)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
