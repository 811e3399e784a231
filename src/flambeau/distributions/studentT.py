"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all, standard_normal

__all__ = ["StudentT"]
__dir__ = __all__.copy


class StudentT(Distribution):
    """Student's t-distribution.

    Args:
        df: degrees of freedom.
        loc: the location.
        scale: the scale.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parts = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, fb.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return finite.masked_fill(self.df <= 2, fb.inf).masked_fill(self.df <= 1, fb.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.df)
        return self.loc + self.scale * noise * fb.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        area = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        area = area + fb.lgamma(0.5 * self.df) - fb.lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * fb.log1p(y**2.0 / self.df) - area

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        spread = self.scale.log() + more * (fb.digamma(more) - fb.digamma(half)) + 0.5 * self.df.log()
        return spread + 0.5 * math.log(math.pi) + fb.lgamma(half) - fb.lgamma(more)
