"""Batch dimensions taken as part of one value."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import sum_rightmost

__all__ = ["Independent"]
__dir__ = __all__.copy


class Independent(Distribution):
    """A distribution whose rightmost batch dimensions belong to one value: their log-probabilities are summed.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many batch dimensions.
        validate_args: whether to check parameters and values.

    Example:
        >>> d = fb.distributions.Independent(fb.distributions.Normal(fb.zeros(3), 1.0), 1)
        >>> d.batch_shape, d.event_shape, d.log_prob(fb.zeros(3)).shape
        (flambeau.Size([]), flambeau.Size([3]), flambeau.Size([]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch_dims = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch_dims:
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims must be at most {batch_dims}, the distribution's batch dimensions, "
                f"got {reinterpreted_batch_ndims}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch_dims - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        inner = new._batch_shape + self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(inner)
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # depends on the parts
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]  # depends on the parts
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        inner = self.base_dist.support
        return (
            constraints.independent(inner, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else inner
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Independent: the values of several variables together are not listed")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
