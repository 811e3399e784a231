"""Sparse tensors: coordinates (COO) and compressed rows (CSR), and the products of graph networks.

Example:
    >>> a = fb.sparse_coo_tensor([[0, 1, 1], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2))
    >>> fb.sparse.mm(a, fb.eye(2))
    tensor([[0., 1.],
            [2., 3.]])
"""

from __future__ import annotations

import contextlib
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry.names import package_dir as _package_dir
from flambeau.errors import ArgumentError, DTypeError
from flambeau.sparse import _rules
from flambeau.sparse._masking import as_sparse_gradcheck
from flambeau.sparse._tensor import SparseTensor, sparse_coo_tensor, torch_name

__all__ = [
    "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "IntTensor", "LongTensor", "ShortTensor", "SparseTensor", "addmm",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip
__dir__ = _package_dir(__name__)


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices, one or both of them sparse; sparse if both are.

    Args:
        mat1: the left matrix.
        mat2: the right matrix.
        reduce: how the products of one element are combined: "sum" (the default), or with compressed rows and a
            dense mat2 "mean", "amax" or "amin".

    Example:
        >>> fb.sparse.mm(fb.eye(2).to_sparse(), fb.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    if reduce not in (None, "sum", "mean", "amax", "amin"):
        raise ArgumentError(f"sparse.mm: reduce must be None, 'sum', 'mean', 'amax' or 'amin', got {reduce!r}")
    if reduce in (None, "sum"):
        return fb.mm(mat1, mat2)
    return _rules.reduced_product(mat1, mat2, str(reduce))


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), computed only at the elements that the sparse input keeps.

    Args:
        input: compressed rows (CSR) or columns; without batches it serves every matrix of a batch.
        mat1: the left factor, a dense matrix or a batch of them.
        mat2: the right factor.
        beta: what input is multiplied by.
        alpha: what the product is multiplied by.
        out: a sparse tensor of the result's layout to write to.

    Example:
        >>> pattern = fb.eye(2).to_sparse_csr()
        >>> fb.sparse.sampled_addmm(pattern, fb.ones(2, 3), fb.ones(3, 2), beta=0).to_dense()
        tensor([[3., 0.],
                [0., 3.]])
    """
    result = _rules.sampled_product(_sparse("sparse.sampled_addmm", input), mat1, mat2, beta, alpha)
    return result if out is None else _rules.into("sparse.sampled_addmm", out, result)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), with mat1 or mat2 sparse.

    Args:
        mat: the matrix to add to.
        mat1: the left factor.
        mat2: the right factor.
        beta: what mat is multiplied by.
        alpha: what the product is multiplied by.

    Example:
        >>> fb.sparse.addmm(fb.ones(2, 1), fb.eye(2).to_sparse(), fb.ones(2, 1), alpha=3)
        tensor([[4.],
                [4.]])
    """
    return fb.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Any = None, dtype: fb.dtype | None = None) -> Tensor:
    """The sum of the kept elements, or along dimensions: sparse as long as a sparse dimension is left.

    Args:
        input: a sparse tensor.
        dim: dimensions to add along; None adds everything.
        dtype: element type of the result.

    Example:
        >>> fb.sparse.sum(fb.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)))
        tensor(7.)
    """
    return fb.sum(_sparse("sparse.sum", input), dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: fb.dtype | None = None) -> Tensor:
    """Softmax over the kept elements along a dimension; what is not kept counts as minus infinity.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: element type to compute in.

    Example:
        >>> fb.sparse.softmax(fb.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3)), 1).to_dense()
        tensor([[0.5000, 0.0000, 0.5000]])
    """
    return _rules.softmax("sparse.softmax", _sparse("sparse.softmax", input), dim, dtype, log=False)


