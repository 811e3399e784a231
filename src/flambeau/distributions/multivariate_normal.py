"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import lazy_property, one_of, standard_normal

__all__ = ["MultivariateNormal"]
__dir__ = __all__.copy


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Squared length of factor⁻¹ · difference, for a lower triangle; batches broadcast."""
    if factor.dim() == 2:  # one factor for all: one solve with many right-hand sides
        columns = difference.reshape(-1, difference.shape[-1]).T
        solved = fb.linalg.solve_triangular(factor, columns, upper=False)
        return solved.pow(2).sum(0).reshape(difference.shape[:-1])
    return fb.linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).pow(2).sum(-2).squeeze(-1)


def factor_of_precision(precision: Tensor) -> Tensor:
    """Cholesky factor of the inverse of a matrix, without forming the inverse."""
    # Flipped in both dimensions, the upper factor of the precision is the inverse of the wanted lower one.
    inverse = fb.flip(fb.linalg.cholesky(fb.flip(precision, (-2, -1))), (-2, -1)).mT
    identity = fb.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return fb.linalg.solve_triangular(inverse, identity.expand(precision.shape), upper=False)


def half_log_det(factor: Tensor) -> Tensor:
    """Sum of the logarithms of a triangle's diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Multivariate normal distribution, given by one of three matrices.

    The Cholesky factor is what computations use; giving it saves the decomposition.

    Args:
        loc: the mean, a vector in the last dimension.
        covariance_matrix: positive definite.
        precision_matrix: its inverse, positive definite.
        scale_tril: its Cholesky factor, lower triangular with a positive diagonal.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.MultivariateNormal(fb.zeros(2), fb.eye(2)).log_prob(fb.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parts = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc must have at least one dimension, got a 0-d tensor")
        name, matrix = one_of(
            "MultivariateNormal",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.dim() < 2:
            raise ValueError(f"MultivariateNormal: {name} must have at least two dimensions, got {matrix.dim()}")
        batch_shape = fb.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(batch_shape + (-1,))
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = fb.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_precision(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance of the components."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        return fb.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape * 2)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        area = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + area).expand(self._batch_shape)
