"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.multivariate_normal import factor_of_precision, half_log_det
from flambeau.distributions.utils import lazy_property, one_of

__all__ = ["Wishart"]
__dir__ = __all__.copy


class Wishart(ExponentialFamily):
    """Wishart distribution over positive definite matrices: scatter of normal vectors.

    Args:
        df: degrees of freedom, more than the size of the matrices minus one.
        covariance_matrix: of the vectors; exactly one of the three.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Wishart(fb.tensor(3.0), fb.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parts = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_of(
            "Wishart", covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        if matrix.dim() < 2:
            raise ValueError(f"Wishart: {name} must have at least two dimensions, got {matrix.dim()}")
        if not (isinstance(df, Tensor) and df.is_floating_point()):
            df = fb.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape, event_shape = fb.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if (self.df <= event_shape[-1] - 1).any():
            raise ValueError(f"Wishart: df must be more than {event_shape[-1] - 1}, the size minus one, got {df}")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = fb.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_precision(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        return fb.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, fb.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Draws by Bartlett's decomposition; draws that rounding made singular are drawn again.

        Args:
            sample_shape: shape of the independent draws.
            max_try_correction: how often to draw singular ones again; a few times if not given.
        """
        size = self._event_shape[-1]
        tries = (3 if size > 2 else 10) if max_try_correction is None else max_try_correction
        sample = self._bartlett(sample_shape)
        for _ in range(tries):
            singular = ~self.support.check(sample.detach())
            if not singular.any():
                break
            sample = fb.where(singular[..., None, None], self._bartlett(sample_shape), sample)
        return sample

    def _bartlett(self, sample_shape: Any) -> Tensor:
        size = self._event_shape[-1]
        lost = fb.arange(size, dtype=self.df.dtype, device=self.df.device)
        squares = Chi2(self.df.unsqueeze(-1) - lost, validate_args=False).rsample(sample_shape)
        diagonal = squares.clamp(min=fb.finfo(self.df.dtype).tiny).sqrt()
        below = fb.randn(diagonal.shape + (size,), dtype=diagonal.dtype, device=diagonal.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + fb.diag_embed(diagonal))
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        area = nu * (p * math.log(2) / 2 + half_log_det(factor)) + fb.mvlgamma(nu / 2, p)
        shape = fb.broadcast_shapes(value.shape, factor.shape)
        solved = fb.cholesky_solve(value.expand(shape), factor.expand(shape))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - p - 1) / 2 * fb.linalg.slogdet(value).logabsdet - trace / 2 - area

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        area = (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
        halves = fb.arange(p, dtype=nu.dtype, device=nu.device) / 2
        expected_log = fb.digamma((nu / 2).unsqueeze(-1) - halves).sum(-1)
        return area + fb.mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * expected_log + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-fb.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + fb.mvlgamma(half, p)
