"""The caching allocator's contents and limits."""

from __future__ import annotations

from flambeau import _C

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "memory_summary", "reset_peak_memory_stats", "set_memory_cap",
]  # fmt: skip


def memory_stats(device=None) -> dict[str, int]:
    """Counters of the caching allocator: bytes allocated, reserved, cached, their peaks, blocks, segments, calls.

    Example:
        >>> fb.memory_stats()["allocated_bytes"] >= 0
        True
    """
    return _C.memory_stats()


def memory_summary(device=None, abbreviated=False) -> str:
    """The allocator's counters as a table.

    Example:
        >>> "allocated" in fb.memory_summary()
        True
    """
    return _C.memory_summary()


def empty_cache() -> int:
    """Returns cached memory to the system, and the number of bytes freed.

    Example:
        >>> fb.empty_cache() >= 0
        True
    """
    return _C.empty_cache()


def set_memory_cap(bytes) -> None:
    """Sets how many bytes may be held from the system at most; None removes the cap.

    Example:
        >>> fb.set_memory_cap(None)
    """
    _C.set_memory_cap(bytes)


def memory_allocated(device=None) -> int:
    """Bytes in live tensors.

    Example:
        >>> before = fb.memory_allocated()
        >>> x = fb.zeros(1000)
        >>> fb.memory_allocated() - before
        4000
    """
    return _C.memory_stats()["allocated_bytes"]


def max_memory_allocated(device=None) -> int:
    """The most bytes that were in live tensors at one time.

    Example:
        >>> fb.max_memory_allocated() >= fb.memory_allocated()
        True
    """
    return _C.memory_stats()["allocated_bytes_peak"]


def memory_reserved(device=None) -> int:
    """Bytes held from the system.

    Example:
        >>> fb.memory_reserved() >= fb.memory_allocated()
        True
    """
    return _C.memory_stats()["reserved_bytes"]


def max_memory_reserved(device=None) -> int:
    """The most bytes that were held from the system at one time.

    Example:
        >>> fb.max_memory_reserved() >= fb.memory_reserved()
        True
    """
    return _C.memory_stats()["reserved_bytes_peak"]


def reset_peak_memory_stats(device=None) -> None:
    """Peaks start again from the present values.

    Example:
        >>> fb.reset_peak_memory_stats()
    """
    _C.reset_peak()
