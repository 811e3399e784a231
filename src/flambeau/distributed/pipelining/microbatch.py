"""Cutting a batch into parts, and putting results of parts together.

Example:
    >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> args, kwargs = split_args_kwargs_into_chunks((fb.arange(4),), {"scale": 2}, 2)
    >>> args, kwargs
    ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'scale': 2}, {'scale': 2}])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]
__dir__ = __all__.copy


class TensorChunkSpec:
    """Along which dimension a tensor is cut.

    Args:
        split_dim: the dimension.

    Example:
        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec(1), TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(1), (TensorChunkSpec(0), TensorChunkSpec(1)))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: Sequence[int]) -> tuple[TensorChunkSpec, ...]:
        """One for each dimension.

        Args:
            chunk_dims: the dimensions.
        """
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each dimension, by name.

        Args:
            chunk_dims: the dimensions.
        """
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """Marks an argument that every part gets as a whole."""


class _CustomReducer:
    """Combines results of parts by a function, starting from a value."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


def _pieces(value: Any, spec: Any, count: int) -> list[Any]:
    """One value for each part."""
    leaves, structure = tree_flatten(value)
    found: list[list[Any]] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor) or isinstance(spec, _Replicate) or spec is _Replicate:
            found.append([leaf] * count)
            continue
        dim = 0 if spec is None else spec.split_dim
        if leaf.ndim == 0:
            found.append([leaf] * count)
            continue
        if leaf.shape[dim] < count:
            raise ArgumentError(f"pipelining: a tensor of shape {tuple(leaf.shape)} cannot be cut into {count} microbatches along {dim}")
        found.append(list(leaf.tensor_split(count, dim)))
    return [tree_unflatten([parts[i] for parts in found], structure) for i in range(count)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int,
    args_chunk_spec: Sequence[Any] | None = None, kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The arguments of each part: tensors are cut, all else is given to all.

    Args:
        args: positional arguments.
        kwargs: arguments by name.
        chunks: number of parts.
        args_chunk_spec: a TensorChunkSpec for each of args; dimension 0 if not given.
        kwargs_chunk_spec: a TensorChunkSpec for some of kwargs.

    Example:
        >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
        >>> split_args_kwargs_into_chunks((fb.zeros(2),), None, 2)[0]
        [(tensor([0.]),), (tensor([0.]),)]
    """
    kwargs = kwargs or {}
    specs = list(args_chunk_spec) if args_chunk_spec is not None else [None] * len(args)
    if len(specs) != len(args):
        raise ArgumentError(f"pipelining: args_chunk_spec has {len(specs)} entries for {len(args)} arguments")
    cut = [_pieces(value, spec, chunks) for value, spec in zip(args, specs, strict=True)]
    named = {key: _pieces(value, (kwargs_chunk_spec or {}).get(key), chunks) for key, value in kwargs.items()}
    return (
        [tuple(parts[i] for parts in cut) for i in range(chunks)],
        [{key: parts[i] for key, parts in named.items()} for i in range(chunks)],
    )


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """The results of all parts as one: tensors one after another; of other values, the first.

    Args:
        chunks: the results.
        chunk_spec: a TensorChunkSpec, or one for each result of a tuple; dimension 0 if not given.

    Example:
        >>> from flambeau.distributed.pipelining.microbatch import merge_chunks
        >>> merge_chunks([fb.zeros(1), fb.ones(1)])
        tensor([0., 1.])
    """
    flat = [tree_flatten(chunk) for chunk in chunks]
    structure, count = flat[0][1], len(flat[0][0])
    specs = tree_flatten(chunk_spec)[0] if chunk_spec is not None else [None] * count
    if len(specs) == 1:
        specs = specs * count
    if len(specs) != count:
        raise ArgumentError(f"pipelining: output_merge_spec has {len(specs)} entries for {count} results")
    merged = []
    for i, spec in enumerate(specs):
        values = [leaves[i] for leaves, _ in flat]
        if isinstance(spec, _CustomReducer):
            total = spec.init_value
            for value in values:
                total = spec.reduce_fn(total, value)
            merged.append(total)
        elif isinstance(values[0], Tensor):
            merged.append(fb.cat([v.reshape(1) if v.ndim == 0 else v for v in values], dim=0 if spec is None else spec.split_dim))
        else:
            merged.append(values[0])
    return tree_unflatten(merged, structure)
