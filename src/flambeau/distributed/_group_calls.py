"""The communication methods of PyTorch's process groups, whose names differ from the functions, and their options.

Every method starts the call and returns a Work.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.errors import ArgumentError

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions",
    "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]  # fmt: skip

_UNSET = datetime.timedelta(seconds=-1)  # the group's timeout


def _sum() -> Any:
    return dist.ReduceOp.SUM


@dataclasses.dataclass
class AllgatherOptions:
    """Options of ProcessGroup.allgather().

    Example:
        >>> fb.distributed.AllgatherOptions().asyncOp
        True
    """

    asyncOp: bool = True
    timeout: datetime.timedelta = _UNSET


@dataclasses.dataclass
class AllToAllOptions(AllgatherOptions):
    """Options of ProcessGroup.alltoall().

    Example:
        >>> fb.distributed.AllToAllOptions().asyncOp
        True
    """


@dataclasses.dataclass
class BarrierOptions(AllgatherOptions):
    """Options of ProcessGroup.barrier().

    Example:
        >>> fb.distributed.BarrierOptions().device_ids
        []
    """

    device_ids: list[int] = dataclasses.field(default_factory=list)
    device: Any = None


@dataclasses.dataclass
class AllreduceOptions(AllgatherOptions):
    """Options of ProcessGroup.allreduce().

    Example:
        >>> options = fb.distributed.AllreduceOptions()
        >>> options.reduceOp = fb.distributed.ReduceOp.MAX
        >>> options.reduceOp
        <ReduceOp.MAX>
    """

    reduceOp: Any = dataclasses.field(default_factory=_sum)


@dataclasses.dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of ProcessGroup.allreduce_coalesced().

    Example:
        >>> fb.distributed.AllreduceCoalescedOptions().reduceOp
        <ReduceOp.SUM>
    """


@dataclasses.dataclass
class ReduceScatterOptions(AllreduceOptions):
    """Options of ProcessGroup.reduce_scatter().

    Example:
        >>> fb.distributed.ReduceScatterOptions().reduceOp
        <ReduceOp.SUM>
    """


@dataclasses.dataclass
class GatherOptions(AllgatherOptions):
    """Options of ProcessGroup.gather().

    Example:
        >>> fb.distributed.GatherOptions().rootRank
        0
    """

    rootRank: int = 0


@dataclasses.dataclass
class ScatterOptions(GatherOptions):
    """Options of ProcessGroup.scatter().

    Example:
        >>> fb.distributed.ScatterOptions().rootRank
        0
    """


@dataclasses.dataclass
class BroadcastOptions(GatherOptions):
    """Options of ProcessGroup.broadcast().

    Example:
        >>> options = fb.distributed.BroadcastOptions()
        >>> options.rootRank = 1
        >>> options.rootRank
        1
    """

    rootTensor: int = 0


@dataclasses.dataclass
class ReduceOptions(BroadcastOptions):
    """Options of ProcessGroup.reduce().

    Example:
        >>> fb.distributed.ReduceOptions().reduceOp
        <ReduceOp.SUM>
    """

    reduceOp: Any = dataclasses.field(default_factory=_sum)


def _only(op: str, tensors: Any) -> Any:
    """The tensor of a list of one."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise ArgumentError(f"ProcessGroup.{op}: expected one tensor, or a list of one, got {len(tensors)}")
    return tensors[0]


def _reduction(options: Any) -> Any:
    return _sum() if options is None else getattr(options, "reduceOp", options)


def _root_of(options: Any) -> int:
    return 0 if options is None else int(getattr(options, "rootRank", options))


class GroupCalls:
    """The communication methods of a ProcessGroup. Roots are ranks of the group."""

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """all_reduce() of one tensor; opts are AllreduceOptions or a ReduceOp."""
        return dist.all_reduce(_only("allreduce", tensors), _reduction(opts), self, async_op=True)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """all_reduce_coalesced()."""
        from flambeau.distributed._together import reduce_together

        return reduce_together(tensors, _reduction(opts), self, async_op=True)

    def broadcast(self, tensors: Any, opts: Any = None, root: int | None = None) -> Any:
        """broadcast() of one tensor; opts are BroadcastOptions or the root."""
        source = _root_of(opts) if root is None else root
        return dist.broadcast(_only("broadcast", tensors), group=self, async_op=True, group_src=source)

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None) -> Any:
        """reduce() of one tensor; opts are ReduceOptions or the root."""
        how = op if op is not None else _reduction(opts if hasattr(opts, "reduceOp") else None)
        return dist.reduce(_only("reduce", tensors), op=how, group=self, async_op=True, group_dst=_root_of(opts))

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """all_gather() of one tensor."""
        outs = output_tensors if output_tensors and isinstance(output_tensors[0], Tensor) else _only("allgather", output_tensors)
        return dist.all_gather(outs, _only("allgather", input_tensors), self, async_op=True)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return dist.all_gather_into_tensor(output, input, self, async_op=True)

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """gather() of one tensor; opts are GatherOptions or the root."""
        outs = None if not output_tensors else output_tensors if isinstance(output_tensors[0], Tensor) else output_tensors[0]
        return dist.gather(_only("gather", input_tensors), outs, group=self, async_op=True, group_dst=_root_of(opts))

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """scatter() to one tensor; opts are ScatterOptions or the root."""
        ins = None if not input_tensors else input_tensors if isinstance(input_tensors[0], Tensor) else input_tensors[0]
        return dist.scatter(_only("scatter", output_tensors), ins, group=self, async_op=True, group_src=_root_of(opts))

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """reduce_scatter() to one tensor; opts are ReduceScatterOptions or a ReduceOp."""
        ins = input_tensors if isinstance(input_tensors[0], Tensor) else input_tensors[0]
        return dist.reduce_scatter(_only("reduce_scatter", output_tensors), ins, _reduction(opts), self, async_op=True)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return dist.reduce_scatter_tensor(output, input, _reduction(opts), self, async_op=True)

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> Any:
        """all_to_all()."""
        return dist.all_to_all(output_tensors, input_tensors, self, async_op=True)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, opts: Any = None
    ) -> Any:
        """all_to_all_single()."""
        return dist.all_to_all_single(output, input, output_split_sizes or None, input_split_sizes or None, self, async_op=True)

    def barrier(self, opts: Any = None) -> Any:
        """barrier()."""
        limit = getattr(opts, "timeout", _UNSET)
        return dist.barrier(self, async_op=True, timeout=None if limit == _UNSET else limit)

    def monitored_barrier(self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """monitored_barrier()."""
        dist.monitored_barrier(self, timeout, wait_all_ranks)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Any:
        """isend() of one tensor."""
        return dist.isend(_only("send", tensors), group=self, tag=tag, group_dst=dstRank)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Any:
        """irecv() to one tensor."""
        return dist.irecv(_only("recv", tensors), group=self, tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """irecv() to one tensor, from any rank."""
        return dist.irecv(_only("recv_anysource", tensors), group=self, tag=tag)
