"""Dimensions, masks and fill values shared by the masked functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError

Dim = int | Sequence[int] | None

_SAME_SHAPE = frozenset({"cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin"})
_REDUCTIONS = frozenset(
    {"amax", "amin", "argmax", "argmin", "logsumexp", "mean", "median", "norm", "prod", "std", "sum", "var"}
)


def _check_input(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise DTypeError(f"masked.{name}: expected input to be a tensor, got {type(input).__name__}")
    if input.layout is not fb.strided:
        raise ArgumentError(
            f"masked.{name}: expected a strided tensor, got layout {input.layout}; use input.to_dense()"
        )


def _any_layout(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Lets a reduction take sparse tensors: without a mask the kept elements are selected; the result has the input's layout."""

    @functools.wraps(reduce)
    def function(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        if isinstance(mask, Tensor) and mask.layout is not fb.strided:
            mask = mask.to_dense()
        if not isinstance(input, Tensor) or input.layout is fb.strided:
            return reduce(input, *args, mask=mask, **kwargs)
        if mask is None:
            kept: Any = input
            mask = kept._with(fb.ones_like(kept._values(), dtype=fb.bool)).to_dense()
        dense = input.to_dense()
        result = reduce(dense, *args, mask=mask, **kwargs)
        # Slices without a selected element are not stored either.
        result = fb.where(_output_mask(reduce, dense, *args, mask=mask, **kwargs), result, fb.zeros((), dtype=result.dtype))
        return result.to_sparse(layout=input.layout)

    return function


def _canonical_dim(dim: Dim, ndim: int) -> tuple[int, ...]:
    """The dimensions of a reduction, ascending and non-negative; None and () mean all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    least = max(ndim, 1)
    dims = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -least <= d < least:
            raise OutOfRangeError(
                f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], but got {d})"
            )
        if d % least in dims:
            raise ArgumentError(f"dim={d % least} appears multiple times in the list of dims {tuple(dim)}")  # type: ignore[arg-type]
        dims.append(d % least)
    return tuple(sorted(d for d in dims if d < ndim))


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask as a bool tensor of the input's shape."""
    if mask is None:
        raise ArgumentError("masked: requires explicit mask, got None; pass mask=")
    if not isinstance(mask, Tensor):
        raise DTypeError(f"masked: expected mask to be a bool tensor, got {type(mask).__name__}; use fb.tensor(mask)")
    if mask.ndim > input.ndim:
        raise OutOfRangeError(
            f"masked: expected broadcastable mask (got mask dimensionality higher than of the input): shape {tuple(mask.shape)}, "
            f"input {tuple(input.shape)}"
        )
    return mask.to(fb.bool).expand(input.shape)


def _output_mask(op: Callable[..., Tensor], input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """True where the result of a masked function depends on at least one selected element."""
    name = getattr(op, "__name__", str(op))
    mask = _input_mask(input, mask=kwargs.get("mask"))
    if name in _SAME_SHAPE:
        return mask
    if name not in _REDUCTIONS:
        raise ArgumentError(
            f"masked: expected masked operation (got callable {name}); expected a reduction or normalization"
        )
    place = 1 if name == "norm" else 0
    dim = args[place] if place < len(args) else kwargs.get("dim", -1 if name == "median" else None)
    return _any(mask, _canonical_dim(dim, input.ndim), bool(kwargs.get("keepdim", False)))


def _any(mask: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    return fb.any(mask, dim=dims, keepdim=keepdim) if dims else mask


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """The 0-d tensor that leaves the reduction unchanged when it replaces an element; None if there is none."""
    name, dtype = op_name.rpartition(".")[2], input.dtype
    value: float
    if name in ("sum", "cumsum"):
        value = 0
    elif name in ("prod", "cumprod"):
        value = 1
    elif name in ("amax", "argmax"):
        value = _lowest(dtype)
    elif name in ("amin", "argmin"):
        value = _highest(dtype)
    elif name in ("logsumexp", "logaddexp"):
        value = -math.inf if dtype.is_complex else _lowest(dtype)
    elif name == "median":
        return fb.full(
            (), math.nan, dtype=dtype if dtype.is_floating_point else fb.get_default_dtype(), device=input.device
        )
    elif name == "norm":
        value = math.inf if args and args[0] < 0 else 0
    elif name in ("mean", "var", "std"):
        return None
    else:
        raise NotImplementedError(f"masked: identity of {name} on {dtype} input is not defined; it is not a reduction")
    return fb.full((), value, dtype=dtype, device=input.device)


def _lowest(dtype: Any) -> float:
    if dtype.is_complex:
        raise DTypeError(f"masked: complex numbers have no order, got {dtype}; expected a real dtype")
    return -math.inf if dtype.is_floating_point else 0 if dtype is fb.bool else fb.iinfo(dtype).min


def _highest(dtype: Any) -> float:
    if dtype.is_complex:
        raise DTypeError(f"masked: complex numbers have no order, got {dtype}; expected a real dtype")
    return math.inf if dtype.is_floating_point else 1 if dtype is fb.bool else fb.iinfo(dtype).max


def _where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """The input where the mask is True, the fill value elsewhere."""
    return fb.where(mask, input, fill_value)


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """The input with masked-out elements replaced by a number."""
    return input if mask is None else input.masked_fill(~_input_mask(input, mask=mask), value)


def _combine_input_and_mask(op: Callable[..., Tensor], input: Tensor, mask: Tensor | None, *args: Any) -> Tensor:
    """The input with masked-out elements replaced by the identity of a reduction."""
    if mask is None:
        return input
    identity = _reduction_identity(op.__name__, input, *args)
    if identity is None:
        raise ArgumentError(f"masked: {op.__name__} has no identity to put in place of masked-out elements")
    return _where(_input_mask(input, mask=mask), input, identity)
