"""Redistribution: the collectives between placements, and their gradients.

Note [Placements of gradients]
The gradient of a Replicate tensor is the same everywhere, that of a Shard is sharded the same way, and that of a
Partial tensor is the same everywhere, as each term counts fully in the sum. All backward passes below follow from these
three rules: gathering in forward is splitting in backward, summing becomes the identity, and a Replicate tensor that is
combined with a Shard, so that each process uses it for its own piece only, has its gradients summed (`sum_gradient`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.autograd.function import Function
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, piece
from flambeau.errors import StateError

Map = Callable[[Tensor], Tensor]


class _Exchange(Function):
    """A collective and its adjoint for gradients; both may be differentiated again."""

    @staticmethod
    def forward(ctx: Any, local: Any, there: Any, back: Any) -> Any:
        ctx.there, ctx.back = there, back
        return there(local)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _Exchange.apply(grad, ctx.back, ctx.there), None, None


def exchange(local: Tensor, there: Map, back: Map) -> Tensor:
    return _Exchange.apply(local, there, back)


def _same(t: Tensor) -> Tensor:
    return t.view_as(t)


# ---- collectives as functions ------------------------------------------------------------------------------------------


def _cut(t: Tensor, dim: int, group: Any) -> Tensor:
    start, length = piece(t.shape[dim], dist.get_world_size(group), dist.get_rank(group))
    return t.narrow(dim, start, length).clone()


def _gathered(t: Tensor, dim: int, size: int, group: Any) -> Tensor:
    """All pieces of a dimension that has `size` in the whole."""
    count = dist.get_world_size(group)
    longest = -(-size // count)
    moved = t.movedim(dim, 0)
    if t.shape[dim] < longest:
        moved = fb.cat([moved, moved.new_zeros(longest - t.shape[dim], *moved.shape[1:])])
    whole = moved.new_empty(longest * count, *moved.shape[1:])
    dist.all_gather_into_tensor(whole, moved.contiguous(), group=group)
    return whole[:size].movedim(0, dim).contiguous()


def _reduced(t: Tensor, op: str, group: Any) -> Tensor:
    t = t.clone(memory_format=fb.contiguous_format)
    dist.all_reduce(t, op=getattr(dist.ReduceOp, op.upper()), group=group)
    return t


def _reduce_scattered(t: Tensor, dim: int, op: str, group: Any) -> Tensor:
    count, rank, size = dist.get_world_size(group), dist.get_rank(group), t.shape[dim]
    longest, (_, length) = -(-size // count), piece(size, count, rank)
    moved = t.movedim(dim, 0)
    if size < longest * count:
        moved = fb.cat([moved, moved.new_zeros(longest * count - size, *moved.shape[1:])])
    mine = moved.new_empty(longest, *moved.shape[1:])
    dist.reduce_scatter_tensor(mine, moved.contiguous(), op=getattr(dist.ReduceOp, op.upper()), group=group)
    return mine[:length].movedim(0, dim).contiguous()


def _recut(t: Tensor, old: int, new: int, old_size: int, group: Any) -> Tensor:
    """Converts pieces along one dimension to pieces along another."""
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    parts = [t.narrow(new, *piece(t.shape[new], count, r)).contiguous() for r in range(count)]
    mine = list(parts[rank].shape)
    got = []
    for r in range(count):
        shape = mine.copy()
        shape[old] = piece(old_size, count, r)[1]
        got.append(t.new_empty(shape))
    dist.all_to_all(got, parts, group=group)
    return fb.cat(got, dim=old)


def sum_gradient(local: Tensor, group: Any) -> Tensor:
    """The same tensor; the gradients of all processes are added. See Note [Placements of gradients]."""
    return exchange(local, _same, lambda g: _reduced(g, "sum", group))


# ---- one dimension of a mesh -------------------------------------------------------------------------------------------


def _to_replicate(local: Tensor, old: Placement, size: int, group: Any) -> Tensor:
    if isinstance(old, Shard):
        dim = old.dim
        return exchange(local, lambda t: _gathered(t, dim, size, group), lambda g: _cut(g, dim, group))
    if isinstance(old, Partial):
        op = old.reduce_op
        count = dist.get_world_size(group)
        back = {"sum": _same, "avg": lambda g: g / count}.get(op, lambda g: _no_gradient(op))
        return exchange(local, lambda t: _reduced(t, op, group), back)
    return local


def _no_gradient(op: str) -> Tensor:
    raise StateError(f"backward: a Partial({op}) tensor has no gradient; redistribute it under no_grad()")


def _from_replicate(local: Tensor, new: Placement, group: Any) -> Tensor:
    if isinstance(new, Shard):
        dim, size = new.dim, local.shape[new.dim]
        return exchange(local, lambda t: _cut(t, dim, group), lambda g: _gathered(g, dim, size, group))
    if isinstance(new, Partial) and new.reduce_op == "sum":
        first = dist.get_rank(group) == 0
        return exchange(local, _same if first else fb.zeros_like, _same)
    return local  # the mean, maximum or minimum of equal terms


def _convert(local: Tensor, old: Placement, new: Placement, size: int, group: Any) -> Tensor:
    """`size` is that of the dimension sharded by `old`, before sharding."""
    if old == new:
        return local
    if isinstance(old, Shard) and isinstance(new, Shard):
        a, b, new_size = old.dim, new.dim, local.shape[new.dim]
        return exchange(local, lambda t: _recut(t, a, b, size, group), lambda g: _recut(g, b, a, new_size, group))
    if isinstance(old, Partial) and isinstance(new, Shard) and old.reduce_op in ("sum", "avg"):
        dim, whole, op = new.dim, local.shape[new.dim], old.reduce_op
        scale = dist.get_world_size(group) if op == "avg" else 1
        return exchange(
            local, lambda t: _reduce_scattered(t, dim, op, group), lambda g: _gathered(g, dim, whole, group).div_(scale)
        )
    return _from_replicate(_to_replicate(local, old, size, group), new, group)


# ---- meshes ------------------------------------------------------------------------------------------------------------


def local_part(
    shape: Sequence[int], mesh: Any, placements: Sequence[Placement], at: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and offset of the piece of the process at some coordinates; of this process by default."""
    sizes, offsets = list(shape), [0] * len(shape)
    coordinate = mesh.get_coordinate() if at is None else at
    if coordinate is None:
        return (0,), (0,)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            start, length = piece(sizes[placement.dim], mesh.size(mesh_dim), coordinate[mesh_dim])
            offsets[placement.dim] += start
            sizes[placement.dim] = length
    return tuple(sizes), tuple(offsets)


