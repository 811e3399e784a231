"""The accelerator of this machine, whatever its kind: streams, events and memory, with PyTorch's names.

There are OpenCL devices, ``"opencl"``, for which ``fb.opencl`` shows what was found; and the simulated accelerator
``"sim"``: memory of its own, in-order streams that work in the background, and kernels compiled by the system's C++
compiler. It computes on the CPU, so it is for developing and testing code that runs on accelerators, not for speed.
Tensors go to a device by ``.to("opencl")``. *The* accelerator, which scripts ask for, is the one that the environment
names in ``FLAMBEAU_DEVICE``, else a GPU, if there is one.

Ops without a kernel run on the CPU, with copies there and back; :func:`coverage` lists them, and after
``set_strict(True)`` they are errors.

Example:
    >>> fb.accelerator.current_accelerator() if fb.accelerator.is_available() else fb.device("cpu")
    device(type='cpu')
    >>> x = fb.ones(3, device="sim")
    >>> y = x * 2 + 1  # returns at once
    >>> fb.accelerator.synchronize("sim")
    >>> y.cpu()
    tensor([3., 3., 3.])
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from typing import Any, NamedTuple, Self

from flambeau import _C
from flambeau._registry.names import package_dir as _package_dir
from flambeau.accelerator._formulas import Formula, formula
from flambeau.accelerator._kernels import Kernel, kernel
from flambeau.errors import ArgumentError, StateError

__all__ = [
    "Coverage", "Event", "Formula", "Kernel", "Stream", "coverage", "current_accelerator", "current_device_idx",
    "current_device_index", "current_stream", "device_count", "device_index", "empty_cache", "empty_host_cache",
    "formula", "get_device_capability", "get_memory_info", "is_available", "is_strict", "kernel",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_coverage", "reset_peak_memory_stats", "selftest", "set_device_idx",
    "set_device_index", "set_stream", "set_strict", "synchronize",
]  # fmt: skip
__dir__ = _package_dir(__name__)

_KINDS = ("cuda", "opencl", "sim")


def is_available() -> bool:
    """Whether there is an accelerator that scripts should use.

    Example:
        >>> fb.accelerator.is_available()
        False
    """
    return current_accelerator() is not None


def device_count() -> int:
    """How many accelerators there are.

    Example:
        >>> fb.accelerator.device_count()
        0
    """
    current = current_accelerator()
    return 0 if current is None else _C.accelerator_count(current)


def current_accelerator(check_available: bool = False) -> Any:
    """The device of the accelerator, without an index; None without one.

    It is the one that ``FLAMBEAU_DEVICE`` names when the program asks, as in ``opencl``, ``gpu`` or ``sim``; ``cpu`` for
    none. Otherwise it is a GPU that OpenCL knows, if there is one.

    Args:
        check_available: no effect: a device that is named is there.

    Example:
        >>> fb.accelerator.current_accelerator() is None
        True
    """
    named = os.environ.get("FLAMBEAU_DEVICE", "")
    if named == "cpu":
        return None
    if not named:
        return _C.device("opencl") if _has_gpu() else None
    kind, _, index = named.partition(":")
    if kind not in (*_KINDS, "gpu") or not (index or "0").isdigit():
        raise StateError(
            f"FLAMBEAU_DEVICE={named!r} names no device of this build; expected cpu, gpu, {' or '.join(_KINDS)}, "
            "or one with its index, as in opencl:0"
        )
    return _C.device(_C.device(named).type)


@functools.cache
def _has_gpu() -> bool:
    return any(d["type"] != "cpu" and d["index"] >= 0 for d in _C.opencl_devices())


def _current_index() -> int:
    index = os.environ.get("FLAMBEAU_DEVICE", "").partition(":")[2]
    return int(index or 0)


def _device(given: Any) -> Any:
    """A device that is an accelerator; the current one for None."""
    if given is None or isinstance(given, int):
        current = current_accelerator()
        if current is None:
            raise StateError(
                "Cannot access accelerator device when none is available. Name one, as in device='sim', or set FLAMBEAU_DEVICE=sim"
            )
        device = _C.device(current.type, _current_index() if given is None else given)
    else:
        device = _C.device(given)
    if device.type not in _KINDS:
        raise ArgumentError(
            f"accelerator: device '{device}' is not an accelerator of this build; expected {' or '.join(_KINDS)}"
        )
    index = device.index or 0
    if not 0 <= index < (count := _C.accelerator_count(device)):
        raise ArgumentError(f"accelerator: device '{device}' does not exist: there are {count} of this kind")
    return _C.device(device.type, index)


def current_device_index() -> int:
    """The index of the accelerator that new tensors go to.

    Example:
        >>> fb.accelerator.current_device_index() if fb.accelerator.is_available() else 0
        0
    """
    return _device(None).index


def set_device_index(device: Any, /) -> None:
    """Chooses the accelerator that is meant where none is named: it stays the first one of its kind.

    Args:
        device: its index, 0, or the device. For another one of several, name it, as in ``device="opencl:1"``.

    Example:
        >>> fb.accelerator.set_device_index("sim")
    """
    if (chosen := _device(device)).index != _current_index():
        raise ArgumentError(
            f"set_device_index: got {chosen.index}; the current device is the first one. Name others, as in device='{chosen}'"
        )


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """A block in which an accelerator is the current one, as for set_device_index().

    Args:
        device: its index; None changes nothing.

    Example:
        >>> with fb.accelerator.device_index(None):
        ...     pass
    """

    def __init__(self, device: int | None, /) -> None:
        if device is not None:
            set_device_index(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def synchronize(device: Any = None, /) -> None:
    """Waits until all streams of an accelerator are done; Ctrl-C ends the wait.

    Args:
        device: the accelerator. By default the current one; without one there is nothing to wait for.

    Example:
        >>> fb.accelerator.synchronize()
    """
    if device is not None or is_available():
        _C.accelerator_synchronize(_device(device), -1)


# ---- streams ---------------------------------------------------------------------------------------------------------


class Event:
    """A point in a stream's work, to wait for or to measure time by.

    Args:
        device: the accelerator, the current one by default.
        enable_timing: whether elapsed_time() can be called.
        blocking, interprocess: no effect.

    Example:
        >>> start, end = (fb.accelerator.Event("sim", enable_timing=True) for _ in range(2))
        >>> start.record()
        >>> y = fb.ones(8, device="sim") + 1
        >>> end.record()
        >>> end.synchronize()
        >>> start.elapsed_time(end) >= 0
        True
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = _device(device)
        self.enable_timing = enable_timing
        self._mark: tuple[int, int] | None = None
        self._clock: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """The event is what the stream, by default the current one, has been given to do until now."""
        number = _C.accelerator_current_stream(self.device) if stream is None else stream.stream_id
        if self.enable_timing:
            self._clock = _C.accelerator_start_clock(self.device, number)
        self._mark = _C.accelerator_mark(self.device, number)

    def query(self) -> bool:
        """Whether the work before the event is done; True before record()."""
        return self._mark is None or _C.accelerator_reached(self.device, *self._mark)

    def synchronize(self) -> None:
        """Waits until the work before the event is done."""
        if self._mark is not None:
            _C.accelerator_wait(self.device, *self._mark)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets a stream, by default the current one, wait for the event before it goes on."""
        number = _C.accelerator_current_stream(self.device) if stream is None else stream.stream_id
        if self._mark is not None:
            _C.accelerator_wait_in_stream(self.device, number, *self._mark)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another; both recorded with enable_timing=True, and done."""
        if not (self.enable_timing and other.enable_timing):
            raise StateError("Event.elapsed_time: both events need enable_timing=True")
        if self._clock is None or other._clock is None:
            raise StateError("Event.elapsed_time: both events must have been recorded; call record() first")
        if not (self.query() and other.query()):
            raise StateError("Event.elapsed_time: the events are not done yet; call synchronize() on them first")
        return _C.accelerator_read_clock(other._clock) - _C.accelerator_read_clock(self._clock)


