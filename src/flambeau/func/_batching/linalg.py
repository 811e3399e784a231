"""Rules for linear algebra: these ops take any number of leading dimensions, and the batch is one more."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.func._batching import Frame, call, named_rule, rule

# Tensors of a call in order, each with the rank of one matrix or vector of it.
MATRIX = """
cholesky cholesky_inverse det inverse qr slogdet svd geqrf
linalg.cholesky linalg.cholesky_ex linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.inv_ex
linalg.ldl_factor linalg.ldl_factor_ex linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.qr linalg.slogdet linalg.svd
linalg.svdvals
""".split()
SEVERAL = {
    "cholesky_solve": (2, 2), "linalg.solve_triangular": (2, 2), "triangular_solve": (2, 2),
    "linalg.householder_product": (2, 1), "orgqr": (2, 1), "ormqr": (2, 1, 2), "lu_unpack": (2, 1), "lu_solve": (2, 2, 1),
    "linalg.lu_solve": (2, 1, 2), "linalg.ldl_solve": (2, 1, 2),
}  # fmt: skip


@named_rule(*MATRIX)
def one_matrix(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Ops of one matrix."""
    first = next(iter(arguments))
    if arguments[first].ndim < 2:
        raise fb.errors.ArgumentError(f"{name}: expected at least 2 dimensions, got shape {tuple(arguments[first].shape)}")
    return call(name, {**arguments, first: arguments[first].physical})


@named_rule(*SEVERAL)
def several(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Ops of several matrices: their leading dimensions are padded to one number, then the batch precedes all."""
    tensors = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
    own = dict(zip(tensors, SEVERAL[name], strict=True))
    leading = max(t.ndim - own[key] for key, t in tensors.items())
    new = {key: frame.aligned(_expanded(frame, t), leading + own[key]) for key, t in tensors.items()}
    return call(name, {**arguments, **new})


def _expanded(frame: Frame, x: Tensor) -> Tensor:
    return x if frame.is_batched(x) else frame.wrap(frame.physical(x))


@rule("linalg.lstsq")
def lstsq(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Parts that were not computed are empty, whatever the batch."""
    A, B = arguments["A"], arguments["B"]
    vector = B.ndim == 1
    right = frame.physical(B).unsqueeze(-1) if vector else frame.physical(B)
    result: Any = fb.linalg.lstsq(frame.physical(A), right, arguments["rcond"], driver=arguments["driver"])
    parts = [part if part.numel() else part.new_empty((frame.size, *part.shape[part.ndim - 1 :])) for part in result]
    if vector:
        parts[0] = parts[0].squeeze(-1)
    return type(result)(parts)


@named_rule("linalg.solve", "linalg.solve_ex")
def solve(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """The right-hand side may be a vector, or a batch of vectors if the matrix has one dimension more."""
    A, B = arguments["A"], arguments["B"]
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(A.shape[:-1]) == tuple(B.shape))
    right = B.unsqueeze(-1) if vector else B
    rank = max(A.ndim, right.ndim)
    new = {"A": frame.aligned(_expanded(frame, A), rank), "B": frame.aligned(_expanded(frame, right), rank)}
    result = call(name, {**arguments, **new})
    if not vector:
        return result
    if isinstance(result, Tensor):
        return result.squeeze(-1)
    return type(result)([result[0].squeeze(-1), *result[1:]])


@rule("searchsorted")
def searchsorted(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Rows of sorted numbers; a single row is used for values of any shape."""
    rows, values, sorter = arguments["sorted_sequence"], arguments["input"], arguments.get("sorter")
    options = {key: arguments[key] for key in ("out_int32", "right", "side") if key in arguments}
    if sorter is not None:
        rows = fb.gather(rows, -1, sorter)
    if not frame.is_batched(rows) and rows.ndim == 1:
        return fb.searchsorted(rows, frame.peel(values), **options)
    values = values if isinstance(values, Tensor) else fb.tensor(values, dtype=rows.dtype)
    physical = frame.physical(values)
    if rows.ndim > 1:
        return fb.searchsorted(frame.physical(rows).contiguous(), physical.contiguous(), **options)
    flat = physical.reshape((frame.size, values.numel()))
    return fb.searchsorted(frame.physical(rows).contiguous(), flat, **options).reshape(physical.shape)
