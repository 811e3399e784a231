"""The engine for programs started by mpirun with backend "mpi": calls go to MPI through mpi4py.

Flambeau's own connections are used too. They detect lost processes, which MPI does not: calls here start without
blocking, and check the state of the others while they wait. Each call first compares a hash of its text (one
MPI_Allreduce of 16 bytes), so ranks that make different calls all raise CollectiveMismatch.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._engine import Engine, average, premultiply, raw
from flambeau.distributed._tcp import Pending, TcpEngine, digest
from flambeau.distributed._types import ReduceOp
from flambeau.errors import ArgumentError, CollectiveMismatch, DistBackendError, DistError, PeerLost

_SPIN = 2e-4  # seconds of polling without a pause
_state: dict[str, Any] = {"failed": False}

_TYPES = {
    fb.float32: "FLOAT", fb.float64: "DOUBLE", fb.int8: "INT8_T", fb.int16: "INT16_T", fb.int32: "INT32_T", fb.int64: "INT64_T",
    fb.uint8: "UINT8_T", fb.uint16: "UINT16_T", fb.uint32: "UINT32_T", fb.uint64: "UINT64_T", fb.bool: "UINT8_T",
    fb.complex64: "C_FLOAT_COMPLEX", fb.complex128: "C_DOUBLE_COMPLEX",
}  # fmt: skip
_OPS = {"SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX",
        "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}  # fmt: skip
_OPS_OF_BOOL = {"SUM": "MAX", "PRODUCT": "MIN"}
_WIDER = {fb.float16: fb.float32, fb.bfloat16: fb.float32}  # summed in the wider dtype, and rounded once


def _memory(x: Tensor) -> Any:
    """A tensor's memory, writable even if it is empty."""
    return raw(x) if x.numel() else bytearray()


