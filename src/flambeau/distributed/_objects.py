"""Collectives of picklable objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._collectives import all_gather, all_to_all, broadcast, inside, scatter
from flambeau.distributed._engine import raw
from flambeau.distributed._group import member
from flambeau.distributed._p2p import recv, send
from flambeau.errors import ArgumentError

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
    "send_object_list",
]  # fmt: skip


# ---- objects -------------------------------------------------------------------------------------------------------


def _pickled(value: Any) -> Tensor:
    return fb.frombuffer(bytearray(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)), dtype=fb.uint8)


def _unpickled(message: Tensor) -> Any:
    return pickle.loads(raw(message))


def _places(op: str, which: str, values: Any, size: int) -> None:
    if not isinstance(values, (list, tuple)) or len(values) != size:
        got = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise ArgumentError(f"{op}: {which} must be a list with one element per process, that is {size}, got {got}")


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Gathers picklable objects of all processes in a list.

    Args:
        object_list: one place per process, written to.
        obj: this process's object.
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> objects = [None]
        >>> fb.distributed.all_gather_object(objects, {"loss": 0.5})
        >>> objects
        [{'loss': 0.5}]
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("all_gather_object", group):
        return
    chosen = member(group, "all_gather_object")
    _places("all_gather_object", "object_list", object_list, chosen.size())
    if chosen.size() == 1:
        object_list[0] = copy.deepcopy(obj)
        return
    mine = _pickled(obj)
    sizes = [fb.zeros(1, dtype=fb.int64) for _ in range(chosen.size())]
    all_gather(sizes, fb.tensor([mine.numel()]), chosen)
    parts = [fb.empty(int(size), dtype=fb.uint8) for size in sizes]
    all_gather(parts, mine, chosen)
    object_list[:] = [_unpickled(part) for part in parts]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Gathers picklable objects of all processes in a list of one of them.

    Args:
        obj: this process's object.
        object_gather_list: one place per process, written to; None in all processes but dst.
        dst: the rank that gets them.
        group: the default group if not given.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> objects = [None]
        >>> fb.distributed.gather_object("mine", objects)
        >>> objects
        ['mine']
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("gather_object", group):
        return
    chosen = member(group, "gather_object")
    root = chosen._root("gather_object", "dst", dst, group_dst, default=0)
    if chosen.rank() == root:
        _places("gather_object", "object_gather_list", object_gather_list, chosen.size())
    elif object_gather_list:
        raise ArgumentError("gather_object: object_gather_list must be None in all processes but dst")
    if chosen.size() == 1:
        assert object_gather_list is not None
        object_gather_list[0] = copy.deepcopy(obj)
        return
    mine = _pickled(obj)
    sizes = [fb.zeros(1, dtype=fb.int64) for _ in range(chosen.size())]
    all_gather(sizes, fb.tensor([mine.numel()]), chosen)
    # The tensors of a gather have equal sizes, so the parts are sent by all_to_all; only the root receives any.
    is_root = chosen.rank() == root
    none = fb.empty(0, dtype=fb.uint8)
    parts = [fb.empty(int(size), dtype=fb.uint8) if is_root else none.clone() for size in sizes]
    all_to_all(parts, [mine if rank == root else none for rank in range(chosen.size())], chosen)
    if object_gather_list is not None and is_root:
        object_gather_list[:] = [_unpickled(part) for part in parts]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Gives all processes the picklable objects of one, in place.

    Args:
        object_list: what is sent in src, and written to elsewhere.
        src: the rank that sends.
        group: the default group if not given.
        device: where messages are put together: the CPU.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.broadcast_object_list(["mine"], src=0)
        >>> fb.distributed.destroy_process_group()
    """
    if not inside("broadcast_object_list", group):
        return
    chosen = member(group, "broadcast_object_list")
    root = chosen._root("broadcast_object_list", "src", src, group_src, default=0)
    if not isinstance(object_list, list):
        raise TypeError(f"broadcast_object_list: object_list must be a list, got {type(object_list).__name__}")
    if chosen.size() == 1:
        return
    mine = _pickled(object_list) if chosen.rank() == root else None
    size = fb.tensor([mine.numel() if mine is not None else 0, len(object_list)])
    broadcast(size, group=chosen, group_src=root)
    if int(size[1]) != len(object_list):
        # Read at the end, so that all ranks stay in step.
        problem = f"broadcast_object_list: object_list has {len(object_list)} places, that of src has {int(size[1])}"
    else:
        problem = ""
    whole = mine if mine is not None else fb.empty(int(size[0]), dtype=fb.uint8)
    broadcast(whole, group=chosen, group_src=root)
    if problem:
        raise ArgumentError(problem)
    if chosen.rank() != root:
        object_list[:] = _unpickled(whole)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Gives each process one picklable object of a list that one of them has.

    Args:
        scatter_object_output_list: its first place is written to.
        scatter_object_input_list: one object per process; None in all processes but src.
        src: the rank that sends.
        group: the default group if not given.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine = [None]
        >>> fb.distributed.scatter_object_list(mine, ["for rank 0"], src=0)
        >>> mine
        ['for rank 0']
        >>> fb.distributed.destroy_process_group()
    """
    op = "scatter_object_list"
    if not inside(op, group):
        return
    chosen = member(group, op)
    root = chosen._root(op, "src", src, group_src, default=0)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ArgumentError(f"{op}: scatter_object_output_list must be a list with at least one place")
    is_root = chosen.rank() == root
    objects = scatter_object_input_list
    if is_root:
        _places(op, "scatter_object_input_list", objects, chosen.size())
    if chosen.size() == 1:
        assert objects is not None
        scatter_object_output_list[0] = copy.deepcopy(objects[0])
        return
    messages = [_pickled(each) for each in objects] if is_root and objects is not None else []
    size = fb.zeros(1, dtype=fb.int64)
    sizes = [fb.tensor([message.numel()]) for message in messages] or None
    scatter(size, sizes, group=chosen, group_src=root)
    none = fb.empty(0, dtype=fb.uint8)
    got = fb.empty(int(size), dtype=fb.uint8)
    outs = [got if rank == root else none.clone() for rank in range(chosen.size())]
    all_to_all(outs, messages or [none] * chosen.size(), chosen)
    scatter_object_output_list[0] = _unpickled(got)


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None
) -> None:
    """Sends picklable objects to another process, which calls recv_object_list().

    Args:
        object_list: the objects.
        dst: the rank that gets them.
        group: the default group if not given.
        device: accepted; messages are on the CPU.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.send_object_list(["a"], dst=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    if not inside("send_object_list", group):
        return
    messages = [_pickled(each) for each in object_list]
    send(fb.tensor([message.numel() for message in messages], dtype=fb.int64), dst, group, group_dst=group_dst)
    send(fb.cat(messages) if messages else fb.empty(0, dtype=fb.uint8), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> int:
    """Receives picklable objects from another process.

    Args:
        object_list: one place per object, written to.
        src: the rank that sends; any if not given.
        group: the default group if not given.
        device: accepted; messages are on the CPU.
        group_src: src as a rank of the group.

    Returns:
        the rank that sent, or -1 when this process is not in the group.

    Example:
        >>> fb.distributed.recv_object_list([None], src=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
        -1
    """
    if not inside("recv_object_list", group):
        return -1
    sizes = fb.empty(len(object_list), dtype=fb.int64)
    source = recv(sizes, src, group, group_src=group_src)
    if src is None and group_src is None:
        src = source
    body = fb.empty(int(sizes.sum()), dtype=fb.uint8)
    recv(body, src, group, group_src=group_src)
    object_list[:] = [_unpickled(part) for part in body.split(sizes.tolist())]
    return source
