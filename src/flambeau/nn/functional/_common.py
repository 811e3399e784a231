"""Shared by several functions: half precision computed in float32, reductions of losses, sizes per dimension."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._settings.strict import strict_or_warn
from flambeau.errors import ArgumentError

_HALF = (fb.float16, fb.bfloat16)


def wide(x: Tensor) -> Tensor:
    """The tensor itself, or in float32 if it is of half precision, to avoid rounding after every step."""
    return x.float() if x.dtype in _HALF else x


def narrow_back(result: Tensor, like: Tensor) -> Tensor:
    """The result in the half precision of the tensor it was computed from."""
    return result.to(like.dtype) if like.dtype in _HALF else result


def not_implemented(op: str, kernel: str, input: Tensor, way: str) -> NotImplementedError:
    """The error for a dtype that an op does not support, in PyTorch's words and dtype names."""
    kind = input.type().rpartition(".")[2].removesuffix("Tensor")
    return NotImplementedError(f"{op}: \"{kernel}\" not implemented for '{kind}' ({input.dtype}); {way}")


def into(out: Tensor | None, result: Tensor) -> Tensor:
    """The result, or `out` filled with the result, for functions that accept out=."""
    return result if out is None else fb.mul(result, 1, out=out)


def recording(*tensors: Tensor | None) -> bool:
    """Whether an op on these tensors is recorded in the graph."""
    return fb.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def in_core(*tensors: Tensor | None) -> bool:
    """Whether kernels of the core accept these tensors: real floats in memory, not batched by vmap."""
    return all(
        t is None or (t.dtype in (fb.float32, fb.float64) and not hasattr(t, "__flambeau_dispatch__")) for t in tensors
    )


def ntuple(op: str, name: str, value: Any, n: int) -> tuple[Any, ...]:
    """A number n times, or a sequence of n numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (value,) * n
    sizes = tuple(value)
    if len(sizes) == 1:
        return sizes * n
    if len(sizes) != n:
        raise ArgumentError(f"{op}: {name} must be a number or {n} numbers, got {sizes}")
    return sizes


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, or the meaning of the deprecated arguments size_average and reduce."""
    if size_average is None and reduce is None:
        return reduction
    for name, value in {"size_average": size_average, "reduce": reduce}.items():
        if isinstance(value, Tensor):
            raise TypeError(
                f"loss: {name} must be None or a bool, got a Tensor; a loss module is made first and then called: "
                "MSELoss()(input, target)"
            )
    average = True if size_average is None else size_average
    meant = ("mean" if average else "sum") if reduce is None or reduce else "none"
    warnings.warn(f"size_average and reduce are deprecated; use reduction='{meant}'", stacklevel=4)
    return meant


def reduced(op: str, loss: Tensor, reduction: str) -> Tensor:
    """Reduces the loss of all elements as requested: mean, sum or none."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise _bad_reduction(op, reduction)


def _bad_reduction(op: str, reduction: str) -> ArgumentError:
    return ArgumentError(
        f"{op}: {reduction} is not a valid value for reduction ({reduction} is not valid); expected 'none', 'mean' or 'sum'"
    )


def check_reduction(op: str, reduction: str) -> None:
    """Rejects an unknown reduction."""
    if reduction not in ("none", "mean", "sum"):
        raise _bad_reduction(op, reduction)


def check_same_shape(op: str, input: Tensor, target: Tensor, one_may_broadcast: bool = False) -> None:
    """Rejects shapes that differ but broadcast, which would compare every element with every other.

    A 0-d operand is a number, and is compared with every element on purpose; so are two tensors of one element each.
    With one_may_broadcast, one operand may be expanded to the shape of the other.
    """
    for name, given in (("input", input), ("target", target)):
        if not hasattr(given, "shape"):
            raise TypeError(f"{op}: {name} must be a Tensor, got {type(given).__name__}")
    if input.shape == target.shape or not (input.ndim and target.ndim) or input.numel() == target.numel() == 1:
        return
    if not (one_may_broadcast and _repeats(input.shape, target.shape)):
        strict_or_warn(
            f"{op}: Using a target size ({target.shape}) that is different to the input size ({input.shape}): they would "
            f"broadcast by accident; reshape one (target.view_as(input)), or say target.expand_as(input) if you mean it"
        )


def _repeats(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether one shape broadcasts to the other, as opposed to both to a third."""
    short, long = sorted((tuple(a), tuple(b)), key=lambda shape: (len(shape), math.prod(shape)))
    return all(x in (1, y) for x, y in zip(reversed(short), reversed(long), strict=False))


def lies_channels_last(input: Tensor) -> bool:
    """Whether images or volumes are channels-last, with or without gaps, and not row-major; results keep that."""
    if input.ndim not in (4, 5) or input.is_contiguous():
        return False
    if input.is_contiguous(memory_format=fb.channels_last if input.ndim == 4 else fb.channels_last_3d):
        return True
    channel, least = input.stride(1), 0
    for d in (1, *range(input.ndim - 1, 1, -1), 0):
        size, step = input.shape[d], input.stride(d)
        if size == 0 or step < max(least, 1) or d == 0 and least == channel:
            return False
        least = step * size
    return True
