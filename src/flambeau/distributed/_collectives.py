"""Collectives: what every process of a group does together. With one process they check their arguments and copy.

Every function that takes `async_op` returns None, or with async_op=True a completed Work.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._group import check_rank, member
from flambeau.distributed._types import GroupMember, ReduceOp, Work
from flambeau.errors import ArgumentError

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "gather", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def inside(op: str, group: Any) -> bool:
    """Whether this process takes part; an error when there is no such group."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return False
    member(group, op)
    return True


def _tensor(op: str, which: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected a tensor for {which}, got {type(value).__name__}")
    return value


def single(op: str, which: str, values: Any) -> Any:
    """The only entry of a list with one entry per process."""
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        got = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise ArgumentError(f"{op}: {which} must be a list with one element per process, that is 1, got {got}")
    return values[0]


def _copy(op: str, target: Any, source: Any) -> Tensor:
    target, source = _tensor(op, "the output", target), _tensor(op, "the input", source)
    if target.dtype != source.dtype or target.numel() != source.numel():
        raise ArgumentError(
            f"{op}: output and input must agree, got {target.dtype} {tuple(target.shape)} and {source.dtype} "
            f"{tuple(source.shape)}"
        )
    with fb.no_grad():
        return target.copy_(source.reshape(target.shape))


def _check_op(name: str, tensor: Tensor, op: Any) -> None:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    if op.name in ("BAND", "BOR", "BXOR") and tensor.dtype.is_floating_point:
        raise ArgumentError(f"{name}: {op.name} needs an integer tensor, got {tensor.dtype}")


def _done(async_op: bool, result: Any) -> Work | None:
    return Work(result) if async_op else None


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
    _check_op("all_reduce", _tensor("all_reduce", "tensor", tensor), op)
    return _done(async_op, [tensor])


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
    _check_op("reduce", _tensor("reduce", "tensor", tensor), op)
    check_rank("reduce", "dst", dst)
    check_rank("reduce", "group_dst", group_dst)
    return _done(async_op, [tensor])


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
    _tensor("broadcast", "tensor", tensor)
    check_rank("broadcast", "src", src)
    check_rank("broadcast", "group_src", group_src)
    return _done(async_op, [tensor])


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
    _copy("all_gather", single("all_gather", "tensor_list", tensor_list), tensor)
    return _done(async_op, [tensor_list])


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
    if not inside("all_gather_into_tensor", group):
        return None
    return _done(async_op, [_copy("all_gather_into_tensor", output_tensor, input_tensor)])


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
    check_rank("gather", "dst", dst)
    check_rank("gather", "group_dst", group_dst)
    _copy("gather", single("gather", "gather_list", gather_list), tensor)
    return _done(async_op, [gather_list])


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
    check_rank("scatter", "src", src)
    check_rank("scatter", "group_src", group_src)
    return _done(async_op, [_copy("scatter", tensor, single("scatter", "scatter_list", scatter_list))])


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
    _check_op("reduce_scatter", _tensor("reduce_scatter", "output", output), op)
    return _done(async_op, [_copy("reduce_scatter", output, single("reduce_scatter", "input_list", input_list))])


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
    if not inside("reduce_scatter_tensor", group):
        return None
    _check_op("reduce_scatter_tensor", _tensor("reduce_scatter_tensor", "output", output), op)
    return _done(async_op, [_copy("reduce_scatter_tensor", output, input)])


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
    target = single("all_to_all", "output_tensor_list", output_tensor_list)
    _copy("all_to_all", target, single("all_to_all", "input_tensor_list", input_tensor_list))
    return _done(async_op, [output_tensor_list])


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
    for which, sizes, tensor in (
        ("output_split_sizes", output_split_sizes, output),
        ("input_split_sizes", input_split_sizes, input),
    ):
        if sizes and single(op, which, list(sizes)) != _tensor(op, "a tensor", tensor).size(0):
            raise ArgumentError(f"{op}: {which} must sum to {tensor.size(0)}, the first dimension, got {list(sizes)}")
    return _done(async_op, [_copy(op, output, input)])


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: datetime.timedelta | None = None
) -> Work | None:
    """Waits until all processes are here.

    Args:
        group: the default group if not given.
        async_op: whether to return a Work.
        device_ids: accelerators to wait on; there are none, so None.
        timeout: how long to wait.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.barrier()
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("barrier", group):
        return None
    if device_ids is not None:
        raise ArgumentError(
            f"barrier: device_ids name accelerators, and there are none; leave it at None, got {device_ids}"
        )
    return _done(async_op, [])


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
    inside("monitored_barrier", group)