def log_softmax(input: Tensor, dim: int, *, dtype: fb.dtype | None = None) -> Tensor:
    """The logarithm of softmax() over the kept elements.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: element type to compute in.

    Example:
        >>> fb.sparse.log_softmax(fb.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3)), 1).values()
        tensor([-0.6931, -0.6931])
    """
    return _rules.softmax("sparse.log_softmax", _sparse("sparse.log_softmax", input), dim, dtype, log=True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of a matrix on its diagonals.

    Args:
        diagonals: one row per diagonal; element j of a row goes into column j.
        offsets: the diagonals: 0 the main one, positive above it, negative below.
        shape: shape of the result.
        layout: fb.sparse_coo (the default), fb.sparse_csr or fb.sparse_csc.

    Example:
        >>> fb.sparse.spdiags(fb.tensor([[1.0, 2.0]]), fb.tensor([0]), (2, 2)).to_dense()
        tensor([[1., 0.],
                [0., 2.]])
    """
    op, offsets, rows = "sparse.spdiags", fb.as_tensor(offsets), 1 if diagonals.ndim == 1 else diagonals.shape[0]
    if diagonals.ndim not in (1, 2):
        raise ArgumentError(f"Diagonals must be vector or matrix: {op} got shape {tuple(diagonals.shape)}")
    if len(shape) != 2:
        raise ArgumentError(f"Output shape must be 2d: {op} got {tuple(shape)}")
    if offsets.ndim > 1:
        raise ArgumentError(f"Offsets must be scalar or vector: {op} got shape {tuple(offsets.shape)}")
    if offsets.dtype is not fb.int64 and offsets.numel():
        raise DTypeError(f"Offset Tensor must have dtype Long but got {offsets.dtype}: {op} converts none; use .long()")
    if rows != offsets.numel():
        raise ArgumentError(f"Number of diagonals ({rows}) does not match the number of offsets ({offsets.numel()}): {op}")
    if offsets.unique().numel() != offsets.numel():
        raise ArgumentError(f"Offset tensor contains duplicate values: {op} got {offsets.tolist()}; add the diagonals first")
    if layout not in (None, fb.sparse_coo, fb.sparse_csr, fb.sparse_csc):
        raise ArgumentError(f"Only output layouts (SparseCoo, SparseCsr, SparseCsc) are supported, got {torch_name(layout)}: {op}")
    result = _rules.diagonals(diagonals, offsets, tuple(shape))
    return result if layout is None else result.to_sparse(layout=layout)


def _sparse(op: str, x: Tensor) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise DTypeError(f"{op}: expected a sparse tensor, got a dense one; convert it with .to_sparse()")
    return x


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """Whether indices are checked when a sparse tensor is made: they always are, so this block changes nothing.

    Example:
        >>> with fb.sparse.check_sparse_tensor_invariants():
        ...     fb.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    def __init__(self, enable: bool = True) -> None:
        self.enabled = enable

    @staticmethod
    def is_enabled() -> bool:
        """True: an index out of range would read memory that is not ours."""
        return True

    @staticmethod
    def enable() -> None:
        """Indices are checked in any case."""

    @staticmethod
    def disable() -> None:
        """Indices are checked in any case."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def _legacy_type(name: str, kind: fb.dtype) -> type[Any]:
    """PyTorch's older constructor: (indices, values, size) or sizes; also for isinstance."""

    class Legacy(type):
        def __call__(cls, *args: Any, device: Any = None) -> Tensor:
            if args and all(isinstance(n, int) for n in args) or not args:
                return sparse_coo_tensor(size=args or (0,), dtype=kind, device=device)
            if len(args) == 1:
                return sparse_coo_tensor(size=args[0], dtype=kind, device=device)
            return sparse_coo_tensor(*args, dtype=kind, device=device)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, SparseTensor) and instance.is_sparse and instance.dtype == kind

    doc = f"""Makes a sparse tensor of {kind.name}: {name}(indices, values, size). Use fb.sparse_coo_tensor() in new code.

    Example:
        >>> fb.sparse.{name}(fb.tensor([[0], [1]]), fb.ones(1).to(fb.{kind.name}), (2, 2)).shape
        flambeau.Size([2, 2])
    """
    return Legacy(name, (), {"__doc__": doc, "__module__": "flambeau.sparse", "dtype": kind})


FloatTensor, DoubleTensor = _legacy_type("FloatTensor", fb.float32), _legacy_type("DoubleTensor", fb.float64)
LongTensor, IntTensor = _legacy_type("LongTensor", fb.int64), _legacy_type("IntTensor", fb.int32)
ShortTensor, CharTensor = _legacy_type("ShortTensor", fb.int16), _legacy_type("CharTensor", fb.int8)
ByteTensor = _legacy_type("ByteTensor", fb.uint8)
