"""Events and statistics of a running program, given to handlers that log them.

Example:
    >>> import datetime
    >>> from flambeau import monitor
    >>> handle = monitor.register_event_handler(lambda event: print(event.name, event.data))
    >>> loss = monitor.Stat("loss", [monitor.Aggregation.SUM, monitor.Aggregation.COUNT], datetime.timedelta(hours=1), 2)
    >>> loss.add(1.5)
    >>> loss.add(2.5)
    torch.monitor.Stat {'loss.sum': 4.0, 'loss.count': 2}
    >>> monitor.unregister_event_handler(handle)
"""

from __future__ import annotations

import datetime
import enum
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.errors import ArgumentError

__all__ = [
    "STAT_EVENT", "Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "data_value_t", "log_event",
    "register_event_handler", "unregister_event_handler",
]  # fmt: skip
__dir__ = __all__.copy

STAT_EVENT = "torch.monitor.Stat"
"""The name of the events of `Stat`, which PyTorch's handlers look for."""

data_value_t = str | int | float | bool
"""What the data of an event may be."""


class Aggregation(enum.Enum):
    """What a `Stat` makes of the values of a window.

    Example:
        >>> fb.monitor.Aggregation.MEAN.value
        'mean'
    """

    VALUE = "value"
    """The last value."""
    MEAN = "mean"
    """The mean, 0 of no values."""
    COUNT = "count"
    """How many values there were."""
    SUM = "sum"
    """Their sum."""
    MAX = "max"
    """The largest."""
    MIN = "min"
    """The smallest."""


