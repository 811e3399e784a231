"""vmap: a function of one example becomes a function of many, with every op run once on all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, OutOfRangeError
from flambeau.func._batching import Level, enter, leave, levels, load_rules, wrap
from flambeau.utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten

__all__ = ["vmap"]

load_rules()


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that applies func to all examples along a dimension of its arguments at once.

    Every op that func calls runs once, on all examples, by a batching rule; an op without one raises and says so,
    nothing ever loops over the examples. func sees single examples and must not look at values (`if x > 0`,
    `x.item()`). vmap can be nested and combined with grad, vjp, jvp, jacrev and the like, in any order.

    Args:
        func: takes tensors or nested containers of tensors, returns one or more tensors. Keyword arguments are passed
            on.
        in_dims: the dimension of the examples for each argument, None for one that is the same for all; an int for all
            arguments, or a tuple with nested containers that fit the arguments.
        out_dims: where the dimension of the examples goes in each result; None for a result that is the same for all.
        randomness: 'error' refuses random numbers, 'different' draws for every example, 'same' draws once for all.
        chunk_size: at most so many examples at a time, to bound memory; None takes all.

    Example:
        >>> dot = fb.func.vmap(fb.dot)
        >>> dot(fb.tensor([[1., 2.], [3., 4.]]), fb.ones(2, 2))
        tensor([3., 7.])
        >>> fb.func.vmap(fb.func.grad(lambda x: x**3))(fb.tensor([1., 2.]))
        tensor([ 3., 12.])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(f"vmap: randomness is one of 'error', 'different', 'same', got {randomness!r}")
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ArgumentError(f"vmap: chunk_size must be None or a positive int, got {chunk_size!r}")

    @functools.wraps(func, updated=())
    def batched(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        dims = _in_dims(in_dims, leaves, spec, func)
        size = _size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, spec, size, out_dims, randomness, kwargs)
        return _run_in_chunks(func, leaves, dims, spec, size, out_dims, randomness, kwargs, chunk_size)

    return batched


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """vmap() in so many chunks, one after the other, to bound memory; found as functorch.experimental.chunk_vmap.

    Args:
        func, in_dims, out_dims, randomness: as in vmap().
        chunks: how many; fewer when there are fewer examples.

    Example:
        >>> from flambeau.func._vmap import chunk_vmap
        >>> chunk_vmap(lambda x: x * 2, chunks=3)(fb.arange(4))
        tensor([0, 2, 4, 6])
    """
    if not isinstance(chunks, int) or chunks < 1:
        raise ArgumentError(f"chunk_vmap: chunks must be a positive int, got {chunks!r}")

    @functools.wraps(func, updated=())
    def batched(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        size = _size(leaves, _in_dims(in_dims, leaves, spec, func))
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(1, -(-size // chunks)))(*args, **kwargs)

    return batched


def _in_dims(in_dims: Any, leaves: list[Any], spec: Any, func: Any) -> list[int | None]:
    """A checked dimension, or None, for each leaf of the arguments."""
    name = getattr(func, "__name__", repr(func))
    if not isinstance(in_dims, (int, tuple)):
        raise ArgumentError(f"vmap({name}): expected `in_dims` to be int or a (potentially nested) tuple, got {type(in_dims).__name__}")
    if not leaves:
        raise ArgumentError(f"vmap({name}): got no inputs, no arguments to batch; pass at least one tensor")
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ArgumentError(f"vmap({name}): in_dims is not compatible with the structure of `inputs`: {in_dims} for {spec}")
    checked: list[int | None] = []
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            checked.append(None)
            continue
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise ArgumentError(f"vmap({name}): in_dims must hold ints and None, got {dim!r}: Got in_dim={dim!r} for some input")
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"vmap({name}): Got in_dim={dim} for an input but the input is of type {type(leaf).__name__}; only tensors have a "
                "batch dimension, use None"
            )
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ArgumentError(
                f"vmap({name}): Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.ndim}, expected "
                + (f"{-leaf.ndim}..{leaf.ndim - 1}" if leaf.ndim else "None, as a 0-d tensor has no dimension to batch over")
            )
        checked.append(dim % leaf.ndim)
    return checked


def _size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ArgumentError("vmap: in_dims is None for every argument; at least one Tensor needs a dimension to batch over")
    if len(set(sizes)) > 1:
        raise ArgumentError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension; the batch dimensions of the arguments differ in "
            f"size: {sizes}"
        )
    return sizes[0]


def _run(func, leaves, dims, spec, size, out_dims, randomness, kwargs):
    level = Level(len(levels()) + 1, size, randomness)
    # Batch dimensions move to the front before the level starts: these ops belong to the outer levels.
    moved = [leaf if dim is None else leaf.movedim(dim, 0) for leaf, dim in zip(leaves, dims, strict=True)]
    enter(level)
    try:
        args = [x if dim is None else wrap(x, level) for x, dim in zip(moved, dims, strict=True)]
        results = func(*tree_unflatten(args, spec), **kwargs)
    finally:
        leave(level)
        level.active = False
    return _unwrap(results, level, out_dims, getattr(func, "__name__", repr(func)))


def _unwrap(results, level, out_dims, name):
    outputs, out_spec = tree_flatten(results)
    dims = broadcast_prefix(out_dims, out_spec)
    if dims is None and isinstance(results, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = broadcast_prefix(out_dims[0], out_spec)
    if dims is None:
        raise ArgumentError(f"vmap({name}): out_dims is not compatible with the structure of `outputs`: {out_dims} for {out_spec}")
    plain = []
    for out, dim in zip(outputs, dims, strict=True):
        if dim is None and not isinstance(out, Tensor):
            plain.append(out)  # the same for all examples, whatever it is
            continue
        if not isinstance(out, Tensor):
            raise ArgumentError(f"vmap({name}): must only return Tensors: the function must return tensors, got type {type(out)}")
        if getattr(out, "level", None) is not level:
            plain.append(out if dim is None else _spread(out, dim, level.size, name))
            continue
        if dim is None:
            raise ArgumentError(
                f"vmap({name}): can not return a BatchedTensor when out_dim is None: out_dims is None for a result that differs per "
                "example; give it a dimension"
            )
        plain.append(out.physical.movedim(0, _out_dim(dim, out.ndim + 1, name)))
    return tree_unflatten(plain, out_spec)


def _out_dim(dim: Any, rank: int, name: str) -> int:
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ArgumentError(f"vmap({name}): out_dims must be an int, None or a python collection of ints, got {dim!r}")
    if not -rank <= dim < rank:
        raise OutOfRangeError(
            f"vmap({name}): Dimension out of range: out_dims has {dim} for a result of {rank} dimensions, expected {-rank}..{rank - 1}"
        )
    return dim % rank


def _spread(out: Tensor, dim: int, size: int, name: str) -> Tensor:
    """An unbatched result, expanded along its batch dimension without a copy."""
    place = _out_dim(dim, out.ndim + 1, name)
    shape = list(out.shape)
    shape.insert(place, size)
    return out.unsqueeze(place).expand(shape)


def _run_in_chunks(func, leaves, dims, spec, size, out_dims, randomness, kwargs, chunk_size):
    state = fb.get_rng_state() if randomness == "same" else None
    parts, out_spec = [], None
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        if state is not None:
            fb.set_rng_state(state)  # every chunk draws the same numbers
        some = [leaf if dim is None else leaf.narrow(dim, start, length) for leaf, dim in zip(leaves, dims, strict=True)]
        result = _run(func, some, dims, spec, length, out_dims, randomness, kwargs)
        outputs, out_spec = tree_flatten(result)
        parts.append(outputs)
    places = broadcast_prefix(out_dims, out_spec) or broadcast_prefix(out_dims[0], out_spec)
    joined = [
        pieces[0] if dim is None else fb.cat(list(pieces), dim)
        for pieces, dim in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return tree_unflatten(joined, out_spec)
