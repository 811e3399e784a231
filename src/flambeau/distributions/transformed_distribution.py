"""Distributions of transformed variables."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.independent import Independent
from flambeau.distributions.transforms import ComposeTransform, Transform
from flambeau.distributions.utils import sum_rightmost

__all__ = ["TransformedDistribution"]
__dir__ = __all__.copy


class TransformedDistribution(Distribution):
    """Distribution of f(x) for x of a base distribution: log p(y) = log p(x) - log |det dy/dx|.

    Args:
        base_distribution: the distribution of x.
        transforms: a transform, or several to be applied one after the other.
        validate_args: whether to check parameters and values.

    Example:
        >>> D = fb.distributions
        >>> D.TransformedDistribution(D.Uniform(0.0, 1.0), D.AffineTransform(1.0, 2.0)).cdf(fb.tensor(2.0))
        tensor(0.5000)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"TransformedDistribution: expected a Transform or a list of them, got {transforms!r}")
        base, whole = base_distribution, ComposeTransform(self.transforms)
        base_shape, base_event_dim = base.batch_shape + base.event_shape, len(base.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                f"TransformedDistribution: the transforms need at least {whole.domain.event_dim} dimensions, the base "
                f"distribution has shape {tuple(base_shape)}; expand it"
            )
        # Parameters of the transforms may broadcast the batch.
        shape = whole.forward_shape(base_shape)
        wider = whole.inverse_shape(shape)
        if wider != base_shape:
            base = base.expand(wider[: len(wider) - base_event_dim])
        taken = whole.domain.event_dim - base_event_dim
        if taken > 0:
            base = Independent(base, taken)
        self.base_dist = base
        event_dim = max(whole.codomain.event_dim, base_event_dim + whole.codomain.event_dim - whole.domain.event_dim)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        shape = new._batch_shape + self._event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        missing = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, missing) if missing > 0 else codomain

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # depends on the parts
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with fb.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, y = len(self.event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _sign(self) -> Any:
        """-1 where the composed transform is decreasing."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._oriented(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._oriented(value)))

    def _oriented(self, probability: Tensor) -> Tensor:
        sign = self._sign()
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5
