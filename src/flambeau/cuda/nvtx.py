"""Markers for NVIDIA's profiler. Without a CUDA device they have no effect, but nesting depths and IDs are tracked."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
__dir__ = __all__.copy

_open: list[str] = []
_numbers = itertools.count(1)


def range_push(msg: str) -> int:
    """Opens a range; returns how many were open before."""
    _open.append(msg)
    return len(_open) - 1


def range_pop() -> int:
    """Closes the innermost range; returns how many are open still, -1 if there was none."""
    if not _open:
        return -1
    _open.pop()
    return len(_open)


def range_start(msg: str) -> int:
    """Opens a range that may be closed anywhere; returns its number."""
    return next(_numbers)


def range_end(range_id: int) -> None:
    """Closes a range by its number."""


def mark(msg: str) -> None:
    """Marks a moment."""


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range around the block; further arguments fill the message as with str.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
