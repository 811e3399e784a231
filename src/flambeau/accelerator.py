"""The accelerator of this machine, whatever its kind; this build has none.

Example:
    >>> fb.accelerator.current_accelerator() if fb.accelerator.is_available() else fb.device("cpu")
    device(type='cpu')
"""

from __future__ import annotations

from typing import Any

__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]
__dir__ = __all__.copy


def is_available() -> bool:
    """Whether there is an accelerator: not in this build.

    Example:
        >>> fb.accelerator.is_available()
        False
    """
    return False


def device_count() -> int:
    """How many accelerators there are.

    Example:
        >>> fb.accelerator.device_count()
        0
    """
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The device of the accelerator, None without one.

    Example:
        >>> fb.accelerator.current_accelerator() is None
        True
    """
    return None


def synchronize(device: Any = None) -> None:
    """Waits for the accelerator; without one there is nothing to wait for.

    Example:
        >>> fb.accelerator.synchronize()
    """


def empty_cache() -> None:
    """Returns cached memory of the accelerator to the system. For the CPU's cache see fb.empty_cache().

    Example:
        >>> fb.accelerator.empty_cache()
    """
