"""Older names of flambeau.amp for the CPU.

Example:
    >>> import warnings
    >>> from flambeau.compat.cpu_amp import autocast
    >>> with warnings.catch_warnings(action="ignore"), autocast():
    ...     (fb.ones(2, 2) @ fb.ones(2, 2)).dtype
    flambeau.bfloat16
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as fb
from flambeau import amp

__all__ = ["GradScaler", "autocast"]


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """flambeau.amp.autocast for "cpu".

    Args:
        enabled, dtype, cache_enabled: as in flambeau.amp.autocast.

    Example:
        >>> import warnings
        >>> from flambeau.compat.cpu_amp import autocast
        >>> with warnings.catch_warnings(action="ignore"), autocast(enabled=False):
        ...     (fb.ones(2, 2) @ fb.ones(2, 2)).dtype
        flambeau.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = fb.bfloat16, cache_enabled: bool = True) -> None:
        _deprecated("autocast")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """flambeau.amp.GradScaler for "cpu".

    Args:
        arguments, keywords: as in flambeau.amp.GradScaler, without the device.

    Example:
        >>> import warnings
        >>> from flambeau.compat.cpu_amp import GradScaler
        >>> with warnings.catch_warnings(action="ignore"):
        ...     GradScaler(init_scale=2.0).get_scale()
        2.0
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _deprecated("GradScaler")
        super().__init__("cpu", *arguments, **keywords)
