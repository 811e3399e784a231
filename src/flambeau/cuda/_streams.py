"""Streams and events without a device: work runs at once, events stamp the host's clock."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from flambeau.errors import StateError


class Event:
    """A point in time. On the CPU ops are finished when they return, so the host's clock tells when that was.

    Args:
        enable_timing: whether elapsed_time() may be asked.
        blocking, interprocess: no effect here.

    Example:
        >>> start, end = (fb.cuda.Event(enable_timing=True) for _ in range(2))
        >>> start.record()
        >>> y = fb.ones(8) + 1
        >>> end.record()
        >>> start.elapsed_time(end) >= 0
        True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """The event is now."""
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Whether all work before the event is done: always."""
        return True

    def synchronize(self) -> None:
        """Returns at once: the work before the event is done."""

    def wait(self, stream: Any = None) -> None:
        """Returns at once: the work before the event is done."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both must have been recorded with enable_timing=True."""
        if not (self.enable_timing and end_event.enable_timing):
            raise StateError("Event.elapsed_time: both events need enable_timing=True")
        if self._time is None or end_event._time is None:
            raise StateError("Event.elapsed_time: both events must have been recorded; call record() first")
        return (end_event._time - self._time) * 1000.0


class Stream:
    """A queue of work. On the CPU there is one, and what is put there runs at once.

    Args:
        device, priority: no effect here.

    Example:
        >>> side = fb.cuda.Stream()
        >>> with fb.cuda.stream(side):
        ...     y = fb.ones(2)
        >>> side.query()
        True
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Returns at once: the work is done."""

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one if none is given, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Returns at once: the work before the event is done."""

    def wait_stream(self, stream: Stream) -> None:
        """Returns at once: the other stream's work is done."""


_default = Stream()
_current = [_default]


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to by default.

    Example:
        >>> fb.cuda.default_stream().query()
        True
    """
    return _default


def current_stream(device: Any = None) -> Stream:
    """The stream chosen by the innermost stream() block or by set_stream().

    Example:
        >>> fb.cuda.current_stream() is fb.cuda.default_stream()
        True
    """
    return _current[-1]


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one; None changes nothing.

    Example:
        >>> fb.cuda.set_stream(fb.cuda.default_stream())
    """
    if stream is not None:
        _current[-1] = stream


class StreamContext(contextlib.AbstractContextManager[Any]):
    """A stream is the current one within the block; None changes nothing.

    Example:
        >>> side = fb.cuda.Stream()
        >>> with fb.cuda.StreamContext(side):
        ...     fb.cuda.current_stream() is side
        True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _current.append(_current[-1] if self.stream is None else self.stream)

    def __exit__(self, *exception: object) -> None:
        _current.pop()


def stream(stream: Stream | None) -> StreamContext:
    """A block within which a stream is the current one.

    Example:
        >>> with fb.cuda.stream(None):
        ...     x = fb.zeros(2)
    """
    return StreamContext(stream)
