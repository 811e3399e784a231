"""Choosing how attention is computed."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from flambeau._registry.names import package_dir as _package_dir
from flambeau.errors import ArgumentError
from flambeau.nn.attention import bias

__all__ = ["SDPBackend", "bias", "sdpa_kernel"]
__dir__ = _package_dir(__name__)


class SDPBackend(enum.IntEnum):
    """Ways to compute scaled_dot_product_attention; MATH is the one that exists on the CPU.

    Example:
        >>> fb.nn.attention.SDPBackend.MATH.name
        'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Within this block attention is computed in one of the given ways.

    The CPU has one way, which serves for FLASH_ATTENTION and EFFICIENT_ATTENTION, too: all give the same result.

    Args:
        backends: one or several.
        set_priority: whether their order counts; with one way it makes no difference.

    Example:
        >>> with fb.nn.attention.sdpa_kernel(fb.nn.attention.SDPBackend.MATH):
        ...     fb.nn.functional.scaled_dot_product_attention(fb.ones(1, 1), fb.ones(1, 1), fb.ones(1, 1))
        tensor([[1.]])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen or not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise ArgumentError(f"sdpa_kernel: expected one or several SDPBackend, got {backends!r}")
    if not {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION} & set(chosen):
        raise ArgumentError(
            f"sdpa_kernel: {[backend.name for backend in chosen]} needs an accelerator, and there is none"
        )
    yield
