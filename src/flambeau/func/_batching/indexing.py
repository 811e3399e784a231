"""Rules for reading and writing by index: x[...], x[...] = y, index_select, index_put.

An index is split like in indexing itself: integers, slices, None and the ellipsis create a view first, tensors then
select from the view. If an index tensor is batched, the number of the example becomes one more index.
"""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import OutOfRangeError, StateError
from flambeau.func._batching import RULES, Frame, check_writable, rule


def _parse(frame: Frame, rank: int, index: Any) -> tuple[tuple[Any, ...], dict[int, Tensor]]:
    """The part of an index that makes a view, and the tensors by dimension of that view."""
    items = [_item(i) for i in (index if _is_tuple_like(index) else [index])]
    used = sum(_consumes(i) for i in items)
    if used > rank:
        raise OutOfRangeError(f"index: {used} indices for a tensor of {rank} dimension(s) inside vmap")
    if Ellipsis not in [i for i in items if not isinstance(i, Tensor)]:
        items.append(Ellipsis)
    basic: list[Any] = []
    tensors: dict[int, Tensor] = {}
    dim = 0
    for item in items:
        if item is Ellipsis:
            basic += [slice(None)] * (rank - used)
            dim += rank - used
        elif isinstance(item, Tensor) and item.dtype in (fb.bool, fb.uint8):
            dim = _mask(frame, item, basic, tensors, dim)
        elif isinstance(item, Tensor):
            basic.append(slice(None))
            tensors[dim] = item
            dim += 1
        elif isinstance(item, bool):
            # True is a mask without dimensions: a new dimension of which one or no element is selected.
            basic.append(None)
            tensors[dim] = fb.arange(int(item))
            dim += 1
        else:
            basic.append(item)
            dim += item is None or isinstance(item, slice)
    return tuple(basic), tensors


def _is_tuple_like(index: Any) -> bool:
    """Whether it is one index per dimension: a tuple, or a short list with anything but numbers in it."""
    if isinstance(index, tuple):
        return True
    parts = (Tensor, slice, list, tuple, range, type(None), type(Ellipsis))
    return isinstance(index, list) and len(index) < 32 and any(isinstance(i, parts) for i in index)


def _item(item: Any) -> Any:
    if isinstance(item, (list, tuple, range)) or hasattr(item, "__array__") and not isinstance(item, Tensor):
        item = fb.as_tensor(list(item) if isinstance(item, range) else item)
        return item.long() if item.is_floating_point() else item
    return item


def _mask(frame: Frame, mask: Tensor, basic: list[Any], tensors: dict[int, Tensor], dim: int) -> int:
    if frame.is_batched(mask):
        raise StateError(
            "index: a mask that differs per example selects a different number of elements for each, which vmap cannot batch; "
            "use fb.where(mask, x, y)"
        )
    if mask.ndim == 0:
        basic.append(None)
        tensors[dim] = fb.arange(int(mask.item()))
        return dim + 1
    for found in mask.nonzero(as_tuple=True):
        basic.append(slice(None))
        tensors[dim] = found
        dim += 1
    return dim


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype in (fb.bool, fb.uint8) else 1


class _Plan:
    """Index tensors on a view whose first dimension is the batch (if batched): the key, and the result's layout."""

    def __init__(self, frame: Frame, view_rank: int, tensors: dict[int, Tensor], input_batched: bool) -> None:
        dims = sorted(tensors)
        self.adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
        self.first, self.rank = dims[0], max(t.ndim for t in tensors.values())
        self.per_example = any(frame.is_batched(t) for t in tensors.values())
        self.input_batched = input_batched
        key: list[Any] = [slice(None)] * view_rank
        for dim in dims:
            key[dim] = frame.aligned(tensors[dim], self.rank)
        if input_batched:
            examples = fb.arange(frame.size).reshape((frame.size, *(1,) * self.rank))
            key.insert(0, examples if self.per_example else slice(None))
        self.key = tuple(key)

    def batch_first(self, picked: Tensor) -> Tensor:
        """The result of view[key] with the batch first and the rest as in the result for one example."""
        if not self.per_example:
            # Indices that are not adjacent put their dimensions before all others, the batch included.
            return picked if self.adjacent else picked.movedim(self.rank, 0)
        if not self.input_batched:
            return picked.movedim(self.first, 0) if self.adjacent else picked
        if not self.adjacent:
            return picked
        return picked.movedim(tuple(range(1, self.rank + 1)), tuple(range(self.first + 1, self.first + self.rank + 1)))

    def for_writing(self, values: Tensor) -> Tensor:
        """The inverse of batch_first, for the values of view[key] = values."""
        if not self.per_example:
            return values if self.adjacent else values.movedim(0, self.rank)
        if not self.adjacent:
            return values
        return values.movedim(tuple(range(self.first + 1, self.first + self.rank + 1)), tuple(range(1, self.rank + 1)))

    def result_rank(self, view_rank: int, count: int) -> int:
        return view_rank - count + self.rank


