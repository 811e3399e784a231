"""The implementation of flambeau.fft: checks, promotion, and conversion to NumPy's transforms and back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfMemoryError, OutOfRangeError, StateError

_NORMS = ("backward", "ortho", "forward")
_COMPLEX_OF = {fb.float32: fb.complex64, fb.float64: fb.complex128}
_REAL_OF = {fb.complex64: fb.float32, fb.complex128: fb.float64}


def line(name: str, transform: Callable, input, n, dim, norm, out, takes="any", gives="complex") -> Tensor:
    """One-dimensional transforms: checks, promotes, calls NumPy."""
    norm = _norm(name, norm)
    dim = _wrap(name, input, _int(name, "dim", dim))
    size = input.shape[dim]
    if n is None:
        n = 2 * (size - 1) if gives == "real" else size
    else:
        n = _int(name, "n", n)
    _check_length(name, n)
    x = _promoted(name, input, takes)
    if _recorded(name, x, out):
        y = _differentiable(name, x, [n], [dim], norm)
        return y if out is None else _into(name, y, out)
    return _finish(name, x, _run(name, transform, x, n, dim, norm), gives, out)


def grid(name: str, transform: Callable, input, s, dim, norm, out, takes="any", gives="complex") -> Tensor:
    """Several dimensions: like ``line``, with the rules for ``s`` and ``dim`` together."""
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
    recorded = _recorded(name, x, out)
    if not dims:
        if recorded:
            y = x.to(_COMPLEX_OF.get(x.dtype, x.dtype))
            return y if out is None else _into(name, y, out)
        return _finish(name, x, _array(x).astype(_NUMPY_COMPLEX[x.dtype]), gives, out)
    if recorded:
        y = _differentiable(name, x, s, dims, norm)
        return y if out is None else _into(name, y, out)
    return _finish(name, x, _run(name, transform, x, s, dims, norm), gives, out)


def _recorded(name: str, x: Tensor, out) -> bool:
    """Whether the transform must be a Function: for backward, or for batched tensors (vmap)."""
    if hasattr(type(x), "__flambeau_function__"):
        if out is not None:
            raise StateError(f"{name}: out= cannot be used inside vmap; use the result instead")
        return True
    if x.is_meta:  # its shape is that of the linear maps
        return True
    if not (x.requires_grad and fb.is_grad_enabled()):
        return False
    if out is not None:
        raise StateError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, but the input requires "
            "grad; drop out=, or call it under no_grad()"
        )
    return True


def _differentiable(name: str, x: Tensor, sizes: list[int], dims: list[int], norm: str) -> Tensor:
    from flambeau.fft import _gradients

    try:
        return _gradients.transform(name, x, sizes, dims, norm)
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(f"{name}: no memory for {sizes} data points along dim {dims}: {error}") from None


def hfftn_of_array(x: np.ndarray, s, axes, norm):
    if len(axes) > 1:
        x = np.fft.fftn(x, s[:-1], axes[:-1], norm)
    return np.fft.hfft(x, s[-1], axes[-1], norm)


def ihfftn_of_array(x: np.ndarray, s, axes, norm):
    x = np.fft.ihfft(x, s[-1], axes[-1], norm)
    return np.fft.ifftn(x, s[:-1], axes[:-1], norm) if len(axes) > 1 else x


_NUMPY_COMPLEX = {
    fb.float32: np.complex64, fb.float64: np.complex128, fb.complex64: np.complex64, fb.complex128: np.complex128,
}  # fmt: skip


def _run(name: str, transform: Callable, x: Tensor, sizes, dims, norm: str) -> np.ndarray:
    try:
        return transform(_array(x), sizes, dims, norm)
    except (MemoryError, ValueError) as error:
        # everything else was checked: what remains are lengths beyond memory
        raise OutOfMemoryError(f"{name}: no memory for {sizes} data points along dim {dims}: {error}") from None


def _array(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


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
    if out.requires_grad and fb.is_grad_enabled():
        raise StateError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad: out; detach() it, or call it under no_grad()"
        )
    if tuple(out.shape) != tuple(y.shape):
        if out.numel() != 0:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {tuple(out.shape)}, which does not "
                f"match the required output shape {tuple(y.shape)}; give out= that shape, or empty it first with resize_(0)",
                stacklevel=4,
            )
        out.resize_(y.shape)
    return out.copy_(y)


def _promoted(name: str, input, takes: str):
    """Converts the input to a dtype of NumPy's transforms: float32, float64, complex64 or complex128."""
    dtype = input.dtype
    if takes == "real" and dtype.is_complex:
        real = "real-valued" if name.endswith("rfftn") else "real"
        raise DTypeError(f"{name} expects a {real} input tensor, but got {dtype}; use x.real, or the transform for complex input")
    if not (dtype.is_complex or dtype.is_floating_point):
        dtype = fb.get_default_dtype()
    if dtype not in _NUMPY_COMPLEX:
        raise DTypeError(f"{name}: Unsupported dtype {dtype}, there is no transform for it; use x.to(flambeau.float32)")
    return input.to(dtype)


