"""Collectives: what every process of a group does together. All ranks make the same calls, in the same order.

Every function that takes `async_op` returns None, or with async_op=True a Work.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._group import member
from flambeau.distributed._staging import (
    Staged,
    agree,
    check_list,
    check_reduction,
    check_tensor,
    describe,
    equal_parts,
    ranged,
)
from flambeau.distributed._types import GroupMember, ReduceOp, Work
from flambeau.errors import ArgumentError

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "scatter",
]  # fmt: skip


def inside(op: str, group: Any) -> bool:
    """Whether this process is in the group; raises an error if there is no such group."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return False
    member(group, op)
    return True


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combines the tensors of all processes, in place.

    Args:
        tensor: this process's tensor, and the result.
        op: the reduction.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> x = fb.ones(2)
        >>> fb.distributed.all_reduce(x)
        >>> x
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("all_reduce", group):
        return None
    chosen = member(group, "all_reduce")
    check_reduction("all_reduce", check_tensor("all_reduce", "tensor", tensor), op)
    text, staged = describe("all_reduce", tensor, op), Staged()
    flat = staged.write(tensor)
    return staged.run(chosen, text, lambda: chosen._engine.all_reduce(text, flat, op), [tensor], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combines the tensors of all processes in one of them.

    Args:
        tensor: this process's tensor, and in dst the result.
        dst: the rank that gets it.
        op: the reduction.
        group: the default group if not given.
        async_op: whether to return a Work.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.reduce(fb.ones(2), dst=0)
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("reduce", group):
        return None
    chosen = member(group, "reduce")
    check_reduction("reduce", check_tensor("reduce", "tensor", tensor), op)
    root = chosen._root("reduce", "dst", dst, group_dst)
    text, staged = describe("reduce", tensor, op, f"dst {root}"), Staged()
    flat = staged.write(tensor) if chosen.rank() == root else staged.read(tensor)
    return staged.run(chosen, text, lambda: chosen._engine.reduce(text, flat, op, root), [tensor], async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Gives all processes the tensor of one, in place.

    Args:
        tensor: what is sent in src, and written to elsewhere.
        src: the rank that sends.
        group: the default group if not given.
        async_op: whether to return a Work.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.broadcast(fb.ones(2), src=0)
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("broadcast", group):
        return None
    chosen = member(group, "broadcast")
    check_tensor("broadcast", "tensor", tensor)
    root = chosen._root("broadcast", "src", src, group_src)
    text, staged = describe("broadcast", tensor, f"src {root}"), Staged()
    flat = staged.read(tensor) if chosen.rank() == root else staged.write(tensor, filled=False)
    return staged.run(chosen, text, lambda: chosen._engine.broadcast(text, flat, root), [tensor], async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Gathers the tensors of all processes in a list.

    Args:
        tensor_list: one tensor per process, written to.
        tensor: this process's tensor.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> parts = [fb.zeros(2)]
        >>> fb.distributed.all_gather(parts, fb.ones(2))
        >>> parts
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("all_gather", group):
        return None
    chosen = member(group, "all_gather")
    outs = check_list("all_gather", "tensor_list", tensor_list, chosen.size())
    agree("all_gather", outs[chosen.rank()], check_tensor("all_gather", "tensor", tensor))
    shapes = [tuple(out.shape) for out in outs]
    what = outs[0] if len(set(shapes)) == 1 else f"{outs[0].dtype} {shapes}"
    text, staged = describe("all_gather", what), Staged()
    flat, parts = staged.read(tensor), [staged.write(out, filled=False) for out in outs]
    return staged.run(chosen, text, lambda: chosen._engine.all_gather(text, parts, flat), list(outs), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Gathers the tensors of all processes in one tensor, along its first dimension.

    Args:
        output_tensor: written to.
        input_tensor: this process's tensor.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> whole = fb.zeros(2)
        >>> fb.distributed.all_gather_into_tensor(whole, fb.ones(2))
        >>> whole
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    op = "all_gather_into_tensor"
    if not inside(op, group):
        return None
    chosen = member(group, op)
    check_tensor(op, "output_tensor", output_tensor)
    check_tensor(op, "input_tensor", input_tensor)
    agree(op, output_tensor, input_tensor, input_tensor.numel() * chosen.size())
    text, staged = describe(op, input_tensor), Staged()
    flat = staged.read(input_tensor)
    parts = equal_parts(staged.write(output_tensor, filled=False), chosen.size())
    return staged.run(chosen, text, lambda: chosen._engine.all_gather(text, parts, flat), [output_tensor], async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gathers the tensors of all processes in a list of one of them.

    Args:
        tensor: this process's tensor.
        gather_list: one tensor per process, written to; None in all processes but dst.
        dst: the rank that gets them.
        group: the default group if not given.
        async_op: whether to return a Work.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> parts = [fb.zeros(2)]
        >>> fb.distributed.gather(fb.ones(2), parts, dst=0)
        >>> parts
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("gather", group):
        return None
    chosen = member(group, "gather")
    root = chosen._root("gather", "dst", dst, group_dst, default=0)
    check_tensor("gather", "tensor", tensor)
    text, staged, parts = describe("gather", tensor, f"dst {root}"), Staged(), None
    if chosen.rank() == root:
        outs = check_list("gather", "gather_list", gather_list, chosen.size())
        for out in outs:
            agree("gather", out, tensor)
        parts = [staged.write(out, filled=False) for out in outs]
    elif gather_list:
        raise ArgumentError("gather: gather_list must be None in all processes but dst")
    flat = staged.read(tensor)
    return staged.run(chosen, text, lambda: chosen._engine.gather(text, parts, flat, root), gather_list or [], async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives each process one tensor of a list that one of them has.

    Args:
        tensor: written to.
        scatter_list: one tensor per process; None in all processes but src.
        src: the rank that sends.
        group: the default group if not given.
        async_op: whether to return a Work.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine = fb.zeros(2)
        >>> fb.distributed.scatter(mine, [fb.ones(2)], src=0)
        >>> mine
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("scatter", group):
        return None
    chosen = member(group, "scatter")
    root = chosen._root("scatter", "src", src, group_src, default=0)
    check_tensor("scatter", "tensor", tensor)
    text, staged, parts = describe("scatter", tensor, f"src {root}"), Staged(), None
    if chosen.rank() == root:
        ins = check_list("scatter", "scatter_list", scatter_list, chosen.size())
        for part in ins:
            agree("scatter", tensor, part)
        parts = [staged.read(part) for part in ins]
    elif scatter_list:
        raise ArgumentError("scatter: scatter_list must be None in all processes but src")
    flat = staged.write(tensor, filled=False)
    return staged.run(chosen, text, lambda: chosen._engine.scatter(text, flat, parts, root), [tensor], async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combines lists of tensors over all processes; each gets one entry of the result.

    Args:
        output: written to.
        input_list: one tensor per process.
        op: the reduction.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine = fb.zeros(2)
        >>> fb.distributed.reduce_scatter(mine, [fb.ones(2)])
        >>> mine
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("reduce_scatter", group):
        return None
    chosen = member(group, "reduce_scatter")
    check_reduction("reduce_scatter", check_tensor("reduce_scatter", "output", output), op)
    ins = check_list("reduce_scatter", "input_list", input_list, chosen.size())
    agree("reduce_scatter", output, ins[chosen.rank()])
    shapes = [tuple(part.shape) for part in ins]
    what = output if len(set(shapes)) == 1 else f"{output.dtype} {shapes}"
    text, staged = describe("reduce_scatter", what, op), Staged()
    parts, flat = [staged.read(part) for part in ins], staged.write(output, filled=False)
    return staged.run(chosen, text, lambda: chosen._engine.reduce_scatter(text, flat, parts, op), [output], async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combines tensors over all processes; each gets one part along the first dimension.

    Args:
        output: written to.
        input: this process's tensor.
        op: the reduction.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine = fb.zeros(2)
        >>> fb.distributed.reduce_scatter_tensor(mine, fb.ones(2))
        >>> mine
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    name = "reduce_scatter_tensor"
    if not inside(name, group):
        return None
    chosen = member(group, name)
    check_reduction(name, check_tensor(name, "output", output), op)
    agree(name, check_tensor(name, "input", input), output, output.numel() * chosen.size())
    text, staged = describe(name, output, op), Staged()
    parts = equal_parts(staged.read(input), chosen.size())
    flat = staged.write(output, filled=False)
    return staged.run(chosen, text, lambda: chosen._engine.reduce_scatter(text, flat, parts, op), [output], async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Gives each process one tensor of the list of every other.

    Args:
        output_tensor_list: one tensor per process, written to.
        input_tensor_list: one tensor per process.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> got = [fb.zeros(2)]
        >>> fb.distributed.all_to_all(got, [fb.ones(2)])
        >>> got
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("all_to_all", group):
        return None
    chosen = member(group, "all_to_all")
    outs = check_list("all_to_all", "output_tensor_list", output_tensor_list, chosen.size())
    ins = check_list("all_to_all", "input_tensor_list", input_tensor_list, chosen.size())
    for part in (*outs, *ins):
        if part.dtype != outs[0].dtype:
            raise ArgumentError(f"all_to_all: all tensors must have one dtype, got {outs[0].dtype} and {part.dtype}")
    agree("all_to_all", outs[chosen.rank()], ins[chosen.rank()])
    text, staged = describe("all_to_all", outs[0].dtype), Staged()
    sent, got = [staged.read(part) for part in ins], [staged.write(part, filled=False) for part in outs]
    return staged.run(chosen, text, lambda: chosen._engine.all_to_all(text, got, sent), list(outs), async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Gives each process one part of the tensor of every other.

    Args:
        output: written to.
        input: this process's tensor, whose parts lie along the first dimension.
        output_split_sizes: the size of the part from each process; equal parts if not given.
        input_split_sizes: the size of the part for each process; equal parts if not given.
        group: the default group if not given.
        async_op: whether to return a Work.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> got = fb.zeros(2)
        >>> fb.distributed.all_to_all_single(got, fb.ones(2))
        >>> got
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    op = "all_to_all_single"
    if not inside(op, group):
        return None
    chosen = member(group, op)
    check_tensor(op, "output", output)
    check_tensor(op, "input", input)
    if output.dtype != input.dtype:
        raise ArgumentError(f"{op}: output and input must agree, got {output.dtype} and {input.dtype}")
    staged = Staged()
    got = _split(
        op, "output_split_sizes", output, staged.write(output, filled=False), output_split_sizes, chosen.size()
    )
    sent = _split(op, "input_split_sizes", input, staged.read(input), input_split_sizes, chosen.size())
    agree(op, got[chosen.rank()], sent[chosen.rank()])
    text = describe(op, output.dtype)
    return staged.run(chosen, text, lambda: chosen._engine.all_to_all(text, got, sent), [output], async_op)


def _split(op: str, which: str, tensor: Tensor, flat: Tensor, sizes: Sequence[int] | None, count: int) -> list[Tensor]:
    """The parts of a tensor along its first dimension."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not sizes:
        if rows % count:
            raise ArgumentError(
                f"{op}: the first dimension, {rows}, is not divisible by {count} processes; give {which}"
            )
        sizes = [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows or any(size < 0 for size in sizes):
        raise ArgumentError(
            f"{op}: {which} must sum to {rows}, the first dimension, over {count} processes, got {list(sizes)}"
        )
    width = flat.numel() // rows if rows else 0
    return list(flat.split([size * width for size in sizes]))


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: datetime.timedelta | None = None
) -> Work | None:
    """Waits until all processes are here.

    Args:
        group: the default group if not given.
        async_op: whether to return a Work.
        device_ids: accelerators whose work is waited for first.
        timeout: how long to wait.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.barrier()
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("barrier", group):
        return None
    chosen = member(group, "barrier")
    if device_ids is not None and fb.accelerator.is_available():
        fb.accelerator.synchronize()
    seconds = timeout.total_seconds() if timeout else None
    return chosen._run(ranged("barrier()", lambda: chosen._engine.barrier("barrier()", seconds)), [], async_op)


def monitored_barrier(
    group: Any = None, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits until all processes are here, and would name those that are not in time.

    Args:
        group: the default group if not given.
        timeout: how long to wait.
        wait_all_ranks: whether to name all of them.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.monitored_barrier()
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("monitored_barrier", group):
        return
    chosen = member(group, "monitored_barrier")
    seconds = (timeout or chosen._timeout).total_seconds()
    call = ranged("monitored_barrier()", lambda: chosen._engine.monitored_barrier(seconds, wait_all_ranks))
    chosen._run(call, [], False)


all_gather_single = all_gather_into_tensor  # as newer versions of PyTorch call them
reduce_scatter_single = reduce_scatter_tensor
