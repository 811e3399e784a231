"""Collectives as functions: they return new tensors, and gradients flow through them to the processes the values came
from.

All processes make the same calls, in forward and so in backward. Received values that a process does not use have
gradient zero there. Backward passes may be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.autograd.function import Function
from flambeau.distributed._types import ReduceOp
from flambeau.errors import ArgumentError

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip
__dir__ = __all__.copy


def _sum_only(name: str, op: ReduceOp) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ArgumentError(f"{name}: gradients flow through SUM and AVG only, got {op.name}; use fb.distributed.{name} without them")


# ---- one tensor ----------------------------------------------------------------------------------------------------


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: Any, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = tensor.clone(memory_format=fb.contiguous_format)
        dist.broadcast(out, src, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, total if dist.get_rank() == ctx.src else fb.zeros_like(total)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        out = tensor.clone(memory_format=fb.contiguous_format)
        dist.reduce(out, dst, op=op, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        share = grad / dist.get_world_size(ctx.group) if ctx.op == ReduceOp.AVG else grad
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, share)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        out = tensor.clone(memory_format=fb.contiguous_format)
        dist.all_reduce(out, op=op, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


# ---- one tensor and a list -------------------------------------------------------------------------------------------


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        mine = tensor.contiguous()
        outs = [fb.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(outs, mine, group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, fb.empty_like(grads[0]), *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, out: Any, *tensors: Any) -> Any:
        ctx.op, ctx.group = op, group
        result = fb.empty_like(out)
        dist.reduce_scatter(result, [t.contiguous() for t in tensors], op=op, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        share = grad / dist.get_world_size(ctx.group) if ctx.op == ReduceOp.AVG else grad
        return (None, None, None, *_AllGather.apply(ctx.group, share))


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        outs = [fb.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.gather(tensor.contiguous(), outs if dist.get_rank() == dst else None, dst=dst, group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: Any, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        out = fb.zeros_like(tensors[0])
        dist.scatter(out, [t.contiguous() for t in tensors] if dist.get_rank() == src else None, src=src, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, *_Gather.apply(ctx.src, ctx.group, grad))


# ---- lists of tensors ------------------------------------------------------------------------------------------------


class _AllToAll(Function):
    """Exchanges tensors for all processes with tensors from all; `shapes` are those of the results."""

    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Any, *tensors: Any) -> Any:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        outs = [tensors[0].new_empty(shape) for shape in shapes]
        dist.all_to_all(outs, [t.contiguous() for t in tensors], group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads))


# ---- functions -------------------------------------------------------------------------------------------------------


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """One process's tensor, in all.

    Args:
        tensor: what is sent in src; elsewhere a tensor of the same shape and dtype.
        src: the rank that sends. It gets the sum of all gradients, the others zeros.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.broadcast(fb.ones(2), 0)
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in one of them; zeros in the others.

    Args:
        tensor: this process's tensor.
        dst: the rank that gets them.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.gather(fb.ones(2))
        (tensor([1., 1.]),)
        >>> fb.distributed.destroy_process_group()
    """
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One of the tensors that one process has.

    Args:
        tensors: one tensor per process, all of one shape; those of src are sent.
        src: the rank that sends.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.scatter([fb.ones(2)])
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors, in one of them; the others get their own back.

    Args:
        tensor: this process's tensor.
        dst: the rank that gets the sum, and whose gradient all get.
        op: SUM or AVG.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.reduce(fb.ones(2), 0)
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _sum_only("reduce", op)
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:  # fmt: skip
    """Sums lists of tensors over all processes; each gets one entry of the result.

    Args:
        output: a tensor like the result.
        input_list: one tensor per process.
        op: SUM or AVG.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.reduce_scatter(fb.empty(2), [fb.ones(2)])
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _sum_only("reduce_scatter", op)
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in all of them; each gets the sum of the gradients of its own.

    Args:
        tensor: this process's tensor, of the same shape everywhere.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.all_gather(fb.ones(2))
        (tensor([1., 1.]),)
        >>> fb.distributed.destroy_process_group()
    """
    return _AllGather.apply(group, tensor)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None) -> Tensor:
    """The tensors of all processes, along the first dimension of one."""
    return fb.cat(all_gather(input_tensor, group)).view(output_tensor.shape)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Gives each process one tensor of every other.

    Args:
        output_tensor_list: tensors like the results.
        input_tensor_list: one tensor per process.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.all_to_all([fb.empty(2)], [fb.ones(2)])
        (tensor([1., 1.]),)
        >>> fb.distributed.destroy_process_group()
    """
    return _AllToAll.apply(group, [out.shape for out in output_tensor_list], *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """Gives each process one part of the tensor of every other, along the first dimension.

    Args:
        output: a tensor like the result.
        input: this process's tensor.
        output_split_sizes: sizes of the parts from each process; equal parts if not given.
        input_split_sizes: sizes of the parts for each process; equal parts if not given.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.all_to_all_single(fb.empty(2), fb.ones(2))
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    count = dist.get_world_size(group)
    give = _sizes("input_split_sizes", input, input_split_sizes, count)
    take = _sizes("output_split_sizes", output, output_split_sizes, count)
    rest = list(output.shape[1:])
    return fb.cat(_AllToAll.apply(group, [[size, *rest] for size in take], *input.split(give)))


def _sizes(which: str, tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    rows = tensor.shape[0]
    if not sizes:
        if rows % count:
            raise ArgumentError(f"all_to_all_single: the first dimension, {rows}, is not divisible by {count} processes; give {which}")
        return [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise ArgumentError(
            f"all_to_all_single: {which} must sum to {rows}, the first dimension, over {count} processes, got {list(sizes)}"
        )
    return list(sizes)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors; gradients are summed likewise.

    Args:
        tensor: this process's tensor.
        op: SUM or AVG.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.nn.functional.all_reduce(fb.ones(2))
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _sum_only("all_reduce", op)
    return _AllReduce.apply(op, group, tensor)
