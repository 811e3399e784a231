"""What data.py measures: a loader's epochs, a queue's round trips, files of a state dict. The same code for both libraries."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import tempfile
from pathlib import Path
from typing import Any

FOLDER = "FLAMBEAU_BENCHMARK_FOLDER"  # where files on the disk go; data.py makes it and removes it
MEMORY_FOLDER = "FLAMBEAU_BENCHMARK_MEMORY_FOLDER"  # and those on a memory disk
SIZES = {"small": ((28, 28), 64), "large": ((3, 224, 224), 8)}  # shape of a sample, samples per batch


class Pictures:
    """uint8 pictures that become float tensors when they are asked for, as most datasets do it."""

    def __init__(self, lib: Any, kind: str, count: int) -> None:
        import numpy as np

        self.lib, self.count = lib, count
        self.pictures = np.random.default_rng(0).integers(0, 256, (64, *SIZES[kind][0]), dtype=np.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.lib.from_numpy(self.pictures[index % 64]).float().div(255), index % 10

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lib": self.lib.__name__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lib=importlib.import_module(state["lib"]))


class Rows:
    """A TensorDataset of rows."""

    def __new__(cls, lib: Any, count: int) -> Any:
        return lib.utils.data.TensorDataset(lib.ones(count, 32), lib.arange(count))


class Loading:
    """A loader over a dataset; epoch() goes through it, once() starts workers for one batch and ends them."""

    def __init__(self, lib: Any, kind: str, count: int, workers: int, method: str = "fork", stay: bool = True) -> None:
        importlib.import_module(f"{lib.__name__}.utils.data")
        dataset = Rows(lib, count) if kind == "rows" else Pictures(lib, kind, count)
        more: dict[str, Any] = {"num_workers": workers, "persistent_workers": stay} if workers else {}
        if workers:
            more["multiprocessing_context"] = method
        batch = 64 if kind == "rows" else SIZES[kind][1]
        self.loader = lib.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, **more)
        self.workers = workers

    def epoch(self) -> int:
        """How many samples came."""
        return sum(len(labels) for _, labels in self.loader)

    def once(self) -> int:
        """How many samples the first batch has."""
        return len(next(iter(self.loader))[1])

    def memory(self) -> float:
        """Megabytes that belong to one worker alone while it loads."""
        before = set(multiprocessing.active_children())
        batches = iter(self.loader)
        next(batches)
        workers = [child for child in multiprocessing.active_children() if child not in before]
        return sum(private_bytes(child.pid) for child in workers) / len(workers) / 1e6


def private_bytes(pid: int | None) -> int:
    """Memory of a process that it shares with no other."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _echo(asked: Any, answered: Any) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # exit if the parent process is killed
        try:
            answered.put(float(asked.get(timeout=1)[-1]))
        except queue.Empty:
            continue


class Passing:
    """A process that answers every tensor with its last element."""

    def __init__(self, lib: Any, count: int) -> None:
        module = importlib.import_module(f"{lib.__name__}.multiprocessing")
        context = module.get_context("fork")
        self.tensor = lib.ones(count)
        self.asked, self.answered = context.Queue(), context.Queue()
        self.process = context.Process(target=_echo, args=(self.asked, self.answered), daemon=True)
        self.process.start()

    def round_trip(self) -> float:
        """A fresh tensor there, a number back."""
        self.asked.put(self.tensor.clone())
        return self.answered.get()

    def __del__(self) -> None:
        self.process.terminate()
        self.process.join()


class Files:
    """A state dict of `megabytes` in 64 tensors and the file it is saved to, on the disk or on a memory disk."""

    def __init__(self, lib: Any, megabytes: int, ending: str, saved: bool = False, disk: bool = False) -> None:
        self.lib, count = lib, megabytes * 250_000 // 64
        self.state = {f"layer{i}.weight": lib.ones(count) for i in range(64)}
        folder = Path(os.environ.get(FOLDER if disk else MEMORY_FOLDER) or tempfile.gettempdir())
        self.path = folder / f"{lib.__name__}-{os.getpid()}{ending}"
        if saved:
            self.save()
            self.state = {}

    def save(self) -> None:
        """Saves as a user does."""
        self.lib.save(self.state, self.path)

    def save_for_good(self) -> None:
        """Saves so that there is never half a file, and everything is on the disk at the end; flambeau always does."""
        if self.lib.__name__ == "flambeau":
            self.save()
            return
        temporary = self.path.with_suffix(".tmp")
        self.lib.save(self.state, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def load(self, **options: Any) -> int:
        """How many tensors the file has."""
        return len(self.lib.load(self.path, **options))

    def load_and_use(self) -> float:
        """Maps the file and reads all of it."""
        return sum(float(t.sum()) for t in self.lib.load(self.path, mmap=True).values())

    def __del__(self) -> None:
        self.path.unlink(missing_ok=True)
