"""Queues that move tensors to shared memory before put() returns, and the contexts that create them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as _context
import multiprocessing.queues as _queues
import sys
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

__all__ = ["ForkContext", "ForkServerContext", "JoinableQueue", "Queue", "SpawnContext", "get_context"]
__dir__ = __all__.copy

if TYPE_CHECKING:
    _Queue = _queues.Queue[Any]
    _JoinableQueue = _queues.JoinableQueue[Any]
else:
    _Queue, _JoinableQueue = _queues.Queue, _queues.JoinableQueue


class _Pickled:
    """An object that is already pickled; the queue's feeder thread only passes on the bytes."""

    def __init__(self, value: Any) -> None:
        self.data = bytes(ForkingPickler.dumps(value))

    def __reduce__(self) -> Any:
        return ForkingPickler.loads, (self.data,)


class Queue(_Queue):
    """multiprocessing.Queue that pickles in put().

    Tensors move to shared memory while the caller waits, not in another thread while it computes with them; and what
    cannot be pickled raises in put().

    Args:
        maxsize: number of objects from which put() waits; 0 is unlimited.
        ctx: the context whose locks it uses.

    Example:
        >>> queue = fb.multiprocessing.Queue()
        >>> queue.put(fb.ones(2))
        >>> queue.get()
        tensor([1., 1.])
    """

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> Any:
        """Puts an object into the queue, waiting for room if asked to."""
        super().put(_Pickled(obj), block, timeout)


class JoinableQueue(_JoinableQueue):
    """multiprocessing.JoinableQueue that pickles in put().

    Args:
        maxsize: number of objects from which put() waits; 0 is unlimited.
        ctx: the context whose locks it uses.

    Example:
        >>> queue = fb.multiprocessing.JoinableQueue()
        >>> queue.put(1)
        >>> queue.get(), queue.task_done()
        (1, None)
    """

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> Any:
        """Puts an object into the queue, waiting for room if asked to."""
        super().put(_Pickled(obj), block, timeout)


class _OurQueues:
    get_context: Any  # the context's

    def Queue(self, maxsize: int = 0) -> Any:
        """Returns a queue object."""
        return Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> Any:
        """Returns a queue object whose items are acknowledged."""
        return JoinableQueue(maxsize, ctx=self.get_context())


class SpawnContext(_OurQueues, _context.SpawnContext):
    """Starts processes from a fresh interpreter.

    Example:
        >>> fb.multiprocessing.get_context("spawn").get_start_method()
        'spawn'
    """


class ForkContext(_OurQueues, _context.ForkContext):
    """Starts processes as copies of this one.

    Example:
        >>> fb.multiprocessing.get_context("fork").get_start_method()
        'fork'
    """


class ForkServerContext(_OurQueues, _context.ForkServerContext):
    """Starts processes as copies of a small server.

    Example:
        >>> fb.multiprocessing.get_context("forkserver").get_start_method()
        'forkserver'
    """


_CONTEXTS = {"spawn": SpawnContext(), "fork": ForkContext(), "forkserver": ForkServerContext()}


def get_context(method: str | None = None) -> Any:
    """The context of a start method, with the names of this module as attributes.

    Args:
        method: "fork", "spawn" or "forkserver"; by default the one in force.

    Example:
        >>> fb.multiprocessing.get_context("spawn").Process.__name__
        'SpawnProcess'
    """
    name = multiprocessing.get_start_method() if method is None else method
    if name not in _CONTEXTS or sys.platform == "win32":
        return multiprocessing.get_context(method)  # raises for an unknown name
    return _CONTEXTS[name]