class Event:
    """Something that happened, with data for those who log it.

    Args:
        name: the kind of event; events of one kind have data under the same names.
        timestamp: when it happened.
        data: values by name: texts, numbers or bools.

    Example:
        >>> import datetime
        >>> fb.monitor.Event("epoch", datetime.datetime(2026, 1, 1), {"loss": 0.5}).data
        {'loss': 0.5}
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: dict[str, data_value_t]) -> None:
        if not isinstance(name, str) or not isinstance(timestamp, datetime.datetime):
            raise TypeError(
                f"Event: name must be a str and timestamp a datetime, got {type(name).__name__} and {type(timestamp).__name__}"
            )
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, int, float)):
                raise TypeError(f"Event: data must be texts, numbers or bools by name, got {key!r}: {type(value).__name__}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)

    def __repr__(self) -> str:
        return f"Event(name={self.name!r}, timestamp={self.timestamp!r}, data={self.data!r})"


class EventHandlerHandle:
    """Stands for a registered handler; unregister_event_handler() takes it.

    Example:
        >>> handle = fb.monitor.register_event_handler(print)
        >>> fb.monitor.unregister_event_handler(handle)
    """

    def __init__(self, handler: Callable[[Event], Any]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Calls a function with every event that is logged from now on, in the thread that logs it.

    Args:
        callback: takes an Event.

    Example:
        >>> handle = fb.monitor.register_event_handler(print)
        >>> fb.monitor.unregister_event_handler(handle)
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler: callback must be callable, got {type(callback).__name__}")
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Calls the function no more.

    Args:
        handler: what register_event_handler() returned; a second time does nothing.

    Example:
        >>> handle = fb.monitor.register_event_handler(print)
        >>> fb.monitor.unregister_event_handler(handle)
    """
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Gives an event to every handler.

    Args:
        event: what happened.

    Example:
        >>> import datetime
        >>> handle = fb.monitor.register_event_handler(lambda event: print(event.name))
        >>> fb.monitor.log_event(fb.monitor.Event("done", datetime.datetime.now(), {}))
        done
        >>> fb.monitor.unregister_event_handler(handle)
    """
    for handle in list(_handlers):
        handle._handler(event)


class Stat:
    """Statistics of values over windows of time, logged as one event per window.

    The event is named STAT_EVENT and logged when a value comes after the end of the window, when `max_samples` values
    have come, or when the object dies. Threads may add values at the same time.

    Args:
        name: what the names in the event's data begin with, as in "loss.mean".
        aggregations: the statistics to compute.
        window_size: how long a window is.
        max_samples: the window's event is logged after so many values, and further ones do not count.

    Example:
        >>> import datetime
        >>> Aggregation = fb.monitor.Aggregation
        >>> loss = fb.monitor.Stat("loss", [Aggregation.MEAN], datetime.timedelta(hours=1), max_samples=2)
        >>> loss.add(1.0)
        >>> loss.add(2.0)
        >>> loss.get()
        {<Aggregation.MEAN: 'mean'>: 1.5}
    """

    def __init__(
        self, name: str, aggregations: Iterable[Aggregation], window_size: datetime.timedelta, max_samples: int | None = None
    ) -> None:
        self._values: list[float] | None = None
        if not isinstance(window_size, datetime.timedelta) or window_size <= datetime.timedelta(0):
            raise ArgumentError(f"Stat: window_size must be a positive timedelta, got {window_size!r}")
        if max_samples is not None and max_samples < 1:
            raise ArgumentError(f"Stat: max_samples must be 1 or more, got {max_samples}")
        self._name, self._aggregations = name, tuple(map(Aggregation, aggregations))
        self._length, self._most = window_size.total_seconds(), max_samples
        self._lock = threading.Lock()
        self._full = False  # whether the event of this window was logged
        self._last = dict.fromkeys(self._aggregations, 0.0)
        self._values, self._end = [], time.monotonic() + self._length

    @property
    def name(self) -> str:
        """The prefix of the names in the event's data."""
        return self._name

    @property
    def count(self) -> int:
        """The number of values in the current window."""
        return len(self._values or ())

    def add(self, v: float) -> None:
        """Adds a value to the window.

        Args:
            v: the value.
        """
        v = float(v)
        with self._lock:
            events = []
            now = time.monotonic()
            if now >= self._end:
                events += self._closed()
                self._full, self._end = False, now + self._length
            if not self._full and self._values is not None:
                self._values.append(v)
                if self._most is not None and len(self._values) >= self._most:
                    events += self._closed()
                    self._full = True
        for event in events:  # without the lock: a handler may read the count
            log_event(event)

    def get(self) -> dict[Aggregation, float]:
        """The statistics of the last window that was logged; zeros before."""
        return dict(self._last)

    def _closed(self) -> list[Event]:
        """The event of the values so far, which are reset; nothing without values."""
        if not self._values:
            return []
        values, self._values = self._values, []
        made = {
            Aggregation.VALUE: lambda: values[-1], Aggregation.MEAN: lambda: math.fsum(values) / len(values),
            Aggregation.COUNT: lambda: len(values), Aggregation.SUM: lambda: math.fsum(values),
            Aggregation.MAX: lambda: max(values), Aggregation.MIN: lambda: min(values),
        }  # fmt: skip
        self._last = {aggregation: made[aggregation]() for aggregation in self._aggregations}
        data: dict[str, data_value_t] = {f"{self._name}.{a.value}": result for a, result in self._last.items()}
        return [Event(STAT_EVENT, datetime.datetime.now(), data)]

    def __del__(self) -> None:
        if self._values:
            try:
                for event in self._closed():
                    log_event(event)
            except Exception as error:
                warnings.warn(f"Stat {self._name!r}: a handler failed with {error!r}", stacklevel=2)


class TensorboardEventHandler:
    """A handler that writes the statistics of `Stat` as scalars of TensorBoard.

    Args:
        writer: a `utils.tensorboard.SummaryWriter`, or another object with its add_scalar().

    Example:
        >>> import tempfile
        >>> from flambeau.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     handle = fb.monitor.register_event_handler(fb.monitor.TensorboardEventHandler(writer))
        ...     fb.monitor.unregister_event_handler(handle)
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        """Writes the event; one that is not of a Stat gives a warning."""
        if event.name != STAT_EVENT:
            warnings.warn(f"TensorboardEventHandler: the event {event.name!r} is not of a Stat and is not written", stacklevel=2)
            return
        for name, value in event.data.items():
            self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
