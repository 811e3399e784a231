"""The connections between the processes of a program, failure detection, and the choice of engines."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import threading
import time
from multiprocessing import util
from typing import Any

from flambeau import _C
from flambeau.distributed import _rendezvous
from flambeau.distributed._engine import Alone, Engine
from flambeau.distributed._mesh import Mesh
from flambeau.distributed._mpi import MpiEngine
from flambeau.distributed._shared import SharedEngine, open_segment
from flambeau.distributed._store import PrefixStore, TCPStore
from flambeau.distributed._tcp import TcpEngine
from flambeau.errors import ArgumentError, CollectiveMismatch, DistError, PeerLost

_HERE, _LEFT, _CLOSED, _SILENT, _REPORTED = range(5)  # in the order of Peer in csrc/cluster/peers.h


def _silence() -> float:
    """Seconds without a heartbeat after which a process is considered lost."""
    text = os.environ.get("FLAMBEAU_HEARTBEAT_TIMEOUT", "5")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds < 1.5:
        raise ArgumentError(
            f"init_process_group: FLAMBEAU_HEARTBEAT_TIMEOUT must be at least 1.5 seconds, got {text!r}"
        )
    return seconds


def host_id() -> str:
    """Equal for processes that may share memory: those of one kernel in the same process and network namespaces."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return "/".join([boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net"))])


class Network:
    """The connections of this process to all others."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        self.store, self.rank, self.size, self._silence = store, rank, size, _silence()
        limit = min(timeout.total_seconds(), _rendezvous.start_timeout())
        _rendezvous.gather_all(store, rank, size, limit)
        self._watched: dict[int, socket.socket] = {}
        self._complete = threading.Condition()
        self._seen: set[int] = set()
        self._changed = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        facts = (_rendezvous.own_address(store), socket.gethostname(), host_id())
        self.mesh = Mesh(rank, size, store, facts, {b"w": self._watch}, (self._changed, self._look))
        self._side: Any = None
        self._closed = False
        self._start_watch(limit)
        # Also in processes of multiprocessing, which do not run atexit functions.
        self._at_exit = util.Finalize(None, self.close, exitpriority=-100)

    def settle(self) -> None:
        """In the process that serves the store, waits until all have read what they need to start."""
        _rendezvous.leave_together(self.store, self.rank, self.size, _rendezvous.start_timeout())

    # ---- failure detection
    # ---------------------------------------------------------------------------------------------

    def _start_watch(self, limit: float) -> None:
        """Connects to the neighbours that this process watches: at distances of 1, 2, 4, 8 ..."""
        neighbours, distance = set(), 1
        while distance < self.size:
            neighbours |= {(self.rank + distance) % self.size, (self.rank - distance) % self.size}
            distance *= 2
        for other in neighbours:
            if other < self.rank:
                self._watch(self.mesh.connect(other, b"w"), other)
        end = time.monotonic() + limit
        with self._complete:
            while not neighbours <= self._watched.keys():
                if not self._complete.wait(max(end - time.monotonic(), 0)) and time.monotonic() >= end:
                    absent = sorted(neighbours - self._watched.keys())
                    raise DistError(
                        f"init_process_group: no connection from rank {absent[0]} on {self.mesh.host(absent[0])}"
                    )
            sockets = [(connection.detach(), other) for other, connection in sorted(self._watched.items())]
        descriptors, ranks = [fd for fd, _ in sockets], [other for _, other in sockets]
        _C.cluster_watch(self.rank, self.size, descriptors, ranks, self._silence, self._changed)

    def _watch(self, connection: socket.socket, rank: int) -> None:
        with self._complete:
            self._watched[rank] = connection
            self._complete.notify_all()

    def _look(self) -> None:
        """Runs in the thread of the mesh whenever the state of a rank has changed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._changed)
        first, states = _C.cluster_states()
        # The first lost rank is reported first: others may have ended because of it.
        for rank, state in sorted(enumerate(states), key=lambda each: each[0] != first):
            if state == _HERE or rank in self._seen:
                continue
            self._seen.add(rank)
            error = self.lost(rank)
            if state != _LEFT:
                self.mesh.fail(rank, error, everything=True)
            else:  # data it sent before may still be arriving
                later = threading.Timer(0.5, self.mesh.fail, (rank, error), {"everything": False})
                later.daemon = True
                later.start()

    def lost(self, rank: int) -> PeerLost:
        """The error that describes what happened to a rank."""
        _, states = _C.cluster_states()
        state = states[rank] if rank < len(states) else _CLOSED
        if rank == self.rank:
            return self.mesh.lost(rank, "the others took this process for lost, as they heard nothing of it")
        reason = {
            _LEFT: "it has left the group, or its program has ended, while this rank waits for it",
            _CLOSED: "its process has ended",
            _SILENT: f"no sign of life for {self._silence:g} s; it is stopped, or its host or the link to it is down",
            _REPORTED: "another rank has found it to have ended, or to be silent",
        }[state or _CLOSED]
        return self.mesh.lost(rank, reason)

    # ---- groups ----------------------------------------------------------------------------------------------------

    def engine(self, name: str, ranks: list[int], timeout: datetime.timedelta, mpi: bool = False) -> Engine:
        """The engine for a group of these ranks."""
        if len(ranks) == 1:
            return Alone()
        tcp = TcpEngine(self.mesh, name, ranks, timeout.total_seconds(), self.waiting)
        if mpi:
            return MpiEngine(self, tcp)
        if len({self.mesh.facts(rank)[-1] for rank in ranks}) > 1 or os.environ.get("FLAMBEAU_SHARED_MEMORY") == "0":
            return tcp
        segment = open_segment(PrefixStore("shared", self.store), name, tcp.rank, ranks)
        if segment is None:
            return tcp
        engine = SharedEngine(segment, self, tcp)
        engine.barrier("new_group()")  # the store is no longer needed, so the process that serves it may end
        return engine

    def waiting(self, engine: TcpEngine, sequence: int, text: str) -> None:
        """Called once per second while a call waits for others: compares it with the calls they wait in.

        Messages carry their call, so most mismatches are detected when one arrives. This detects ranks whose different
        calls all wait for messages that are never sent.
        """
        others = [other for other in range(engine.size) if other != engine.rank]
        try:
            if self._side is None:
                self._side = _own_connection(self.store)
            self._side.set(f"waiting/{engine.name}/{engine.rank}", f"{sequence} {text}")
            calls = [self._side.compare_set(f"waiting/{engine.name}/{other}", "", "").decode() for other in others]
        except DistError:  # the process that serves the store has ended, or is slow
            self._side = None
            return
        for other, theirs in zip(others, calls, strict=True):
            number, _, call = theirs.partition(" ")
            if number == str(sequence) and call != text:
                raise CollectiveMismatch(
                    f"rank {engine.ranks[engine.rank]} called {text} while rank {engine.ranks[other]} called {call}; all ranks "
                    "of a group must make the same calls in the same order"
                )

    def close(self) -> None:
        """Leaves the network and notifies the others."""
        if self._closed:
            return
        self._closed = True
        self._at_exit.cancel()
        _C.cluster_leave()
        self.mesh.close()
        os.close(self._changed)


def _own_connection(store: Any) -> Any:
    """The same store over another connection, as the first may be blocked waiting for a key."""
    if isinstance(store, PrefixStore):
        return PrefixStore(store.prefix, _own_connection(store.underlying_store))
    if isinstance(store, TCPStore):
        made = TCPStore(store.host, store.port, timeout=datetime.timedelta(seconds=1))
        made._patience = 1.0  # the serving process may be stopped
        return made
    return store
