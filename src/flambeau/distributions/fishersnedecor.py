"""The F-distribution of Fisher and Snedecor."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all

__all__ = ["FisherSnedecor"]
__dir__ = __all__.copy


class FisherSnedecor(Distribution):
    """F-distribution: the ratio of two scaled chi-squared variables.

    Args:
        df1: degrees of freedom of the numerator.
        df2: degrees of freedom of the denominator.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.FisherSnedecor(2.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parts = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, fb.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, fb.nan)

    @property
    def variance(self) -> Tensor:
        finite = 2 * self.df2.pow(2) * (self.df1 + self.df2 - 2)
        finite = finite / (self.df1 * (self.df2 - 2).pow(2) * (self.df2 - 4))
        return finite.masked_fill(self.df2 <= 4, fb.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        below.detach().clamp_(min=fb.finfo(below.dtype).tiny)
        ratio = above / below
        ratio.detach().clamp_(min=fb.finfo(ratio.dtype).tiny)
        return ratio

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        area = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        bulk = half1 * ratio.log() + (half1 - 1) * fb.log(value)
        return area + bulk - (half1 + half2) * fb.log1p(ratio * value)
