"""Coalesced collectives: lists of tensors as one message, and calls collected by a context manager."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import Tensor
from flambeau.distributed._collectives import all_gather, inside
from flambeau.distributed._futures import future_of
from flambeau.distributed._group import member
from flambeau.distributed._staging import Staged, check_reduction, check_tensor, describe
from flambeau.distributed._types import Collected, ReduceOp
from flambeau.errors import ArgumentError

__all__ = ["all_gather_coalesced", "all_reduce_coalesced"]


def all_reduce_coalesced(
    tensors: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combines each tensor of a list over all processes, in place; those of one dtype travel together.

    Args:
        tensors: this process's tensors, and the results.
        op: the reduction.
        group: the default group if not given.
        async_op: whether to return a Future.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.all_reduce_coalesced([fb.ones(2), fb.ones(3)])
        >>> fb.distributed.destroy_process_group()
    """
    name = "all_reduce_coalesced"
    if not inside(name, group):
        return None
    works = reduce_together(_list(name, "tensors", tensors), op, group, async_op)
    return future_of(works, tensors) if async_op else None


def reduce_together(tensors: list[Tensor], op: ReduceOp, group: Any, async_op: bool) -> Collected:
    """all_reduce_coalesced() without a Future."""
    name, chosen = "all_reduce_coalesced", member(group, "all_reduce_coalesced")
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        check_reduction(name, tensor, op)
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    works = Collected()
    for (dtype, _), members in kinds.items():
        text, staged = describe(name, f"{len(members)} tensors", dtype, f"{sum(t.numel() for t in members)} elements", op), Staged()
        flats = [staged.write(t) for t in members]
        work = staged.run(chosen, text, _many(chosen, text, flats, op), members, async_op)
        if work is not None:
            works.append(work)
    return works


def _many(chosen: Any, text: str, flats: list[Tensor], op: ReduceOp) -> Callable[[], None]:
    return lambda: chosen._engine.all_reduce_many(text, flats, op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """Gathers each tensor of a list from all processes.

    Args:
        output_tensor_lists: for each process, tensors like input_tensor_list, written to.
        input_tensor_list: this process's tensors.
        group: the default group if not given.
        async_op: whether to return a Future.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> got = [[fb.zeros(2), fb.zeros(1)]]
        >>> fb.distributed.all_gather_coalesced(got, [fb.ones(2), fb.ones(1)])
        >>> got
        [[tensor([1., 1.]), tensor([1.])]]
        >>> fb.distributed.destroy_process_group()
    """
    name = "all_gather_coalesced"
    if not inside(name, group):
        return None
    ins, count = _list(name, "input_tensor_list", input_tensor_list), member(group, name).size()
    if len(output_tensor_lists) != count or any(len(outs) != len(ins) for outs in output_tensor_lists):
        raise ArgumentError(f"{name}: output_tensor_lists must have {count} lists of {len(ins)} tensors")
    work = None
    for i, tensor in enumerate(ins):
        work = all_gather([outs[i] for outs in output_tensor_lists], tensor, group, async_op)
    return future_of(work, output_tensor_lists) if async_op else None


def _list(op: str, which: str, values: Any) -> list[Tensor]:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{op}: expected a list of tensors for {which}, got {type(values).__name__}")
    return [check_tensor(op, which, value) for value in values]


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[Collected]:
    """Collects the calls made inside: they run one after another without waiting, and are complete at the end of the
    block, or with async_ops when wait() of the manager returns.
    """
    chosen = member(group, "_coalescing_manager")
    collected, before = Collected(), chosen._collected
    chosen._collected = collected
    try:
        yield collected
    finally:
        chosen._collected = before
    if not async_ops:
        collected.wait()