def pick(frame: Frame, x: Tensor, tensors: dict[int, Tensor]) -> Tensor:
    """Elements of x (batched or not) by tensors of indices; physical result."""
    # A single batched index selects like an integer: before the others, leaving no dimension.
    for dim in sorted(tensors, reverse=True):
        if tensors[dim].ndim == 0 and len(tensors) > 1:
            rest = {d - (d > dim): t for d, t in tensors.items() if d != dim}
            return pick(frame, frame.wrap(pick(frame, x, {dim: frame.wrap(frame.physical(tensors[dim]))})), rest)
    plan = _Plan(frame, x.ndim, tensors, frame.is_batched(x))
    return plan.batch_first(frame.peel(x)[plan.key])


@rule("getitem")
def getitem(frame: Frame, arguments: dict[str, Any]) -> Any:
    """x[index]."""
    x, index = arguments.values()
    basic, tensors = _parse(frame, x.ndim, index)
    view = frame.wrap(x.physical[(slice(None), *basic)]) if frame.is_batched(x) else x[basic]
    return pick(frame, view, tensors) if tensors else frame.physical(view)


def setitem(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """x[index] = value."""
    x, index, value = arguments.values()
    check_writable(frame, x)
    basic, tensors = _parse(frame, x.ndim, index)
    view = x.physical[(slice(None), *basic)]
    value = value if isinstance(value, (Tensor, int, float, complex, bool)) else fb.as_tensor(value)
    rank = view.ndim - 1
    if not tensors:
        view[...] = frame.aligned(_fitted(value, rank), rank)
        return None
    for dim in sorted(tensors):
        if tensors[dim].ndim == 0 and len(tensors) > 1:
            tensors[dim] = tensors[dim].reshape((1,) * max(t.ndim for t in tensors.values()))
    plan = _Plan(frame, rank, tensors, True)
    if isinstance(value, Tensor):
        rank = plan.result_rank(rank, len(tensors))
        value = _fitted(value, rank)
        full = value if frame.is_batched(value) else frame.wrap(frame.physical(value))
        value = plan.for_writing(frame.aligned(full, rank))
    view[plan.key] = value
    return None


def _fitted(value: Any, rank: int) -> Any:
    """A value may have more leading dimensions of size one than its target."""
    while isinstance(value, Tensor) and value.ndim > rank and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


RULES["setitem_"] = setitem


@rule("index_select")
def index_select(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Slices along a dimension."""
    x, dim, index = arguments.values()
    place = frame.dim(dim, x.ndim) - 1
    if x.ndim == 0:
        return pick(frame, x.unsqueeze(0), {0: index.reshape((-1,))}).squeeze(-1)
    if not frame.is_batched(index):
        return x.physical.index_select(place + 1, index)
    return pick(frame, x, {place: index.reshape((-1,)) if index.ndim == 0 else index})


@rule("take")
def take(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Elements by their index in the flattened example."""
    x, index = arguments.values()
    return pick(frame, x.reshape((x.numel(),)), {0: index})


@rule("index_put")
def index_put(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Values written, or added, at positions given by index tensors for the first dimensions."""
    x, indices, values, accumulate = arguments.values()
    _, tensors = _parse(frame, x.ndim, tuple(slice(None) if i is None else i for i in indices))
    rank = max(t.ndim for t in tensors.values())
    count = len(tensors)
    if sorted(tensors) != list(range(count)):
        raise StateError("index_put: inside vmap the indices must be for the first dimensions, without None between them")
    examples = fb.arange(frame.size).reshape((frame.size, *(1,) * rank))
    key = (examples, *(frame.aligned(tensors[d], rank) for d in range(count)))
    full = rank + x.ndim - count
    source = frame.aligned(values if frame.is_batched(values) else frame.wrap(frame.physical(values)), full)
    return frame.physical(x).index_put(key, source, accumulate)


@rule("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "nonzero_numpy")
def sizes_differ(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Results whose size depends on the values."""
    raise StateError(
        f"vmap: the result of {frame.name} has a different size for each example, which cannot be one tensor; use fb.where() "
        "or call it outside of vmap"
    )
