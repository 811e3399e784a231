"""Checks of arguments that many functions share."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._dtypes import ACCEPTS, check_dtype, promote, scalar_dtype
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError

Scalar = bool | int | float | complex


def array(name: str, x: object, accepts: str = "any", arg: str = "x") -> Tensor:
    """``x``, if it is an array of the dtypes that ``accepts`` names."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: {arg} must be an array, got {type(x).__name__}; use asarray first")
    if x.dtype not in ACCEPTS[accepts]:
        raise DTypeError(f"{name}: {arg} must have a {accepts} dtype, got {x.dtype}; use astype first")
    return x


def pair(name: str, x1: object, x2: object, accepts: str = "any", scalars: bool = True) -> tuple[Tensor, Tensor]:
    """Two operands in their common dtype; one of them may be a Python scalar, which takes the other's dtype."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        array(name, x1, accepts, "x1")
        array(name, x2, accepts, "x2")
        dtype = promote(name, x1.dtype, x2.dtype)
        return x1.to(dtype), x2.to(dtype)
    if not scalars or not (isinstance(x1, Tensor) or isinstance(x2, Tensor)):
        which = "both operands" if not scalars else "at least one operand"
        raise TypeError(f"{name}: {which} must be arrays, got {type(x1).__name__} and {type(x2).__name__}")
    if isinstance(x1, Tensor):
        return _beside(name, array(name, x1, accepts, "x1"), x2, accepts)
    second, first = _beside(name, array(name, x2, accepts, "x2"), x1, accepts)
    return first, second


def _beside(name: str, x: Tensor, value: object, accepts: str) -> tuple[Tensor, Tensor]:
    dtype = scalar_dtype(name, value, x.dtype)
    if dtype not in ACCEPTS[accepts]:
        raise DTypeError(f"{name}: a Python {type(value).__name__} is not {accepts}")
    return x.to(dtype), fb.tensor(value, dtype=dtype, device=x.device)


def integer(name: str, arg: str, value: object) -> int:
    """A Python int from anything that is one by ``__index__``, but no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {arg} must be an int, got {type(value).__name__}")
    return value.__index__()


def axis_index(name: str, axis: object, rank: int, shape: Sequence[int] | None = None) -> int:
    """``axis`` counted from 0, checked against the rank."""
    axis = integer(name, "axis", axis)
    if not -rank <= axis < rank:
        what = f"{rank} axes" if shape is None else f"shape {tuple(shape)}"
        raise OutOfRangeError(f"{name}: axis {axis} is out of range for {what}")
    return axis % rank


def axes_tuple(name: str, axis: object, rank: int) -> tuple[int, ...]:
    """One axis, several, or None for all, as a tuple counted from 0 without repeats."""
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, (tuple, list)):
        return (axis_index(name, axis, rank),)
    axes = tuple(axis_index(name, a, rank) for a in axis)
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"{name}: axis {tuple(axis)} names an axis twice")
    return axes


def shape_tuple(name: str, shape: object) -> tuple[int, ...]:
    """A shape given as one int or as a sequence of ints."""
    if isinstance(shape, (tuple, list)):
        return tuple(integer(name, "shape", s) for s in shape)
    return (integer(name, "shape", shape),)


def optional_dtype(name: str, dtype: object, default: fb.dtype) -> fb.dtype:
    return default if dtype is None else check_dtype(name, dtype)


def choice(name: str, arg: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ArgumentError(f"{name}: {arg} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def several(name: str, arrays: object) -> list[Tensor]:
    """A non-empty sequence of arrays, brought to their common dtype."""
    if not isinstance(arrays, (tuple, list)):
        raise TypeError(f"{name}: expected a tuple or list of arrays, got {type(arrays).__name__}")
    if not arrays:
        raise ArgumentError(f"{name}: expected at least one array, got none")
    checked = [array(name, x, arg="every item") for x in arrays]
    dtype = checked[0].dtype
    for x in checked[1:]:
        dtype = promote(name, dtype, x.dtype)
    return [x.to(dtype) for x in checked]


def wrapped_indices(name: str, indices: Tensor, size: int) -> Tensor:
    """Index arrays as int64 counted from 0; out of range is an error, never another element."""
    index = array(name, indices, "integral", "indices").to(fb.int64)
    if index.numel() and builtins.bool(((index < -size) | (index >= size)).any()):
        raise OutOfRangeError(f"{name}: an index is out of range for an axis of size {size}")
    return fb.where(index < 0, index + size, index)
