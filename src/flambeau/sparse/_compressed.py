"""Compressed layouts: rows (CSR) or columns (CSC) of elements, rows (BSR) or columns (BSC) of equal blocks.

A `SparseTensor` of one of these keeps what one of coordinates keeps, coordinates and values, in the order of the
layout; with blocks, the coordinates count blocks and every value is a block. Where each row begins is counted when
somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, StateError
from flambeau.sparse._tensor import SparseTensor, make, sparse_coo_tensor, to_sparse, torch_name

__all__ = [
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
]  # fmt: skip


class Layout(NamedTuple):
    """What sets a compressed layout apart."""

    main: int  # the dimension that is compressed: 0 for rows, 1 for columns
    blocks: bool
    starts: str  # the accessors of where each row (column) begins, and of the other coordinate
    plain: str
    turned: str  # the layout of the transposed matrix


LAYOUTS: dict[Any, Layout] = {
    fb.sparse_csr: Layout(0, False, "crow_indices", "col_indices", "sparse_csc"),
    fb.sparse_csc: Layout(1, False, "ccol_indices", "row_indices", "sparse_csr"),
    fb.sparse_bsr: Layout(0, True, "crow_indices", "col_indices", "sparse_bsc"),
    fb.sparse_bsc: Layout(1, True, "ccol_indices", "row_indices", "sparse_bsr"),
}
_OF_ROWS = {"crow_indices": "row", "col_indices": "row", "ccol_indices": "column", "row_indices": "column"}


def part(x: SparseTensor, name: str) -> Tensor:
    """crow_indices() and its kin."""
    layout = LAYOUTS.get(x._layout)
    if layout is None or name not in (layout.starts, layout.plain):
        raise StateError(
            f"{name} expected sparse {_OF_ROWS[name]} compressed tensor layout but got {torch_name(x._layout)}; convert it with "
            f".to_sparse_{'csr' if _OF_ROWS[name] == 'row' else 'csc'}()"
        )
    main = layout.main
    if name == layout.plain:
        return x._index[1 - main].to(x._index_dtype)
    height = x.shape[main] // (x._value.shape[1 + main] if layout.blocks else 1)
    counts = fb.bincount(x._index[main], minlength=height)
    return fb.cat([counts.new_zeros(1), counts.cumsum(0)]).to(x._index_dtype)


def block_size(x: SparseTensor) -> tuple[int, int]:
    """Rows and columns of a block; (1, 1) without blocks."""
    blocks = x._layout in LAYOUTS and LAYOUTS[x._layout].blocks
    return (x._value.shape[1], x._value.shape[2]) if blocks else (1, 1)


def elements(x: SparseTensor) -> SparseTensor:
    """The same elements as coordinates, coalesced, or at least known to be sorted or not."""
    layout = LAYOUTS.get(x._layout)
    if layout is None:
        return x
    if not layout.blocks:
        return make(x._index, x._value, tuple(x.shape), layout.main == 0 and x._ordered, fb.sparse_coo)
    height, width = block_size(x)
    rows = x._index[0].view(-1, 1, 1) * height + fb.arange(height).view(1, -1, 1)
    columns = x._index[1].view(-1, 1, 1) * width + fb.arange(width).view(1, 1, -1)
    shape = (x._nnz(), height, width)
    index = fb.stack([rows.expand(shape).reshape(-1), columns.expand(shape).reshape(-1)])
    return make(index, x._value.flatten(0, 2), tuple(x.shape), x._nnz() * height * width < 2, fb.sparse_coo)


def as_layout(x: Tensor, target: Any, blocksize: Sequence[int] | None = None, dense_dim: int | None = None) -> SparseTensor:
    """A dense or sparse tensor in a compressed layout."""
    layout, op = LAYOUTS[target], f"to_{str(target).rpartition('.')[2]}"
    if not isinstance(x, SparseTensor):
        x = to_sparse(x, sparse_dim=x.ndim - (dense_dim or 0))
    if x._layout is target and (not layout.blocks or blocksize is None or tuple(blocksize) == block_size(x)):
        return x
    if layout.blocks:
        if blocksize is None:
            raise ArgumentError(f"{op}: conversion from {x._layout} to {target} requires the keyword argument blocksize")
        if len(blocksize) != 2:
            raise ArgumentError(f"{op}: blocksize must be two numbers, got {tuple(blocksize)}")
    elif blocksize is not None:
        raise ArgumentError(f"{op}: blocksize is for blocks only; {target} has none")
    kept = x._index_dtype
    x = elements(x)
    if x.sparse_dim() != 2:
        raise ArgumentError(
            f"{op}: expected a matrix, got shape {tuple(x.shape)} with {x.sparse_dim()} sparse dimensions; batches are not available"
        )
    sorted_: Any = x.coalesce()
    index, values, size = sorted_._index, sorted_._value, tuple(x.shape)
    if layout.blocks:
        height, width = (int(n) for n in blocksize or ())
        for d, n in enumerate((height, width)):
            if n < 1 or size[d] % n:
                raise ArgumentError(
                    f"tensor sparse size ({size[0]},{size[1]}) must be divisible by given blocksize ({height},{width}): {op}"
                )
        across = size[1] // width
        flat = fb.div(index[0], height, rounding_mode="floor") * across + fb.div(index[1], width, rounding_mode="floor")
        places, inverse = flat.unique(return_inverse=True)
        inner = (inverse * height + index[0] % height) * width + index[1] % width
        blocks = values.new_zeros((places.shape[0] * height * width, *values.shape[1:])).index_add(0, inner, values)
        values = blocks.view(places.shape[0], height, width, *values.shape[1:])
        index = fb.stack([fb.div(places, max(across, 1), rounding_mode="floor"), places % max(across, 1)])
    if layout.main == 1:
        order = (index[1] * (size[0] + 1) + index[0]).argsort(stable=True)
        index, values = index[:, order], values[order]
    return make(index, values, size, True, target, kept)


def transposed(x: SparseTensor) -> SparseTensor:
    """The transposed matrix: the same values in the transposed layout (CSR and CSC, BSR and BSC)."""
    layout = LAYOUTS[x._layout]
    values = x._value.transpose(1, 2) if layout.blocks else x._value
    size = (x.shape[1], x.shape[0], *x.shape[2:])
    return make(x._index.flip(0), values, size, x._ordered, getattr(fb, layout.turned), x._index_dtype)


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
    starts, plain = fb.as_tensor(starts), fb.as_tensor(plain)
    kept = fb.int32 if starts.dtype == plain.dtype == fb.int32 else fb.int64
    starts, plain = starts.to(fb.int64), plain.to(fb.int64)
    if starts.ndim != 1 or plain.ndim != 1 or starts.shape[0] < 1:
        shapes = f"{tuple(starts.shape)} and {tuple(plain.shape)}"
        raise ArgumentError(
            f"{op}: expected vectors of {layout.starts} and {layout.plain}, got shapes {shapes}; batches are not available"
        )
    counts = starts.diff()
    if int(starts[0]) != 0 or int(starts[-1]) != plain.shape[0] or bool((counts < 0).any()):
        raise ArgumentError(
            f"{op}: {layout.starts} must rise from 0 to {plain.shape[0]}, the number of {layout.plain} given"
        )
    along = fb.arange(counts.shape[0]).repeat_interleave(counts)
    index = fb.stack([along, plain] if layout.main == 0 else [plain, along])
    values = fb.as_tensor(values, dtype=options["dtype"])
    block = (1, 1)
    if layout.blocks:
        if values.ndim < 3:
            raise ArgumentError(f"{op}: values must be blocks, of shape (count, rows, columns), got {tuple(values.shape)}")
        block = tuple(values.shape[1:3])
    dense = tuple(values.shape[3 if layout.blocks else 1 :])
    if size is None:
        across = int(plain.max()) + 1 if plain.shape[0] else 0
        matrix = (counts.shape[0], across) if layout.main == 0 else (across, counts.shape[0])
        size = (matrix[0] * block[0], matrix[1] * block[1], *dense)
    size = tuple(int(n) for n in size)
    if len(size) != 2 + len(dense) or 0 in block or size[layout.main] != counts.shape[0] * block[layout.main]:
        lines = ("rows" if layout.main == 0 else "columns") + (f" of blocks {block}" if layout.blocks else "")
        raise ArgumentError(f"{op}: size {size} does not fit {counts.shape[0]} {lines}")
    if size[1 - layout.main] % block[1 - layout.main] or tuple(size[2:]) != dense:
        raise ArgumentError(f"{op}: size {size} does not fit values of shape {tuple(values.shape)}")
    units = (size[0] // block[0], size[1] // block[1])
    coo = sparse_coo_tensor(index, values, (*units, *values.shape[1:]), **options)
    inside = fb.ones(max(plain.shape[0] - 1, 0), dtype=fb.bool)
    if plain.shape[0] > 1:
        inside = (plain.diff() > 0) | (along.diff() > 0)
    if not bool(inside.all()):
        where = "row" if layout.main == 0 else "column"
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
