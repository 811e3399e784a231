"""Creation functions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import array, choice, integer, optional_dtype, several, shape_tuple
from flambeau.array_api._dtypes import check_dtype, default_complex, default_float, default_for, real_of
from flambeau.errors import ArgumentError

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
) -> Tensor:
    """Evenly spaced values from ``start`` (inclusive) to ``stop`` (exclusive)."""
    if stop is None:
        start, stop = 0, start
    for arg, value in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"arange: {arg} must be an int or float, got {type(value).__name__}")
    if step == 0:
        raise ArgumentError("arange: step must not be 0")
    integers = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
    dtype = optional_dtype("arange", dtype, fb.int64 if integers else default_float())
    if (stop - start) * math.copysign(1, step) <= 0:
        return fb.empty((0,), dtype=dtype, device=device)
    if integers and dtype == fb.uint64 and max(start, stop) >= 2**63:
        # beyond int64: count from 0 and add the start, both within uint64
        counts = fb.arange(-((start - stop) // step), dtype=dtype, device=device)
        return counts * fb.tensor(step % 2**64, dtype=dtype) + fb.tensor(start, dtype=dtype)
    return fb.arange(start, stop, step, dtype=real_of(dtype), device=device).to(dtype)


def asarray(
    obj: Tensor | bool | int | float | complex | Sequence[Any] | Any,
    /,
    *,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
    copy: bool | None = None,
) -> Tensor:
    """An array from an array, a Python scalar, nested sequences of these, or an object with the buffer protocol.

    ``copy``: True always copies, False never does (an error where it would be needed), None only if needed.
    """
    if dtype is not None:
        dtype = check_dtype("asarray", dtype)
    if not isinstance(obj, Tensor):
        view = _buffer(obj)
        if view is None:
            if copy is False:
                raise ArgumentError(f"asarray: a {type(obj).__name__} cannot become an array without a copy")
            if not _holds_arrays(obj):
                return fb.tensor(obj, dtype=_scalar_dtype(obj) if dtype is None else dtype, device=device)
        obj = _stacked(obj) if view is None else fb.from_numpy(view)
    target = obj.dtype if dtype is None else dtype
    place = obj.device if device is None else fb.device(device)
    if copy is False and (target != obj.dtype or place != obj.device):
        raise ArgumentError(
            f"asarray: {obj.dtype} on {obj.device} cannot become {target} on {place} without a copy; use copy=None"
        )
    return obj.to(device=place, dtype=target, copy=copy is True)


def _buffer(obj: Any) -> np.ndarray | None:
    """The memory of ``obj`` as a NumPy array, without a copy; None if it exposes none."""
    if isinstance(obj, (np.ndarray, np.generic)):
        return np.asarray(obj)
    try:
        return np.asarray(memoryview(obj))
    except TypeError:
        return None


def _holds_arrays(obj: object) -> bool:
    return isinstance(obj, (tuple, list)) and any(isinstance(item, Tensor) or _holds_arrays(item) for item in obj)


def _stacked(obj: object) -> Tensor:
    """Nested sequences with arrays in them, stacked with the standard's promotion."""
    if isinstance(obj, (tuple, list)):
        return fb.stack(several("asarray", [_stacked(item) for item in obj]))
    return obj if isinstance(obj, Tensor) else fb.tensor(obj, dtype=_scalar_dtype(obj))


def _scalar_dtype(obj: object) -> fb.dtype | None:
    """The dtype of a single Python scalar; None for sequences, for which ``tensor`` applies the same rules."""
    return default_for(obj) if isinstance(obj, (builtins.bool, int, float, complex)) else None


def empty(shape: Shape, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array with unset values."""
    dtype = optional_dtype("empty", dtype, default_float())
    return fb.empty(shape_tuple("empty", shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array with unset values and the shape of ``x``."""
    array("empty_like", x)
    return empty(
        tuple(x.shape), dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device
    )


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
) -> Tensor:
    """A matrix with ones on its ``k``-th diagonal and zeros elsewhere."""
    rows = integer("eye", "n_rows", n_rows)
    cols = rows if n_cols is None else integer("eye", "n_cols", n_cols)
    dtype = optional_dtype("eye", dtype, default_float())
    if rows < 0 or cols < 0:
        raise ArgumentError(f"eye: the numbers of rows and columns must not be negative, got {rows} and {cols}")
    # any k beyond the corners means no ones at all, however far beyond
    k = max(-rows, min(cols, integer("eye", "k", k)))
    return (fb.arange(cols, device=device)[None, :] - fb.arange(rows, device=device)[:, None] == k).to(dtype)


