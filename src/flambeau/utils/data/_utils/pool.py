"""Workers in the parent: processes with a pipe in each direction, or threads."""

from __future__ import annotations

import collections
import pickle
import queue
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.errors import StateError
from flambeau.utils.data._utils.worker import Loop, pack, run_process, unpack

_LOOK = 1.0  # seconds between checks whether workers are alive
_GRACE = 2.0  # seconds for a worker to finish its sample before it is terminated


class ProcessPool:
    """Worker processes. Each has its own two pipes: no lock can be left behind by one that is killed.

    Args:
        make_loop: (number) -> a function without arguments that makes the worker's Loop.
        count: number of workers.
        context: the multiprocessing context, None for the default.
    """

    def __init__(self, make_loop: Callable[[int], Callable[[], Loop]], count: int, context: Any) -> None:
        from flambeau.multiprocessing import _arena, get_context

        context = context or get_context()
        self.detach = _arena.detach
        self.processes: list[Any] = []
        self.orders: list[Any] = []
        self.results: list[Any] = []
        self.waiting: list[collections.deque[bytes]] = [collections.deque() for _ in range(count)]
        self.closed = False
        forked = context.get_start_method() == "fork"
        try:
            for number in range(count):
                self._start(make_loop(number), context, forked)
        except BaseException as error:
            self.close()
            for process in self.processes:
                process.close()  # never used: their descriptors are closed at once
            if not forked and isinstance(error, (pickle.PicklingError, AttributeError, TypeError)):
                warnings.warn(
                    "Got pickle error when attempting to start a worker process: with this start method the dataset, collate_fn "
                    "and worker_init_fn must be picklable, so define them at the top of a module, or pass "
                    "multiprocessing_context='fork'",
                    stacklevel=2,
                )
            if isinstance(error, OSError):
                raise RuntimeError(
                    f"DataLoader: worker {len(self.processes)} of {count} could not be started: {error}; use fewer workers or "
                    "raise the limit (ulimit -n for open files, ulimit -u for processes)"
                ) from error
            raise
        self.poller = select.poll()
        for end in self.results:
            self.poller.register(end.fileno(), select.POLLIN)
        self.by_fd = {end.fileno(): number for number, end in enumerate(self.results)}

    def _start(self, make_loop: Callable[[], Loop], context: Any, forked: bool) -> None:
        ends: list[Any] = []
        try:
            ends.extend(context.Pipe(duplex=False))
            ends.extend(context.Pipe(duplex=False))
            take, give, receive, answer = ends
            # A forked child has copies of the parent's ends of all pipes, which would hide the parent's death.
            stale = [*self.orders, *self.results, give, receive] if forked else []
            process = context.Process(target=run_process, args=(make_loop, take, answer, stale), daemon=True)
            process.start()
        except BaseException:
            for end in ends:
                end.close()
            raise
        take.close()
        answer.close()
        self.processes.append(process)
        self.orders.append(give)
        self.results.append(receive)

    def submit(self, number: int, order: Any) -> None:
        """Sends an order; waits here while the worker's pipe is full, so that neither side deadlocks."""
        self.waiting[number].append(pack(order))
        self._flush(number)

    def _flush(self, number: int) -> None:
        queued = self.waiting[number]
        while queued and select.select([], [self.orders[number]], [], 0)[1]:
            try:
                self.orders[number].send_bytes(queued[0])
            except OSError:
                self._died(number)
            queued.popleft()

    def receive(self, timeout: float | None) -> tuple[int, tuple[Any, ...]] | None:
        """The next answer of any worker with its number; None after the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK if end is None else min(_LOOK, end - time.monotonic())
            ready = self.poller.poll(max(left, 0) * 1000)
            if ready:
                return self._take(self.by_fd[ready[0][0]])
            for number, process in enumerate(self.processes):
                self._flush(number)
                if not process.is_alive():
                    self._died(number)
            if end is not None and time.monotonic() >= end:
                return None

    def _take(self, number: int) -> tuple[int, tuple[Any, ...]]:
        try:
            message = self.results[number].recv_bytes()
        except (EOFError, OSError):
            self._died(number)
        try:
            answer = unpack(message)
        except StateError:  # the batch's memory was lost with its worker
            self.processes[number].join(_GRACE)
            if self.processes[number].is_alive():
                raise
            self._died(number)
        self._flush(number)
        return number, answer

    def _died(self, number: int) -> None:
        process = self.processes[number]
        process.join(_GRACE)
        code, pid = process.exitcode, process.pid
        self.close()
        what = f"exited unexpectedly with exit code {code}; what it wrote to stderr says more"
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            what = f"was killed by signal {name}"
            if name == "SIGKILL":
                what += "; the system does that when memory runs out"
            if name == "SIGBUS":
                what += "; there was not enough shared memory"
        raise RuntimeError(f"DataLoader worker {number} (pid {pid}) {what}")

    def close(self) -> None:
        """Ends the workers and waits for them: asks, then terminates, then kills."""
        if self.closed:
            return
        self.closed = True
        for end in [*self.orders, *self.results]:
            end.close()
        deadline = time.monotonic() + _GRACE
        for stop in (lambda p: None, lambda p: p.terminate(), lambda p: p.kill()):
            for process in self.processes:
                stop(process)
            for process in self.processes:
                process.join(max(deadline - time.monotonic(), 0.01))
            deadline = time.monotonic() + 1.0
            if not any(process.is_alive() for process in self.processes):
                break
        for process in self.processes:
            process.join()
        self.detach()


class ThreadPool:
    """Worker threads: no copies, no start-up cost; they help where samples spend their time outside the interpreter.

    Args:
        make_loop: (number) -> a function without arguments that makes the worker's Loop.
        count: number of workers.
    """

    def __init__(self, make_loop: Callable[[int], Callable[[], Loop]], count: int) -> None:
        self.orders: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(count)]
        self.results: queue.SimpleQueue = queue.SimpleQueue()
        self.threads = [
            threading.Thread(target=_run_thread, args=(make_loop(i), i, self.orders[i], self.results), daemon=True)
            for i in range(count)
        ]
        self.closed = False
        for thread in self.threads:
            thread.start()

    def submit(self, number: int, order: Any) -> None:
        """Gives an order to a worker."""
        self.orders[number].put(order)

    def receive(self, timeout: float | None) -> tuple[int, tuple[Any, ...]] | None:
        """The next answer of any worker with its number; None after the timeout."""
        try:
            return self.results.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Tells the threads to end after their current sample."""
        if not self.closed:
            self.closed = True
            for orders in self.orders:
                while not orders.empty():
                    orders.get()
                orders.put(None)


def _run_thread(make_loop: Callable[[], Loop], number: int, orders, results) -> None:
    loop = make_loop()
    while (order := orders.get()) is not None:
        answer = loop.handle(order)
        if answer is not None:
            results.put((number, answer))
        del answer
