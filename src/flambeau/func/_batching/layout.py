"""Rules for ops that depend on strides or fixed positions, and for sequences between tensors."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import ArgumentError
from flambeau.func._batching import RULES, Frame, check_writable, decomposition, rule


def _span(size: Any, stride: Any) -> int:
    """Elements of memory from the first to the last of a view."""
    return 0 if 0 in tuple(size) else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


@rule("as_strided")
def as_strided(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Example i reads from where it begins itself: the offset counts from the first example."""
    x = frame.physical(arguments["input"])
    size, stride, offset = (arguments[key] for key in ("size", "stride", "storage_offset"))
    if len(size) != len(stride):
        raise ArgumentError(f"as_strided: mismatch in length of strides and shape: size {tuple(size)}, stride {tuple(stride)}")
    start = x.storage_offset() if offset is None else offset
    step = x.stride(0)
    first, last = start - x.storage_offset(), start - x.storage_offset() + _span(size, stride)
    room = _span(x.shape[1:], x.stride()[1:])
    if first < 0 or last > room:
        raise ArgumentError(
            f"as_strided: size {tuple(size)} and stride {tuple(stride)} reach elements {first} to {last - 1} of an example that has "
            f"{room} in memory; inside vmap a view must stay within its example"
        )
    return x.as_strided((frame.size, *size), (step, *stride), start)


@rule("as_strided_scatter")
def as_strided_scatter(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Writes to the view of a copy."""
    x, src = frame.physical(arguments["input"]).contiguous(), frame.physical(arguments["src"])
    size, stride, offset = (arguments[key] for key in ("size", "stride", "storage_offset"))
    room, first = _span(x.shape[1:], x.stride()[1:]), offset or 0
    if first + _span(size, stride) > room:
        raise ArgumentError(f"as_strided_scatter: the part written to leaves the example, which has {room} elements")
    return x.as_strided_scatter(src, (frame.size, *size), (room, *stride), x.storage_offset() + first)


@rule("new_empty_strided")
def new_empty_strided(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Consecutive stretches of memory."""
    size, stride = arguments["size"], arguments["stride"]
    dtype = arguments.get("dtype") or arguments["input"].dtype
    return fb.empty_strided((frame.size, *size), (_span(size, stride), *stride), dtype=dtype)


def _fill_diagonal(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    target, value, wrap = arguments["input"], arguments["fill_value"], arguments["wrap"]
    check_writable(frame, target)
    places = fb.zeros(tuple(target.shape), dtype=fb.bool).fill_diagonal_(True, wrap)
    target.physical.masked_fill_(places, value)
    return target


RULES["fill_diagonal_"] = _fill_diagonal


@decomposition("nonzero_static")
def nonzero_static(input, size, fill_value=-1):
    """The positions of the first nonzero elements, found by sorting; the rest is filled."""
    flat = (input != 0).reshape((-1,))
    count = flat.to(fb.int64).sum()
    order = flat.to(fb.uint8).argsort(0, descending=True, stable=True)[:size]
    rows = []
    for length in reversed(tuple(input.shape)):
        rows.append(order % max(length, 1))
        order = order // max(length, 1)
    found = fb.stack(rows[::-1], 1) if rows else order.new_zeros((order.shape[0], 0))
    found = fb.cat([found, found.new_full((size - found.shape[0], found.shape[1]), fill_value)]) if found.shape[0] < size else found
    return fb.where((fb.arange(size) < count).unsqueeze(1), found, fill_value)


def _steps(start: Any, end: Any, steps: int, dtype: Any) -> Tensor:
    """Evenly spaced, from both ends, so that the last is exact."""
    kind = dtype if dtype.is_floating_point or dtype.is_complex else fb.float64
    a, b = ((x if isinstance(x, Tensor) else fb.scalar_tensor(x, dtype=kind)).to(kind) for x in (start, end))
    i = fb.arange(steps, dtype=kind)
    step = (b - a) / max(steps - 1, 1)
    return fb.where(i < steps / 2, a + i * step, b - (steps - 1 - i) * step) if steps > 1 else (a + i)


@decomposition("linspace")
def linspace(start, end, steps, dtype=None, **options):
    """Evenly spaced numbers between batched ends."""
    dtype = dtype or fb.get_default_dtype()
    return _steps(start, end, steps, dtype).to(dtype)


@decomposition("logspace")
def logspace(start, end, steps, base=10.0, dtype=None, **options):
    """Powers with evenly spaced exponents between batched ends."""
    dtype = dtype or fb.get_default_dtype()
    return (base ** _steps(start, end, steps, fb.float64)).to(dtype)
