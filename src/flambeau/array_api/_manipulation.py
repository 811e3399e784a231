"""Manipulation and indexing functions."""

from __future__ import annotations

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import (
    array,
    axes_tuple,
    axis_index,
    integer,
    several,
    shape_tuple,
    wrapped_indices,
)
from flambeau.errors import ArgumentError, OutOfRangeError

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims",
    "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays, each stretched to their common shape."""
    shape = broadcast_shapes(*(tuple(array("broadcast_arrays", x).shape) for x in arrays))
    return tuple(fb.broadcast_to(x, shape) for x in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all given shapes broadcast to; ``()`` for none."""
    result: list[int] = []
    for shape in shapes:
        sizes = shape_tuple("broadcast_shapes", shape)
        if any(size < 0 for size in sizes):
            raise ArgumentError(f"broadcast_shapes: sizes must not be negative, got {sizes}")
        result = [1] * (len(sizes) - len(result)) + result
        for i, size in enumerate(sizes, start=len(result) - len(sizes)):
            if size != 1 and result[i] not in (1, size):
                shown = " and ".join(str(tuple(s)) for s in shapes)
                raise ArgumentError(f"broadcast_shapes: {shown} do not fit together: {result[i]} against {size}")
            result[i] = size if result[i] == 1 else result[i]
    return tuple(result)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """``x`` stretched to ``shape``."""
    shape = shape_tuple("broadcast_to", shape)
    if broadcast_shapes(tuple(array("broadcast_to", x).shape), shape) != shape:
        raise ArgumentError(f"broadcast_to: shape {tuple(x.shape)} does not broadcast to {shape}")
    return fb.broadcast_to(x, shape)


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays joined along an existing axis; with ``axis=None`` flattened first."""
    parts = several("concat", arrays)
    if axis is None:
        return fb.cat([x.reshape(-1) for x in parts], dim=0)
    axis = axis_index("concat", axis, parts[0].ndim)
    for x in parts:
        rest = tuple(x.shape[:axis]) + tuple(x.shape[axis + 1 :])
        if x.ndim != parts[0].ndim or rest != tuple(parts[0].shape[:axis]) + tuple(parts[0].shape[axis + 1 :]):
            raise ArgumentError(
                f"concat: shapes {tuple(parts[0].shape)} and {tuple(x.shape)} differ in more than axis {axis}"
            )
    return fb.cat(parts, dim=axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` with new axes of size one where ``axis`` says, counted in the result."""
    array("expand_dims", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axes_tuple("expand_dims", axis, x.ndim + count)
    for a in sorted(axes):
        x = fb.unsqueeze(x, a)
    return x


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``x`` with its elements in reverse order along ``axis`` (None: along every one)."""
    return fb.flip(array("flip", x), axes_tuple("flip", axis, x.ndim))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """``x`` with the axes ``source`` moved to ``destination``, the others keeping their order."""
    array("moveaxis", x)
    source = axes_tuple("moveaxis", source, x.ndim)
    destination = axes_tuple("moveaxis", destination, x.ndim)
    if len(source) != len(destination):
        raise ArgumentError(f"moveaxis: {len(source)} source axes, but {len(destination)} destinations")
    return fb.movedim(x, source, destination) if source else x


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """``x`` with its axes in the order ``axes``."""
    order = axes_tuple("permute_dims", tuple(axes), array("permute_dims", x).ndim)
    if len(order) != x.ndim:
        raise ArgumentError(f"permute_dims: expected {x.ndim} axes for shape {tuple(x.shape)}, got {len(order)}")
    return fb.permute(x, order)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element (or slice along ``axis``) ``repeats`` times in a row; without ``axis``, ``x`` is flattened first."""
    array("repeat", x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    else:
        axis = axis_index("repeat", axis, x.ndim, x.shape)
    if isinstance(repeats, Tensor):
        counts = array("repeat", repeats, "integral", "repeats").to(fb.int64)
        if counts.ndim > 1 or counts.numel() not in (1, x.shape[axis]):
            raise ArgumentError(
                f"repeat: repeats of shape {tuple(counts.shape)} does not broadcast to ({x.shape[axis]},)"
            )
        counts = counts.reshape(-1).expand(x.shape[axis])
        if counts.numel() and bool((counts < 0).any()):
            raise ArgumentError("repeat: repeats must not be negative")
        return fb.repeat_interleave(x, counts, dim=axis)
    repeats = integer("repeat", "repeats", repeats)
    if repeats < 0:
        raise ArgumentError(f"repeat: repeats must not be negative, got {repeats}")
    return fb.repeat_interleave(x, repeats, dim=axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """``x`` in another shape, one size of which may be -1. ``copy`` as in ``asarray``."""
    shape = shape_tuple("reshape", shape)
    result = fb.reshape(array("reshape", x), shape)
    shared = result.numel() == 0 or result.data_ptr() == x.data_ptr()
    if copy is False and not shared:
        raise ArgumentError(f"reshape: shape {tuple(x.shape)} cannot become {shape} without a copy; use copy=None")
    return result.clone() if copy and shared else result


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``x`` with its elements moved by ``shift`` along ``axis``, those that leave coming back at the other end."""
    array("roll", x)
    if axis is None:
        return fb.roll(x.reshape(-1), integer("roll", "shift", shift)).reshape(x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_index("roll", a, x.ndim, x.shape) for a in axes)
    shifts = shift_tuple(shift, len(axes))
    return fb.roll(x, shifts, axes) if axes else x.clone()


def shift_tuple(shift: object, count: int) -> tuple[int, ...]:
    if not isinstance(shift, (tuple, list)):
        return (integer("roll", "shift", shift),) * count
    if len(shift) != count:
        raise ArgumentError(f"roll: {len(shift)} shifts for {count} axes")
    return tuple(integer("roll", "shift", s) for s in shift)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` without the named axes, which must have size one."""
    axes = axes_tuple("squeeze", _given(axis), array("squeeze", x).ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ArgumentError(f"squeeze: axis {a} of shape {tuple(x.shape)} has size {x.shape[a]}, expected 1")
    return fb.reshape(x, [size for i, size in enumerate(x.shape) if i not in axes])


def _given(axis: object) -> object:
    if axis is None:
        raise TypeError("squeeze: axis must be an int or a tuple of ints, got None")
    return axis


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    parts = several("stack", arrays)
    for x in parts:
        if x.shape != parts[0].shape:
            raise ArgumentError(f"stack: shapes {tuple(parts[0].shape)} and {tuple(x.shape)} differ")
    return fb.stack(parts, dim=axis_index("stack", axis, parts[0].ndim + 1))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Slices of ``x`` along ``axis`` in the order of ``indices``, which may count from the end."""
    if axis is None:
        if array("take", x).ndim != 1:
            raise ArgumentError(f"take: axis is needed for shape {tuple(x.shape)}; only one axis needs no name")
        axis = 0
    axis = axis_index("take", axis, array("take", x).ndim, x.shape)
    if array("take", indices, "integral", "indices").ndim != 1:
        raise ArgumentError(f"take: indices must be one-dimensional, got shape {tuple(indices.shape)}")
    return fb.index_select(x, axis, wrapped_indices("take", indices, x.shape[axis]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each place of ``indices`` the element of ``x`` with that index along ``axis``; other axes broadcast."""
    axis = axis_index("take_along_axis", axis, array("take_along_axis", x).ndim, x.shape)
    if array("take_along_axis", indices, "integral", "indices").ndim != x.ndim:
        raise ArgumentError(f"take_along_axis: indices have {indices.ndim} axes, but x has {x.ndim}")
    index = wrapped_indices("take_along_axis", indices, x.shape[axis])
    around = [list(x.shape), list(index.shape)]
    around[0][axis] = around[1][axis] = 1
    shape = list(broadcast_shapes(*map(tuple, around)))
    source, target = list(shape), list(shape)
    source[axis], target[axis] = x.shape[axis], index.shape[axis]
    return fb.gather(fb.broadcast_to(x, source), axis, fb.broadcast_to(index, target))


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """``x`` laid out ``repetitions`` times along each axis; the shorter of shape and repetitions gets ones in front."""
    counts = shape_tuple("tile", repetitions)
    if any(n < 0 for n in counts):
        raise ArgumentError(f"tile: repetitions must not be negative, got {counts}")
    return fb.tile(array("tile", x), counts) if counts else x.clone()


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``x`` along ``axis``."""
    if array("unstack", x).ndim == 0:
        raise OutOfRangeError("unstack: expected at least one axis, got a zero-dimensional array")
    return tuple(fb.unbind(x, dim=axis_index("unstack", axis, x.ndim, x.shape)))
