"""Older names of flambeau.amp for CUDA devices; without one, autocast and GradScaler switch themselves off with a warning."""

from __future__ import annotations

import functools
from typing import Any

import flambeau as fb
from flambeau import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__dir__ = __all__.copy


class autocast(amp.autocast):
    """flambeau.amp.autocast for "cuda"; off, with a warning, where there is no such device.

    Args:
        enabled, dtype, cache_enabled: as in flambeau.amp.autocast.

    Example:
        >>> with fb.cuda.amp.autocast(enabled=False):
        ...     y = fb.ones(2, 2) @ fb.ones(2, 2)
        >>> y.dtype
        flambeau.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = fb.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """flambeau.amp.GradScaler for "cuda"; disabled, with a warning, where there is no such device.

    Example:
        >>> fb.cuda.amp.GradScaler(enabled=False).is_enabled()
        False
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")
