"""CUDA's switches: kept, without effect, since there is no CUDA device.

Example:
    >>> fb.backends.cuda.matmul.allow_tf32 = True
    >>> fb.backends.cuda.is_built()
    False
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator

__all__ = [
    "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "is_built", "matmul", "math_sdp_enabled", "mem_efficient_sdp_enabled", "preferred_linalg_library",
    "sdp_kernel",
]  # fmt: skip
__dir__ = __all__.copy

matmul = types.SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
_sdp = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def is_built() -> bool:
    """False: this build knows no CUDA.

    Example:
        >>> fb.backends.cuda.is_built()
        False
    """
    return False


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library for linear algebra on CUDA devices: always "default".

    Example:
        >>> fb.backends.cuda.preferred_linalg_library()
        'default'
    """
    if backend not in (None, "default"):
        raise ValueError(f"preferred_linalg_library: expected None or 'default', as there is no CUDA, got {backend!r}")
    return "default"


def enable_flash_sdp(enabled: bool) -> None:
    """Keeps whether flash attention may be used on CUDA devices."""
    _sdp["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp() was last told."""
    return _sdp["flash"]


def enable_math_sdp(enabled: bool) -> None:
    """Keeps whether the plain formula of attention may be used on CUDA devices."""
    _sdp["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp() was last told."""
    return _sdp["math"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Keeps whether memory-efficient attention may be used on CUDA devices."""
    _sdp["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp() was last told."""
    return _sdp["mem_efficient"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Keeps whether cuDNN's attention may be used."""
    _sdp["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp() was last told."""
    return _sdp["cudnn"]


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Sets the switches of attention within the block.

    Example:
        >>> with fb.backends.cuda.sdp_kernel(enable_flash=False):
        ...     fb.backends.cuda.flash_sdp_enabled()
        False
    """
    before = dict(_sdp)
    _sdp.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _sdp.update(before)
