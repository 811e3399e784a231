"""The multivariate normal distribution with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.multivariate_normal import half_log_det, mahalanobis
from flambeau.distributions.utils import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal"]
__dir__ = __all__.copy


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with covariance W Wᵀ + diag(D).

    Only matrices of the rank's size are decomposed (Woodbury's identity).

    Args:
        loc: the mean, a vector in the last dimension.
        cov_factor: W, with the rank as the last dimension.
        cov_diag: D, positive.
        validate_args: whether to check parameters and values.

    Example:
        >>> d = fb.distributions.LowRankMultivariateNormal(fb.zeros(2), fb.ones(2, 1), fb.ones(2))
        >>> d.covariance_matrix
        tensor([[2., 1.],
                [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parts = {
        "loc": 1, "cov_factor": 2, "cov_diag": 1, "scale_tril": 2, "covariance_matrix": 2, "precision_matrix": 2
    }  # fmt: skip

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1 or cov_factor.dim() < 2 or cov_diag.dim() < 1:
            raise ValueError(
                "LowRankMultivariateNormal: loc and cov_diag need at least one dimension and cov_factor two, got "
                f"{loc.dim()}, {cov_diag.dim()} and {cov_factor.dim()}"
            )
        n = loc.shape[-1]
        if cov_factor.shape[-2] != n or cov_diag.shape[-1] != n:
            raise ValueError(
                f"LowRankMultivariateNormal: for {n} components cov_factor must have shape (…, {n}, rank) and cov_diag "
                f"(…, {n}), got {tuple(cov_factor.shape)} and {tuple(cov_diag.shape)}"
            )
        batch_shape = fb.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand(batch_shape + (n,))
        self.cov_factor, self.cov_diag = cov_factor.expand(batch_shape + (n, -1)), cov_diag.expand(batch_shape + (n,))
        super().__init__(batch_shape, (n,), validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_factor(cov_factor, cov_diag)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        # Factored with the diagonal's scale taken out, which keeps it well conditioned.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = fb.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        factor = root * fb.linalg.cholesky(scaled @ scaled.mT + identity)
        return factor.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance of the components."""
        w = self._unbroadcasted_cov_factor
        whole = w @ w.mT + fb.diag_embed(self._unbroadcasted_cov_diag)
        return whole.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        part = fb.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        whole = fb.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - part.mT @ part
        return whole.expand(self._batch_shape + self._event_shape * 2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc)
        every = standard_normal(shape, self.loc)
        low_rank = (self._unbroadcasted_cov_factor @ few.unsqueeze(-1)).squeeze(-1)
        return self.loc + low_rank + self._unbroadcasted_cov_diag.sqrt() * every

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        w, d, factor = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        distance = lowrank_mahalanobis(w, d, value - self.loc, factor)
        area = lowrank_log_det(d, factor)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + area + distance)

    def entropy(self) -> Tensor:
        area = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        return (0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + area)).expand(self._batch_shape)


def capacitance_factor(w: Tensor, d: Tensor) -> Tensor:
    """Cholesky factor of I + Wᵀ D⁻¹ W."""
    identity = fb.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return fb.linalg.cholesky((w.mT / d.unsqueeze(-2)) @ w + identity)


def lowrank_log_det(d: Tensor, factor: Tensor) -> Tensor:
    """log det(W Wᵀ + D), by the determinant lemma."""
    return 2 * half_log_det(factor) + d.log().sum(-1)


def lowrank_mahalanobis(w: Tensor, d: Tensor, difference: Tensor, factor: Tensor) -> Tensor:
    """differenceᵀ (W Wᵀ + D)⁻¹ difference, by Woodbury's identity."""
    inner = ((w.mT / d.unsqueeze(-2)) @ difference.unsqueeze(-1)).squeeze(-1)
    return (difference.pow(2) / d).sum(-1) - mahalanobis(factor, inner)
