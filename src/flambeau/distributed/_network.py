"""What connects the processes of a program, and which engine carries a group."""

from __future__ import annotations

import datetime
import os
import socket
from typing import Any

from flambeau.distributed import _rendezvous
from flambeau.distributed._engine import Alone, Engine
from flambeau.distributed._mesh import Mesh
from flambeau.distributed._tcp import TcpEngine


class Network:
    """The connections of this process to all others."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        self.store, self.rank, self.size = store, rank, size
        limit = min(timeout.total_seconds(), _rendezvous.start_timeout())
        _rendezvous.gather_all(store, rank, size, limit)
        self.mesh = Mesh(rank, size, store, _rendezvous.own_address(store))
        _rendezvous.leave_together(store, rank, size, limit)

    def engine(self, name: str, ranks: list[int], timeout: datetime.timedelta) -> Engine:
        """The engine for a group of these ranks."""
        if len(ranks) == 1:
            return Alone()
        return TcpEngine(self.mesh, name, ranks, timeout.total_seconds(), self.waiting)

    def waiting(self, engine: Any, sequence: int, text: str) -> None:
        """Called once per second while a call waits for others."""

    def close(self) -> None:
        """Leaves."""
        self.mesh.close()


def host_name() -> str:
    """Name of this machine, and the process on it."""
    return f"{socket.gethostname()}:{os.getpid()}"