def started_by_mpi() -> bool:
    """Whether mpirun started this process."""
    return any(name in os.environ for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"))


def load() -> Any:
    """mpi4py's MPI, initialized on first use; an error says how to install it."""
    if "MPI" not in _state:
        try:
            import mpi4py
        except ImportError:
            raise DistBackendError(
                'backend "mpi" needs mpi4py, which is not installed: pip install flambeau[mpi]; backend "gloo" needs nothing'
            ) from None
        mpi4py.rc.finalize = False
        from mpi4py import MPI

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise DistBackendError("backend \"mpi\" needs an MPI that several threads may call (MPI_THREAD_MULTIPLE)")
        atexit.register(_finalize)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
            # sent by mpich's launcher when a process ends; fatal by default
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        _state["MPI"] = MPI
    return _state["MPI"]


def _finalize() -> None:
    """MPI_Finalize waits for all processes, so it is skipped after one is lost, or when this one ends by an error."""
    if not _state["failed"] and getattr(sys, "last_value", None) is None:
        _state["MPI"].Finalize()
    else:
        _remove_files()


def _remove_files() -> None:
    """Removes the shared memory of MPI, which only MPI_Finalize would; those who have mapped it keep it."""
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8") as maps:
        names = {line.split(maxsplit=5)[-1].strip() for line in maps if "/dev/shm/mpich_shm_" in line}
        for name in names:
            with contextlib.suppress(OSError):  # another process was first
                os.unlink(name)


def world(rank: int, size: int) -> Any:
    """MPI's communicator of all processes, whose ranks must be ours."""
    comm = load().COMM_WORLD
    if (comm.Get_rank(), comm.Get_size()) != (rank, size):
        raise ArgumentError(
            f'init_process_group: backend "mpi": MPI says rank {comm.Get_rank()} of {comm.Get_size()}, and the environment or the '
            f"arguments rank {rank} of {size}; start all processes with one mpirun, and pass neither rank nor world_size"
        )
    return comm


def address_of_rank_0(address: str, port: int) -> tuple[str, int]:
    """Rank 0's value, in all processes."""
    return load().COMM_WORLD.bcast((address, port), root=0)


class MpiEngine(Engine):
    """A group whose processes were started by mpirun."""

    def __init__(self, network: Any, tcp: TcpEngine) -> None:
        self._network, self._tcp = network, tcp
        self.rank, self.size, self._ranks, self._seconds = tcp.rank, tcp.size, tcp.ranks, tcp.timeout
        self._mpi = load()
        everybody = world(network.rank, network.size)
        members = everybody.Get_group().Incl(self._ranks)
        self._comm = everybody.Create_group(members, digest(tcp.name) % 32768)
        self._messages = everybody.Create_group(members, digest(tcp.name) % 32768)
        self._lock, self._progress = threading.Lock(), _Progress(network)
        self._broken: DistError | None = None

    # ---- one call --------------------------------------------------------------------------------------------------

    def _call(self, text: str, begin: Callable[[], Any], seconds: float | None = None) -> None:
        if self._broken is not None:
            raise self._broken
        self._network.mesh.check()
        limit = self._seconds if seconds is None else seconds
        end = time.monotonic() + limit
        with self._lock:
            try:
                mine = digest(text) >> 2
                number = _memory(fb.tensor([mine, -mine]))
                least = fb.empty(2, dtype=fb.int64)
                found = [_memory(least), self._mpi.INT64_T]
                self._wait(text, self._comm.Iallreduce([number, self._mpi.INT64_T], found, self._mpi.MIN), end, limit)
                if int(least[0]) != mine or int(least[1]) != -mine:
                    self._mismatch(text)
                self._wait(text, begin(), end, limit)
            except DistError as error:
                self._broken = error
                if isinstance(error, PeerLost):
                    _remove_files()
                raise

    def _wait(self, text: str, request: Any, end: float, limit: float) -> None:
        # MPI's own wait knows neither timeouts nor lost ranks, so this one polls with growing pauses.
        spin, pause = time.monotonic() + _SPIN, 1e-5
        try:
            while not request.Test():
                now = time.monotonic()
                if now < spin:
                    continue
                _check(self._network, self._ranks)
                if now > end:
                    raise DistBackendError(f"{text}: timed out after {limit:g} s")
                time.sleep(pause)
                pause = min(pause * 1.5, 1e-3)
        except DistError:
            _state["failed"] = True
            raise
        except self._mpi.Exception as error:
            raise DistBackendError(f"{text}: MPI failed: {error}") from None

    def _mismatch(self, text: str) -> None:
        texts = self._comm.allgather(text)
        mine = self._ranks[self.rank]
        other = next(r for r, theirs in enumerate(texts) if theirs != text)
        raise CollectiveMismatch(
            f"rank {mine} called {text} while rank {self._ranks[other]} called {texts[other]}; all ranks of a group must make the same "
            "calls in the same order"
        )

    def _typed(self, x: Tensor) -> list[Any]:
        return [_memory(x), getattr(self._mpi, _TYPES[x.dtype])]

    def _reduced(self, x: Tensor, op: ReduceOp, reduce: Callable[[Tensor, Any], None]) -> None:
        """Applies `reduce` to x in place, in a dtype that MPI has."""
        if op.name == "PREMUL_SUM":
            premultiply(x, op)
        name = _OPS_OF_BOOL.get(op.name, op.name) if x.dtype == fb.bool else op.name
        kind = getattr(self._mpi, _OPS[name])
        wide = x.to(_WIDER[x.dtype]) if x.dtype in _WIDER else x
        reduce(wide, kind)
        if op.name == "AVG":
            average(wide, self.size)
        if wide is not x:
            x.copy_(wide)

    # ---- calls -----------------------------------------------------------------------------------------------------

    def all_reduce(self, text: str, x: Tensor, op: ReduceOp) -> None:
        def reduce(wide: Tensor, kind: Any) -> None:
            self._call(text, lambda: self._comm.Iallreduce(self._mpi.IN_PLACE, self._typed(wide), kind))

        self._reduced(x, op, reduce)

    def reduce(self, text: str, x: Tensor, op: ReduceOp, root: int) -> None:
        def reduce(wide: Tensor, kind: Any) -> None:
            if self.rank == root:
                self._call(text, lambda: self._comm.Ireduce(self._mpi.IN_PLACE, self._typed(wide), kind, root))
            else:
                self._call(text, lambda: self._comm.Ireduce(self._typed(wide), None, kind, root))

        self._reduced(x if self.rank == root else x.clone(), op, reduce)

    def broadcast(self, text: str, x: Tensor, root: int) -> None:
        self._call(text, lambda: self._comm.Ibcast([_memory(x), self._mpi.BYTE], root))

    def all_gather(self, text: str, parts: list[Tensor], x: Tensor) -> None:
        whole, back = _joined(parts, filled=False)
        places = self._places(whole, parts)
        self._call(text, lambda: self._comm.Iallgatherv([_memory(x), self._mpi.BYTE], places))
        back()

    def reduce_scatter(self, text: str, out: Tensor, parts: list[Tensor], op: ReduceOp) -> None:
        whole = fb.cat(parts)  # a copy, so that parts are not changed
        counts = [part.numel() for part in parts]
        start = sum(counts[: self.rank])

        def reduce(wide: Tensor, kind: Any) -> None:
            mine = fb.empty(counts[self.rank], dtype=wide.dtype)
            send, take = self._typed(wide), self._typed(mine)
            self._call(text, lambda: self._comm.Ireduce_scatter(send, take, counts, kind))
            wide[start : start + mine.numel()].copy_(mine)

        self._reduced(whole, op, reduce)
        out.copy_(whole[start : start + out.numel()])

    def gather(self, text: str, parts: list[Tensor] | None, x: Tensor, root: int) -> None:
        sent = [_memory(x), self._mpi.BYTE]
        if parts is None:
            return self._call(text, lambda: self._comm.Igatherv(sent, None, root))
        whole, back = _joined(parts, filled=False)
        places = self._places(whole, parts)
        self._call(text, lambda: self._comm.Igatherv(sent, places, root))
        back()

    def scatter(self, text: str, x: Tensor, parts: list[Tensor] | None, root: int) -> None:
        taken = [_memory(x), self._mpi.BYTE]
        if parts is None:
            return self._call(text, lambda: self._comm.Iscatterv(None, taken, root))
        whole, _ = _joined(parts, filled=True)
        places = self._places(whole, parts)
        self._call(text, lambda: self._comm.Iscatterv(places, taken, root))

    def all_to_all(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        self._agree(text, outs, ins)
        give, _ = _joined(ins, filled=True)
        take, back = _joined(outs, filled=False)
        sent, taken = self._places(give, ins), self._places(take, outs)
        self._call(text, lambda: self._comm.Ialltoallv(sent, taken))
        back()

    def _agree(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        """Checks that the sizes others send equal the expected ones: only MPI_Alltoall can tell."""
        sent = fb.tensor([part.numel() * part.element_size() for part in ins])
        got = fb.empty_like(sent)
        kind = self._mpi.INT64_T
        self._call(text, lambda: self._comm.Ialltoall([_memory(sent), kind], [_memory(got), kind]))
        wrong = [r for r, part in enumerate(outs) if int(got[r]) != part.numel() * part.element_size()]
        anybody = fb.tensor([len(wrong)])
        self._call(text, lambda: self._comm.Iallreduce(self._mpi.IN_PLACE, self._typed(anybody), self._mpi.SUM))
        if int(anybody):
            where = f" that rank {self._ranks[wrong[0]]} sends" if wrong else ""
            self._broken = CollectiveMismatch(f"{text}: the sizes{where} are not those that others expect of it")
            raise self._broken

    def _places(self, whole: Tensor, parts: list[Tensor]) -> list[Any]:
        sizes = [part.numel() * part.element_size() for part in parts]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return [_memory(whole), (sizes, starts), self._mpi.BYTE]

    def barrier(self, text: str, timeout: float | None = None) -> None:
        self._call(text, self._comm.Ibarrier, timeout)

    def monitored_barrier(self, timeout: float, all_ranks: bool) -> None:
        self._tcp.monitored_barrier(timeout, all_ranks)

    # ---- one message -----------------------------------------------------------------------------------------------

    def send(self, text: str, x: Tensor, dst: int, tag: int) -> Pending:
        request = self._messages.Isend([_memory(x), self._mpi.BYTE], dst, self._tag(text, tag))
        return self._progress.add(text, request, x, None, self._ranks, dst)

    def recv(self, text: str, x: Tensor, src: int | None, tag: int) -> Pending:
        source = self._mpi.ANY_SOURCE if src is None else src
        memory = fb.empty(x.numel() * x.element_size() + 1, dtype=fb.uint8)  # one byte more, to detect a longer message
        request = self._messages.Irecv([_memory(memory), self._mpi.BYTE], source, self._tag(text, tag))
        return self._progress.add(text, request, x, memory, self._ranks, src)

    def _tag(self, text: str, tag: int) -> int:
        most = self._messages.Get_attr(self._mpi.TAG_UB)
        if tag > most:
            raise ArgumentError(f"{text}: this MPI has tags up to {most}")
        return tag

    def close(self) -> None:
        if not _state["failed"]:
            self._comm.Free()
            self._messages.Free()


def _check(network: Any, ranks: list[int]) -> None:
    """Raises if a process is lost, or one of these has left."""
    network.mesh.check()
    for rank in ranks:
        if rank in network.mesh.gone:
            raise network.mesh.gone[rank]


def _joined(parts: list[Tensor], filled: bool) -> tuple[Tensor, Callable[[], None]]:
    """Concatenates flat tensors, without a copy if adjacent in memory; returns a function that copies back too."""
    at = parts[0].data_ptr()
    for part in parts:
        if part.numel() and part.data_ptr() != at:
            break
        at += part.numel() * part.element_size()
    else:
        if parts[0].numel() and parts[0].untyped_storage().nbytes() >= at - parts[0].untyped_storage().data_ptr():
            return parts[0].as_strided((sum(part.numel() for part in parts),), (1,)), lambda: None
    whole = fb.cat(parts) if filled else fb.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)

    def back() -> None:
        for part, values in zip(parts, whole.split([part.numel() for part in parts]), strict=True):
            part.copy_(values)

    return whole, back


class _Progress:
    """Completes messages: MPI makes progress only when polled, so a thread polls while there are any."""

    def __init__(self, network: Any) -> None:
        self._network, self._changed = network, threading.Condition()
        self._open: list[Any] = []
        self._running = False

    def add(self, text: str, request: Any, x: Tensor, memory: Tensor | None, ranks: list[int], peer: int | None) -> Pending:
        pending = Pending()
        with self._changed:
            self._open.append((text, request, x, memory, ranks, peer, pending))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="flambeau-mpi", daemon=True).start()
        return pending

    def _run(self) -> None:
        pause = 1e-5
        while True:
            with self._changed:
                if not self._open:
                    self._running = False
                    return
                waiting = list(self._open)
            done = [entry for entry in waiting if self._look(*entry)]
            if done:
                with self._changed:
                    self._open = [entry for entry in self._open if all(entry[-1] is not other[-1] for other in done)]
                pause = 1e-5
            else:
                time.sleep(pause)  # MPI makes progress only when polled, and does not notify
                pause = min(pause * 1.2, 1e-3)

    def _look(
        self, text: str, request: Any, x: Tensor, memory: Tensor | None, ranks: list[int], peer: int | None, pending: Pending
    ) -> bool:  # fmt: skip
        """Whether a message is complete, or will never be."""
        mpi = _state["MPI"]
        status = mpi.Status()
        try:
            if not request.Test(status):
                _check(self._network, ranks if peer is None else [ranks[peer]])
                return False
            source = None
            if memory is not None:
                source, count = ranks[status.Get_source()], status.Get_count(mpi.BYTE)
                if count != x.numel() * x.element_size():
                    raise CollectiveMismatch(f"{text}: rank {source} sent {count} bytes, expected {x.numel() * x.element_size()}")
                if count:
                    x.view(fb.uint8).copy_(memory[:count])
            pending.finish(None, source)
        except mpi.Exception as error:
            pending.finish(DistBackendError(f"{text}: MPI failed: {error}"))
        except DistError as error:
            pending.finish(error)
        return True
