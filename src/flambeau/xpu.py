"""Intel's GPUs under PyTorch's name: there are none.

Example:
    >>> fb.xpu.is_available()
    False
"""

from __future__ import annotations

from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed_all", "synchronize"]
__dir__ = __all__.copy


def is_available() -> bool:
    """False: there is no such device.

    Example:
        >>> fb.xpu.is_available()
        False
    """
    return False


def device_count() -> int:
    """The number of devices, which is 0.

    Example:
        >>> fb.xpu.device_count()
        0
    """
    return 0


def manual_seed_all(seed: int) -> None:
    """Seeds every device, of which there are none.

    Example:
        >>> fb.xpu.manual_seed_all(0)
    """
    int(seed)


def synchronize(device: Any = None) -> None:
    """Returns at once: there is nothing to wait for.

    Example:
        >>> fb.xpu.synchronize()
    """


def empty_cache() -> None:
    """Returns cached memory of the devices to the system; there is none.

    Example:
        >>> fb.xpu.empty_cache()
    """
