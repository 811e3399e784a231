"""Rules for views and ops that move elements of one tensor."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError, StateError
from flambeau.func._batching import Frame, call, decomposition, named_rule, rule


def _resolved(shape: Any, numel: int, name: str) -> tuple[int, ...]:
    """A shape with its -1 filled in from the size of one example, since the physical size may be empty."""
    shape = tuple(shape)
    if -1 not in shape:
        return shape
    known = math.prod(s for s in shape if s != -1)
    if shape.count(-1) > 1 or known == 0 or numel % known:
        raise ArgumentError(f"{name}: shape {shape} does not fit {numel} elements inside vmap")
    return tuple(numel // known if s == -1 else s for s in shape)


@named_rule("reshape", "view")
def view(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Another shape, or for view another dtype."""
    x = arguments["input"]
    if "dtype" in arguments:
        return x.physical.view(arguments["dtype"])
    shape = (frame.size, *_resolved(arguments["shape"], x.numel(), name))
    return x.physical.view(shape) if name == "view" else x.physical.reshape(shape)


@decomposition("view_as")
def view_as(input, other):
    """Another's shape."""
    return input.view(tuple(other.shape))


@decomposition("reshape_as")
def reshape_as(input, other):
    """Another's shape."""
    return input.reshape(tuple(other.shape))


@decomposition("expand_as")
def expand_as(input, other):
    """Another's shape."""
    return input.expand(tuple(other.shape))


