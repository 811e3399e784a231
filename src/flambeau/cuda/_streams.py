"""Streams and events: the accelerator's. Without a device work runs at once, and events stamp the host's clock."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from flambeau import _C, accelerator
from flambeau.errors import StateError


def present() -> bool:
    """Whether there is a device named "cuda"."""
    return os.environ.get("FLAMBEAU_DEVICE") != "cpu" and _C.accelerator_count(_C.device("cuda")) > 0


def device_of(given: Any = None) -> Any:
    """The device for an argument: an index, a device, or None for the current one."""
    if given is None or isinstance(given, int):
        return _C.device("cuda", given or 0)
    return _C.device(given)


class Event:
    """A point in a stream's work, to wait for or to measure by. Without a device it is a point in the host's time.

    Args:
        enable_timing: whether elapsed_time() can be called.
        blocking, interprocess: no effect here.

    Example:
        >>> start, end = (fb.cuda.Event(enable_timing=True) for _ in range(2))
        >>> start.record()
        >>> y = fb.ones(8) + 1
        >>> end.record()
        >>> end.synchronize()
        >>> start.elapsed_time(end) >= 0
        True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._time: float | None = None
        self._real = accelerator.Event(device_of(), enable_timing=enable_timing) if present() else None

    def record(self, stream: Any = None) -> None:
        """The event is what the stream, by default the current one, has been given to do until now."""
        if self._real is not None:
            self._real.record(None if stream is None else _real(stream))
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Whether all work before the event is done."""
        return self._real is None or self._real.query()

    def synchronize(self) -> None:
        """Waits until the work before the event is done."""
        if self._real is not None:
            self._real.synchronize()

    def wait(self, stream: Any = None) -> None:
        """Lets a stream, by default the current one, wait for the event before it goes on."""
        if self._real is not None:
            self._real.wait(None if stream is None else _real(stream))

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both must have been recorded with enable_timing=True."""
        if self._real is not None and end_event._real is not None:
            return self._real.elapsed_time(end_event._real)
        if not (self.enable_timing and end_event.enable_timing):
            raise StateError("Event.elapsed_time: both events need enable_timing=True")
        if self._time is None or end_event._time is None:
            raise StateError("Event.elapsed_time: both events must have been recorded; call record() first")
        return (end_event._time - self._time) * 1000.0


class Stream:
    """A queue of work. Without a device there is one, and what is put there runs at once.

    Args:
        device: which device, the present one by default.
        priority: no effect here.

    Example:
        >>> side = fb.cuda.Stream()
        >>> with fb.cuda.stream(side):
        ...     y = fb.ones(2)
        >>> side.synchronize()
        >>> side.query()
        True
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority
        self._real = accelerator.Stream(device_of(device)) if present() else None

    @classmethod
    def _of(cls, real: accelerator.Stream) -> Stream:
        stream = cls.__new__(cls)
        stream.priority, stream._real = 0, real
        return stream

    @property
    def device(self) -> Any:
        """Where it is."""
        return _C.device("cuda", 0) if self._real is None else self._real.device

    @property
    def stream_id(self) -> int:
        """Its number."""
        return 0 if self._real is None else self._real.stream_id

    cuda_stream = stream_id

    def synchronize(self) -> None:
        """Waits until the work is done."""
        if self._real is not None:
            self._real.synchronize()

    def query(self) -> bool:
        """Whether all work is done."""
        return self._real is None or self._real.query()

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one if none is given, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Work that is put here from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work that is put here from now on waits for what the other stream has been given."""
        if self._real is not None:
            self._real.wait_stream(_real(stream))

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Stream) and self._real is not None and self._real == other._real

    def __hash__(self) -> int:
        return id(self) if self._real is None else hash(self._real)


def _real(stream: Any) -> accelerator.Stream:
    real = getattr(stream, "_real", stream)
    if not isinstance(real, accelerator.Stream):
        raise TypeError(f"expected a cuda.Stream that was made where there is a device, got {type(stream).__name__}")
    return real


_default = Stream.__new__(Stream)  # without a device
_default.priority, _default._real = 0, None
_current = [_default]


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to by default.

    Example:
        >>> fb.cuda.default_stream().query()
        True
    """
    return Stream._of(accelerator.Stream._numbered(accelerator._device(device_of(device)), 0)) if present() else _default


def current_stream(device: Any = None) -> Stream:
    """The stream chosen by the innermost stream() block or by set_stream().

    Example:
        >>> fb.cuda.current_stream() == fb.cuda.default_stream()
        True
    """
    return Stream._of(accelerator.current_stream(device_of(device))) if present() else _current[-1]


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one; None changes nothing.

    Example:
        >>> fb.cuda.set_stream(fb.cuda.default_stream())
    """
    if stream is not None and present():
        accelerator.set_stream(_real(stream))
    elif stream is not None:
        _current[-1] = stream


class StreamContext(contextlib.AbstractContextManager[Any]):
    """A stream is the current one within the block; None changes nothing.

    Example:
        >>> side = fb.cuda.Stream()
        >>> with fb.cuda.StreamContext(side):
        ...     fb.cuda.current_stream() == side
        True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if present():
            if self.stream is not None:
                _real(self.stream).__enter__()
        else:
            _current.append(_current[-1] if self.stream is None else self.stream)

    def __exit__(self, *exception: object) -> None:
        if present():
            if self.stream is not None:
                _real(self.stream).__exit__(*exception)
        else:
            _current.pop()


def stream(stream: Stream | None) -> StreamContext:
    """A block within which a stream is the current one.

    Example:
        >>> with fb.cuda.stream(None):
        ...     x = fb.zeros(2)
    """
    return StreamContext(stream)
