"""The standard module multiprocessing, with tensors that move to shared memory when they are sent.

Example:
    >>> queue = fb.multiprocessing.SimpleQueue()
    >>> queue.put(fb.arange(3))
    >>> queue.get()
    tensor([0, 1, 2])
"""

from __future__ import annotations

import multiprocessing as _standard
from multiprocessing import *
from typing import Any

from flambeau import Tensor as _Tensor
from flambeau._registry.names import package_dir as _package_dir
from flambeau.multiprocessing import queues as _queues
from flambeau.multiprocessing import reductions
from flambeau.multiprocessing.spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [*_standard.__all__] + [  # type: ignore[attr-defined]  # which the stub does not show
    "ENV_VAR_PARALLEL_START", "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__dir__ = _package_dir(__name__)


def Queue(maxsize: int = 0) -> Any:  # type: ignore[no-redef]  # in place of the standard one
    """A queue between processes; tensors are in shared memory when put() returns.

    Args:
        maxsize: number of objects from which put() waits; 0 is unlimited.

    Example:
        >>> queue = fb.multiprocessing.Queue()
        >>> queue.put(fb.ones(2))
        >>> queue.get()
        tensor([1., 1.])
    """
    return _queues.Queue(maxsize, ctx=_standard.get_context())


def JoinableQueue(maxsize: int = 0) -> Any:  # type: ignore[no-redef]  # in place of the standard one
    """A queue whose receivers report with task_done() what they have dealt with, and whose join() waits for that.

    Args:
        maxsize: number of objects from which put() waits; 0 is unlimited.

    Example:
        >>> queue = fb.multiprocessing.JoinableQueue()
        >>> queue.put(1)
        >>> queue.get(), queue.task_done(), queue.join()
        (1, None, None)
    """
    return _queues.JoinableQueue(maxsize, ctx=_standard.get_context())


def get_all_sharing_strategies() -> Any:
    """The ways of sharing memory there are.

    Example:
        >>> fb.multiprocessing.get_all_sharing_strategies()
        {'file_descriptor'}
    """
    return {"file_descriptor"}


def get_sharing_strategy() -> Any:
    """The way memory is shared: files without a name, a few per process whatever the number of tensors.

    Example:
        >>> fb.multiprocessing.get_sharing_strategy()
        'file_descriptor'
    """
    return "file_descriptor"


def set_sharing_strategy(new_strategy: Any) -> Any:
    """Accepts 'file_descriptor'. PyTorch's 'file_system' exists for programs short of descriptors, which cannot happen here.

    Args:
        new_strategy: 'file_descriptor', or 'file_system', which is the same here.

    Example:
        >>> fb.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise ValueError(f"set_sharing_strategy: unknown strategy {new_strategy!r}; expected 'file_descriptor'")


def _share_memory_(self):
    """share_memory_()

    Moves the memory of the tensor, and of every view of it, to where other processes can see it.

    Example:
        >>> fb.ones(2).share_memory_()
        tensor([1., 1.])
    """
    if self.numel():
        reductions.share(self)
    return self


def _is_shared(self):
    """is_shared()

    Whether other processes can see the tensor's memory.

    Example:
        >>> fb.ones(2).share_memory_().is_shared()
        True
    """
    return reductions.is_shared(self)


get_context = _queues.get_context
_share_memory_.__name__, _is_shared.__name__ = "share_memory_", "is_shared"
for _method in (_share_memory_, _is_shared):
    setattr(_Tensor, _method.__name__, _method)
reductions.init_reductions()