def _sizes_and_dims(name: str, input, s, dim) -> tuple[list[int], list[int]]:
    """``s`` and ``dim`` as lists of one length; -1 in ``s`` still means "unchanged"."""
    _tensor(name, input)
    s = None if s is None else _ints(name, "s", s)
    if dim is not None:
        dims = [_wrap(name, input, d) for d in _ints(name, "dim", dim)]
        if len(set(dims)) < len(dims):
            raise ArgumentError(f"{name}: FFT dims must be unique, got dim {tuple(_ints(name, 'dim', dim))}")
        if s is not None and len(s) != len(dims):
            raise ArgumentError(f"{name}: When given, dim and shape arguments must have the same length, got {len(s)} and {len(dims)}")
    elif s is None:
        dims = list(range(input.ndim))
    elif len(s) > input.ndim:
        raise ArgumentError(f"{name}: Got shape with {len(s)} values but input tensor only has {input.ndim} dimensions.")
    else:
        dims = list(range(input.ndim - len(s), input.ndim))
    return [-1] * len(dims) if s is None else s, dims


def shift_dims(name: str, input, dim) -> list[int]:
    _tensor(name, input)
    return list(range(input.ndim)) if dim is None else [_wrap(name, input, d) for d in _ints(name, "dim", dim)]


def roll(input, shifts: list[int], dims: list[int]):
    return fb.roll(input, tuple(shifts), tuple(dims)) if dims else input.clone()


def frequency_args(name: str, n, d, dtype):
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


def frequencies(steps: np.ndarray, n: int, d: float, dtype, device, name: str, out):
    with np.errstate(divide="ignore", invalid="ignore"):
        values = steps / (np.float64(n) * d)
    y = fb.from_numpy(values).to(fb.get_default_device() if device is None else device, dtype)
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
        raise ArgumentError(f"{name}: Invalid number of data points ({n}) specified; expected at least 1")
    if n > 2**48:
        raise OutOfMemoryError(f"{name}: no memory for {n} data points")


def _wrap(name: str, input, dim: int) -> int:
    """``dim`` counted from 0."""
    _tensor(name, input)
    rank = input.ndim
    if not -rank <= dim < rank:
        if not rank:
            raise OutOfRangeError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
        raise OutOfRangeError(
            f"{name}: Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim}) "
            f"for shape {tuple(input.shape)}"
        )
    return dim % rank


def _tensor(name: str, input) -> None:
    if not isinstance(input, fb.Tensor):
        raise TypeError(f"{name}: input must be a Tensor, got {type(input).__name__}; use flambeau.as_tensor first")


def given(name: str, dim):
    if dim is None:
        raise TypeError(f"{name}: dim must be an int or a sequence of ints, got None")
    return dim


def _int(name: str, arg: str, value) -> int:
    """A Python int from anything with ``__index__``; booleans and floats are errors."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {arg} must be an int, got {type(value).__name__}")
    return value.__index__()


def _ints(name: str, arg: str, value) -> list[int]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_int(name, arg, v) for v in value]
    return [_int(name, arg, value)]
