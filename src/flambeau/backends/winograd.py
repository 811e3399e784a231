"""Winograd's way of computing convolutions of 3 × 3 windows, with up to four times fewer multiplications.

It is taken for float32 (and the half types, which compute in float32) where it is faster: stride 1, dilation 1, no
groups, channels in multiples of 16 and enough of them. Errors stay below some 5e-6 of the largest result, about those
of the direct way for many channels; results do not depend on the number of threads. Two things differ from the direct
way: sums of whole numbers are no longer exact, and an input much larger than its neighbors costs digits in results up
to five pixels away. If a result is infinite or NaN, the direct algorithm is used instead, so that it stays in the
windows that hold it.

Example:
    >>> fb.backends.winograd.enabled
    True
    >>> with fb.backends.winograd.flags(enabled=False):
    ...     fb.backends.winograd.enabled
    False
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from flambeau._registry import private

__all__ = ["flags", "is_available"]
__dir__ = __all__.copy

enabled: bool  # a property of the class below

_mode: Any = private.winograd


class _Module(types.ModuleType):
    """This module, with a switch that the core reads."""

    @property
    def enabled(self) -> bool:
        return bool(_mode())

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"backends.winograd.enabled: expected a bool, got {type(value).__name__}")
        _mode(int(value))


sys.modules[__name__].__class__ = _Module


def is_available() -> bool:
    """True: the kernels are part of every build.

    Example:
        >>> fb.backends.winograd.is_available()
        True
    """
    return True


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Sets the switch within the block, for all threads.

    Args:
        enabled: whether convolutions may take this way.

    Example:
        >>> with fb.backends.winograd.flags(enabled=False):
        ...     y = fb.conv2d(fb.ones(1, 64, 16, 16), fb.ones(64, 64, 3, 3))
        >>> y[0, 0, 0, 0]
        tensor(576.)
    """
    before = _mode()
    _mode(int(enabled))
    try:
        yield
    finally:
        _mode(before)
