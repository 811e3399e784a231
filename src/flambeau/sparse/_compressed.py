"""Compressed layouts: rows (CSR) or columns (CSC) of elements, rows (BSR) or columns (BSC) of equal blocks.

A `SparseTensor` with one of these stores the same as one in COO layout, coordinates and values, in the order of the
layout; with blocks, the coordinates count blocks and every value is a block. Row starts are computed on demand. In a
batch of matrices, which all store equally many elements, the coordinates of the batch come first, and the values of the
matrices are consecutive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, StateError
from flambeau.sparse._tensor import SparseTensor, flatten, make, sparse_coo_tensor, to_sparse, torch_name, unflatten

__all__ = [
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
]  # fmt: skip


class Layout(NamedTuple):
    """The properties of a compressed layout."""

    main: int  # the compressed dimension: 0 for rows, 1 for columns
    blocks: bool
    starts: str  # the accessors for the starts of rows (columns), and for the other coordinate
    plain: str
    transposed: str  # the layout of the transposed matrix


LAYOUTS: dict[Any, Layout] = {
    fb.sparse_csr: Layout(0, False, "crow_indices", "col_indices", "sparse_csc"),
    fb.sparse_csc: Layout(1, False, "ccol_indices", "row_indices", "sparse_csr"),
    fb.sparse_bsr: Layout(0, True, "crow_indices", "col_indices", "sparse_bsc"),
    fb.sparse_bsc: Layout(1, True, "ccol_indices", "row_indices", "sparse_bsr"),
}
_OF_ROWS = {"crow_indices": "row", "col_indices": "row", "ccol_indices": "column", "row_indices": "column"}


def part(x: SparseTensor, name: str) -> Tensor:
    """crow_indices() and the other accessors."""
    layout = LAYOUTS.get(x._layout)
    if layout is None or name not in (layout.starts, layout.plain):
        raise StateError(
            f"{name} expected sparse {_OF_ROWS[name]} compressed tensor layout but got {torch_name(x._layout)}; convert it with "
            f".to_sparse_{'csr' if _OF_ROWS[name] == 'row' else 'csc'}()"
        )
    main, batch = layout.main, batch_shape(x)
    if name == layout.plain:
        return x._index[len(batch) + 1 - main].reshape(*batch, x._nnz()).to(x._index_dtype)
    height = x.shape[len(batch) + main] // block_size(x)[main]
    lines = flatten(x._index[[*range(len(batch)), len(batch) + main]], (*batch, height))
    counts = fb.bincount(lines, minlength=math.prod(batch) * height).view(*batch, height)
    return fb.cat([counts.new_zeros((*batch, 1)), counts.cumsum(-1)], -1).to(x._index_dtype)


def batch_shape(x: SparseTensor) -> tuple[int, ...]:
    """The leading dimensions over which a compressed tensor is a batch of matrices."""
    return tuple(x.shape[: x._index.shape[0] - 2]) if x._layout in LAYOUTS else ()


def values(x: SparseTensor) -> Tensor:
    """The stored elements, or blocks, of each matrix of the batch."""
    batch = batch_shape(x)
    return x._value.unflatten(0, (*batch, x._value.shape[0] // max(math.prod(batch), 1))) if batch else x._value


def block_size(x: SparseTensor) -> tuple[int, int]:
    """Rows and columns of a block; (1, 1) without blocks."""
    blocks = x._layout in LAYOUTS and LAYOUTS[x._layout].blocks
    return (x._value.shape[1], x._value.shape[2]) if blocks else (1, 1)


def repeated(x: SparseTensor, batch: tuple[int, ...]) -> SparseTensor:
    """A batch of the same matrix."""
    count, n = math.prod(batch), x._value.shape[0]
    lead = unflatten(fb.arange(count, device=x.device).repeat_interleave(n), batch)
    value = x._value.repeat(count, *(1,) * (x._value.ndim - 1))
    return make(fb.cat([lead, x._index.repeat(1, count)]), value, (*batch, *x.shape), x._ordered, x._layout, x._index_dtype)


def elements(x: SparseTensor) -> SparseTensor:
    """The same elements in COO layout, coalesced, or at least known to be sorted or not."""
    layout = LAYOUTS.get(x._layout)
    if layout is None:
        return x
    if not layout.blocks:
        return make(x._index, x._value, tuple(x.shape), layout.main == 0 and x._ordered, fb.sparse_coo)
    height, width = block_size(x)
    *batch, rows, columns = (row.view(-1, 1, 1) for row in x._index)
    rows = rows * height + fb.arange(height, device=x.device).view(1, -1, 1)
    columns = columns * width + fb.arange(width, device=x.device).view(1, 1, -1)
    shape = (x._value.shape[0], height, width)
    index = fb.stack([places.expand(shape).reshape(-1) for places in (*batch, rows, columns)])
    return make(index, x._value.flatten(0, 2), tuple(x.shape), index.shape[1] < 2, fb.sparse_coo)


def as_layout(
    x: Tensor, target: Any, blocksize: Sequence[int] | None = None, dense_dim: int | None = None, *, batched: bool = False
) -> SparseTensor:
    """Converts a tensor to a compressed layout; COO tensors of more than two dimensions only if `batched`."""
    layout, op, given = LAYOUTS[target], f"to_{str(target).rpartition('.')[2]}", x
    if not isinstance(x, SparseTensor):
        x = to_sparse(x, sparse_dim=x.ndim - (dense_dim or 0))
    if isinstance(blocksize, int):
        blocksize = (blocksize, blocksize)
    if x._layout is target and (not layout.blocks or blocksize is None or tuple(blocksize) == block_size(x)):
        return x
    if layout.blocks:
        if blocksize is None:
            raise ArgumentError(f"{op}: conversion from {x._layout} to {target} requires the keyword argument blocksize")
        if len(blocksize) != 2:
            raise ArgumentError(f"{op}: blocksize must be two numbers, got {tuple(blocksize)}")
    elif blocksize is not None:
        raise ArgumentError(f"{op}: blocksize is for blocks only; {target} has none")
    if x.is_sparse and given is x and not batched and x.sparse_dim() != 2:
        raise ArgumentError(
            f"{op}: conversion from Sparse to {torch_name(target)} for input tensors with sparse_dim()!=2 is not supported"
        )
    kept = x._index_dtype
    x = elements(x)
    rank = x.sparse_dim()
    if rank < 2:
        raise ArgumentError(
            f"{op}: expected a matrix or a batch of matrices, got shape {tuple(x.shape)} with {rank} sparse dimension(s)"
        )
    sorted_: Any = x.coalesce()
    index, values, size = sorted_._index, sorted_._value, tuple(x.shape)
    batch, units = size[: rank - 2], size[rank - 2 : rank]
    if layout.blocks:
        height, width = (int(n) for n in blocksize or ())
        if min(height, width) < 1 or units[0] % height or units[1] % width:
            raise ArgumentError(
                f"tensor sparse size ({units[0]},{units[1]}) must be divisible by given blocksize ({height},{width}): {op}"
            )
        units = (units[0] // height, units[1] // width)
        *lead, rows, columns = index
        blocks = [*lead, fb.div(rows, height, rounding_mode="floor"), fb.div(columns, width, rounding_mode="floor")]
        places, inverse = flatten(fb.stack(blocks), (*batch, *units)).unique(return_inverse=True)
        inner = (inverse * height + rows % height) * width + columns % width
        filled = values.new_zeros((places.shape[0] * height * width, *values.shape[1:])).index_add(0, inner, values)
        values = filled.view(places.shape[0], height, width, *values.shape[1:])
        index = unflatten(places, (*batch, *units))
    if batch and (fb.bincount(flatten(index[:-2], batch), minlength=math.prod(batch)).unique().numel() > 1):
        raise ArgumentError(
            f"Expect the same number of specified elements per batch: {op}, shape {size}; convert matrix by matrix"
        )
    if layout.main == 1:
        order = flatten(index[[*range(rank - 2), rank - 1, rank - 2]], (*batch, *units[::-1])).argsort(stable=True)
        index, values = index[:, order], values[order]
    return make(index, values, size, True, target, kept)


def permuted(x: SparseTensor, order: Sequence[int]) -> SparseTensor:
    """Batch, matrix and dense dimensions in another order; a transposed matrix has the transposed layout (CSR and CSC)."""
    layout, n = LAYOUTS[x._layout], len(batch_shape(x))
    kinds = [0] * n + [1] * 2 + [2] * x.dense_dim()
    for to, d in enumerate(order):
        if kinds[to] != kinds[d]:
            names = " and ".join(f"{i}({('Batch', 'Sparse', 'Dense')[kinds[i]]})" for i in sorted((to, d)))
            wording = "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense)"
            raise ArgumentError(f"{wording}, got {names}; use .to_sparse_coo() first")
    is_transposed, inner = order[n] != n, 2 if layout.blocks else 0
    size, index = tuple(x.shape[d] for d in order), x._index[list(order[: n + 2])]
    blocks = ([2, 1] if is_transposed else [1, 2]) if layout.blocks else []
    values = x._value.permute(0, *blocks, *(d - n - 1 + inner for d in order[n + 2 :]))
    if list(order[:n]) != list(range(n)):
        moved = flatten(index[:n], size[:n]).argsort(stable=True)
        index, values = index[:, moved], values[moved]
    return make(index, values, size, x._ordered, getattr(fb, layout.transposed) if is_transposed else x._layout, x._index_dtype)


# ---- construction --------------------------------------------------------------------------------------------------------


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A sparse matrix in one of the compressed layouts: rows or columns of elements, or of blocks.

    Args:
        compressed_indices: where each row (column) begins: one more number than there are, from 0 to the number of
            values.
        plain_indices: the column (row) of each value.
        values: the kept elements, or blocks, row by row (column by column).
        size: shape of the matrix; by default the smallest that holds every index.
        dtype: element type, that of the values by default.
        layout: fb.sparse_csr, fb.sparse_csc, fb.sparse_bsr or fb.sparse_bsc.
        device: device of the result.
        pin_memory: not available without an accelerator, must be False.
        requires_grad: whether operations on the tensor are recorded for backward.
        check_invariants: indices are checked in any case.

    Example:
        >>> fb.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2), layout=fb.sparse_csc).to_dense()
        tensor([[0., 4.],
                [3., 0.]])
    """
    if layout not in LAYOUTS:
        raise ArgumentError(f"sparse_compressed_tensor: expected sparse compressed tensor layout but got {layout}")
    options = {"dtype": dtype, "device": device, "pin_memory": pin_memory, "requires_grad": requires_grad}
    return _built("sparse_compressed_tensor", layout, compressed_indices, plain_indices, values, size, options)


