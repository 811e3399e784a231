"""The engine for processes of one host: collectives through shared memory (csrc/cluster)."""

from __future__ import annotations

import os
import threading
from typing import Any

from flambeau import _C, Tensor
from flambeau.distributed._engine import Engine, premultiply
from flambeau.distributed._tcp import TcpEngine
from flambeau.distributed._types import ReduceOp
from flambeau.errors import CollectiveMismatch, DistBackendError, DistError

SLOT = 1 << 20  # bytes that a rank writes before the others read them
# In the order of Call, Join and Outcome in csrc/cluster.
_CALLS = "all_reduce reduce broadcast all_gather reduce_scatter gather scatter all_to_all barrier".split()
JOINS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")
_DONE, _MISMATCH, _LOST, _LEFT, _LATE = range(5)


def open_segment(store: Any, name: str, rank: int, ranks: list[int]) -> Any:
    """Shared memory mapped by all ranks of a group, or None if one of them cannot map it. All ranks get the same
    answer.

    The file has no name: others open it through /proc of the process that created it. So nothing is left behind,
    whatever happens to the processes.
    """
    segment, descriptor, problem = None, -1, b"1"
    if rank == 0:
        try:
            descriptor = os.memfd_create("flambeau", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, _C.cluster_bytes(len(ranks), SLOT))
        except OSError:
            problem = b"0"
        store.set(f"{name}/file", f"/proc/{os.getpid()}/fd/{descriptor}")
    else:
        try:
            descriptor = os.open(store.get(f"{name}/file"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            problem = b"0"
    if problem == b"1":
        try:
            segment = _C.cluster_open(descriptor, rank, ranks, SLOT)
        except OSError:
            problem = b"0"
    store.set(f"{name}/{rank}", problem)
    agreed = all(store.get(f"{name}/{other}") == b"1" for other in range(len(ranks)))
    if descriptor >= 0:
        os.close(descriptor)
    return segment if agreed else None


class SharedEngine(Engine):
    """A group whose ranks are on one host. Messages, and reductions without a kernel, use TCP."""

    def __init__(self, segment: Any, network: Any, tcp: TcpEngine) -> None:
        self._segment, self._network, self._tcp = segment, network, tcp
        self.rank, self.size, self._ranks, self._seconds = tcp.rank, tcp.size, tcp.ranks, tcp.timeout
        self._lock = threading.Lock()
        self._broken: DistError | None = None
        # Ranks of one host communicate by copying: on a core that computes, or on one that nobody else needs.
        self.overlaps = len(os.sched_getaffinity(0)) >= 2 * self.size

    def _call(
        self, call: str, text: str, ins: list[Tensor], outs: list[Tensor], root: int = 0, op: str = "SUM",
        seconds: float | None = None,
    ) -> None:  # fmt: skip
        if self._broken is not None:
            raise self._broken
        self._network.mesh.check()
        limit = self._seconds if seconds is None else seconds
        with self._lock:
            failure = _C.cluster_call(
                self._segment, _CALLS.index(call), JOINS.index(op), root, text, limit, ins, outs
            )  # fmt: skip
        if failure is not None:
            self._broken = self._error(text, limit, *failure)
            raise self._broken

    def _error(self, text: str, limit: float, outcome: int, rank: int, theirs: str) -> DistError:
        me = self._ranks[self.rank]
        if outcome == _MISMATCH:
            other = self._ranks[rank]
            if not theirs:
                return CollectiveMismatch(
                    f"{text}: the sizes that rank {other} sends are not those that others expect of it"
                )
            if other == me:  # cannot happen: a call equals itself
                return DistBackendError(f"{text}: the shared memory of the group is damaged")
            return CollectiveMismatch(
                f"rank {me} called {text} while rank {other} called {theirs}; all ranks of a group must make the same calls in "
                "the same order"
            )
        if outcome in (_LOST, _LEFT):
            return self._network.lost(rank)
        return DistBackendError(
            f"{text}: timed out after {limit:g} s waiting for rank {self._ranks[rank]} on host "
            f"{self._network.mesh.host(self._ranks[rank])}"
        )

    def _direct(self, x: Tensor, op: ReduceOp) -> bool:
        return op.name == "PREMUL_SUM" or _C.cluster_can_join(x.dtype, JOINS.index(op.name))

    # ---- calls -----------------------------------------------------------------------------------------------------

    def all_reduce(self, text: str, x: Tensor, op: ReduceOp) -> None:
        if not self._direct(x, op):
            return self._tcp.all_reduce(text, x, op)
        if op.name == "PREMUL_SUM":
            premultiply(x, op)
        self._call("all_reduce", text, [], [x], 0, _join(op))

    def all_reduce_many(self, text: str, xs: list[Tensor], op: ReduceOp) -> None:
        if not self._direct(xs[0], op):
            return super().all_reduce_many(text, xs, op)
        if op.name == "PREMUL_SUM":
            for x in xs:
                premultiply(x, op)
        self._call("all_reduce", text, [], xs, 0, _join(op))

    def reduce(self, text: str, x: Tensor, op: ReduceOp, root: int) -> None:
        if not self._direct(x, op):
            return self._tcp.reduce(text, x, op, root)
        if op.name == "PREMUL_SUM":
            x = x if self.rank == root else x.clone()
            premultiply(x, op)
        self._call("reduce", text, [], [x], root, _join(op))

    def broadcast(self, text: str, x: Tensor, root: int) -> None:
        self._call("broadcast", text, [], [x], root)

    def all_gather(self, text: str, parts: list[Tensor], x: Tensor) -> None:
        self._call("all_gather", text, [x], parts)

    def reduce_scatter(self, text: str, out: Tensor, parts: list[Tensor], op: ReduceOp) -> None:
        if not self._direct(out, op):
            return self._tcp.reduce_scatter(text, out, parts, op)
        if op.name == "PREMUL_SUM":
            parts = [part.clone() for part in parts]
            for part in parts:
                premultiply(part, op)
        self._call("reduce_scatter", text, parts, [out], 0, _join(op))

    def gather(self, text: str, parts: list[Tensor] | None, x: Tensor, root: int) -> None:
        self._call("gather", text, [x], parts or [], root)

    def scatter(self, text: str, x: Tensor, parts: list[Tensor] | None, root: int) -> None:
        self._call("scatter", text, parts or [], [x], root)

    def all_to_all(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        self._call("all_to_all", text, ins, outs)

    def barrier(self, text: str, timeout: float | None = None) -> None:
        self._call("barrier", text, [], [], seconds=timeout)

    def monitored_barrier(self, timeout: float, all_ranks: bool) -> None:
        self._tcp.monitored_barrier(timeout, all_ranks)

    def send(self, text: str, x: Tensor, dst: int, tag: int) -> Any:
        return self._tcp.send(text, x, dst, tag)

    def recv(self, text: str, x: Tensor, src: int | None, tag: int) -> Any:
        return self._tcp.recv(text, x, src, tag)


def _join(op: ReduceOp) -> str:
    return "SUM" if op.name == "PREMUL_SUM" else op.name
