"""Searching, sorting and set functions."""

from __future__ import annotations

from typing import Literal, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import Scalar, array, axis_index, choice, pair, wrapped_indices
from flambeau.array_api._dtypes import COMPLEX
from flambeau.errors import ArgumentError

__all__ = [
    "argmax", "argmin", "argsort", "isin", "nonzero", "searchsorted", "sort", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "where",
]  # fmt: skip


class UniqueAll(NamedTuple):
    """Result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first largest element along ``axis``; without one, in the flattened array."""
    return _arg_extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first smallest element along ``axis``; without one, in the flattened array."""
    return _arg_extreme("argmin", x, axis, keepdims)


def _arg_extreme(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    function = fb.argmax if name == "argmax" else fb.argmin
    array(name, x, "real-valued")
    if axis is None:
        if x.numel() == 0:
            raise ArgumentError(f"{name}: expected at least one element, got shape {tuple(x.shape)}")
        result = function(x.reshape(-1), dim=0)
        return result.reshape([1] * x.ndim) if keepdims else result
    axis = axis_index(name, axis, x.ndim, x.shape)
    if x.shape[axis] == 0:
        raise ArgumentError(f"{name}: axis {axis} of shape {tuple(x.shape)} has no elements")
    return function(x, dim=axis, keepdim=keepdims)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort ``x`` along ``axis``."""
    axis = axis_index("argsort", axis, array("argsort", x, "real-valued").ndim, x.shape)
    return fb.sort(x, dim=axis, descending=descending, stable=stable)[1]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """``x`` sorted along ``axis``; NaN counts as larger than all else."""
    axis = axis_index("sort", axis, array("sort", x, "real-valued").ndim, x.shape)
    return fb.sort(x, dim=axis, descending=descending, stable=stable)[0]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not zero, one array per axis, in row-major order."""
    if array("nonzero", x).ndim == 0:
        raise ArgumentError("nonzero: expected at least one axis, got a zero-dimensional array; use reshape first")
    return tuple(fb.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Tensor, x2: Tensor | int | float, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where to put the elements of ``x2`` in the sorted ``x1``: before (left) or after (right) equal ones."""
    choice("searchsorted", "side", side, ("left", "right"))
    if array("searchsorted", x1, "real-valued", "x1").ndim != 1:
        raise ArgumentError(f"searchsorted: x1 must be one-dimensional, got shape {tuple(x1.shape)}")
    if sorter is not None:
        if array("searchsorted", sorter, "integral", "sorter").shape != x1.shape:
            raise ArgumentError(f"searchsorted: sorter has shape {tuple(sorter.shape)}, but x1 has {tuple(x1.shape)}")
        x1 = fb.index_select(x1, 0, wrapped_indices("searchsorted", sorter, x1.shape[0]))
    x1, x2 = pair("searchsorted", x1, x2, "real-valued")
    return fb.searchsorted(x1, x2, right=side == "right")


def where(condition: Tensor, x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """Elements of ``x1`` where ``condition`` holds, of ``x2`` elsewhere."""
    array("where", condition, "bool", "condition")
    return fb.where(condition, *pair("where", x1, x2))


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` is (with ``invert``: is not) equal to one of ``x2``."""
    x, candidates = pair("isin", x1, x2, "integral or bool")
    if candidates.numel() == 0:
        return fb.full(tuple(x.shape), bool(invert), dtype=fb.bool, device=x.device)
    candidates, flat = fb.sort(candidates.reshape(-1))[0], x.reshape(-1)
    place = fb.searchsorted(candidates, flat).clamp(max=candidates.numel() - 1)
    found = (fb.index_select(candidates, 0, place) == flat).reshape(x.shape)
    return fb.logical_not(found) if invert else found


def unique_all(x: Tensor, /) -> UniqueAll:
    """Unique elements, where each first occurs, which of them stands at each place of ``x``, how often each occurs.

    NaN is never equal to NaN, so every one is unique; 0.0 and -0.0 are equal.
    """
    flat = array("unique_all", x).reshape(-1)
    order = _stable_order(flat)
    ordered = fb.index_select(flat, 0, order)
    first = fb.ones(flat.shape, dtype=fb.bool, device=flat.device)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = fb.nonzero(first, as_tuple=True)[0]
    group = fb.cumsum(first, dim=0, dtype=fb.int64) - 1
    inverse = fb.empty(flat.shape, dtype=fb.int64, device=flat.device)
    inverse[order] = group
    ends = fb.cat([starts[1:], fb.full([min(1, flat.numel())], flat.numel(), dtype=fb.int64, device=flat.device)])
    return UniqueAll(ordered[starts], order[starts], inverse.reshape(x.shape), ends - starts)


def _stable_order(x: Tensor) -> Tensor:
    """Indices of a stable ascending sort; complex numbers by real part, then imaginary part."""
    if x.dtype not in COMPLEX:
        return fb.sort(x, dim=0, stable=True)[1]
    # +0.0 turns -0.0 into 0.0, so that equal numbers stay neighbours
    by_imag = fb.sort(x.imag + 0.0, dim=0, stable=True)[1]
    by_real = fb.sort(fb.index_select(x.real + 0.0, 0, by_imag), dim=0, stable=True)[1]
    return fb.index_select(by_imag, 0, by_real)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Unique elements and how often each occurs."""
    result = unique_all(array("unique_counts", x))
    return UniqueCounts(result.values, result.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Unique elements and which of them stands at every place of ``x``."""
    result = unique_all(array("unique_inverse", x))
    return UniqueInverse(result.values, result.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Unique elements, in ascending order."""
    return unique_all(array("unique_values", x)).values
