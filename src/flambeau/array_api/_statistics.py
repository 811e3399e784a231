"""Statistical and utility functions: reductions, cumulative sums and products, differences."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import array, axes_tuple, axis_index, integer
from flambeau.array_api._dtypes import SIGNED, UNSIGNED, check_dtype, promote
from flambeau.errors import ArgumentError

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def reduced(
    name: str, x: Tensor, axis: Axis, keepdims: bool, reduce: Callable[[Tensor, tuple[Any, ...], bool], Tensor]
) -> Tensor:
    """``reduce(x, dims, keepdim)`` over the axes given by ``axis``.

    No axes at all, as in a zero-dimensional array or with ``axis=()``, means every element separately, whereas
    PyTorch's functions interpret an empty ``dim`` as all: so an axis of size one is added to reduce over.
    """
    axes = axes_tuple(name, axis, x.ndim)
    return reduce(x, axes, bool(keepdims)) if axes else reduce(fb.unsqueeze(x, -1), (-1,), False)


def sum_dtype(name: str, x: Tensor, dtype: fb.dtype | None) -> fb.dtype:
    """dtype of sums and products: small integers grow to 64 bits."""
    if dtype is not None:
        return check_dtype(name, dtype)
    if x.dtype in SIGNED:
        return fb.int64
    return fb.uint64 if x.dtype in UNSIGNED else x.dtype


def _truth(name: str, x: Tensor) -> Tensor:
    """``x`` as booleans, because PyTorch's all and any of uint8 return uint8."""
    return x if array(name, x).dtype == fb.bool else x != 0


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element is true (not zero) along ``axis``; true of none."""
    return reduced("all", _truth("all", x), axis, keepdims, fb.all)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is true (not zero) along ``axis``; false of none."""
    return reduced("any", _truth("any", x), axis, keepdims, fb.any)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero along ``axis``."""
    truth = _truth("count_nonzero", x)
    return reduced("count_nonzero", truth, axis, keepdims, partial(fb.sum, dtype=fb.int64))


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along ``axis``; NaN if one is among them."""
    array("max", x, "real-valued")
    return reduced("max", x, axis, keepdims, partial(_extreme, "max", fb.amax))


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along ``axis``; NaN if one is among them."""
    array("min", x, "real-valued")
    return reduced("min", x, axis, keepdims, partial(_extreme, "min", fb.amin))


def _extreme(name: str, function: Callable[..., Any], x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if math.prod(x.shape[d] for d in dims) == 0:
        raise ArgumentError(f"{name}: there is no {name} of no elements, in shape {tuple(x.shape)}")
    return function(x, dims, keepdim)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along ``axis``; NaN of none."""
    array("mean", x, "floating")
    return reduced("mean", x, axis, keepdims, fb.mean)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: fb.dtype | None = None, keepdims: bool = False) -> Tensor:
    """The product along ``axis``; 1 of none."""
    dtype = sum_dtype("prod", array("prod", x, "numeric"), dtype)

    def reduce(t: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
        for d in sorted(dims, reverse=True):
            t = fb.prod(t, d, keepdim, dtype=dtype)
        return t

    return reduced("prod", x.to(dtype), axis, keepdims, reduce)


def sum(x: Tensor, /, *, axis: Axis = None, dtype: fb.dtype | None = None, keepdims: bool = False) -> Tensor:
    """The sum along ``axis``; 0 of none."""
    dtype = sum_dtype("sum", array("sum", x, "numeric"), dtype)
    return reduced("sum", x.to(dtype), axis, keepdims, partial(fb.sum, dtype=dtype))


def std(x: Tensor, /, *, axis: Axis = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along ``axis``, with divisor ``M - correction``."""
    return fb.sqrt(_var("std", x, axis, correction, keepdims))


def var(x: Tensor, /, *, axis: Axis = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along ``axis``, with divisor ``M - correction``; NaN where that is not positive."""
    return _var("var", x, axis, correction, keepdims)


def _var(name: str, x: Tensor, axis: Axis, correction: int | float, keepdims: bool) -> Tensor:
    array(name, x, "real floating")
    if isinstance(correction, bool) or not isinstance(correction, (int, float)):
        raise TypeError(f"{name}: correction must be an int or float, got {type(correction).__name__}")

    def reduce(t: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
        if math.prod(t.shape[d] for d in dims) - correction <= 0:
            return fb.sum(t, dims, keepdim) * math.nan
        return fb.var(t, dims, correction=correction, keepdim=keepdim)

    return reduced(name, x, axis, keepdims, reduce)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: fb.dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Products of all elements so far along ``axis``; ``include_initial`` puts the empty product, 1, in front."""
    return _cumulative("cumulative_prod", fb.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: fb.dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Sums of all elements so far along ``axis``; ``include_initial`` puts the empty sum, 0, in front."""
    return _cumulative("cumulative_sum", fb.cumsum, 0, x, axis, dtype, include_initial)


def _cumulative(name: str, scan: Callable[..., Any], initial: int, x, axis, dtype, include_initial) -> Tensor:
    array(name, x, "numeric")
    if axis is None:
        if x.ndim != 1:
            raise ArgumentError(f"{name}: axis is needed for shape {tuple(x.shape)}; only one axis needs no name")
        axis = 0
    axis = axis_index(name, axis, x.ndim, x.shape)
    dtype = sum_dtype(name, x, dtype)
    result = scan(x.to(dtype), dim=axis, dtype=dtype)
    if not include_initial:
        return result
    shape = list(x.shape)
    shape[axis] = 1
    return fb.cat([fb.full(shape, initial, dtype=dtype, device=x.device), result], dim=axis)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along ``axis``, taken ``n`` times."""
    axis = axis_index("diff", axis, array("diff", x, "numeric").ndim, x.shape)
    n = integer("diff", "n", n)
    if n < 0:
        raise ArgumentError(f"diff: n must not be negative, got {n}")
    parts = [p for p in (prepend, x, append) if p is not None]
    for part in parts:
        array("diff", part, "numeric", "prepend and append")
        if promote("diff", part.dtype, x.dtype) != x.dtype:
            raise ArgumentError(f"diff: {part.dtype} does not fit into an array of {x.dtype}; use astype first")
    result = fb.cat([p.to(x.dtype) for p in parts], dim=axis) if len(parts) > 1 else x
    for _ in range(builtins.min(n, result.shape[axis])):
        size = result.shape[axis]
        result = fb.narrow(result, axis, 1, size - 1) - fb.narrow(result, axis, 0, size - 1)
    return result.clone() if n == 0 else result
