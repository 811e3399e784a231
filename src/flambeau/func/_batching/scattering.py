"""Rules for gather, scatter and the ops that write along a dimension."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.func._batching import Frame, call, decomposition, named_rule, rule


@named_rule("gather", "scatter", "scatter_add", "scatter_reduce")
def same_rank(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Tensor arguments have one rank: all get the batch dimension first."""
    x = arguments["input"]
    scalar = x.ndim == 0
    new = {**arguments, "dim": frame.dim(arguments["dim"], x.ndim)}
    for key, value in arguments.items():
        if isinstance(value, Tensor):
            physical = frame.physical(value)
            new[key] = physical.unsqueeze(1) if scalar and physical.ndim == 1 else physical
    result = call(name, new)
    return result.squeeze(1) if scalar and arguments["index"].ndim == 0 else result


@decomposition("take_along_dim")
def take_along_dim(input, indices, dim=None):
    """gather with broadcasting."""
    if dim is None:
        return fb.gather(input.reshape((input.numel(),)), 0, indices.reshape((indices.numel(),)))
    dim = dim % max(input.ndim, 1)

    def others(x):
        return [1 if d == dim else s for d, s in enumerate(x.shape)]

    common = list(fb.broadcast_shapes(others(input), others(indices)))
    common[dim] = input.shape[dim]
    wide = input.expand(common)
    common[dim] = indices.shape[dim]
    # counted from the end, as outside
    places = fb.where(indices < 0, indices + input.shape[dim], indices) if input.ndim else indices
    return fb.gather(wide, dim, places.expand(common))


def _spread(index: Tensor, like: Tensor, dim: int) -> Tensor:
    """A vector of indices along dim, in the shape of like."""
    shape = [1] * like.ndim
    shape[dim] = index.numel()
    return index.reshape(shape).expand(tuple(like.shape))


@named_rule("index_add", "index_copy", "index_fill", "index_reduce")
def along_index(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Slices written along a dimension; batched indices become a scatter."""
    x, index = arguments["input"], arguments["index"]
    dim = frame.dim(arguments["dim"], x.ndim)
    if x.ndim == 0:  # like one dimension of size one
        wide = {k: v.reshape((1,)) for k, v in arguments.items() if isinstance(v, Tensor) and k != "value"}
        return frame.physical(call(name, {**arguments, **wide, "dim": 0}).reshape(()))
    if frame.is_batched(index):
        return frame.physical(_as_scatter(name, {**arguments, "dim": dim - 1}))
    if frame.is_batched(arguments.get("value")):
        return frame.physical(_as_scatter(name, {**arguments, "dim": dim - 1}))
    new = {k: frame.physical(v) for k, v in arguments.items() if isinstance(v, Tensor) and k not in ("index", "value")}
    return call(name, {**arguments, **new, "dim": dim, "index": index.reshape((-1,))})


def _as_scatter(name: str, arguments: dict[str, Any]) -> Tensor:
    x, dim, index = arguments["input"], arguments["dim"], arguments["index"]
    shape = list(x.shape)
    shape[dim] = index.numel()
    if name == "index_fill":
        value = arguments["value"]
        places = _spread(index, x.new_empty(shape), dim)
        if not isinstance(value, Tensor):
            return fb.scatter(x, dim, places, value)
        return fb.scatter(x, dim, places, value.to(x.dtype).expand(shape))
    source = next(arguments[key] for key in ("source", "tensor", "tensor2") if key in arguments)
    places = _spread(index, source, dim)
    if name == "index_copy":
        return fb.scatter(x, dim, places, source)
    if name == "index_add":
        return fb.scatter_add(x, dim, places, source if arguments["alpha"] == 1 else source * arguments["alpha"])
    return fb.scatter_reduce(x, dim, places, source, arguments["reduce"], include_self=arguments["include_self"])


@decomposition("put")
def put(input, index, source, accumulate=False):
    """Elements written by their index in the flattened example."""
    flat = input.reshape((input.numel(),))
    return flat.index_put((index.reshape((-1,)),), source.reshape((-1,)), accumulate).reshape(tuple(input.shape))


@rule("select_scatter")
def select_scatter(frame: Frame, arguments: dict[str, Any]) -> Any:
    """A slice replaced."""
    x, src, dim, index = arguments.values()
    return fb.select_scatter(frame.physical(x), frame.physical(src), frame.dim(dim, x.ndim), index)


@rule("slice_scatter")
def slice_scatter(frame: Frame, arguments: dict[str, Any]) -> Any:
    """A range replaced."""
    x, src, dim, start, end, step = arguments.values()
    return fb.slice_scatter(frame.physical(x), frame.physical(src), frame.dim(dim, x.ndim), start, end, step)


@rule("diagonal_scatter")
def diagonal_scatter(frame: Frame, arguments: dict[str, Any]) -> Any:
    """A diagonal replaced."""
    x, src, offset, dim1, dim2 = arguments.values()
    return fb.diagonal_scatter(frame.physical(x), frame.physical(src), offset, *frame.dims((dim1, dim2), x.ndim))
