"""The Fourier transform extension: ``flambeau.fft`` under the standard's names and dtype rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import array, axes_tuple, integer, optional_dtype
from flambeau.array_api._dtypes import REAL, default_float
from flambeau.errors import ArgumentError, DTypeError

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = __all__.copy

Norm = Literal["backward", "ortho", "forward"]


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The Fourier transform along ``axis``, of ``n`` elements (cut or zero-padded)."""
    return fb.fft.fft(array("fft", x, "floating"), n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of ``fft``."""
    return fb.fft.ifft(array("ifft", x, "floating"), n, axis, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The Fourier transform of real values: the non-negative frequencies."""
    return fb.fft.rfft(array("rfft", x, "real floating"), n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of ``rfft``; ``n`` is the size of the result, by default ``2 * (M - 1)``."""
    return fb.fft.irfft(array("irfft", x, "complex floating"), n, axis, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The Fourier transform of a signal with Hermitian symmetry, given by its first half; real."""
    return fb.fft.hfft(array("hfft", x, "complex floating"), n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of ``hfft``."""
    return fb.fft.ihfft(array("ihfft", x, "real floating"), n, axis, norm)


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The Fourier transform along several axes (None: all); ``s`` gives their sizes and needs ``axes``."""
    return fb.fft.fftn(array("fftn", x, "floating"), s, _axes("fftn", s, axes), norm)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of ``fftn``."""
    return fb.fft.ifftn(array("ifftn", x, "floating"), s, _axes("ifftn", s, axes), norm)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The Fourier transform of real values along several axes: non-negative frequencies along the last of them."""
    return fb.fft.rfftn(array("rfftn", x, "real floating"), s, _axes("rfftn", s, axes), norm)


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of ``rfftn``; ``s`` gives the sizes of the result."""
    return fb.fft.irfftn(array("irfftn", x, "complex floating"), s, _axes("irfftn", s, axes), norm)


def _axes(name: str, s: Sequence[int] | None, axes: Sequence[int] | None) -> Sequence[int] | None:
    if s is not None and axes is None:
        raise ArgumentError(f"{name}: s was given without axes; name the axes it belongs to")
    return axes


def fftfreq(n: int, /, *, d: float = 1.0, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """The frequencies of the results of ``fft`` for ``n`` samples ``d`` apart."""
    return fb.fft.fftfreq(integer("fftfreq", "n", n), d, dtype=_real("fftfreq", dtype), device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """The frequencies of the results of ``rfft`` for ``n`` samples ``d`` apart."""
    return fb.fft.rfftfreq(integer("rfftfreq", "n", n), d, dtype=_real("rfftfreq", dtype), device=device)


def _real(name: str, dtype: fb.dtype | None) -> fb.dtype:
    dtype = optional_dtype(name, dtype, default_float())
    if dtype not in REAL:
        raise DTypeError(f"{name}: dtype must be real floating, got {dtype}")
    return dtype


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """``x`` with the zero frequency moved to the middle of ``axes`` (None: of all)."""
    array("fftshift", x, "floating")
    return fb.fft.fftshift(x, axes_tuple("fftshift", axes, x.ndim))


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of ``fftshift``."""
    array("ifftshift", x, "floating")
    return fb.fft.ifftshift(x, axes_tuple("ifftshift", axes, x.ndim))