def redistribute_local(
    local: Tensor, shape: Sequence[int], mesh: Any, old: Sequence[Placement], new: Sequence[Placement]
) -> Tensor:
    """The local piece under other placements of the same mesh."""
    if tuple(old) == tuple(new):
        return local
    groups = [mesh.get_group(d) for d in range(mesh.ndim)]
    cuts = [p.dim for ps in (old, new) for p in set(ps) if isinstance(p, Shard)]
    nested = any(sum(p == Shard(d) for p in ps) > 1 for ps in (old, new) for d in cuts)
    # If two dimensions of the mesh shard the same dimension, or one of them changes, the outer sharding is undone last.
    moves = sum(a != b and isinstance(a, Shard) | isinstance(b, Shard) for a, b in zip(old, new, strict=True))
    if not nested and moves <= 1:
        for d, (a, b) in enumerate(zip(old, new, strict=True)):
            size = _size_before(shape, mesh, old, d) if isinstance(a, Shard) else 0
            local = _convert(local, a, b, size, groups[d])
        return local
    for d in reversed(range(mesh.ndim)):
        if isinstance(old[d], Shard) or old[d] != new[d]:
            local = _to_replicate(local, old[d], _size_before(shape, mesh, old, d), groups[d])
    for d in range(mesh.ndim):
        if isinstance(new[d], Shard) or old[d] != new[d]:
            local = _from_replicate(local, new[d], groups[d])
    return local


def _size_before(shape: Sequence[int], mesh: Any, placements: Sequence[Placement], mesh_dim: int) -> int:
    """Size of the dimension that a mesh dimension shards, before it does."""
    placement = placements[mesh_dim]
    if not isinstance(placement, Shard):
        return 0
    before = [p if d < mesh_dim else Replicate() for d, p in enumerate(placements)]
    return local_part(shape, mesh, before)[0][placement.dim]
