"""`torch.__config__` while flambeau stands in for PyTorch."""

from __future__ import annotations

import flambeau as fb

__all__ = ["parallel_info", "show"]


def show() -> str:
    """How the library was built.

    Example:
        >>> from flambeau.compat import config
        >>> config.show().split()[0]
        'flambeau'
    """
    return str(fb.show_config())


def _cxx_flags() -> str:
    """The flags of the C++ compiler, as reported by the build, in one line."""
    return " ".join(show().split())


def parallel_info() -> str:
    """How many threads it uses.

    Example:
        >>> from flambeau.compat import config
        >>> config.parallel_info().startswith("threads")
        True
    """
    return next(line for line in show().splitlines() if line.startswith("threads"))
