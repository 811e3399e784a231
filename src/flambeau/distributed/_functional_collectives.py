"""Collectives that return new tensors, under the names used by tensor-parallel code.

A result is complete when it is returned, so wait_tensor() returns it unchanged. Groups are process groups, meshes of
one dimension, pairs of a mesh and a dimension, or lists of ranks. Gradients flow through all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.nn import functional as differentiable
from flambeau.errors import ArgumentError

_of_ranks: dict[tuple[int, ...], Any] = {}


class AsyncCollectiveTensor(Tensor):
    """A pending result. No function here returns one; the class is for isinstance()."""


def resolve(group: Any) -> Any:
    """The process group for an argument."""
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, str):
        from flambeau.distributed._types import World

        for known in World.groups:
            if known.group_name == group:
                return known
        raise ArgumentError(f"there is no process group named {group!r}")
    if isinstance(group, (list, tuple)):
        if group and isinstance(group[0], (list, tuple)):
            found = [resolve(list(ranks)) for ranks in group]
            return next((g for g in found if g != dist.GroupMember.NON_GROUP_MEMBER), found[0])
        key = tuple(group)
        if key == tuple(range(dist.get_world_size())):
            return dist.group.WORLD
        held = _of_ranks.get(key)
        if held is None or held not in _groups():  # of an earlier default group
            held = _of_ranks[key] = dist.new_group(list(group), use_local_synchronization=True, sort_ranks=False)
        return held
    return group


def _groups() -> list[Any]:
    from flambeau.distributed._types import World

    return [*World.groups, dist.GroupMember.NON_GROUP_MEMBER]


def _op(name: Any) -> Any:
    if isinstance(name, dist.ReduceOp):
        return name
    found = getattr(dist.ReduceOp, str(name).upper(), None)
    if found is None:
        raise ArgumentError(f"expected a reduction such as 'sum' or 'avg', got {name!r}")
    return found


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor unchanged, since it is complete already."""
    return tensor


def all_reduce(self: Tensor, reduceOp: Any, group: Any, tag: str = "") -> Tensor:
    """The reduction of all processes' tensors."""
    op, chosen = _op(reduceOp), resolve(group)
    if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        return differentiable.all_reduce(self, op, chosen)
    _no_gradient("all_reduce", op, self)
    out = self.clone(memory_format=fb.contiguous_format)
    dist.all_reduce(out, op, chosen)
    return out


def _no_gradient(name: str, op: Any, *tensors: Tensor) -> None:
    if fb.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ArgumentError(f"{name}: gradients flow through sum and avg only, got {op.name}; pass x.detach()")


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """One process's tensor."""
    return differentiable.broadcast(self, src, resolve(group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, along a dimension."""
    return fb.cat(differentiable.all_gather(self, resolve(group)), dim=gather_dim)


def reduce_scatter_tensor(self: Tensor, reduceOp: Any, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """This process's part, along a dimension, of the reduction of all processes' tensors."""
    op, chosen = _op(reduceOp), resolve(group)
    count = dist.get_world_size(chosen)
    if self.shape[scatter_dim] % count:
        raise ArgumentError(
            f"reduce_scatter_tensor: input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size {count}"
        )
    parts = [part.contiguous() for part in self.chunk(count, dim=scatter_dim)]
    if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        return differentiable.reduce_scatter(parts[0], parts, op, chosen)
    _no_gradient("reduce_scatter_tensor", op, self)
    out = fb.empty_like(parts[0])
    dist.reduce_scatter(out, parts, op, chosen)
    return out


def all_to_all_single(
    self: Tensor, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None, group: Any, tag: str = ""
) -> Tensor:
    """The parts that all processes have for this one, along the first dimension."""
    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    out = self.new_empty(rows, *self.shape[1:])
    return differentiable.all_to_all_single(out, self, output_split_sizes, input_split_sizes, resolve(group))


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of another process: rank i sends to rank src_dst[i]; ranks that receive nothing get zeros."""
    chosen = resolve(group)
    count, rank = dist.get_world_size(chosen), dist.get_rank(chosen)
    give, take = [0] * count, [0] * count
    for src, dst in enumerate(src_dst):
        if src == rank:
            give[dst] = self.numel()
        if dst == rank:
            take[src] = self.numel()
    out = all_to_all_single(self.reshape(-1), take, give, chosen)
    return out.view(self.shape) if out.numel() else fb.zeros_like(self)


# ---- several tensors -------------------------------------------------------------------------------------------------


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: Any, group: Any, tag: str = "") -> list[Tensor]:
    """all_reduce() of each tensor."""
    return [all_reduce(t, reduceOp, group) for t in self]


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """all_gather_tensor() of each tensor along its first dimension."""
    return [all_gather_tensor(t, 0, group) for t in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: Any, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """reduce_scatter_tensor() of each tensor."""
    return [reduce_scatter_tensor(t, reduceOp, dim, group) for t, dim in zip(inputs, scatter_dim, strict=True)]


# ---- with given results ----------------------------------------------------------------------------------------------


def all_reduce_inplace(tensor: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, tag: str = "") -> Tensor:
    """Combines the tensors of all processes, in place."""
    return _now("all_reduce_inplace", async_op, tensor.copy_(all_reduce(tensor, op, group)))


def all_gather_tensor_inplace(
    output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False, tag: str = "", gather_dim: int = 0
) -> Tensor:
    """Writes the tensors of all processes to a tensor."""
    return _now("all_gather_tensor_inplace", async_op, output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group)))


def reduce_scatter_tensor_inplace(
    output: Tensor, input: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, scatter_dim: int = 0, tag: str = ""
) -> Tensor:
    """Writes this process's part of the reduction to a tensor."""
    return _now("reduce_scatter_tensor_inplace", async_op, output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group)))


def all_gather_inplace(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = ""
) -> list[Tensor]:
    """Writes the tensors of all processes to a list."""
    dist.all_gather(tensor_list, tensor, resolve(group))
    return _now("all_gather_inplace", async_op, tensor_list)


def all_to_all_inplace(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None,
    async_op: bool = False, tag: str = "",
) -> Tensor:  # fmt: skip
    """Writes the parts for this process to a tensor."""
    dist.all_to_all_single(output, input, output_split_sizes, input_split_sizes, resolve(group))
    return _now("all_to_all_inplace", async_op, output)


def _now(name: str, async_op: bool, result: Any) -> Any:
    if async_op:
        raise ArgumentError(f"{name}: async_op=True is not possible here; use the function of fb.distributed")
    return result
