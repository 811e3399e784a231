"""Memory of CUDA devices; without one counters are 0. Those of the CPU are fb.memory_allocated() and its kin."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from flambeau import _C, accelerator
from flambeau.cuda._streams import device_of, present
from flambeau.errors import StateError


def _counter(name: str, what: str):
    counted = name.replace("cached", "reserved")

    def count(device: Any = None) -> int:
        return getattr(accelerator, counted)(device_of(device)) if present() else 0

    count.__name__ = count.__qualname__ = name
    count.__doc__ = f"""{what} on a CUDA device; 0 without one. For the CPU see fb.{name.replace("cached", "reserved")}().

    Example:
        >>> fb.cuda.{name}() >= 0
        True
    """
    return count


memory_allocated = _counter("memory_allocated", "Bytes in live tensors")
max_memory_allocated = _counter("max_memory_allocated", "The most bytes that were in live tensors")
memory_reserved = _counter("memory_reserved", "Bytes held from the system")
max_memory_reserved = _counter("max_memory_reserved", "The most bytes that were held from the system")
memory_cached = _counter("memory_cached", "Older name for the bytes held from the system")
max_memory_cached = _counter("max_memory_cached", "Older name for the most bytes that were held from the system")


def _quiet(name: str, what: str):
    def nothing(device: Any = None) -> None:
        if present():
            accelerator.reset_peak_memory_stats(device_of(device))

    nothing.__name__ = nothing.__qualname__ = name
    nothing.__doc__ = f"""{what} of a CUDA device; without one nothing happens.

    Example:
        >>> fb.cuda.{name}()
    """
    return nothing


reset_peak_memory_stats = _quiet("reset_peak_memory_stats", "Peaks start again from the present values")
reset_accumulated_memory_stats = _quiet("reset_accumulated_memory_stats", "Totals start again from zero")
reset_max_memory_allocated = _quiet("reset_max_memory_allocated", "Older name: the peak starts again")


def empty_cache() -> None:
    """Returns cached memory of CUDA devices to the system. For the CPU's cache see fb.empty_cache().

    Example:
        >>> fb.cuda.empty_cache()
    """
    if present():
        _C.accelerator_empty_cache(accelerator._device(device_of()))


def ipc_collect() -> None:
    """Frees CUDA memory that other processes no longer use: there is none.

    Example:
        >>> fb.cuda.ipc_collect()
    """


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Counters of the allocator of a CUDA device; without one an empty dictionary, as in PyTorch.

    Example:
        >>> len(fb.cuda.memory_stats()) >= 0
        True
    """
    return accelerator.memory_stats(device_of(device)) if present() else OrderedDict()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free memory and all memory of a CUDA device, in bytes.

    Example:
        >>> free, total = fb.cuda.mem_get_info() if fb.cuda.is_available() else (0, 0)
    """
    if not present():
        raise StateError("cuda.mem_get_info: there is no CUDA device; ask cuda.is_available() first")
    return accelerator.get_memory_info(device_of(device))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters of a CUDA device as a text. For the CPU see fb.memory_summary().

    Example:
        >>> "memory" in fb.cuda.memory_summary()
        True
    """
    if not present():
        return "no CUDA device: no memory is allocated or reserved"
    return "\n".join([f"memory of {device_of(device)}", *(f"{name:32} {value:>16}" for name, value in memory_stats(device).items())])