def from_dlpack(x: object, /, *, device: fb.device | None = None, copy: bool | None = None) -> Tensor:
    """The data of another library's array, shared unless ``copy`` or ``device`` asks otherwise."""
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise AttributeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__ and __dlpack_device__ methods")
    return fb.from_dlpack(x, device=device, copy=copy)


def full(
    shape: Shape,
    fill_value: bool | int | float | complex,
    *,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
) -> Tensor:
    """An array of one value; without ``dtype`` its dtype is the default for the kind of that value.

    Libraries also pass a zero-dimensional array as the value, which then gives the dtype.
    """
    if isinstance(fill_value, Tensor) and fill_value.ndim == 0:
        dtype = fill_value.dtype if dtype is None else dtype
        fill_value = fill_value.item()
    if not isinstance(fill_value, (builtins.bool, int, float, complex)):
        raise TypeError(f"full: fill_value must be a Python scalar, got {type(fill_value).__name__}")
    dtype = optional_dtype("full", dtype, default_for(fill_value))
    return fb.full(shape_tuple("full", shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor,
    /,
    fill_value: bool | int | float | complex,
    *,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
) -> Tensor:
    """An array of one value with the shape of ``x``."""
    array("full_like", x)
    dtype = x.dtype if dtype is None else dtype
    return full(tuple(x.shape), fill_value, dtype=dtype, device=x.device if device is None else device)


def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: fb.dtype | None = None,
    device: fb.device | None = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` evenly spaced values from ``start`` to ``stop``, the last of them only with ``endpoint``."""
    num = integer("linspace", "num", num)
    if num < 0:
        raise ArgumentError(f"linspace: num must not be negative, got {num}")
    complex_ends = isinstance(start, complex) or isinstance(stop, complex)
    dtype = optional_dtype("linspace", dtype, default_complex() if complex_ends else default_float())
    if endpoint:
        return fb.linspace(start, stop, num, dtype=dtype, device=device)
    return fb.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Coordinate matrices from one-dimensional coordinate arrays, which must share one dtype."""
    choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    for x in arrays:
        if array("meshgrid", x).ndim > 1:
            raise ArgumentError(f"meshgrid: expected one-dimensional arrays, got shape {tuple(x.shape)}")
        if x.dtype != arrays[0].dtype:
            raise ArgumentError(f"meshgrid: all arrays must have one dtype, got {arrays[0].dtype} and {x.dtype}")
    if not arrays:
        return ()
    return tuple(fb.meshgrid(*(x.reshape(-1) for x in arrays), indexing=indexing))


def ones(shape: Shape, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array of ones."""
    dtype = optional_dtype("ones", dtype, default_float())
    return fb.ones(shape_tuple("ones", shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array of ones with the shape of ``x``."""
    array("ones_like", x)
    return ones(
        tuple(x.shape), dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device
    )


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of a matrix (or a stack), up to the ``k``-th diagonal; zeros elsewhere."""
    return fb.tril(_matrices("tril", x), integer("tril", "k", k))


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of a matrix (or a stack), from the ``k``-th diagonal on; zeros elsewhere."""
    return fb.triu(_matrices("triu", x), integer("triu", "k", k))


def _matrices(name: str, x: Tensor) -> Tensor:
    if array(name, x).ndim < 2:
        raise ArgumentError(f"{name}: expected a matrix or a stack of matrices, got shape {tuple(x.shape)}")
    return x


def zeros(shape: Shape, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array of zeros."""
    dtype = optional_dtype("zeros", dtype, default_float())
    return fb.zeros(shape_tuple("zeros", shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: fb.dtype | None = None, device: fb.device | None = None) -> Tensor:
    """An array of zeros with the shape of ``x``."""
    array("zeros_like", x)
    return zeros(
        tuple(x.shape), dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device
    )
