"""Collectives of picklable objects, and messages from one process to another."""

from __future__ import annotations

import copy
from typing import Any

from flambeau import Tensor
from flambeau.distributed._collectives import inside, single
from flambeau.distributed._group import check_rank
from flambeau.distributed._types import Work
from flambeau.errors import ArgumentError

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "irecv", "isend", "recv", "scatter_object_list",
    "send",
]  # fmt: skip


# ---- objects -------------------------------------------------------------------------------------------------------


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
    if inside("all_gather_object", group):
        single("all_gather_object", "object_list", object_list)
        object_list[0] = copy.deepcopy(obj)


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
    check_rank("gather_object", "dst", dst)
    check_rank("gather_object", "group_dst", group_dst)
    single("gather_object", "object_gather_list", object_gather_list)
    assert object_gather_list is not None
    object_gather_list[0] = copy.deepcopy(obj)


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
    check_rank("broadcast_object_list", "src", src)
    check_rank("broadcast_object_list", "group_src", group_src)
    if not isinstance(object_list, list):
        raise TypeError(f"broadcast_object_list: object_list must be a list, got {type(object_list).__name__}")


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
    check_rank(op, "src", src)
    check_rank(op, "group_src", group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ArgumentError(f"{op}: scatter_object_output_list must be a list with at least one place")
    scatter_object_output_list[0] = copy.deepcopy(single(op, "scatter_object_input_list", scatter_object_input_list))


# ---- from one process to another -----------------------------------------------------------------------------------


def _no_peer(op: str, which: str, group: Any) -> None:
    """Always raises: a process cannot send to itself."""
    if inside(op, group):
        raise ArgumentError(f"{op}: {which} must be another process, and this group has no other")


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to another process; in a group of one that is an error, as sending to oneself is.

    Args:
        tensor: what to send.
        dst: the rank that gets it.
        group: the default group if not given.
        tag: a number that the receiver names too.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.send(fb.ones(2), dst=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    _no_peer("send", "dst", group)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives a tensor from another process; in a group of one that is an error.

    Args:
        tensor: written to.
        src: the rank that sends; any if not given.
        group: the default group if not given.
        tag: the number that the sender named.
        group_src: src as a rank of the group.

    Returns:
        the rank that sent, or -1 when this process is not in the group.

    Example:
        >>> fb.distributed.recv(fb.ones(2), src=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
        -1
    """
    _no_peer("recv", "src", group)
    return -1


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begins to send a tensor to another process; in a group of one that is an error.

    Args:
        tensor: what to send.
        dst: the rank that gets it.
        group: the default group if not given.
        tag: a number that the receiver names too.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.isend(fb.ones(2), dst=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    _no_peer("isend", "dst", group)
    return None


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begins to receive a tensor from another process; in a group of one that is an error.

    Args:
        tensor: written to.
        src: the rank that sends; any if not given.
        group: the default group if not given.
        tag: the number that the sender named.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.irecv(fb.ones(2), src=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    _no_peer("irecv", "src", group)
    return None
