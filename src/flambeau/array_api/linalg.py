"""The linear algebra extension, and the four functions of it that the main namespace has too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import array, axes_tuple, choice, integer, pair
from flambeau.array_api._dtypes import real_of
from flambeau.array_api._manipulation import broadcast_shapes
from flambeau.array_api._statistics import reduced, sum_dtype
from flambeau.errors import ArgumentError, OutOfRangeError

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
__dir__ = __all__.copy


class EigResult(NamedTuple):
    """Result of ``eig``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Result of ``eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Result of ``qr``."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """Result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """Result of ``svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matrices(name: str, x: Tensor, accepts: str = "floating", arg: str = "x") -> Tensor:
    if array(name, x, accepts, arg).ndim < 2:
        raise ArgumentError(f"{name}: {arg} must be a matrix or a stack of them, got shape {tuple(x.shape)}")
    return x


def square_matrices(name: str, x: Tensor, accepts: str = "floating", arg: str = "x") -> Tensor:
    if matrices(name, x, accepts, arg).shape[-1] != x.shape[-2]:
        raise ArgumentError(f"{name}: {arg} must be a square matrix or a stack of them, got shape {tuple(x.shape)}")
    return x


# ---- also in the main namespace --------------------------------------------------------------------------------------


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; vectors count as one row (left) or one column (right), stacks broadcast."""
    x1, x2 = pair("matmul", x1, x2, "numeric", scalars=False)
    if x1.ndim == 0 or x2.ndim == 0:
        raise ArgumentError("matmul: zero-dimensional arrays have no matrix product; use multiply")
    inner = x2.shape[0 if x2.ndim == 1 else -2]
    if x1.shape[-1] != inner:
        raise ArgumentError(
            f"matmul: shapes {tuple(x1.shape)} and {tuple(x2.shape)} clash: {x1.shape[-1]} is not {inner}"
        )
    return fb.matmul(x1, x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Rows and columns exchanged, in every matrix of a stack."""
    return matrices("matrix_transpose", x, "any").mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sums of products over pairs of axes: the last ``axes`` of ``x1`` with the first of ``x2``, or those listed."""
    x1, x2 = pair("tensordot", x1, x2, "numeric", scalars=False)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError(f"tensordot: axes must be an int or two sequences of ints, got {len(axes)} items")
        left, right = axes_tuple("tensordot", axes[0], x1.ndim), axes_tuple("tensordot", axes[1], x2.ndim)
    else:
        count = integer("tensordot", "axes", axes)
        if not 0 <= count <= min(x1.ndim, x2.ndim):
            raise ArgumentError(f"tensordot: cannot contract {count} axes of arrays with {x1.ndim} and {x2.ndim}")
        left, right = tuple(range(x1.ndim - count, x1.ndim)), tuple(range(count))
    if [x1.shape[i] for i in left] != [x2.shape[i] for i in right]:
        raise ArgumentError(
            f"tensordot: shapes {tuple(x1.shape)} and {tuple(x2.shape)} differ in their axes {left} and {right}"
        )
    return fb.tensordot(x1, x2, dims=(list(left), list(right)))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Dot products along ``axis`` (negative), the first operand conjugated; other axes broadcast."""
    x1, x2 = pair("vecdot", x1, x2, "numeric", scalars=False)
    axis = _shared_axis("vecdot", x1, x2, axis)
    if x1.shape[axis] != x2.shape[axis]:
        raise ArgumentError(f"vecdot: axis {axis} has size {x1.shape[axis]} in x1 and {x2.shape[axis]} in x2")
    return fb.sum(fb.conj(x1) * x2, dim=axis, dtype=x1.dtype)


def _shared_axis(name: str, x1: Tensor, x2: Tensor, axis: int) -> int:
    """An axis of two arrays of different rank, so counted from the end."""
    axis, rank = integer(name, "axis", axis), min(x1.ndim, x2.ndim)
    if axis >= 0 and x1.ndim == x2.ndim and axis < rank:
        axis -= rank
    if not -rank <= axis < 0:
        raise OutOfRangeError(
            f"{name}: axis {axis} is out of range for shapes {tuple(x1.shape)} and {tuple(x2.shape)}; "
            f"expected {-rank}..-1"
        )
    return axis


# ---- products and parts ----------------------------------------------------------------------------------------------


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of three-element vectors along ``axis`` (negative); other axes broadcast."""
    x1, x2 = pair("cross", x1, x2, "numeric", scalars=False)
    axis = _shared_axis("cross", x1, x2, axis)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ArgumentError(f"cross: axis {axis} must have size 3, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    return fb.linalg.cross(fb.broadcast_to(x1, shape), fb.broadcast_to(x2, shape), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of each matrix, ``offset`` above (or below, if negative) the main one."""
    return fb.diagonal(matrices("diagonal", x, "any"), integer("diagonal", "offset", offset), -2, -1)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of an element of one vector with one of another."""
    x1, x2 = pair("outer", x1, x2, "numeric", scalars=False)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ArgumentError(f"outer: expected two vectors, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")
    return x1[:, None] * x2[None, :]


def trace(x: Tensor, /, *, offset: int = 0, dtype: fb.dtype | None = None) -> Tensor:
    """The sum along a diagonal of each matrix."""
    dtype = sum_dtype("trace", matrices("trace", x, "numeric"), dtype)
    return fb.sum(diagonal(x, offset=offset).to(dtype), dim=-1, dtype=dtype)


# ---- norms -----------------------------------------------------------------------------------------------------------


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: int | float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """A norm of each matrix: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, inf or -inf."""
    matrices("matrix_norm", x)
    ord = "fro" if ord is None else ord
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: unknown ord {ord!r}; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    if x.shape[-1] and x.shape[-2]:
        return fb.linalg.matrix_norm(x, ord, (-2, -1), bool(keepdims))
    # the norm of a matrix without elements is the empty sum (or maximum of norms), where LAPACK has no answer
    return fb.sum(fb.abs(x), dim=(-2, -1), keepdim=bool(keepdims), dtype=real_of(x.dtype))


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: int | float = 2
) -> Tensor:
    """A norm along ``axis``, of all elements without one: any number, inf and -inf included."""
    array("vector_norm", x, "floating")
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise TypeError(f"vector_norm: ord must be an int or float, got {type(ord).__name__}")
    return reduced("vector_norm", x, axis, keepdims, lambda t, dims, keep: fb.linalg.vector_norm(t, ord, dims, keep))


# ---- decompositions and solutions ------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of each Hermitian positive-definite matrix: lower triangular, or upper."""
    return fb.linalg.cholesky(square_matrices("cholesky", x), upper=bool(upper))


def det(x: Tensor, /) -> Tensor:
    """The determinant of each square matrix."""
    return fb.linalg.det(square_matrices("det", x))


def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors (columns) of each square matrix, always complex."""
    return EigResult(*fb.linalg.eig(square_matrices("eig", x)))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues (real, ascending) and eigenvectors (columns) of each Hermitian matrix."""
    return EighResult(*fb.linalg.eigh(square_matrices("eigh", x)))


def eigvals(x: Tensor, /) -> Tensor:
    """Eigenvalues of each square matrix, always complex."""
    return fb.linalg.eigvals(square_matrices("eigvals", x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues (real, ascending) of each Hermitian matrix."""
    return fb.linalg.eigvalsh(square_matrices("eigvalsh", x))


def inv(x: Tensor, /) -> Tensor:
    """The inverse of each square matrix."""
    return fb.linalg.inv(square_matrices("inv", x))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Each square matrix multiplied with itself ``n`` times; a negative ``n`` starts from the inverse."""
    return fb.linalg.matrix_power(square_matrices("matrix_power", x), integer("matrix_power", "n", n))


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values of each matrix exceed ``rtol`` times the largest."""
    values = svdvals(matrices("matrix_rank", x))
    if values.shape[-1] == 0:
        return fb.zeros(tuple(x.shape[:-2]), dtype=fb.int64, device=x.device)
    bound = _relative_tolerance("matrix_rank", x, rtol) * fb.amax(values, -1, True)
    return fb.sum(values > bound, dim=-1, dtype=fb.int64)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse of each matrix; singular values up to ``rtol`` times the largest count as zero."""
    u, s, vh = svd(matrices("pinv", x), full_matrices=False)
    if s.shape[-1]:
        bound = _relative_tolerance("pinv", x, rtol) * fb.amax(s, -1, True)
        s = fb.where(s > bound, fb.reciprocal(s), fb.zeros_like(s))
    return fb.matmul(fb.conj(vh.mT) * s[..., None, :].to(x.dtype), fb.conj(u.mT))


def _relative_tolerance(name: str, x: Tensor, rtol: float | Tensor | None) -> Tensor | float:
    """``rtol`` in a shape that broadcasts with singular values; its default is max(M, N) * eps."""
    if rtol is None:
        return max(x.shape[-2:]) * fb.finfo(real_of(x.dtype)).eps
    if isinstance(rtol, Tensor):
        return array(name, rtol, "real floating", "rtol").to(real_of(x.dtype))[..., None]
    if isinstance(rtol, bool) or not isinstance(rtol, (int, float)):
        raise TypeError(f"{name}: rtol must be a float or an array, got {type(rtol).__name__}")
    return rtol


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Each matrix as an orthonormal matrix times an upper triangular one."""
    choice("qr", "mode", mode, ("reduced", "complete"))
    return QRResult(*fb.linalg.qr(matrices("qr", x), mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Sign and logarithm of the absolute value of each determinant."""
    return SlogdetResult(*fb.linalg.slogdet(square_matrices("slogdet", x)))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of ``x1 @ x = x2``; a one-dimensional ``x2`` is one right-hand side, otherwise columns are."""
    x1, x2 = pair("solve", x1, x2, "floating", scalars=False)
    square_matrices("solve", x1, arg="x1")
    if x2.ndim == 0 or x2.shape[-1 if x2.ndim == 1 else -2] != x1.shape[-1]:
        raise ArgumentError(f"solve: shapes {tuple(x1.shape)} and {tuple(x2.shape)} do not make a system of equations")
    columns = x2[:, None] if x2.ndim == 1 else x2
    stack = broadcast_shapes(tuple(x1.shape[:-2]), tuple(columns.shape[:-2]))
    # the same rank for both, so that a stack of columns is not mistaken for a stack of vectors
    x1 = fb.broadcast_to(x1, (*stack, *x1.shape[-2:]))
    columns = fb.broadcast_to(columns, (*stack, *columns.shape[-2:]))
    result = fb.linalg.solve(x1, columns)
    return result[..., 0] if x2.ndim == 1 else result


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition ``U @ diag(S) @ Vh`` of each matrix."""
    return SVDResult(*fb.linalg.svd(matrices("svd", x), bool(full_matrices)))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of each matrix, descending."""
    return fb.linalg.svdvals(matrices("svdvals", x))
