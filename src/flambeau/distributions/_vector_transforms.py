"""Transforms of vectors and matrices: onto the simplex, Cholesky factors, and joined pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions._transform_base import Transform
from flambeau.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform",
    "StackTransform", "StickBreakingTransform",
]  # fmt: skip


class SoftmaxTransform(Transform):
    """y = softmax(x) over the last dimension: onto the simplex, and not one to one.

    Example:
        >>> fb.distributions.SoftmaxTransform()(fb.zeros(2))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Size:
        return _at_least(shape, 1, "SoftmaxTransform")

    def inverse_shape(self, shape: Any) -> Size:
        return _at_least(shape, 1, "SoftmaxTransform")


class StickBreakingTransform(Transform):
    """From k real numbers to k + 1 parts of a stick, one to one.

    The sigmoid of each number, shifted so that zeros give equal parts, says how much of the rest is broken off.

    Example:
        >>> fb.distributions.StickBreakingTransform()(fb.zeros(2))
        tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = Transform.__hash__

    @staticmethod
    def _shift(count: int, like: Tensor) -> Tensor:
        """log of the number of parts after each break."""
        return fb.arange(count, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        broken = _open_sigmoid(x - self._shift(x.shape[-1], x))
        rest = (1 - broken).cumprod(-1)
        return F.pad(broken, [0, 1], value=1.0) * F.pad(rest, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        rest = (1 - parts.cumsum(-1)).clamp(min=fb.finfo(y.dtype).tiny)
        return parts.log() - rest.log() + self._shift(parts.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._shift(x.shape[-1], x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Size:
        shape = _at_least(shape, 1, "StickBreakingTransform")
        return Size(shape[:-1] + (shape[-1] + 1,))

    def inverse_shape(self, shape: Any) -> Size:
        shape = _at_least(shape, 1, "StickBreakingTransform")
        return Size(shape[:-1] + (shape[-1] - 1,))


class CorrCholeskyTransform(Transform):
    """From n(n-1)/2 real numbers to the Cholesky factor of an n × n correlation matrix.

    tanh turns the numbers into partial correlations; each row then breaks a stick of length one, in squares.

    Example:
        >>> fb.distributions.CorrCholeskyTransform()(fb.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = fb.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial * partial).sqrt().cumprod(-1)
        identity = fb.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return (partial + identity) * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - fb.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return partial.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(dim=-1)
        stick = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        # log of 1 - tanh² without cancellation, as in TanhTransform.
        tanh = -2 * (x + F.softplus(-2 * x) - 0.6931471805599453).sum(-1)
        return stick + tanh

    def forward_shape(self, shape: Any) -> Size:
        count = _at_least(shape, 1, "CorrCholeskyTransform")[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError(f"CorrCholeskyTransform: {count} numbers do not fill a triangle below the diagonal")
        return Size(tuple(shape[:-1]) + (n, n))

    def inverse_shape(self, shape: Any) -> Size:
        shape = _at_least(shape, 2, "CorrCholeskyTransform")
        if shape[-2] != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: expected square matrices, got shape {tuple(shape)}")
        return Size(shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,))


class LowerCholeskyTransform(Transform):
    """From any matrix to a lower triangle with a positive diagonal: the diagonal is exponentiated.

    Example:
        >>> fb.distributions.LowerCholeskyTransform()(fb.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From any matrix to a positive definite one, by way of its Cholesky factor.

    Example:
        >>> fb.distributions.PositiveDefiniteTransform()(fb.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(fb.linalg.cholesky(y))


class CatTransform(Transform):
    """Transforms for consecutive pieces along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the size of each piece; 1 each if not given.
        cache_size: see Transform.

    Example:
        >>> D = fb.distributions
        >>> D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])(fb.zeros(3))
        tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        transforms = list(tseq)
        if not all(isinstance(t, Transform) for t in transforms):
            raise ValueError(f"CatTransform: expected transforms, got {transforms}")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in transforms] if cache_size else transforms
        self.lengths = [1] * len(transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(transforms):
            raise ValueError(f"CatTransform: {len(transforms)} transforms but {len(self.lengths)} lengths")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Size of the whole along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, x: Tensor) -> Any:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise ValueError(
                f"CatTransform: expected size {self.length} along dim {self.dim}, got shape {tuple(x.shape)}"
            )
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return fb.cat([t(piece) for t, piece in zip(self.transforms, self._pieces(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return fb.cat([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = []
        for transform, x_piece, y_piece in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            part = transform.log_abs_det_jacobian(x_piece, y_piece)
            missing = self.event_dim - transform.event_dim
            parts.append(part.flatten(part.dim() - missing).sum(-1) if missing else part)
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        total: Any = fb.cat(parts, dim=dim) if dim < 0 else sum(parts)
        return total

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # depends on the parts
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms for the slices along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        cache_size: see Transform.

    Example:
        >>> D = fb.distributions
        >>> D.StackTransform([D.ExpTransform(), D.identity_transform])(fb.zeros(2, 1))
        tensor([[1.],
                [0.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        transforms = list(tseq)
        if not all(isinstance(t, Transform) for t in transforms):
            raise ValueError(f"StackTransform: expected transforms, got {transforms}")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in transforms] if cache_size else transforms
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Tensor) -> Any:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise ValueError(
                f"StackTransform: expected size {len(self.transforms)} along dim {self.dim}, got shape {tuple(x.shape)}"
            )
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return fb.stack([t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return fb.stack([t.inv(part) for t, part in zip(self.transforms, self._slices(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return fb.stack([t.log_abs_det_jacobian(before, after) for t, before, after in triples], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # depends on the parts
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


def _open_sigmoid(x: Tensor) -> Tensor:
    """Sigmoid kept inside (0, 1)."""
    info = fb.finfo(x.dtype)
    return fb.sigmoid(x).clamp(min=info.tiny, max=1 - info.eps)


def _at_least(shape: Any, dims: int, name: str) -> Size:
    if len(shape) < dims:
        raise ValueError(f"{name}: needs at least {dims} dimensions, got shape {tuple(shape)}")
    return Size(shape)
