"""Older names of flambeau.amp for the CPU.

Example:
    >>> from flambeau.compat.cpu_amp import autocast
    >>> with autocast():
    ...     (fb.ones(2, 2) @ fb.ones(2, 2)).dtype
    flambeau.bfloat16
"""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import amp

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """flambeau.amp.autocast for "cpu".

    Args:
        enabled, dtype, cache_enabled: as in flambeau.amp.autocast.

    Example:
        >>> from flambeau.compat.cpu_amp import autocast
        >>> with autocast(enabled=False):
        ...     (fb.ones(2, 2) @ fb.ones(2, 2)).dtype
        flambeau.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = fb.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """flambeau.amp.GradScaler for "cpu".

    Args:
        arguments, keywords: as in flambeau.amp.GradScaler, without the device.

    Example:
        >>> from flambeau.compat.cpu_amp import GradScaler
        >>> GradScaler(init_scale=2.0).get_scale()
        2.0
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__("cpu", *arguments, **keywords)
