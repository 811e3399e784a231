"""Placements of a tensor on a dimension of a mesh: sharded, replicated, or partial terms of a sum."""

from __future__ import annotations

from typing import Any

from flambeau.errors import ArgumentError

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
__dir__ = __all__.copy


class Placement:
    """The base class of placements.

    Example:
        >>> from flambeau.distributed.tensor import Placement, Shard
        >>> isinstance(Shard(0), Placement), Shard(0) == Shard(0)
        (True, True)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether this is a Shard, of dimension `dim` if given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether this is Replicate."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether this is Partial, with `reduce_op` if given."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)

    def _key(self) -> tuple[Any, ...]:
        return (type(self).__name__, *vars(self).values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Shard(Placement):
    """Each process has a piece: piece i of those that chunk() along `dim` gives, possibly an empty one.

    Args:
        dim: the dimension that is cut.

    Example:
        >>> from flambeau.distributed.tensor import Shard
        >>> Shard(1)
        Shard(dim=1)
    """

    def __init__(self, dim: int) -> None:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise TypeError(f"Shard: dim must be an int, got {type(dim).__name__}")
        self.dim = dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


class Replicate(Placement):
    """Each process has the whole tensor.

    Example:
        >>> from flambeau.distributed.tensor import Replicate
        >>> Replicate()
        Replicate()
    """

    def __repr__(self) -> str:
        return "Replicate()"


class Partial(Placement):
    """Each process has a term of the tensor's shape; the tensor is their sum, mean, product, maximum or minimum.

    Args:
        reduce_op: "sum", "avg", "product", "max" or "min".

    Example:
        >>> from flambeau.distributed.tensor import Partial
        >>> Partial()
        Partial(sum)
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in ("sum", "avg", "product", "max", "min"):
            raise ArgumentError(f"Partial: reduce_op must be sum, avg, product, max or min, got {reduce_op!r}")
        self.reduce_op = reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


def piece(size: int, count: int, index: int) -> tuple[int, int]:
    """Start and length of piece `index` of `count`, split like chunk() of a dimension of `size`."""
    length = -(-size // count)
    start = min(index * length, size)
    return start, min(length, size - start)
