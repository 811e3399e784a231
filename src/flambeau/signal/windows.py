"""Window functions.

All take the number of points M and, by keyword: `sym`, whether the window is symmetric (for filters) or periodic (for
spectra, the first M points of a symmetric window of M + 1), and dtype, layout, device and requires_grad of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip
__dir__ = __all__.copy


def _places(name: str, M: Any, sym: bool, dtype: Any, layout: Any, device: Any) -> tuple[Tensor, int]:
    """0 … M - 1, and the number of intervals that the whole window has."""
    if not isinstance(M, int) or M < 0:
        raise ArgumentError(f"{name} requires non-negative window length, got M={M}")
    if dtype is None:
        dtype = fb.get_default_dtype()
    if dtype not in (fb.float32, fb.float64):
        raise ArgumentError(f"{name}: expects float32 or float64 dtypes, got: {dtype}")
    if layout is not fb.strided:
        raise ArgumentError(f"{name} is implemented for strided tensors only, got: {layout}")
    return fb.arange(M, dtype=dtype, device=device), max(M - 1 if sym else M, 1)


def _done(window: Tensor, requires_grad: bool) -> Tensor:
    return window.requires_grad_() if requires_grad else window


def _single(window: Tensor) -> Tensor:
    """A window of one point is 1, whatever its formula gives."""
    return fb.ones_like(window) if window.numel() == 1 else window


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Sum of (-1)ⁱ aᵢ cos(2π i n / N).

    Args:
        M: number of points.
        a: the weights.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: Coefficients must be a list/tuple, got {type(a).__name__}")
    weights = list(a)
    if not weights:
        raise ArgumentError("general_cosine: Coefficients cannot be empty")
    n, intervals = _places("general_cosine", M, sym, dtype, layout, device)
    window = fb.zeros_like(n)
    for i, weight in enumerate(weights):
        window = window + (-1) ** i * weight * fb.cos(2 * math.pi * i * n / intervals)
    return _done(_single(window), requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2π n / N).

    Args:
        M: number of points.
        alpha: the weight.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.general_hamming(3, alpha=0.5)
        tensor([0., 1., 0.])
    """
    weights = [alpha, 1.0 - alpha]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.54 - 0.46 cos(2π n / N).

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.5 - 0.5 cos(2π n / N).

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.hann(4, sym=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2π n / N) + 0.08 cos(4π n / N).

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.blackman(5)[2]
        tensor(1.0000)
    """
    weights = [0.42, 0.5, 0.08]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Nuttall's four-term cosine window.

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.nuttall(5)[2]
        tensor(1.0000)
    """
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle, 1 - |2n / N - 1|.

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.bartlett(3)
        tensor([0., 1., 0.])
    """
    n, intervals = _places("bartlett", M, sym, dtype, layout, device)
    return _done(_single(1 - (2 * n / intervals - 1).abs()), requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a sine wave, sin(π (n + 1/2) / (N + 1)).

    Args:
        M: number of points.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.cosine(3)
        tensor([0.5000, 1.0000, 0.5000])
    """
    n, intervals = _places("cosine", M, sym, dtype, layout, device)
    return _done(_single(fb.sin(math.pi * (n + 0.5) / (intervals + 1))), requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau).

    Args:
        M: number of points.
        center: the middle if not given; needs sym=False otherwise.
        tau: the width, positive.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ArgumentError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ArgumentError("exponential: Center must be None for symmetric windows")
    n, intervals = _places("exponential", M, sym, dtype, layout, device)
    middle = intervals / 2 if center is None else center
    return _done(_single(fb.exp(-(n - middle).abs() / tau)), requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - middle) / std)² / 2).

    Args:
        M: number of points.
        std: the standard deviation, positive.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ArgumentError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    n, intervals = _places("gaussian", M, sym, dtype, layout, device)
    return _done(_single(fb.exp(-((n - intervals / 2) / std).square() / 2)), requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = fb.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(beta √(1 - (2n / N - 1)²)) / I₀(beta).

    Args:
        M: number of points.
        beta: the shape, not negative.
        sym: symmetric or periodic.

    Example:
        >>> fb.signal.windows.kaiser(3, beta=0.0)
        tensor([1., 1., 1.])
    """
    if beta < 0:
        raise ArgumentError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    n, intervals = _places("kaiser", M, sym, dtype, layout, device)
    inside = (1 - (2 * n / intervals - 1).square()).clamp(min=0).sqrt()
    top = fb.tensor(float(beta), dtype=n.dtype)
    return _done(_single(fb.special.i0(beta * inside) / fb.special.i0(top)), requires_grad)
