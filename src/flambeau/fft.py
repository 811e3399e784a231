"""Discrete Fourier transforms, with PyTorch's names, arguments and conventions.

The arithmetic is NumPy's pocketfft (C++, any length, float32 stays float32); tensors go in and come out through
``numpy()`` and ``from_numpy``, which share memory. This module adds what NumPy leaves open: PyTorch's promotion,
its rules for ``s`` and ``dim``, ``out=``, and errors that say what was wrong.

Every function takes ``norm``: ``"backward"`` (the default: forward unscaled, inverse times 1/n), ``"ortho"`` (both
times 1/sqrt(n)) or ``"forward"`` (forward times 1/n, inverse unscaled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import flambeau as fb
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError

__all__ = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn",
    "rfft", "irfft", "rfft2", "irfft2", "rfftn", "irfftn",
    "hfft", "ihfft", "hfft2", "ihfft2", "hfftn", "ihfftn",
    "fftfreq", "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip

_NORMS = ("backward", "ortho", "forward")
_COMPLEX_OF = {fb.float32: fb.complex64, fb.float64: fb.complex128}
_REAL_OF = {fb.complex64: fb.float32, fb.complex128: fb.float64}


# ---- one dimension ---------------------------------------------------------------------------------------------------


def fft(input, n=None, dim=-1, norm=None, *, out=None):
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
    return _line("fft", np.fft.fft, input, n, dim, norm, out)


def ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """Inverse of :func:`fft`: ``x[j] = 1/n sum_k X[k] exp(2 pi i j k / n)``. Arguments as there.

    Example:
        >>> fb.fft.ifft(fb.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    return _line("ifft", np.fft.ifft, input, n, dim, norm, out)


def rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """Fourier transform of a real signal: the first ``n//2 + 1`` values of :func:`fft`, the rest being their conjugates.

    Example:
        >>> fb.fft.rfft(fb.tensor([1.0, 0.0, 0.0, 0.0])).shape
        flambeau.Size([3])
    """
    return _line("rfft", np.fft.rfft, input, n, dim, norm, out, takes="real")


def irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """Inverse of :func:`rfft`: a real signal of length ``n`` (default ``2 * (size - 1)``) from half its spectrum.

    Example:
        >>> x = fb.tensor([1.0, 2.0, 3.0])
        >>> fb.allclose(fb.fft.irfft(fb.fft.rfft(x), n=3), x)
        True
    """
    return _line("irfft", np.fft.irfft, input, n, dim, norm, out, gives="real")


def hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """Fourier transform of a signal with Hermitian symmetry, given by its first half; the result is real.

    ``n`` is the length of the result, by default ``2 * (size - 1)``.

    Example:
        >>> fb.fft.hfft(fb.tensor([1.0, 0.0, 0.0]))
        tensor([1., 1., 1., 1.])
    """
    return _line("hfft", np.fft.hfft, input, n, dim, norm, out, gives="real")


def ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """Inverse of :func:`hfft`: the first ``n//2 + 1`` values of the inverse transform of a real ``input``.

    Example:
        >>> fb.fft.ihfft(fb.tensor([1.0, 1.0, 1.0, 1.0])).real
        tensor([1., 0., 0.])
    """
    return _line("ihfft", np.fft.ihfft, input, n, dim, norm, out, takes="real")


# ---- several dimensions ----------------------------------------------------------------------------------------------


def fftn(input, s=None, dim=None, norm=None, *, out=None):
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
    return _grid("fftn", np.fft.fftn, input, s, dim, norm, out)


def ifftn(input, s=None, dim=None, norm=None, *, out=None):
    """Inverse of :func:`fftn`. Arguments as there.

    Example:
        >>> fb.fft.ifftn(fb.fft.fftn(fb.ones(2, 2))).real
        tensor([[1., 1.],
                [1., 1.]])
    """
    return _grid("ifftn", np.fft.ifftn, input, s, dim, norm, out)


def rfftn(input, s=None, dim=None, norm=None, *, out=None):
    """Fourier transform of a real tensor along several dimensions; half the spectrum is kept along the last of them.

    Example:
        >>> fb.fft.rfftn(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return _grid("rfftn", np.fft.rfftn, input, s, dim, norm, out, takes="real")


def irfftn(input, s=None, dim=None, norm=None, *, out=None):
    """Inverse of :func:`rfftn`; ``s`` gives the sizes of the result, by default ``2 * (size - 1)`` along the last one.

    Example:
        >>> x = fb.ones(4, 4)
        >>> fb.allclose(fb.fft.irfftn(fb.fft.rfftn(x)), x)
        True
    """
    return _grid("irfftn", np.fft.irfftn, input, s, dim, norm, out, gives="real")


def hfftn(input, s=None, dim=None, norm=None, *, out=None):
    """Fourier transform of a tensor with Hermitian symmetry, half of which is given along the last dimension.

    Example:
        >>> fb.fft.hfftn(fb.ones(2, 2)).shape
        flambeau.Size([2, 2])
    """
    return _grid("hfftn", _hfftn, input, s, dim, norm, out, gives="real")


def ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    """Inverse of :func:`hfftn`, from a real ``input``.

    Example:
        >>> fb.fft.ihfftn(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return _grid("ihfftn", _ihfftn, input, s, dim, norm, out, takes="real")


def fft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`fftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.fft2(fb.ones(2, 2)).real
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _grid("fft2", np.fft.fftn, input, s, _given("fft2", dim), norm, out)


def ifft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`ifftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.ifft2(fb.ones(2, 2)).real
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _grid("ifft2", np.fft.ifftn, input, s, _given("ifft2", dim), norm, out)


def rfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`rfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.rfft2(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return _grid("rfft2", np.fft.rfftn, input, s, _given("rfft2", dim), norm, out, takes="real")


def irfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`irfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.irfft2(fb.ones(4, 3)).shape
        flambeau.Size([4, 4])
    """
    return _grid("irfft2", np.fft.irfftn, input, s, _given("irfft2", dim), norm, out, gives="real")


def hfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`hfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.hfft2(fb.ones(4, 3)).shape
        flambeau.Size([4, 4])
    """
    return _grid("hfft2", _hfftn, input, s, _given("hfft2", dim), norm, out, gives="real")


def ihfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """:func:`ihfftn` over two dimensions, by default the last two.

    Example:
        >>> fb.fft.ihfft2(fb.ones(4, 4)).shape
        flambeau.Size([4, 3])
    """
    return _grid("ihfft2", _ihfftn, input, s, _given("ihfft2", dim), norm, out, takes="real")


# ---- frequencies and shifts ------------------------------------------------------------------------------------------


def fftfreq(n, d=1.0, *, out=None, dtype=None, device=None):
    """Frequencies of the values of :func:`fft` for ``n`` samples ``d`` apart, in cycles per unit.

    Example:
        >>> fb.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    n, d, dtype = _frequency_args("fftfreq", n, d, dtype)
    steps = np.arange(n)
    steps[(n + 1) // 2 :] -= n
    return _frequencies(steps, n, d, dtype, device, "fftfreq", out)


def rfftfreq(n, d=1.0, *, out=None, dtype=None, device=None):
    """Frequencies of the values of :func:`rfft` for ``n`` samples ``d`` apart: the non-negative half.

    Example:
        >>> fb.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    n, d, dtype = _frequency_args("rfftfreq", n, d, dtype)
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, device, "rfftfreq", out)


def fftshift(input, dim=None):
    """Rolls the zero frequency to the middle of ``dim`` (an int, several, or None for all).

    Example:
        >>> fb.fft.fftshift(fb.arange(5))
        tensor([3, 4, 0, 1, 2])
    """
    dims = _shift_dims("fftshift", input, dim)
    return _roll(input, [input.shape[d] // 2 for d in dims], dims)


def ifftshift(input, dim=None):
    """Inverse of :func:`fftshift`.

    Example:
        >>> fb.fft.ifftshift(fb.arange(5))
        tensor([2, 3, 4, 0, 1])
    """
    dims = _shift_dims("ifftshift", input, dim)
    return _roll(input, [-(input.shape[d] // 2) for d in dims], dims)


# ---- the work --------------------------------------------------------------------------------------------------------


def _line(name: str, transform: Callable, input, n, dim, norm, out, takes="any", gives="complex"):
    """One-dimensional transforms: check, promote, hand over to NumPy."""
    norm = _norm(name, norm)
    dim = _wrap(name, input, _int(name, "dim", dim))
    size = input.shape[dim]
    if n is None:
        n = 2 * (size - 1) if gives == "real" else size
    else:
        n = _int(name, "n", n)
    _check_length(name, n)
    x = _promoted(name, input, takes)
    return _finish(name, x, transform(_array(x), n, dim, norm), gives, out)


def _grid(name: str, transform: Callable, input, s, dim, norm, out, takes="any", gives="complex"):
    """Several dimensions: like ``_line``, with the rules for ``s`` and ``dim`` together."""
    norm = _norm(name, norm)
    s, dims = _sizes_and_dims(name, input, s, dim)
    if not dims and (takes, gives) != ("any", "complex"):
        raise ArgumentError(f"{name}: must transform at least one dimension, got none; pass dim or a tensor with one")
    if gives == "real" and s[-1] == -1:
        s[-1] = 2 * (input.shape[dims[-1]] - 1)
    s = [input.shape[d] if size == -1 else size for size, d in zip(s, dims, strict=True)]
    for size in s:
        _check_length(name, size)
    x = _promoted(name, input, takes)
    if not dims:
        return _finish(name, x, _array(x).astype(_NUMPY_COMPLEX[x.dtype]), gives, out)
    return _finish(name, x, transform(_array(x), s, dims, norm), gives, out)


def _hfftn(x: np.ndarray, s, axes, norm):
    if len(axes) > 1:
        x = np.fft.fftn(x, s[:-1], axes[:-1], norm)
    return np.fft.hfft(x, s[-1], axes[-1], norm)


def _ihfftn(x: np.ndarray, s, axes, norm):
    x = np.fft.ihfft(x, s[-1], axes[-1], norm)
    return np.fft.ifftn(x, s[:-1], axes[:-1], norm) if len(axes) > 1 else x


_NUMPY_COMPLEX = {
    fb.float32: np.complex64, fb.float64: np.complex128, fb.complex64: np.complex64, fb.complex128: np.complex128,
}  # fmt: skip


def _array(x) -> np.ndarray:
    return x.cpu().numpy()


def _finish(name: str, x, result: np.ndarray, gives: str, out):
    """A tensor of the input's precision and device, or ``out`` filled with it."""
    dtype = _REAL_OF.get(x.dtype, x.dtype) if gives == "real" else _COMPLEX_OF.get(x.dtype, x.dtype)
    y = fb.from_numpy(np.ascontiguousarray(result).reshape(result.shape)).to(device=x.device, dtype=dtype)
    return y if out is None else _into(name, y, out)


def _into(name: str, y, out):
    if not isinstance(out, fb.Tensor):
        raise TypeError(f"{name}: out must be a Tensor, got {type(out).__name__}")
    if out.dtype.is_complex != y.dtype.is_complex or not (out.dtype.is_complex or out.dtype.is_floating_point):
        raise DTypeError(f"{name}: out has dtype {out.dtype}, but the result has {y.dtype}; pass an out of that dtype")
    if tuple(out.shape) != tuple(y.shape):
        if out.numel() != 0:
            raise ArgumentError(
                f"{name}: out has shape {tuple(out.shape)}, but the result has {tuple(y.shape)}; "
                "pass an out of that shape or an empty one"
            )
        out.resize_(y.shape)
    return out.copy_(y)


def _promoted(name: str, input, takes: str):
    """The input as NumPy's transforms take it: float32, float64, complex64 or complex128."""
    dtype = input.dtype
    if takes == "real" and dtype.is_complex:
        raise DTypeError(f"{name}: expected a real input, got {dtype}; use x.real, or the transform for complex input")
    if not (dtype.is_complex or dtype.is_floating_point):
        dtype = fb.get_default_dtype()
    if dtype not in _NUMPY_COMPLEX:
        raise DTypeError(f"{name}: no transform for {dtype}; use x.to(flambeau.float32)")
    return input.to(dtype)


def _sizes_and_dims(name: str, input, s, dim) -> tuple[list[int], list[int]]:
    """``s`` and ``dim`` as lists of one length; -1 in ``s`` still stands for "as it is"."""
    _tensor(name, input)
    s = None if s is None else _ints(name, "s", s)
    if dim is not None:
        dims = [_wrap(name, input, d) for d in _ints(name, "dim", dim)]
        if len(set(dims)) < len(dims):
            raise ArgumentError(f"{name}: dim {tuple(_ints(name, 'dim', dim))} repeats a dimension; name each once")
        if s is not None and len(s) != len(dims):
            raise ArgumentError(f"{name}: s and dim must have the same length, got {len(s)} and {len(dims)}")
    elif s is None:
        dims = list(range(input.ndim))
    elif len(s) > input.ndim:
        raise ArgumentError(f"{name}: s has {len(s)} sizes, but the input of shape {tuple(input.shape)} has fewer dims")
    else:
        dims = list(range(input.ndim - len(s), input.ndim))
    return [-1] * len(dims) if s is None else s, dims


def _shift_dims(name: str, input, dim) -> list[int]:
    _tensor(name, input)
    return list(range(input.ndim)) if dim is None else [_wrap(name, input, d) for d in _ints(name, "dim", dim)]


def _roll(input, shifts: list[int], dims: list[int]):
    return fb.roll(input, tuple(shifts), tuple(dims)) if dims else input.clone()


def _frequency_args(name: str, n, d, dtype):
    n = _int(name, "n", n)
    if n < 0:
        raise ArgumentError(f"{name}: n must not be negative, got {n}")
    if isinstance(d, bool) or not isinstance(d, (int, float)):
        raise TypeError(f"{name}: d must be a float, got {type(d).__name__}")
    dtype = fb.get_default_dtype() if dtype is None else dtype
    if not isinstance(dtype, fb.dtype):
        raise TypeError(f"{name}: dtype must be a flambeau dtype, got {type(dtype).__name__}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise DTypeError(f"{name}: expected a floating or complex dtype, got {dtype}")
    return n, d, dtype


def _frequencies(steps: np.ndarray, n: int, d: float, dtype, device, name: str, out):
    with np.errstate(divide="ignore", invalid="ignore"):
        values = steps / (np.float64(n) * d)
    y = fb.from_numpy(values).to(dtype=dtype)
    y = y if device is None else y.to(device=device)
    return y if out is None else _into(name, y, out)


def _norm(name: str, norm) -> str:
    if norm is None:
        return "backward"
    if not isinstance(norm, str):
        raise TypeError(f"{name}: norm must be a str or None, got {type(norm).__name__}")
    if norm not in _NORMS:
        raise ArgumentError(f"{name}: unknown norm {norm!r}; expected one of {', '.join(_NORMS)}")
    return norm


def _check_length(name: str, n: int) -> None:
    if n < 1:
        raise ArgumentError(f"{name}: the number of data points must be at least 1, got {n}")


def _wrap(name: str, input, dim: int) -> int:
    """``dim`` counted from 0."""
    _tensor(name, input)
    rank = input.ndim
    if not -rank <= dim < rank:
        span = f"{-rank}..{rank - 1}" if rank else "no dim at all"
        raise OutOfRangeError(f"{name}: dim {dim} is out of range for shape {tuple(input.shape)}; expected {span}")
    return dim % rank


def _tensor(name: str, input) -> None:
    if not isinstance(input, fb.Tensor):
        raise TypeError(f"{name}: input must be a Tensor, got {type(input).__name__}; use flambeau.as_tensor first")


def _given(name: str, dim):
    if dim is None:
        raise TypeError(f"{name}: dim must be an int or a sequence of ints, got None")
    return dim


def _int(name: str, arg: str, value) -> int:
    """A Python int from anything that is one by ``__index__``; booleans and floats are mistakes."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {arg} must be an int, got {type(value).__name__}")
    return value.__index__()


def _ints(name: str, arg: str, value) -> list[int]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_int(name, arg, v) for v in value]
    return [_int(name, arg, value)]
