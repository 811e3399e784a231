"""What fb.use_deterministic_algorithms() does to uninitialized memory.

Example:
    >>> fb.utils.deterministic.fill_uninitialized_memory
    True
"""

from __future__ import annotations

import sys
import types
from typing import Any

import flambeau as fb
from flambeau._registry import private

__all__ = ["fill_uninitialized_memory"]  # noqa: F822  # a property of the module
__dir__ = __all__.copy

_fill = True


def _update() -> None:
    """Updates the core; called when one of the two switches has changed."""
    private.show_unset(_fill and fb.are_deterministic_algorithms_enabled())


class _Module(types.ModuleType):
    """A module whose attribute is a switch."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether empty() and its kin fill their memory while deterministic algorithms are asked for.

        Floating and complex elements become NaN, integers the largest number, bool True: reading what was never
            written shows.
        """
        return _fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: Any) -> None:
        global _fill
        if not isinstance(mode, bool):
            raise TypeError(f"fill_uninitialized_memory: expected a bool, but got {type(mode).__name__}")
        _fill = mode
        _update()


sys.modules[__name__].__class__ = _Module