@rule("expand", "broadcast_to")
def expand(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Repetition without a copy."""
    x, size = arguments["input"], tuple(arguments["size"])
    if len(size) < x.ndim:
        raise ArgumentError(f"{frame.name}: size {size} has fewer dimensions than the tensor, {tuple(x.shape)}")
    return frame.aligned(x, len(size)).expand((frame.size, *size))


@rule("permute")
def permute(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Dimensions in another order."""
    x = arguments["input"]
    dims = () if x.ndim == 0 and not arguments["dims"] else frame.dims(arguments["dims"], x.ndim)
    return x.physical.permute((0, *dims))


@rule("transpose", "swapaxes", "swapdims")
def transpose(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Two dimensions exchanged."""
    x, first, second = arguments.values()
    a, b = frame.dims((first, second), x.ndim)
    return x.physical if x.ndim == 0 else x.physical.transpose(a, b)


@rule("movedim")
def movedim(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Dimensions elsewhere."""
    x, source, destination = arguments.values()
    if x.ndim == 0:
        return x.physical
    return x.physical.movedim(frame.dims(source, x.ndim), frame.dims(destination, x.ndim))


@decomposition("t")
def t(input):
    """The transpose of a matrix."""
    if input.ndim > 2:
        raise ArgumentError(f"t: expected at most 2 dimensions, got shape {tuple(input.shape)}")
    return input.transpose(0, 1) if input.ndim == 2 else input


@rule("squeeze")
def squeeze(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Removes dimensions of size one."""
    x, dims = arguments["input"], arguments.get("dim")
    wanted = range(1, x.ndim + 1) if dims is None else frame.dims(dims, x.ndim)
    wanted = wanted if x.ndim else ()  # a 0-d tensor accepts dimension 0 and no other
    return x.physical.squeeze(tuple(d for d in wanted if x.shape[d - 1] == 1))


@rule("unsqueeze")
def unsqueeze(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Adds a dimension of size one."""
    x = arguments["input"]
    return x.physical.unsqueeze(frame.dim(arguments["dim"], x.ndim + 1))


@rule("flatten")
def flatten(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Several dimensions as one."""
    x, start, end = arguments.values()
    if x.ndim == 0:
        return x.physical.unsqueeze(1)
    return x.physical.flatten(frame.dim(start, x.ndim), frame.dim(end, x.ndim))


@decomposition("ravel")
def ravel(input):
    """One dimension."""
    return input.reshape((input.numel(),))


@rule("unflatten")
def unflatten(frame: Frame, arguments: dict[str, Any]) -> Any:
    """One dimension as several."""
    x, dim, sizes = arguments.values()
    return x.physical.unflatten(frame.dim(dim, x.ndim), sizes)


@rule("select")
def select(frame: Frame, arguments: dict[str, Any]) -> Any:
    """One slice along a dimension."""
    x, dim, index = arguments.values()
    if x.ndim == 0:
        raise ArgumentError("select: a 0-d tensor has no dimension to select from")
    return x.physical.select(frame.dim(dim, x.ndim), index)


@named_rule("narrow", "narrow_copy")
def narrow(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A range of a dimension; a batched start becomes an index."""
    x, dim, start, length = arguments.values()
    if frame.is_batched(start):
        positions = start.reshape(()) + fb.arange(length)
        return frame.peel(x.index_select(dim, positions))
    part = x.physical.narrow(frame.dim(dim, x.ndim), start, length)
    return part.clone() if name == "narrow_copy" else part


@named_rule("split", "split_with_sizes", "chunk", "unbind", "tensor_split")
def split(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Several parts along a dimension."""
    x, *sizes, dim = arguments.values()
    if any(frame.is_batched(size) for size in sizes):
        raise StateError(f"{name}: inside vmap the places to split at must be the same for all examples")
    if x.ndim == 0:
        raise ArgumentError(f"{name}: a 0-d tensor has no dimension to split")
    return getattr(x.physical, name)(*sizes, frame.dim(dim, x.ndim))


def _split_along(name: str, least: int, dim_for):
    @rule(name)
    def run(frame: Frame, arguments: dict[str, Any]) -> Any:
        x, places = arguments.values()
        if x.ndim < least:
            raise ArgumentError(f"{name}: expected at least {least} dimension(s), got shape {tuple(x.shape)}")
        dim = dim_for(x.ndim)
        if isinstance(places, int) and x.shape[dim] % places:
            raise ArgumentError(f"{name}: dimension {dim} of size {x.shape[dim]} cannot be split into {places} equal parts")
        return x.physical.tensor_split(places, dim + 1)


_split_along("hsplit", 1, lambda rank: 0 if rank == 1 else 1)
_split_along("vsplit", 2, lambda rank: 0)
_split_along("dsplit", 3, lambda rank: 2)


@rule("diagonal", "linalg.diagonal")
def diagonal(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The diagonal of two dimensions, as the last one."""
    x, offset, dim1, dim2 = arguments.values()
    return fb.diagonal(x.physical, offset, *frame.dims((dim1, dim2), x.ndim))


@decomposition("diag")
def diag(input, diagonal=0):
    """A vector's matrix or a matrix's diagonal."""
    if input.ndim not in (1, 2):
        raise ArgumentError(f"diag: expected 1 or 2 dimensions, got shape {tuple(input.shape)}")
    return fb.diag_embed(input, diagonal) if input.ndim == 1 else fb.diagonal(input, diagonal)


@rule("diag_embed")
def diag_embed(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The last dimension as a diagonal."""
    x, offset, dim1, dim2 = arguments.values()
    return fb.diag_embed(x.physical, offset, *frame.dims((dim1, dim2), x.ndim + 1))


@decomposition("diagflat")
def diagflat(input, offset=0):
    """A matrix with these elements on the diagonal."""
    return fb.diag_embed(input.reshape((input.numel(),)), offset)


@named_rule("tril", "triu")
def triangle(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A triangle of each matrix."""
    if arguments["input"].ndim < 2:
        raise ArgumentError(f"{name}: expected at least 2 dimensions, got shape {tuple(arguments['input'].shape)}")
    return call(name, {**arguments, "input": arguments["input"].physical})


@rule("unfold")
def unfold(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Windows along a dimension, as the last one."""
    x, dim, size, step = arguments.values()
    physical = x.physical.unsqueeze(1) if x.ndim == 0 else x.physical
    windows = physical.unfold(frame.dim(dim, x.ndim), size, step)
    return windows.squeeze(1) if x.ndim == 0 else windows


@rule("repeat")
def repeat(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Copies along dimensions."""
    x, repeats = arguments.values()
    if len(repeats) < x.ndim:
        raise ArgumentError(f"repeat: {len(repeats)} repeats for a tensor of {x.ndim} dimensions; give one for each")
    return frame.aligned(x, len(repeats)).repeat((1, *repeats))


@decomposition("tile")
def tile(input, dims):
    """Copies along the last dimensions."""
    return input.repeat((*(1,) * (input.ndim - len(dims)), *dims))


@rule("repeat_interleave")
def repeat_interleave(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Elements repeated; the counts must be the same for all examples, or the results would differ in size."""
    x, repeats = arguments.get("input"), arguments["repeats"]
    if x is None or frame.is_batched(repeats):
        raise StateError("repeat_interleave: inside vmap the repeats must be the same for all examples")
    dim = arguments.get("dim")
    physical = frame.physical(x).reshape((frame.size, x.numel())) if dim is None or x.ndim == 0 else x.physical
    place = 1 if dim is None else frame.dim(dim, x.ndim)
    return fb.repeat_interleave(physical, repeats, place, output_size=arguments.get("output_size"))


@rule("flip")
def flip(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Dimensions reversed."""
    x, dims = arguments.values()
    return x.physical if x.ndim == 0 else x.physical.flip(frame.dims(dims, x.ndim))


@named_rule("fliplr", "flipud")
def flip_one(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """One dimension reversed."""
    x, dim = arguments["input"], 1 if name == "fliplr" else 0
    if x.ndim <= dim:
        raise ArgumentError(f"{name}: expected at least {dim + 1} dimension(s), got shape {tuple(x.shape)}")
    return x.physical.flip((dim + 1,))


@rule("rot90")
def rot90(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Turned in a plane."""
    x, k, dims = arguments.values()
    return fb.rot90(x.physical, k, frame.dims(dims, x.ndim))


@rule("roll")
def roll(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Shifted around, in dimensions or as a whole."""
    x, shifts, dims = arguments.values()
    if dims is None or dims == ():
        flat = x.physical.reshape((frame.size, x.numel()))
        return fb.roll(flat, shifts, (1,)).reshape(x.physical.shape)
    return fb.roll(x.physical, shifts, frame.dims(dims, x.ndim))


@named_rule("atleast_1d", "atleast_2d", "atleast_3d")
def atleast(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Examples with at least so many dimensions."""
    least = int(name[8])

    def raised(x):
        if x.ndim >= least:
            return frame.physical(x)
        if least == 3 and x.ndim == 2:
            return frame.physical(x).unsqueeze(-1)
        if least == 3 and x.ndim == 1:
            return frame.physical(x)[:, None, :, None]
        return frame.physical(x).reshape((frame.size, *(1,) * (least - x.ndim), *x.shape))

    if "input" in arguments:
        return raised(arguments["input"])
    return tuple(raised(x) for x in arguments["tensors"])


@rule("clone")
def clone(frame: Frame, arguments: dict[str, Any]) -> Any:
    """A copy."""
    return arguments["input"].physical.clone()


@rule("contiguous")
def contiguous(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Contiguous in row-major order."""
    return arguments["input"].physical.contiguous()


@rule("detach")
def detach(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Without history."""
    return arguments["input"].physical.detach()


@rule("constant_pad_nd")
def constant_pad_nd(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Padding counts from the last dimension, the batch is not reached."""
    x, pad, value = arguments.values()
    if len(pad) > 2 * x.ndim:
        raise ArgumentError(f"constant_pad_nd: {len(pad)} pads for a tensor of {x.ndim} dimension(s)")
    return fb.constant_pad_nd(x.physical, pad, value)


def _kept(arguments: dict[str, Any]) -> dict[str, Any]:
    """The relevant options: layout and device are the examples' own."""
    return {key: value for key, value in arguments.items() if key in ("fill_value", "dtype")}


@named_rule("empty_like", "full_like", "ones_like", "zeros_like")
def like(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A new tensor for each example."""
    kept = _kept(arguments)
    return call(name, {"input": arguments["input"].physical, **kept})


@named_rule("new_empty", "new_full", "new_ones", "new_zeros")
def new(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A new tensor for each example, so that examples can be written into it."""
    kept = _kept(arguments)
    return call(name, {"input": arguments["input"].physical, "size": (frame.size, *arguments["size"]), **kept})
