"""The worker: receives orders, loads batches, and returns them or its errors."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau as fb

# A ready pipe accepts this much without blocking (PIPE_BUF is 4096); longer messages use shared memory.
_SHORT = 3500
_PATIENCE = 2.0  # seconds between checks whether the parent is alive

_local = threading.local()
_process = False


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this is.

    Args:
        id: its number, from 0.
        num_workers: how many there are.
        seed: the seed its random state started from in this epoch.
        dataset: its copy of the dataset.

    Example:
        >>> fb.utils.data._utils.worker.WorkerInfo(id=0, num_workers=2, seed=5, dataset=[]).num_workers
        2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> Any:
    """In a worker of a DataLoader, its id, num_workers, seed and dataset; elsewhere None.

    Example:
        >>> class Share(fb.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         info = fb.utils.data.get_worker_info()
        ...         return iter(range(info.id, 4, info.num_workers))
        >>> list(fb.utils.data.DataLoader(Share(), batch_size=None, num_workers=2, worker_type="thread"))
        [0, 1, 2, 3]
    """
    return getattr(_local, "info", None)


def in_process() -> bool:
    """Whether this is a worker process, whose batches are sent through shared memory."""
    return _process


class WorkerError:
    """A worker's exception, to be raised in the parent with the worker's traceback."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind, self.name, self.where = type(error), type(error).__name__, where
        if not isinstance(error, Exception):
            self.kind = RuntimeError  # an exit of the worker counts as a failure
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raises an exception of the same class if it can be created from a text, else a RuntimeError."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        try:
            error = self.kind(_Message(message) if issubclass(self.kind, KeyError) else message)
            if message not in str(error):  # a class with its own text
                error.add_note(message)
        except Exception:  # it needs other arguments, or its text cannot be created
            error = RuntimeError(message)
        try:
            raise error
        finally:
            # otherwise the exception holds this frame, which holds it, and workers wait for the garbage collector
            del error

    def __reduce__(self) -> Any:
        return _rebuilt, (_names(self.kind), self.name, self.where, self.text)


class _Message(str):
    """A text that KeyError shows unquoted, with its line breaks."""

    def __repr__(self) -> str:
        return str(self)


def _names(kind: type[Any]) -> list[tuple[str, str]]:
    """Module and name of the class and of its bases; a spawned worker has the script under another name."""
    return [(base.__module__.replace("__mp_main__", "__main__"), base.__qualname__) for base in kind.__mro__]


def _rebuilt(names, shown, where, text):
    error = WorkerError.__new__(WorkerError)
    error.kind, error.name, error.where, error.text = RuntimeError, shown, where, text
    for module, name in names:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)  # a class made within a function is not found
        if isinstance(found, type) and issubclass(found, Exception):
            error.kind = found if found is not Exception else RuntimeError  # which is no less specific
            break
    return error


# ---- messages ------------------------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """A message that a ready pipe accepts at once; tensors and long messages are in shared memory."""
    from multiprocessing.reduction import ForkingPickler

    from flambeau.multiprocessing.reductions import copying, empty_shared

    with copying():
        data = ForkingPickler.dumps(value)
        if len(data) <= _SHORT:
            return b"S" + data
        shared = empty_shared((len(data),), fb.uint8)
        memoryview(shared)[:] = data
        return b"L" + ForkingPickler.dumps(shared)


def unpack(message: bytes) -> Any:
    """The value of a message."""
    from multiprocessing.reduction import ForkingPickler

    value = ForkingPickler.loads(memoryview(message)[1:])
    return value if message[:1] == b"S" else ForkingPickler.loads(memoryview(value))


# ---- the loop ------------------------------------------------------------------------------------------------------------


class Loop:
    """One worker's work, the same for processes and threads.

    Args:
        start_epoch: (seed) -> fetcher, called at the beginning of every epoch.
        init: worker_init_fn or None.
        number: of this worker.
        total: number of workers.
        dataset: the dataset.
        where: how errors call this worker.
    """

    def __init__(
        self,
        start_epoch: Callable[..., Any],
        init: Callable[..., Any] | None,
        number: int,
        total: int,
        dataset: Any,
        where: str,
    ) -> None:
        self.start_epoch, self.init, self.number, self.total = start_epoch, init, number, total
        self.dataset, self.where = dataset, f"in DataLoader worker {where} {number}"
        self.fetch: Any = None
        self.broken: WorkerError | None = None
        self.epoch = 0

    def handle(self, order: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Handles an order and returns (epoch, number, kind, value), or nothing for the start of an epoch."""
        try:
            if order[0] == "epoch":
                _, self.epoch, seed = order
                self._begin(seed)
                return None
            _, number, wanted = order
            if self.broken is not None:
                return self.epoch, number, "error", self.broken
            return self.epoch, number, "batch", self.fetch(number, wanted)
        except BaseException as error:  # includes sys.exit() in a sample: an ended thread would be waited for
            if isinstance(error, StopIteration) and getattr(self.fetch, "ends", False):
                return self.epoch, order[1], "end", None
            wrapped = WorkerError(error, self.where)
            if order[0] == "epoch":
                self.broken = wrapped  # reported when the first batch is requested
                return None
            return self.epoch, order[1], "error", wrapped

    def _begin(self, seed: int) -> None:
        _local.info = WorkerInfo(self.number, self.total, seed + self.number, self.dataset)
        make_fetcher = self.start_epoch(seed, seed + self.number)
        if self.init is not None:
            self.init(self.number)
            self.init = None
        self.fetch = make_fetcher()


def run_process(make_loop: Callable[[], Loop], orders: Any, results: Any, stale: Any) -> None:
    """The main function of a worker process; ends when told to, or when the parent is gone."""
    global _process
    from flambeau.multiprocessing import _arena

    _process = True
    _arena.arena.heirs = False  # the parent tells a worker to end when it needs no more batches
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which then ends the workers
    for end in stale:
        end.close()
    fb.set_num_threads(1)
    loop, parent = make_loop(), os.getppid()
    while True:
        while not orders.poll(_PATIENCE):
            if os.getppid() != parent:
                return
        try:
            order = unpack(orders.recv_bytes())
        except (EOFError, OSError):
            return
        if order is None:
            return
        answer = loop.handle(order)
        if answer is None:
            continue
        try:
            message = pack(answer)
        except Exception as error:
            message = pack((answer[0], answer[1], "error", WorkerError(error, loop.where)))
        del answer
        while not select.select([], [results], [], _PATIENCE)[1]:
            if os.getppid() != parent:
                return
        try:
            results.send_bytes(message)
        except OSError:
            return
