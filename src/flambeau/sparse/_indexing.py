"""Parts of sparse tensors: one index, several, or a range along a dimension."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError
from flambeau.sparse._compressed import LAYOUTS, batch_shape, elements
from flambeau.sparse._rules import dispatch, rule
from flambeau.sparse._tensor import SparseTensor, make

__all__ = ["dispatch"]  # and the rules of this file


def _select(x: SparseTensor, dim: int, index: int) -> Tensor:
    size = x.shape[dim]
    if not -size <= index < size:
        raise OutOfRangeError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}"
        )
    compressed = x._layout in LAYOUTS
    if compressed:
        rest, before = (*x.shape[:dim], *x.shape[dim + 1 :]), len(batch_shape(x))
        if dim < before:
            at = (x._index[dim] == index % size).nonzero().squeeze(1)
            kept = [d for d in range(before + 2) if d != dim]
            return make(x._index[kept][:, at], x._value[at], rest, x._ordered, x._layout, x._index_dtype)
        if dim >= before + 2:
            part = x._value.select(dim - before - 1 + 2 * LAYOUTS[x._layout].blocks, index)
            return make(x._index, part, rest, x._ordered, x._layout, x._index_dtype)
        if before:
            raise ArgumentError(
                "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors; select a matrix first"
            )
        x = elements(x)
    if dim >= x.sparse_dim():
        part = x._value.select(dim - x.sparse_dim() + 1, index)
        return make(x._index, part, (*x.shape[:dim], *x.shape[dim + 1 :]), x._ordered, fb.sparse_coo)
    at = (x._index[dim] == index % size).nonzero().squeeze(1)
    kept = [d for d in range(x.sparse_dim()) if d != dim]
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    if not kept:
        return x._value[at].sum(0, dtype=x.dtype)
    part = make(x._index[kept][:, at], x._value[at], tuple(shape), x._ordered, fb.sparse_coo)
    return part.coalesce() if compressed else part


def _wrapped(name: str, x: SparseTensor, dim: int) -> int:
    if not -x.ndim <= dim < x.ndim:
        raise OutOfRangeError(
            f"{name}: Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {dim})"
        )
    return dim % x.ndim


@rule("select")
def _select_rule(input, dim, index):
    return _select(input, _wrapped("select", input, dim), index)


@rule("getitem")
def _getitem(input, index):
    for i in index if isinstance(index, tuple) else (index,):
        if isinstance(i, Tensor) and i.ndim == 1 and not isinstance(index, tuple):
            return _index_select(elements(input), 0, i)
        if not isinstance(i, int) or isinstance(i, bool):
            raise DTypeError("getitem: a sparse tensor takes ints or one vector of them; use .to_dense() first")
        input = _select(input, 0, i)
    return input


@rule("setitem_")
def _setitem(input, index, value):
    raise DTypeError("setitem: Cannot assign to a sparse tensor; build another one, or assign to x.to_dense()")


@rule("index_select")
def _index_select(input, dim, index):
    dim, rank = _wrapped("index_select", input, dim), input.sparse_dim()
    # checks the range, and converts a bool mask to positions
    places = fb.arange(input.shape[dim], device=input.device)[index]
    shape = (*input.shape[:dim], places.shape[0], *input.shape[dim + 1 :])
    if dim >= rank:
        values = input._value.index_select(dim - rank + 1, places)
        return make(input._index, values, shape, input._ordered, fb.sparse_coo)
    # The elements sorted by their coordinate along dim, so that those of one coordinate are a range.
    x = input.coalesce()
    order = x._index[dim].argsort(stable=True)
    counts = fb.bincount(x._index[dim], minlength=input.shape[dim])
    starts, wanted = counts.cumsum(0) - counts, counts[places]
    to = fb.arange(places.shape[0], device=places.device).repeat_interleave(wanted)
    before = (wanted.cumsum(0) - wanted).repeat_interleave(wanted)
    chosen = order[starts[places].repeat_interleave(wanted) + fb.arange(to.shape[0], device=to.device) - before]
    kept = x._index[:, chosen]
    kept[dim] = to
    return make(kept, x._value[chosen], shape, False, fb.sparse_coo).coalesce()


@rule("narrow_copy")
def _narrow_copy(input: Any, dim, start, length):
    dim, rank = _wrapped("narrow_copy", input, dim), input.sparse_dim()
    size = input.shape[dim]
    start = start + size if start < 0 else start
    if not 0 <= start <= size or not 0 <= length <= size - start:
        raise OutOfRangeError(f"narrow_copy: start ({start}) + length ({length}) exceeds dimension size ({size}).")
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    if dim >= rank:
        return make(input._index, input._value.narrow_copy(dim - rank + 1, start, length), shape, input._ordered, fb.sparse_coo)
    at = ((input._index[dim] >= start) & (input._index[dim] < start + length)).nonzero().squeeze(1)
    kept = input._index[:, at]
    kept[dim] -= start
    return make(kept, input._value[at], shape, input._ordered, fb.sparse_coo)
