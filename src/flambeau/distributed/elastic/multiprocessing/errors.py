"""Errors of processes as files for the launcher, which reports the first one when a run fails.

The launcher gives each process the name of a file in TORCHELASTIC_ERROR_FILE; record() writes the error there.
"""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
__dir__ = __all__.copy

_F = TypeVar("_F", bound=Callable[..., Any])


class ErrorHandler:
    """Writes errors to the file that TORCHELASTIC_ERROR_FILE names.

    Example:
        >>> from flambeau.distributed.elastic.multiprocessing.errors import ErrorHandler
        >>> ErrorHandler().record_exception(ValueError("no file is named, so nothing happens"))
    """

    def initialize(self) -> None:
        """Enables stack traces for crashes."""
        import faulthandler

        faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Writes an error, unless one was written before.

        Args:
            e: the error.
        """
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path or os.path.exists(path) and os.path.getsize(path):
            return
        stack = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        more = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": more}}, file)


def get_error_handler() -> ErrorHandler:
    """The handler that record() uses if it is given none.

    Example:
        >>> from flambeau.distributed.elastic.multiprocessing import errors
        >>> type(errors.get_error_handler()).__name__
        'ErrorHandler'
    """
    return ErrorHandler()


def record(fn: _F, error_handler: ErrorHandler | None = None) -> _F:
    """A decorator for a script's main function: an error that ends it is written for the launcher, and raised on.

    Args:
        fn: the function.
        error_handler: what writes; get_error_handler() if not given.

    Example:
        >>> from flambeau.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return "done"
        >>> main()
        'done'
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code not in (None, 0):
                handler.record_exception(end)
            raise
        except BaseException as error:
            handler.record_exception(error)
            raise

    return run  # type: ignore[return-value]  # it takes and gives what fn does


class ProcessFailure:
    """How a process failed: its number, its exit code, and what it wrote.

    Args:
        local_rank: its number on its host.
        pid: its process id.
        exitcode: its exit code; negative for a signal.
        error_file: where it may have written an error.

    Example:
        >>> from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure
        >>> ProcessFailure(0, 17, -9, "").signal_name()
        'SIGKILL'
    """

    def __init__(self, local_rank: int, pid: int, exitcode: int, error_file: str) -> None:
        self.local_rank, self.pid, self.exitcode, self.error_file = local_rank, pid, exitcode, error_file
        self.error_file_data: Any = None
        self.message, self.timestamp = "", int(time.time())
        try:
            with open(error_file, encoding="utf-8") as file:
                self.error_file_data = json.load(file)
            found = self.error_file_data["message"]
            self.message = found if isinstance(found, str) else str(found["message"])
            self.timestamp = int(found["extraInfo"]["timestamp"]) if isinstance(found, dict) else self.timestamp
        except (OSError, ValueError, KeyError):  # it ended before it could write
            self.message = f"Signal {-exitcode} ({self.signal_name()}) received by PID {pid}" if exitcode < 0 else ""

    def signal_name(self) -> str:
        """The signal that ended it, or a text that says there was none."""
        import signal

        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes of a run have failed; the first to fail is the cause.

    Args:
        name: what ran.
        failures: by rank, how.

    Example:
        >>> from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
        >>> print(ChildFailedError("train.py", {0: ProcessFailure(0, 17, 1, "")}))
        train.py: rank 0 (process 17) failed with exit code 1
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        rank, first = self.get_first_failure()
        how = f"was ended by {first.signal_name()}" if first.exitcode < 0 else f"failed with exit code {first.exitcode}"
        super().__init__(f"{name}: rank {rank} (process {first.pid}) {how}" + (f": {first.message}" if first.error_file_data else ""))

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]