class Stream:
    """A queue of work: what is put there is done in order, beside the work of other streams.

    A tensor that is made in one stream and used in another needs an event or wait_stream() in between. Its memory is not
    given to others before all streams are done with it.

    Args:
        device: the accelerator, the current one by default.
        priority: no effect.

    Example:
        >>> side = fb.accelerator.Stream("sim")
        >>> with side:
        ...     y = fb.ones(2, device="sim") + 1
        >>> fb.accelerator.current_stream("sim").wait_stream(side)
        >>> (y * 2).cpu()
        tensor([4., 4.])
    """

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _device(device)
        self.stream_id: int = _C.accelerator_create_stream(self.device)
        self.priority = priority
        self._before: list[int] = []

    @classmethod
    def _numbered(cls, device: Any, number: int) -> Stream:
        stream = cls.__new__(cls)
        stream.device, stream.stream_id, stream.priority, stream._before = device, number, 0, []
        return stream

    def query(self) -> bool:
        """Whether all its work is done."""
        return _C.accelerator_reached(self.device, *_C.accelerator_mark(self.device, self.stream_id))

    def synchronize(self) -> None:
        """Waits until all its work is done."""
        _C.accelerator_synchronize(self.device, self.stream_id)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one if none is given, and returns it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Work that is put here from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work that is put here from now on waits for what the other stream has been given."""
        _C.accelerator_wait_in_stream(
            self.device, self.stream_id, *_C.accelerator_mark(stream.device, stream.stream_id)
        )

    def __enter__(self) -> Self:
        self._before.append(_C.accelerator_current_stream(self.device))
        set_stream(self)
        return self

    def __exit__(self, *error: object) -> None:
        _C.accelerator_set_stream(self.device, self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((str(self.device), self.stream_id))

    def __repr__(self) -> str:
        return f"flambeau.accelerator.Stream(device='{self.device}', stream_id={self.stream_id})"


def current_stream(device: Any = None, /) -> Stream:
    """The stream that this thread's ops go to.

    Args:
        device: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.current_stream("sim")
        flambeau.accelerator.Stream(device='sim:0', stream_id=0)
    """
    where = _device(device)
    return Stream._numbered(where, _C.accelerator_current_stream(where))


def set_stream(stream: Stream) -> None:
    """Lets this thread's ops go to a stream from now on.

    Args:
        stream: the stream.

    Example:
        >>> fb.accelerator.set_stream(fb.accelerator.current_stream("sim"))
    """
    if not isinstance(stream, Stream):
        raise TypeError(f"set_stream: expected an accelerator.Stream, got {type(stream).__name__}")
    _C.accelerator_set_stream(stream.device, stream.stream_id)


# ---- memory ----------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Returns cached memory of the accelerators to the system. For the CPU's cache see fb.empty_cache().

    Example:
        >>> fb.accelerator.empty_cache()
    """
    if is_available():
        _C.accelerator_empty_cache(_device(None))


