"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._collectives import inside
from flambeau.distributed._group import member
from flambeau.distributed._staging import Staged, check_tensor, describe, ranged
from flambeau.distributed._types import ProcessGroup, Work
from flambeau.errors import ArgumentError

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(op: str, which: str, group: Any, rank: Any, group_rank: Any) -> tuple[ProcessGroup | None, int | None]:
    """The group, None if this process is not in it, and the other process's rank there, None for any."""
    if not inside(op, group):
        return None, None
    chosen = member(group, op)
    if which == "src" and rank is None and group_rank is None:
        peer = None
    else:
        peer = chosen._root(op, which, rank, group_rank)
    if chosen.size() == 1:
        raise ArgumentError(f"{op}: {which} must be another process, and this group has no other")
    if peer == chosen.rank():
        raise ArgumentError(
            f"{op}: {which} must be another process, got this one's rank {rank if rank is not None else peer}"
        )
    return chosen, peer


def _tag(op: str, tag: Any) -> int:
    if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag < 1 << 31:
        raise ArgumentError(f"{op}: tag must be an int from 0 to 2147483647, got {tag!r}")
    return tag


def _work(pending: Any, staged: Staged, tensor: Tensor) -> Work:
    work = Work([tensor], done=False)

    def finish() -> None:
        error = pending.error
        if error is None:
            try:
                with fb.no_grad():
                    staged.finish()
            except Exception as raised:  # raised in wait()
                error = raised
        work._source = -1 if pending.source is None else pending.source
        work._finish(error)

    pending.add(finish)
    return work


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to another process; sending to oneself is an error.

    Args:
        tensor: what to send.
        dst: the rank that gets it.
        group: the default group if not given.
        tag: a number that the receiver names too.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.send(fb.ones(2), dst=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        ranged(describe("send", tensor), work.wait)()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives a tensor from another process.

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
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else ranged(describe("recv", tensor), work.source_rank)()


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begins to send a tensor to another process.

    Args:
        tensor: what to send.
        dst: the rank that gets it.
        group: the default group if not given.
        tag: a number that the receiver names too.
        group_dst: dst as a rank of the group.

    Example:
        >>> fb.distributed.isend(fb.ones(2), dst=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    chosen, peer = _peer("send", "dst", group, dst, group_dst)
    if chosen is None:
        return None
    assert peer is not None
    staged = Staged()
    flat = staged.read(check_tensor("send", "tensor", tensor))
    text = describe("send", tensor, f"dst {peer}", f"tag {_tag('send', tag)}")
    return _work(chosen._engine.send(text, flat, peer, tag), staged, tensor)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begins to receive a tensor from another process.

    Args:
        tensor: written to.
        src: the rank that sends; any if not given.
        group: the default group if not given.
        tag: the number that the sender named.
        group_src: src as a rank of the group.

    Example:
        >>> fb.distributed.irecv(fb.ones(2), src=1, group=fb.distributed.GroupMember.NON_GROUP_MEMBER)
    """
    chosen, peer = _peer("recv", "src", group, src, group_src)
    if chosen is None:
        return None
    staged = Staged()
    flat = staged.write(check_tensor("recv", "tensor", tensor), filled=False)
    text = describe("recv", tensor, "any src" if peer is None else f"src {peer}", f"tag {_tag('recv', tag)}")
    return _work(chosen._engine.recv(text, flat, peer, tag), staged, tensor)


class P2POp:
    """A message for batch_isend_irecv.

    Args:
        op: isend or irecv.
        tensor: what to send, or what is written to.
        peer: the rank of the other process.
        group: the default group if not given.
        tag: a number that both processes name.
        group_peer: peer as a rank of the group.

    Example:
        >>> fb.distributed.P2POp(fb.distributed.isend, fb.ones(2), 1).peer
        1
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError("P2POp: op must be fb.distributed.isend or fb.distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins several messages; returns their Work objects.

    Args:
        p2p_op_list: the messages.

    Example:
        >>> fb.distributed.batch_isend_irecv([])
        []
    """
    for each in p2p_op_list:
        if not isinstance(each, P2POp):
            raise TypeError(f"batch_isend_irecv: expected a list of P2POp, got {type(each).__name__}")
    works = []
    for each in p2p_op_list:
        if each.op is isend:
            work = isend(each.tensor, each.peer, each.group, each.tag, each.group_peer)
        else:
            work = irecv(each.tensor, each.peer, each.group, each.tag, each.group_peer)
        if work is not None:
            works.append(work)
    return works