def _built(op: str, target: Any, starts: Any, plain: Any, values: Any, size: Any, options: dict[str, Any]) -> SparseTensor:
    layout = LAYOUTS[target]
    values = fb.as_tensor(values, dtype=options["dtype"], device=options["device"])
    starts, plain = fb.as_tensor(starts, device=values.device), fb.as_tensor(plain, device=values.device)
    kept = fb.int32 if starts.dtype == plain.dtype == fb.int32 else fb.int64
    starts, plain = starts.to(fb.int64), plain.to(fb.int64)
    shapes = f"{tuple(starts.shape)} and {tuple(plain.shape)}"
    if starts.ndim < 1 or plain.shape[:-1] != starts.shape[:-1] or plain.ndim < 1 or starts.shape[-1] < 1:
        raise ArgumentError(
            f"{op}: expected vectors of {layout.starts} and {layout.plain}, or batches of vectors of one shape, got shapes {shapes}"
        )
    batch, lines, count = tuple(starts.shape[:-1]), starts.shape[-1] - 1, plain.shape[-1]
    counts = starts.diff()
    if bool((starts[..., 0] != 0).any()) or bool((starts[..., -1] != count).any()) or bool((counts < 0).any()):
        raise ArgumentError(f"{op}: {layout.starts} must rise from 0 to {count}, the number of {layout.plain} given")
    along, plain = fb.arange(counts.numel(), device=values.device).repeat_interleave(counts.reshape(-1)), plain.reshape(-1)
    *lead, line = unflatten(along, (*batch, lines))
    index = fb.stack([*lead, line, plain] if layout.main == 0 else [*lead, plain, line])
    n, inner = len(batch), 2 if layout.blocks else 0
    if values.ndim < n + 1 + inner:
        raise ArgumentError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={n} + {inner}) but got {values.ndim}: "
            f"{op} expected (..., count{', rows, columns' if inner else ''}), got shape {tuple(values.shape)}"
        )
    if tuple(values.shape[: n + 1]) != (*batch, count):
        raise ArgumentError(
            f"{op}: values of shape {tuple(values.shape)} do not fit {layout.plain} of shape {(*batch, count)}: one value for each index"
        )
    block = tuple(values.shape[n + 1 : n + 3]) if inner else (1, 1)
    dense = tuple(values.shape[n + 1 + inner :])
    values = values.reshape(plain.shape[0], *values.shape[n + 1 :])
    if size is None:
        across = int(plain.max()) + 1 if plain.shape[0] else 0
        matrix = (lines, across) if layout.main == 0 else (across, lines)
        size = (*batch, matrix[0] * block[0], matrix[1] * block[1], *dense)
    size = tuple(int(n) for n in size)
    matrix, main = size[n : n + 2], layout.main
    if size[:n] != batch or len(size) != n + 2 + len(dense) or 0 in block or matrix[main] != lines * block[main]:
        kind = ("rows" if main == 0 else "columns") + (f" of blocks {block}" if layout.blocks else "")
        raise ArgumentError(f"{op}: size {size} does not fit {(*batch, lines)} {kind}")
    if matrix[1 - main] % block[1 - main] or tuple(size[n + 2 :]) != dense:
        raise ArgumentError(f"{op}: size {size} does not fit values of shape {tuple(values.shape)}")
    units = (matrix[0] // block[0], matrix[1] // block[1])
    coo = sparse_coo_tensor(index, values, (*batch, *units, *values.shape[1:]), **options)
    if not bool(((plain.diff() > 0) | (along.diff() > 0)).all()):
        where = "row" if main == 0 else "column"
        raise ArgumentError(f"{op}: {layout.plain} must be sorted and distinct within each {where}")
    return make(coo._index, coo._value, size, True, target, kept)


def compressed(target: Any, text: str, example: str) -> Any:
    """A constructor for one layout."""
    layout, name = LAYOUTS[target], f"{str(target).rpartition('.')[2]}_tensor"
    what = "blocks" if layout.blocks else "elements"
    lines, other = ("row", "column") if layout.main == 0 else ("column", "row")

    def construct(starts: Any, plain: Any, values: Any, size: Any, options: dict[str, Any]) -> SparseTensor:
        return _built(name, target, starts, plain, values, size, options)

    construct.__doc__ = f"""A sparse matrix of compressed {lines}s{' of blocks' if layout.blocks else ''}: {text}

    Args:
        {layout.starts}: one more number than there are {lines}s{' of blocks' if layout.blocks else ''}, from 0 to the number of values.
        {layout.plain}: the {other} of each value.
        values: the kept {what}, {lines} by {lines}.
        size: shape of the matrix; by default the smallest that holds every index.
        dtype: element type, that of the values by default.
        device: where to put it.
        pin_memory: not available without an accelerator, must be False.
        requires_grad: whether operations on the tensor are recorded for backward.
        check_invariants: indices are checked in any case.

    Example:
{example}
    """
    return construct


def _of_rows(target: Any, text: str, example: str) -> Any:
    build = compressed(target, text, example)

    def function(
        crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    ) -> Tensor:  # fmt: skip
        options = {"dtype": dtype, "device": device, "pin_memory": pin_memory, "requires_grad": requires_grad}
        return build(crow_indices, col_indices, values, size, options)

    return _named(function, build, target)


def _of_columns(target: Any, text: str, example: str) -> Any:
    build = compressed(target, text, example)

    def function(
        ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    ) -> Tensor:  # fmt: skip
        options = {"dtype": dtype, "device": device, "pin_memory": pin_memory, "requires_grad": requires_grad}
        return build(ccol_indices, row_indices, values, size, options)

    return _named(function, build, target)


def _named(function: Any, build: Any, target: Any) -> Any:
    function.__doc__ = build.__doc__
    function.__name__ = function.__qualname__ = f"{str(target).rpartition('.')[2]}_tensor"
    return function


sparse_csr_tensor = _of_rows(
    fb.sparse_csr,
    "where each row begins, the column of each value, the values.",
    """        >>> fb.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2)).to_dense()
        tensor([[0., 3.],
                [4., 0.]])""",
)
sparse_csc_tensor = _of_columns(
    fb.sparse_csc,
    "where each column begins, the row of each value, the values.",
    """        >>> fb.sparse_csc_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2)).to_dense()
        tensor([[0., 4.],
                [3., 0.]])""",
)
sparse_bsr_tensor = _of_rows(
    fb.sparse_bsr,
    "where each row of blocks begins, the column of each block, the blocks.",
    """        >>> fb.sparse_bsr_tensor([0, 1], [1], [[[3.0, 4.0]]], (1, 4)).to_dense()
        tensor([[0., 0., 3., 4.]])""",
)
sparse_bsc_tensor = _of_columns(
    fb.sparse_bsc,
    "where each column of blocks begins, the row of each block, the blocks.",
    """        >>> fb.sparse_bsc_tensor([0, 0, 1], [0], [[[3.0, 4.0]]], (1, 4)).to_dense()
        tensor([[0., 0., 3., 4.]])""",
)
