"""Norms of matrices and vectors, and the condition number."""

import math

import flambeau as fb
from flambeau._ops.linalg import check_floating, check_matrix, check_square
from flambeau._registry.composite import composite
from flambeau.errors import ArgumentError, OutOfRangeError


def _matrix_norm(name, a, ord, dim, keepdim, dtype):
    check_floating(name, a)
    if len(dim) != 2:
        raise ArgumentError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {tuple(dim)}")
    check_matrix(name, a)
    for d in dim:
        if not -a.dim() <= d < a.dim():
            raise OutOfRangeError(f"{name}: dimension {d} is out of range for a {a.dim()}-d tensor")
    rows, columns = (d % a.dim() for d in dim)
    if rows == columns:
        raise ArgumentError(f"{name}: dims must be different, got {tuple(dim)}")
    if ord == "fro":
        return fb.linalg.vector_norm(a, 2, (rows, columns), keepdim, dtype=dtype)
    if isinstance(ord, str) and ord != "nuc" or not isinstance(ord, str) and abs(ord) not in (1, 2, math.inf):
        raise ArgumentError(f"linalg.matrix_norm: Order {ord} not supported; expected 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2")
    if dtype is not None:
        a = a.to(dtype)
    if a.numel() == 0 and ord != "nuc" and ord > 0:
        return fb.linalg.vector_norm(a, 1, (rows, columns), keepdim)
    if ord == "nuc" or abs(ord) == 2:
        s = fb.linalg.svdvals(a.movedim((rows, columns), (-2, -1)))
        result = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord > 0 else s.amin(-1)
        if keepdim:
            for d in sorted((rows, columns)):
                result = result.unsqueeze(d)
        return result
    along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = fb.linalg.vector_norm(a, 1, along, keepdim)
    if not keepdim and over > along:
        over -= 1
    return sums.amax(over, keepdim=keepdim) if ord > 0 else sums.amin(over, keepdim=keepdim)


@composite(
    "linalg.matrix_norm(Tensor A, Scalar ord, int[] dim=(-2,-1), bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    out=True,
)
def matrix_norm(A, ord, dim, keepdim, *, dtype):
    """Norm of matrices.

    Args:
        A: a floating point or complex tensor with matrices in two of its dimensions.
        ord: 'fro' (Frobenius, the default), 'nuc' (sum of singular values), 2 or -2 (largest or smallest singular
            value), 1 or -1 (largest or smallest column sum of absolute values), inf or -inf (the same for rows).
        dim: the two dimensions.
        keepdim: whether to keep these dimensions with size 1.
        dtype: computes and returns in this dtype.

    Example:
        >>> fb.linalg.matrix_norm(fb.tensor([[3., 0.], [0., 4.]]))
        tensor(5.)
    """
    return _matrix_norm("linalg.matrix_norm", A, ord, dim, keepdim, dtype)


@composite(
    "linalg.matrix_norm(Tensor A, str ord='fro', int[] dim=(-2,-1), bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    out=True,
)
def matrix_norm_named(A, ord, dim, keepdim, *, dtype):
    return _matrix_norm("linalg.matrix_norm", A, ord, dim, keepdim, dtype)


def _norm(a, ord, dim, keepdim, dtype):
    name = "linalg.norm"
    check_floating(name, a)
    if dim is not None and len(dim) not in (1, 2) and ord is not None:
        raise ArgumentError(f"{name}: dim must be one or two dimensions when ord is given, got {tuple(dim)}")
    if ord is None:
        return fb.linalg.vector_norm(a, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if a.dim() not in (1, 2):
            raise ArgumentError(
                f"{name}: with ord and without dim the input must be 1-d or 2-d, got shape {tuple(a.shape)}"
            )
        dim = tuple(range(a.dim()))
    if len(dim) == 2:
        return _matrix_norm(name, a, ord, dim, keepdim, dtype)
    if isinstance(ord, str):
        check_matrix(name, a)
        raise ArgumentError(f"{name}: order {ord!r} is for matrices; dim must be two dimensions, got {tuple(dim)}")
    return fb.linalg.vector_norm(a, ord, dim, keepdim, dtype=dtype)


@composite(
    "linalg.norm(Tensor input, Scalar? ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    out=True,
)
def norm(input, ord, dim, keepdim, *, dtype):
    """Norm of vectors or matrices.

    Args:
        input: a floating point or complex tensor.
        ord: order of the norm; see vector_norm and matrix_norm. Without it, the Euclidean norm of all elements.
        dim: one dimension for vectors, two for matrices.
        keepdim: whether to keep these dimensions with size 1.
        dtype: computes and returns in this dtype.

    Example:
        >>> fb.linalg.norm(fb.tensor([[3., 0.], [0., 4.]]), 1)
        tensor(4.)
    """
    return _norm(input, ord, dim, keepdim, dtype)


@composite(
    "linalg.norm(Tensor input, str ord, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", out=True
)
def norm_named(input, ord, dim, keepdim, *, dtype):
    return _norm(input, ord, dim, keepdim, dtype)


def _cond(a, p):
    name = "linalg.cond"
    check_matrix(name, a)
    check_floating(name, a)
    if p is None or p in (2, -2):
        s = fb.linalg.svdvals(a)
        if s.shape[-1] == 0:
            return s.new_zeros(s.shape[:-1])
        largest, smallest = s[..., 0], s[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    check_square(name, a)
    if isinstance(p, str) and p not in ("fro", "nuc") or not isinstance(p, str) and abs(p) not in (1, math.inf):
        raise ArgumentError(f"linalg.cond got an invalid norm type: {p}; expected None, 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2")
    if a.numel() == 0:
        return fb.linalg.vector_norm(a, 1, (-2, -1))
    inverse, info = fb.linalg.inv_ex(a)
    if p == "nuc":
        # A matrix without an inverse may produce values that the singular value decomposition rejects.
        inverse = fb.where((info != 0)[..., None, None], fb.zeros_like(inverse), inverse)
    result = fb.linalg.matrix_norm(a, p) * fb.linalg.matrix_norm(inverse, p)
    return fb.where(info != 0, fb.full_like(result, math.inf), result)


@composite("linalg.cond(Tensor A, Scalar? p=None) -> Tensor", out=True)
def cond(A, p):
    """Condition number of matrices: the norm times the norm of the inverse.

    Args:
        A: shape (..., m, n); square unless p is None, 2 or -2.
        p: order of the norm, as in matrix_norm; None is 2.

    Example:
        >>> fb.linalg.cond(fb.tensor([[4., 0.], [0., 2.]]))
        tensor(2.)
    """
    return _cond(A, p)


@composite("linalg.cond(Tensor A, str p) -> Tensor", out=True)
def cond_named(A, p):
    return _cond(A, p)
