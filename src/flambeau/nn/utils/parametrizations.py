"""Ready-made parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.spectral_norm import as_matrix, default_dim, power_iteration
from flambeau.nn.utils.weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
__dir__ = __all__.copy


class _WeightNorm(Module):
    """g · v / ‖v‖."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The length and the direction of a weight."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learns the norm (original0) and direction (original1) of a weight separately.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        dim: the dimension whose slices are normalized one by one; -1 for all together.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> m.parametrizations.weight.original0.shape
        flambeau.Size([2, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *rest):
        """States of the older weight_norm() have other names for the two parts."""
        for i, part in enumerate(("_g", "_v")):
            if f"{prefix}{name}{part}" in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(f"{prefix}{name}{part}")

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """weight / σ(weight)."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim {dim} is out of range for a weight of shape {tuple(weight.shape)}")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: expected n_power_iterations to be positive, got {n_power_iterations}")
        self.dim, self.eps = dim % weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with fb.no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                u = F.normalize(matrix.new_empty(matrix.shape[0]).normal_(0, 1), dim=0, eps=eps)
                v = F.normalize(matrix.new_empty(matrix.shape[1]).normal_(0, 1), dim=0, eps=eps)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                power_iteration(matrix.mH, v, u, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            # u first, as in PyTorch: the adjoint matrix, with its vectors swapped
            power_iteration(matrix.detach().mH, self._v, self._u, self.n_power_iterations, self.eps)
        return weight / fb.vdot(self._u.clone(), matrix.mv(self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself, assumed not to be normalized."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a weight by its largest singular value, found by power iteration.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        n_power_iterations: for each use in training.
        eps: lower bound of divisors, which avoids division by zero.
        dim: the dimension of the outputs, 0 or, for transposed convolutions, 1.

    Example:
        >>> m = fb.nn.utils.parametrizations.spectral_norm(fb.nn.Linear(3, 3), n_power_iterations=20)
        >>> bool((fb.linalg.norm(m.weight.detach(), 2) - 1).abs() < 1e-3)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: module '{module}' has no parameter or buffer with name '{name}'")
    dim = default_dim(module) if dim is None else dim
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """Maps a matrix to one with orthonormal rows or columns."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)
        self.trivial = use_trivialization

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            tau = 2.0 / (1.0 + (below * below.conj()).sum(-2))
            Q = fb.linalg.householder_product(below, tau) * X.diagonal(0, -2, -1).sign().detach().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = fb.cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], -1)
            skew = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                Q = fb.linalg.matrix_exp(skew)
            else:
                eye = fb.eye(n, dtype=X.dtype)
                Q = fb.linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
            Q = Q[..., :k]
        if self.trivial and self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """A matrix that is mapped to Q, or, without trivialization, to its orthogonal part."""
        if Q.shape != self.shape:
            raise ArgumentError(f"orthogonal: Expected a matrix or batch of matrices of shape {tuple(self.shape)}, got {tuple(Q.shape)}")
        start, wide = Q, Q.shape[-2] < Q.shape[-1]
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if not self.trivial:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "orthogonal: It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False; use the householder map"
                )
            A, tau = fb.geqrf(Q)
            A = A.clone()
            diagonal = A.diagonal(0, -2, -1)
            # geqrf skips a column that needs no reflection (tau 0); the map above always reflects.
            diagonal.copy_(fb.where((diagonal < 0) != (tau == 0), -1.0, 1.0).to(A.dtype))
            return A.mT if wide else A
        if n != k:
            Q = fb.cat([Q, fb.randn((*Q.shape[:-2], n, n - k), dtype=Q.dtype)], -1)
        self.base = _orthonormal(Q)
        trivial = fb.zeros_like(start)
        trivial.diagonal(0, -2, -1).fill_(-1)
        return trivial


def _orthonormal(A: Tensor) -> Tensor:
    """The orthogonal factor of a QR decomposition with positive diagonal: A itself if it is orthogonal."""
    Q, R = fb.linalg.qr(A)
    signs = fb.where(R.diagonal(0, -2, -1).real < 0, -1.0, 1.0).to(A.dtype)
    return Q * signs.unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keeps a matrix orthogonal (its rows or columns orthonormal if it is not square).

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square, the last for other
            matrices.
        use_trivialization: whether the map starts from a basis that is updated when the tensor is assigned to.

    Example:
        >>> m = fb.nn.utils.parametrizations.orthogonal(fb.nn.Linear(3, 3))
        >>> w = m.weight.detach()
        >>> fb.allclose(w @ w.t(), fb.eye(3), atol=1e-5)
        True
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"orthogonal: Expected a matrix or batch of matrices, got a tensor of {weight.ndim} dimensions"
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal: orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map!r}'
        )
    if orthogonal_map == "householder" and weight.is_complex():
        raise ValueError("orthogonal: the householder parametrization does not support complex tensors")
    return parametrize.register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True
    )
