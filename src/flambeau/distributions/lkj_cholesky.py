"""The LKJ distribution over Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]
__dir__ = __all__.copy


class LKJCholesky(Distribution):
    """LKJ distribution over the Cholesky factors L of correlation matrices: density proportional to det(L Lᵀ)^(η - 1).

    With η = 1 all correlation matrices are equally probable; the larger η, the closer to the identity.

    Args:
        dim: the size of the matrices.
        concentration: η.
        validate_args: whether to check parameters and values.

    Example:
        >>> factor = fb.distributions.LKJCholesky(3, 0.5).sample()
        >>> fb.allclose((factor @ factor.mT).diagonal(), fb.ones(3))
        True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parts = {"concentration": 0, "_beta": 0}

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim must be at least 2, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        # The onion: row i points in a uniform direction of i dimensions, and its squared length below the diagonal is
        # beta distributed.
        shape = self._extended_shape(sample_shape)
        eta = self.concentration.detach()
        row = fb.arange(1, self.dim, dtype=eta.dtype, device=eta.device)
        lengths = Beta(row / 2, eta.unsqueeze(-1) + (self.dim - 1 - row) / 2, validate_args=False).sample(sample_shape)
        lengths = fb.nn.functional.pad(lengths, [1, 0])
        directions = fb.randn(shape, dtype=eta.dtype, device=eta.device).tril(-1)
        norms = directions.norm(dim=-1, keepdim=True)
        rows = directions / norms.masked_fill(norms == 0, 1) * lengths.sqrt().unsqueeze(-1)
        smallest = fb.finfo(rows.dtype).tiny
        return rows + fb.diag_embed((1 - rows.pow(2).sum(-1)).clamp(min=smallest).sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        row = fb.arange(2, self.dim + 1, device=self.concentration.device)
        order = (2 * (self.concentration - 1)).unsqueeze(-1) + self.dim - row
        unnormalized = (order * diagonal.log()).sum(-1)
        rest = self.dim - 1
        alpha = self.concentration + 0.5 * rest
        area = 0.5 * rest * math.log(math.pi) + fb.mvlgamma(alpha - 0.5, rest) - fb.lgamma(alpha) * rest
        return unnormalized - area
