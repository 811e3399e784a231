"""oneDNN, under the name it had before: PyTorch's switches for it, without effect, as flambeau has kernels of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["flags", "is_available"]
__dir__ = __all__.copy

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: flambeau has kernels of its own.

    Example:
        >>> fb.backends.mkldnn.is_available()
        False
    """
    return False


@contextlib.contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """Sets the switches within the block; they are kept and change nothing.

    Example:
        >>> with fb.backends.mkldnn.flags(enabled=False):
        ...     fb.backends.mkldnn.enabled
        False
    """
    names = ("enabled", "deterministic", "allow_tf32")
    before = {name: globals()[name] for name in names}
    globals().update(zip(names, (enabled, deterministic, allow_tf32), strict=True))
    try:
        yield
    finally:
        globals().update(before)
