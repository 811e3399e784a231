"""cuDNN's switches: kept, without effect, since convolutions run on the CPU and are deterministic.

Example:
    >>> with fb.backends.cudnn.flags(enabled=False, deterministic=True):
    ...     fb.backends.cudnn.deterministic
    True
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = [
    "allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "fp32_precision", "is_acceptable",
    "is_available", "set_flags", "version",
]  # fmt: skip
__dir__ = __all__.copy

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: cuDNN is not used.

    Example:
        >>> fb.backends.cudnn.is_available()
        False
    """
    return False


def version() -> int | None:
    """The version of cuDNN: None, it is not used.

    Example:
        >>> fb.backends.cudnn.version() is None
        True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN can work on a tensor: no.

    Example:
        >>> fb.backends.cudnn.is_acceptable(fb.zeros(1))
        False
    """
    return False


def set_flags(**switches: Any) -> dict[str, Any]:
    """Sets switches by name, leaving out those given as None; returns what they were before.

    Example:
        >>> fb.backends.cudnn.set_flags(enabled=True)
        {'enabled': True}
    """
    known = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
    unknown = sorted(set(switches) - set(known))
    if unknown:
        raise TypeError(f"cudnn.set_flags: unknown switches {', '.join(unknown)}; expected some of {', '.join(known)}")
    before = {name: globals()[name] for name, value in switches.items() if value is not None}
    globals().update({name: value for name, value in switches.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Sets the switches within the block.

    Example:
        >>> with fb.backends.cudnn.flags(benchmark=True):
        ...     fb.backends.cudnn.benchmark
        True
    """
    before = set_flags(
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )
    try:
        yield
    finally:
        set_flags(**before)