def empty_host_cache() -> None:
    """Returns cached memory of the host to the system: fb.empty_cache().

    Example:
        >>> fb.accelerator.empty_host_cache()
    """
    _C.empty_cache()


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What an accelerator can do: under ``supported_dtypes`` the dtypes that its kernels know.

    Args:
        device: the accelerator, the current one by default.

    Example:
        >>> fb.bfloat16 in fb.accelerator.get_device_capability("sim")["supported_dtypes"]
        True
    """
    where = _device(device)
    whole = {_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint16, _C.uint32, _C.uint64}
    name = _C.accelerator_name(where)
    doubles = [row["float64"] for row in _C.opencl_devices() if row["name"] == name and row["index"] == where.index]
    return {"supported_dtypes": whole | {_C.float32, _C.float16, _C.bfloat16} | ({_C.float64} if all(doubles) else set())}


def memory_stats(device_index: Any = None, /) -> OrderedDict[str, Any]:
    """What the allocator of an accelerator counts.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.memory_stats("sim")["allocated_bytes.all.current"] >= 0
        True
    """
    s = _C.accelerator_memory(_device(device_index))
    found = {
        "allocated_bytes.all.current": s["allocated"],
        "allocated_bytes.all.peak": s["allocated_peak"],
        "active_bytes.all.current": s["active"],
        "active_bytes.all.peak": s["active_peak"],
        "reserved_bytes.all.current": s["reserved"],
        "reserved_bytes.all.peak": s["reserved_peak"],
        "allocation.all.allocated": s["allocations"],
        "allocation.all.freed": s["frees"],
        "segment.all.current": s["segments"],
        "num_device_alloc": s["maps"],
        "num_alloc_retries": s["retries"],
    }
    return OrderedDict(sorted(found.items()))


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes of living tensors on an accelerator.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> before = fb.accelerator.memory_allocated("sim")
        >>> x = fb.empty(256, device="sim")
        >>> fb.accelerator.memory_allocated("sim") - before
        1024
    """
    return memory_stats(device_index)["allocated_bytes.all.current"]


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most memory_allocated() has been.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.max_memory_allocated("sim") >= fb.accelerator.memory_allocated("sim")
        True
    """
    return memory_stats(device_index)["allocated_bytes.all.peak"]


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes that the allocator of an accelerator holds, in use or for later.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.memory_reserved("sim") >= fb.accelerator.memory_allocated("sim")
        True
    """
    return memory_stats(device_index)["reserved_bytes.all.current"]


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most memory_reserved() has been.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.max_memory_reserved("sim") >= fb.accelerator.memory_reserved("sim")
        True
    """
    return memory_stats(device_index)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """The peaks start again from what is in use now.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.reset_peak_memory_stats("sim")
    """
    _C.accelerator_reset_peaks(_device(device_index))


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """The same as reset_peak_memory_stats(): counts of calls continue.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> fb.accelerator.reset_accumulated_memory_stats("sim")
    """
    reset_peak_memory_stats(device_index)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free memory and all memory of an accelerator, in bytes.

    Args:
        device_index: the accelerator, the current one by default.

    Example:
        >>> free, total = fb.accelerator.get_memory_info("sim")
        >>> 0 < free <= total
        True
    """
    s = _C.accelerator_memory(_device(device_index))
    return s["total"] - s["reserved"], s["total"]


