"""Discrete Fourier transforms, with PyTorch's names, arguments and conventions.

The arithmetic is NumPy's pocketfft (C++, any length, float32 stays float32); tensors go in and come out through
``numpy()`` and ``from_numpy``, which share memory. This module adds what NumPy leaves open: PyTorch's promotion,
its rules for ``s`` and ``dim``, ``out=``, and errors that say what was wrong.

Every function takes ``norm``: ``"backward"`` (the default: forward unscaled, inverse times 1/n), ``"ortho"`` (both
times 1/sqrt(n)) or ``"forward"`` (forward times 1/n, inverse unscaled).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau._registry.names import package_dir as _package_dir
from flambeau.fft._numpy import (
    frequencies,
    frequency_args,
    given,
    grid,
    hfftn_of_array,
    ihfftn_of_array,
    line,
    roll,
    shift_dims,
)

__all__ = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn",
    "rfft", "irfft", "rfft2", "irfft2", "rfftn", "irfftn",
    "hfft", "ihfft", "hfft2", "ihfft2", "hfftn", "ihfftn",
    "fftfreq", "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip
__dir__ = _package_dir(__name__)

Ints = int | Sequence[int]

# ---- one dimension ---------------------------------------------------------------------------------------------------


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform of ``input`` along ``dim``: ``X[k] = sum_j x[j] exp(-2 pi i j k / n)``.

    Args:
        input: real or complex tensor; integers and booleans are taken as the default float dtype.
        n: length of the signal; ``input`` is cut or zero-padded to it. Default: its size along ``dim``.
        dim: the dimension to transform.
        norm: see the module's description.
        out: complex tensor that receives the result.

    Returns:
        A complex tensor of the input's precision, with ``n`` elements along ``dim``.

    Example:
        >>> fb.fft.fft(fb.tensor([1.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    return line("fft", np.fft.fft, input, n, dim, norm, out)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fft`: ``x[j] = 1/n sum_k X[k] exp(2 pi i j k / n)``. Arguments as there.

    Example:
        >>> fb.fft.ifft(fb.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    return line("ifft", np.fft.ifft, input, n, dim, norm, out)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform of a real signal: the first ``n//2 + 1`` values of :func:`fft`, which determine the rest.

    Example:
        >>> fb.fft.rfft(fb.tensor([1.0, 0.0, 0.0, 0.0])).shape
        flambeau.Size([3])
    """
    return line("rfft", np.fft.rfft, input, n, dim, norm, out, takes="real")


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfft`: a real signal of length ``n`` (default ``2 * (size - 1)``) from half its spectrum.

    Example:
        >>> x = fb.tensor([1.0, 2.0, 3.0])
        >>> fb.allclose(fb.fft.irfft(fb.fft.rfft(x), n=3), x)
        True
    """
    return line("irfft", np.fft.irfft, input, n, dim, norm, out, gives="real")


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform of a signal with Hermitian symmetry, given by its first half; the result is real.

    ``n`` is the length of the result, by default ``2 * (size - 1)``.

    Example:
        >>> fb.fft.hfft(fb.tensor([1.0, 0.0, 0.0]))
        tensor([1., 1., 1., 1.])
    """
    return line("hfft", np.fft.hfft, input, n, dim, norm, out, gives="real")


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfft`: the first ``n//2 + 1`` values of the inverse transform of a real ``input``.

    Example:
        >>> fb.fft.ihfft(fb.tensor([1.0, 1.0, 1.0, 1.0])).real
        tensor([1., 0., 0.])
    """
    return line("ihfft", np.fft.ihfft, input, n, dim, norm, out, takes="real")


# ---- several dimensions ----------------------------------------------------------------------------------------------


def fftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform along several dimensions, one after the other.

    Args:
        input: real or complex tensor; integers and booleans are taken as the default float dtype.
        s: sizes to cut or zero-pad to, one per transformed dimension; ``-1`` keeps a size.
        dim: the dimensions; default the last ``len(s)``, or all of them without ``s``.
        norm: see the module's description.
        out: complex tensor that receives the result.

    Example:
        >>> fb.fft.fftn(fb.ones(2, 2)).real
        tensor([[4., 0.],
                [0., 0.]])
    """
    return grid("fftn", np.fft.fftn, input, s, dim, norm, out)


def ifftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fftn`. Arguments as there.

    Example:
        >>> fb.fft.ifftn(fb.fft.fftn(fb.ones(2, 2))).real
        tensor([[1., 1.],
                [1., 1.]])
    """
    return grid("ifftn", np.fft.ifftn, input, s, dim, norm, out)


def rfftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform of a real tensor along several dimensions; half the spectrum is kept along the last of them.

    Example:
        >>> fb.fft.rfftn(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return grid("rfftn", np.fft.rfftn, input, s, dim, norm, out, takes="real")


def irfftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfftn`; ``s`` gives the sizes of the result, by default ``2 * (size - 1)`` along the last one.

    Example:
        >>> x = fb.ones(4, 4)
        >>> fb.allclose(fb.fft.irfftn(fb.fft.rfftn(x)), x)
        True
    """
    return grid("irfftn", np.fft.irfftn, input, s, dim, norm, out, gives="real")


def hfftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Fourier transform of a tensor with Hermitian symmetry, half of which is given along the last dimension.

    Example:
        >>> fb.fft.hfftn(fb.ones(2, 2)).shape
        flambeau.Size([2, 2])
    """
    return grid("hfftn", hfftn_of_array, input, s, dim, norm, out, gives="real")


def ihfftn(
    input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfftn`, from a real ``input``.

    Example:
        >>> fb.fft.ihfftn(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return grid("ihfftn", ihfftn_of_array, input, s, dim, norm, out, takes="real")


def fft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.fft2(fb.ones(2, 2)).real
        tensor([[4., 0.],
                [0., 0.]])
    """
    return grid("fft2", np.fft.fftn, input, s, given("fft2", dim), norm, out)


def ifft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ifftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.ifft2(fb.ones(2, 2)).real
        tensor([[1., 0.],
                [0., 0.]])
    """
    return grid("ifft2", np.fft.ifftn, input, s, given("ifft2", dim), norm, out)


def rfft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.rfft2(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return grid("rfft2", np.fft.rfftn, input, s, given("rfft2", dim), norm, out, takes="real")


def irfft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`irfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.irfft2(fb.ones(4, 3)).shape
        flambeau.Size([4, 4])
    """
    return grid("irfft2", np.fft.irfftn, input, s, given("irfft2", dim), norm, out, gives="real")


def hfft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.hfft2(fb.ones(4, 3)).shape
        flambeau.Size([4, 4])
    """
    return grid("hfft2", hfftn_of_array, input, s, given("hfft2", dim), norm, out, gives="real")


def ihfft2(
    input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ihfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.ihfft2(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return grid("ihfft2", ihfftn_of_array, input, s, given("ihfft2", dim), norm, out, takes="real")


# ---- frequencies and shifts ------------------------------------------------------------------------------------------


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: fb.dtype | None = None,
    device: fb.device | str | None = None,
) -> Tensor:
    """Frequencies of the values of :func:`fft` for ``n`` samples ``d`` apart, in cycles per unit.

    Example:
        >>> fb.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    n, d, dtype = frequency_args("fftfreq", n, d, dtype)
    steps = np.arange(n)
    steps[(n + 1) // 2 :] -= n
    return frequencies(steps, n, d, dtype, device, "fftfreq", out)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: fb.dtype | None = None,
    device: fb.device | str | None = None,
) -> Tensor:
    """Frequencies of the values of :func:`rfft` for ``n`` samples ``d`` apart: the non-negative half.

    Example:
        >>> fb.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    n, d, dtype = frequency_args("rfftfreq", n, d, dtype)
    return frequencies(np.arange(n // 2 + 1), n, d, dtype, device, "rfftfreq", out)


def fftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """Rolls the zero frequency to the middle of ``dim`` (an int, several, or None for all).

    Example:
        >>> fb.fft.fftshift(fb.arange(5))
        tensor([3, 4, 0, 1, 2])
    """
    dims = shift_dims("fftshift", input, dim)
    return roll(input, [input.shape[d] // 2 for d in dims], dims)


def ifftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """Inverse of :func:`fftshift`.

    Example:
        >>> fb.fft.ifftshift(fb.arange(5))
        tensor([2, 3, 4, 0, 1])
    """
    dims = shift_dims("ifftshift", input, dim)
    return roll(input, [-(input.shape[d] // 2) for d in dims], dims)
