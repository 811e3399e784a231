"""The CPU with the interface of accelerators: it is always available, and synchronous.

Example:
    >>> fb.cpu.is_available(), fb.cpu.device_count()
    (True, 1)
"""

from __future__ import annotations

from typing import Any

from flambeau import device as _device
from flambeau.errors import ArgumentError

__all__ = ["current_device", "device_count", "is_available", "is_initialized", "set_device", "synchronize"]
__dir__ = __all__.copy


def is_available() -> bool:
    """True: every machine has one.

    Example:
        >>> fb.cpu.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """True: it needs no preparation.

    Example:
        >>> fb.cpu.is_initialized()
        True
    """
    return True


def device_count() -> int:
    """One, however many cores it has.

    Example:
        >>> fb.cpu.device_count()
        1
    """
    return 1


def current_device() -> str:
    """Its name as a device.

    Example:
        >>> fb.cpu.current_device()
        'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Checks that the device is the CPU, the only one.

    Example:
        >>> fb.cpu.set_device("cpu")
    """
    if _device(device).type != "cpu":
        raise ArgumentError(f"set_device: expected the CPU, got {device!r}")


def synchronize(device: Any = None) -> None:
    """Returns at once: every op is done when its call returns.

    Example:
        >>> fb.cpu.synchronize()
    """