# ---- ops without kernels ---------------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """How often an op ran a kernel of the accelerator, and how often it ran on the CPU instead.

    Example:
        >>> fb.accelerator.Coverage(kernels=3, fallbacks=1)
        Coverage(kernels=3, fallbacks=1)
    """

    kernels: int
    fallbacks: int


def coverage() -> dict[str, Coverage]:
    """For each op that was called on an accelerator: how often it ran there, and how often on the CPU.

    Example:
        >>> fb.accelerator.reset_coverage()
        >>> y = fb.ones(2, device="sim") + 1
        >>> fb.accelerator.coverage()["add"].fallbacks
        0
    """
    return {op: Coverage(*counts) for op, counts in _C.accelerator_coverage().items()}


def reset_coverage() -> None:
    """Starts counting anew.

    Example:
        >>> fb.accelerator.reset_coverage()
        >>> fb.accelerator.coverage()
        {}
    """
    _C.accelerator_reset_coverage()


def set_strict(on: bool) -> None:
    """Whether ops that an accelerator has no kernel for raise, rather than running on the CPU.

    Args:
        on: True makes them errors.

    Example:
        >>> fb.accelerator.set_strict(False)
    """
    _C.set_accelerator_strict(bool(on))


def is_strict() -> bool:
    """Whether ops without a kernel raise.

    Example:
        >>> fb.accelerator.is_strict()
        False
    """
    return _C.accelerator_is_strict()


def selftest(
    device: Any = None, /, *, path: Any = "flambeau-selftest.txt", size: int = 1 << 20, families: Any = None
) -> Any:
    """Builds and runs every family of kernels on an accelerator, compares with the CPU, and measures the speed.

    The report is for an issue: it names the device, its driver and versions. ``str()`` of it is the text of the file, and
    ``passed`` is whether every family gave the CPU's values within rounding.

    Args:
        device: the accelerator, the current one by default.
        path: the file to write; None for none.
        size: how many elements the inputs of the measured calls have, roughly.
        families: names of some families, all by default.

    Example:
        >>> report = fb.accelerator.selftest("sim", path=None, size=100, families=["broadcast"])
        >>> report.passed
        True
    """
    from flambeau.utils import selftest as test

    if size < 1:
        raise ArgumentError(f"selftest: got size {size}; expected at least 1")
    return test.run(_device(device), path, size, families)
