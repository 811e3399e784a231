"""Submodules that are loaded on first use, and processes that are forked meanwhile.

A module being loaded by one thread stays half loaded, and locked for ever, in a child that another thread forks at that
moment. So a fork waits until no thread loads a module of this package, and loads wait until the fork is done. A thread
that forks while it imports something does not wait: the other may be waiting for its import.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from types import ModuleType

PATIENCE = 10.0  # seconds a fork waits; an import that takes longer may itself be waiting for something


class _Loads:
    """Threads that are loading a module, and whether a thread is forking."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.loading: dict[int, int] = {}  # thread -> depth
        self.forking = False


_loads = _Loads()


def load(name: str) -> ModuleType:
    """The module of that name, loaded if it is not yet.

    Example:
        >>> from flambeau._registry import lazy
        >>> lazy.load("flambeau.version").__name__
        'flambeau.version'
    """
    if (found := sys.modules.get(name)) is not None and not _half_loaded(found):
        return found
    me, loads = threading.get_ident(), _loads
    with loads.changed:
        if me not in loads.loading and not _imports(sys._getframe()):
            loads.changed.wait_for(lambda: not loads.forking, PATIENCE)
        loads.loading[me] = loads.loading.get(me, 0) + 1
    try:
        return importlib.import_module(name)
    finally:
        with loads.changed:
            loads.loading[me] -= 1
            if not loads.loading[me]:
                del loads.loading[me]
            loads.changed.notify_all()


def _half_loaded(module: ModuleType) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def _imports(frame) -> bool:
    """Whether the thread of this frame is importing something."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _others_load() -> bool:
    named = [module for name, module in list(sys.modules.items()) if name.startswith("flambeau")]
    return any(map(_half_loaded, named))


def _before_fork() -> None:
    loads, end = _loads, time.monotonic() + PATIENCE
    patient = not _imports(sys._getframe())
    with loads.changed:
        loads.forking = True
        if patient:
            loads.changed.wait_for(lambda: not loads.loading, PATIENCE)
    # Threads that import directly.
    while patient and _others_load() and time.monotonic() < end:
        time.sleep(0.001)
    loads.changed.acquire()  # the child must not find it held by another thread


def _after_fork_in_parent() -> None:
    _loads.forking = False
    _loads.changed.notify_all()
    _loads.changed.release()


def _after_fork_in_child() -> None:
    global _loads
    _loads = _Loads()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
