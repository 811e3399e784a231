"""Several processes running one function; the first failure ends all."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = [
    "ENV_VAR_PARALLEL_START", "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "spawn", "start_processes",
]  # fmt: skip
__dir__ = __all__.copy

# When this variable is "1", start_processes() with "forkserver" starts all processes at the same time.
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_log = logging.getLogger(__name__)
_LONGEST = 32 << 10  # characters of a traceback: the capacity of a pipe that is not being read


class ProcessException(Exception):
    """A process of spawn() failed.

    Args:
        msg: what happened.
        error_index: number of the process.
        error_pid: its process id.

    Example:
        >>> fb.multiprocessing.spawn.__module__
        'flambeau.multiprocessing.spawn'
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function of a process raised an exception; the message has its traceback.

    Example:
        >>> fb.multiprocessing.ProcessRaisedException("text", 0, 1234).pid
        1234
    """


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code other than 0.

    Args:
        msg: what happened.
        error_index: number of the process.
        error_pid: its process id.
        exit_code: its exit code, minus the signal's number if it was killed.
        signal_name: the signal's name, or None.

    Example:
        >>> fb.multiprocessing.ProcessExitedException("text", 0, 1234, -9, "SIGKILL").signal_name
        'SIGKILL'
    """

    def __init__(self, msg: Any, error_index: Any, error_pid: Any, exit_code: Any, signal_name: Any = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn, index: int, args: tuple[Any, ...], report) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        raise SystemExit(1) from None  # the parent was interrupted as well, and reports it
    except Exception:
        report.send(traceback.format_exc()[-_LONGEST:])
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that start_processes() started.

    Args:
        processes: the processes.
        reports: for each, the end of the pipe on which it reports an exception.

    Example:
        >>> fb.multiprocessing.ProcessContext([], []).join()
        True
    """

    def __init__(self, processes: Any, reports: Any) -> None:
        self.processes, self._reports = processes, reports
        self._running = dict(enumerate(processes))

    def pids(self) -> list[int]:
        """Process ids, in order.

        Example:
            >>> fb.multiprocessing.ProcessContext([], []).pids()
            []
        """
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends; raises, and ends the others, if it failed.

        Args:
            timeout: seconds to wait; None waits indefinitely.
            grace_period: seconds the others have to end by themselves before they are terminated; none by default.

        Returns:
            Whether all have ended.

        Example:
            >>> fb.multiprocessing.ProcessContext([], []).join(timeout=1)
            True
        """
        if not self._running:
            return True
        sentinels = {process.sentinel: index for index, process in self._running.items()}
        failed = None
        for ready in multiprocessing.connection.wait(list(sentinels), timeout):
            index = sentinels[ready]  # type: ignore[index]  # wait() returns some of what it was given
            process = self._running.pop(index)
            process.join()
            if process.exitcode != 0 and failed is None:
                failed = index
        if failed is not None:
            self._end_all(grace_period or 0.0)
            self._raise(failed)
        return not self._running

    def _end_all(self, patience: float = 0.0) -> None:
        end = time.monotonic() + patience
        for process in self._running.values():
            process.join(max(end - time.monotonic(), 0))
        for process in self._running.values():
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        end = time.monotonic() + _GRACE
        for process in self._running.values():
            process.join(max(end - time.monotonic(), 0))
            if process.is_alive():
                _log.warning("Killing process %s, which SIGTERM did not end", process.pid)
                process.kill()
                process.join()
        self._running.clear()

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        if self._reports[index].poll():
            try:
                text = self._reports[index].recv()
            except EOFError:
                text = None
            if text is not None:
                message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
                raise ProcessRaisedException(message, index, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, process.exitcode, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {process.exitcode}", index, process.pid, process.exitcode
        )


SpawnContext = ProcessContext  # its former name


def start_processes(
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Runs fn(i, *args) in nprocs processes, i from 0.

    Args:
        fn: the function; with "spawn" and "forkserver" one that can be imported.
        args: further arguments; tensors are shared, not copied.
        nprocs: number of processes.
        join: whether to wait for the end; an exception in one process is raised here and ends the others.
        daemon: whether the processes end with this one.
        start_method: "spawn", "fork" or "forkserver".

    Returns:
        None, or the ProcessContext if join is False.

    Example:
        >>> def work(index, x):
        ...     x[index] = index + 1.0
        >>> x = fb.zeros(2).share_memory_()
        >>> fb.multiprocessing.start_processes(work, (x,), nprocs=2, start_method="fork")
        >>> x
        tensor([1., 2.])
    """
    from flambeau.multiprocessing.queues import get_context

    context = get_context(start_method)
    processes, reports = [], []

    def start(process: Any, there: Any) -> None:
        process.start()
        there.close()

    # A fork server serves several threads, and each child then imports the program concurrently.
    together = start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START, "0") == "1"
    with ThreadPoolExecutor(max(nprocs, 1)) if together else contextlib.nullcontext() as pool:
        try:
            started = []  # what waits for the fork server
            for index in range(nprocs):
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_run, args=(fn, index, tuple(args), there), daemon=daemon)
                processes.append(process)
                reports.append(here)
                if pool is None:
                    start(process, there)
                else:
                    started.append(pool.submit(start, process, there))
            for waited in started:
                waited.result()
        except BaseException:
            ProcessContext([p for p in processes if p.pid is not None], reports)._end_all()
            raise
    running = ProcessContext(processes, reports)
    if not join:
        return running
    try:
        while not running.join():
            continue
    except BaseException:
        running._end_all()
        raise
    return None


def spawn(
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Runs fn(i, *args) in nprocs processes, i from 0; the first that fails ends all.

    Args:
        fn: a function that can be imported.
        args: further arguments; tensors are shared, not copied.
        nprocs: number of processes.
        join: whether to wait for the end; an exception in one process is raised here and ends the others.
        daemon: whether the processes end with this one.
        start_method: "spawn"; other ways are start_processes()'.

    Returns:
        None, or the ProcessContext if join is False.

    Example:
        >>> fb.multiprocessing.spawn(print, nprocs=0)
    """
    if start_method != "spawn":
        raise ValueError(f"spawn: start_method is {start_method!r}, expected 'spawn'; use start_processes() for others")
    return start_processes(fn, args, nprocs, join, daemon, start_method)
