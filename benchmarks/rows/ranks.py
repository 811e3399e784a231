"""What distributed.py measures: collectives between processes of one host. The same code for both libraries."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from typing import Any

_current: Any = None  # one default group per process


class Collective:
    """Rank 0 of a group, and the processes of the other ranks, which run the same batch whenever they get a byte."""

    def __init__(self, lib: Any, op: str, nbytes: int, ranks: int, repeats: int) -> None:
        global _current
        if _current is not None:
            _current.end()
        _current = self
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        arguments = (lib.__name__, op, nbytes, ranks, repeats, port)
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = f"import sys; sys.path.insert(0, {here!r}); from rows.collectives import follow; follow(*{arguments!r}, rank=%d)"
        self.others = [
            subprocess.Popen([sys.executable, "-c", code % rank], stdin=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
            for rank in range(1, ranks)
        ]
        self.call, self.dist = _prepare(lib, op, nbytes, ranks, port, 0)
        self.repeats = repeats

    def batch(self) -> None:
        """`repeats` calls on all ranks."""
        for other in self.others:
            other.stdin.write(b".")
            other.stdin.flush()
        for _ in range(self.repeats):
            self.call()

    def end(self) -> None:
        """Ends the other ranks."""
        global _current
        _current = None
        for other in self.others:
            other.stdin.close()
        self.dist.destroy_process_group()
        for other in self.others:
            try:
                other.wait(20)
            except subprocess.TimeoutExpired:
                other.kill()
                other.wait()


def follow(name: str, op: str, nbytes: int, ranks: int, repeats: int, port: int, rank: int) -> None:
    """What the other ranks do."""
    call, dist = _prepare(importlib.import_module(name), op, nbytes, ranks, port, rank)
    while sys.stdin.buffer.read(1):
        for _ in range(repeats):
            call()
    dist.destroy_process_group()


def _prepare(lib: Any, op: str, nbytes: int, ranks: int, port: int, rank: int) -> tuple[Any, Any]:
    dist = importlib.import_module(f"{lib.__name__}.distributed")
    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    count = nbytes // 4
    whole, part = lib.ones(count), lib.ones(count // ranks)
    calls = {
        "all_reduce": lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX),  # the values stay as they are
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX),
    }
    calls[op]()
    return calls[op], dist
