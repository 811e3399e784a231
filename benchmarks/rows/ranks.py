"""What distributed.py measures: tasks of several processes on one host. The same code for both libraries."""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

_open: Any = None  # the processes of this one's library; one default group per process
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class _Processes:
    """Rank 0 of a group and the processes of the others, which make tasks and run their methods as they are told."""

    def __init__(self, lib: Any, ranks: int) -> None:
        self.lib, self.ranks = lib, ranks
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        code = f"import sys; sys.path.insert(0, {HERE!r}); from rows.ranks import follow; follow({lib.__name__!r}, {ranks}, {port}, %d)"
        self.others = [
            subprocess.Popen(
                [sys.executable, "-c", code % rank], stdin=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            for rank in range(1, ranks)
        ]
        self.dist = _join(lib, ranks, port, 0)

    def tell(self, *order: Any) -> None:
        """What the others do next: make a task, or run a method of it."""
        for other in self.others:
            other.stdin.write(json.dumps(order) + "\n")
            other.stdin.flush()

    def end(self) -> None:
        """Ends the other ranks."""
        for other in self.others:
            other.stdin.close()
        self.dist.destroy_process_group()
        for other in self.others:
            try:
                other.wait(20)
            except subprocess.TimeoutExpired:
                other.kill()
                other.wait()


class Ranks:
    """A task on several ranks; the processes stay for the next task on as many.

    Args:
        lib: flambeau or torch, as a module.
        ranks: how many processes.
        task: a class of this module, which each process makes.
        arguments: those of the class.
    """

    def __init__(self, lib: Any, ranks: int, task: str, *arguments: Any) -> None:
        global _open
        if _open is not None and _open.ranks != ranks:
            _open.end()
            _open = None
        if _open is None:
            _open = _Processes(lib, ranks)
            atexit.register(_end)
        _open.tell("make", task, arguments)
        self.task = globals()[task](lib, _open.dist, *arguments)

    def run(self, method: str) -> Any:
        """Runs a method of the task on all ranks; returns what it gives here."""
        _open.tell("run", method)
        return getattr(self.task, method)()


def _end() -> None:
    global _open
    if _open is not None:
        _open.end()
        _open = None


def follow(name: str, ranks: int, port: int, rank: int) -> None:
    """What the other ranks do."""
    lib = importlib.import_module(name)
    dist, made = _join(lib, ranks, port, rank), None
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "make":
            made = None  # its memory first
            made = globals()[rest[0]](lib, dist, *rest[1])
        else:
            getattr(made, rest[0])()
    dist.destroy_process_group()


def _join(lib: Any, ranks: int, port: int, rank: int) -> Any:
    dist = importlib.import_module(f"{lib.__name__}.distributed")
    lib.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    return dist


# ---- tasks -----------------------------------------------------------------------------------------------------------


class Calls:
    """`repeats` calls of a collective on `nbytes` bytes."""

    def __init__(self, lib: Any, dist: Any, op: str, nbytes: int, repeats: int) -> None:
        ranks = dist.get_world_size()
        whole, part = lib.ones(nbytes // 4), lib.ones(nbytes // 4 // ranks)
        self.call = {
            "all_reduce": lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX),  # the values stay as they are
            "broadcast": lambda: dist.broadcast(whole, src=0),
            "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX),
        }[op]
        self.repeats = repeats
        self.call()

    def batch(self) -> None:
        """The calls."""
        for _ in range(self.repeats):
            self.call()


GPT_LIKE = {"texts": 2, "length": 128, "words": 16_384, "width": 512, "heads": 8, "blocks": 6}
DEEP = {"texts": 2, "length": 64, "words": 4096, "width": 512, "heads": 8, "blocks": 12}


class DataParallel:
    """Training steps of a model, each rank on a batch of its own, with and without DistributedDataParallel."""

    def __init__(self, lib: Any, dist: Any, name: str, small: bool = False) -> None:
        import models
        from models.training import Training

        module = models.load(name)
        if name == "gpt":
            module.FULL = GPT_LIKE
        self.dist = dist
        self.local, self.parallel = Training(lib, name, small), Training(lib, name, small)
        self.parallel.net = lib.nn.parallel.DistributedDataParallel(self.parallel.net)
        self.flat = lib.zeros(sum(p.numel() for p in self.local.parameters))
        self.step()

    def step(self) -> float:
        """A step with averaged gradients."""
        return float(self.parallel.step())

    def overhead(self) -> float:
        """Time of a step, less that of one without communication and that of the collective, in parts of the second."""
        times: dict[str, list[float]] = {}
        calls = {"parallel": self.step, "local": self.local.step, "collective": lambda: self.dist.all_reduce(self.flat)}
        for _ in range(5):
            for name, call in calls.items():
                self.dist.barrier()
                begin = time.perf_counter()
                call()
                times.setdefault(name, []).append(time.perf_counter() - begin)
        best = {name: min(values) for name, values in times.items()}
        return (best["parallel"] - best["local"] - best["collective"]) / best["local"]


class Peak:
    """Peak memory of a training step, with the parameters whole in each rank or in pieces."""

    def __init__(self, lib: Any, dist: Any) -> None:
        self.lib, self.dist = lib, dist

    def share(self) -> float:
        """The largest rank's peak under fully_shard, in parts of that under DistributedDataParallel."""
        return self._peak(True) / self._peak(False)

    def _peak(self, pieces: bool) -> float:
        import models
        from flambeau.distributed.fsdp import fully_shard
        from models.training import Training

        models.load("gpt").FULL = DEEP
        gc.collect()  # models of earlier rows
        before = self.lib.memory_allocated()
        training = Training(self.lib, "gpt")
        if pieces:
            for block in training.net.blocks:
                fully_shard(block)
            fully_shard(training.net)
            training.optimiser = training.model.optimiser(self.lib, training.net)
            training.parameters = list(training.net.parameters())
        else:
            training.net = self.lib.nn.parallel.DistributedDataParallel(training.net)
        training.step()
        self.lib.reset_peak_memory_stats()
        training.step()
        peaks = [None] * self.dist.get_world_size()
        self.dist.all_gather_object(peaks, self.lib.max_memory_allocated() - before)
        return float(max(peaks))


def against_mpi(op: str, nbytes: int, ranks: int) -> float:
    """Time of mpi4py's call by that of the own engine's, both in the same processes, which mpirun starts."""
    return _against_mpi(op, ranks)[nbytes]


@functools.cache
def _against_mpi(op: str, ranks: int) -> dict[int, float]:
    """Those of all sizes, which one run of mpirun measures."""
    here = os.path.dirname(sys.executable)
    command = [os.path.join(here, "mpirun"), "-n", str(ranks), sys.executable, "-c", _MPI, op, *map(str, MPI_SIZES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(zip(MPI_SIZES, map(float, done.stdout.split()[-len(MPI_SIZES) :]), strict=True))


MPI_SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
_MPI = """
import sys, time
import numpy as np
from mpi4py import MPI
import flambeau as fb
dist, world = fb.distributed, MPI.COMM_WORLD
fb.set_num_threads(1)
dist.init_process_group("gloo")
ranks = world.size
for count in (int(size) // 4 for size in sys.argv[2:]):
    whole, part = fb.ones(count), fb.ones(count // ranks)
    a, b = np.ones(count, dtype="f"), np.ones(count // ranks, dtype="f")
    ours = {
        "all_reduce": lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX),
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX),
    }[sys.argv[1]]
    theirs = {
        "all_reduce": lambda: world.Allreduce(MPI.IN_PLACE, a, MPI.MAX),
        "broadcast": lambda: world.Bcast(a, 0),
        "all_gather": lambda: world.Allgather(b, a),
        "reduce_scatter": lambda: world.Reduce_scatter_block(a, b, MPI.MAX),
    }[sys.argv[1]]
    times = {ours: [], theirs: []}
    repeats = max(1, min(200, (8 << 20) // (count * 4)))
    for _ in range(7):
        for call, found in times.items():
            call()
            world.Barrier()
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            found.append(time.perf_counter() - begin)
    if world.rank == 0:
        print(sorted(times[theirs])[3] / sorted(times[ours])[3])
dist.destroy_process_group()
"""
