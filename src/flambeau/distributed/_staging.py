"""Prepares tensors for engines: flat, contiguous and on the CPU, as views if possible and else as copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau.autograd.graph import increment_version
from flambeau.distributed._types import ProcessGroup, ReduceOp
from flambeau.errors import ArgumentError, DTypeError

_BITWISE = ("BAND", "BOR", "BXOR")
_ORDERED = ("MIN", "MAX", *_BITWISE)


def check_tensor(op: str, which: str, value: Any) -> Tensor:
    """The argument, which must be a tensor with elements in memory."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected a tensor for {which}, got {type(value).__name__}")
    if value.layout is not fb.strided:
        raise DTypeError(f"{op}: {which} has layout {value.layout}; expected a dense tensor, such as x.to_dense()")
    if value.device.type == "meta":
        raise ArgumentError(f"{op}: {which} is on the meta device, which has no elements to send")
    return value


def check_list(op: str, which: str, values: Any, size: int) -> list[Tensor]:
    """The argument, which must be a list with one tensor for each process."""
    if not isinstance(values, (list, tuple)) or len(values) != size:
        got = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise ArgumentError(f"{op}: {which} must be a list with one element per process, that is {size}, got {got}")
    return [check_tensor(op, which, value) for value in values]


def check_reduction(name: str, tensor: Tensor, op: Any) -> ReduceOp:
    """The argument, which must be a reduction that is defined for the tensor's dtype."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    dtype = tensor.dtype
    if op.name in _BITWISE and (dtype.is_floating_point or dtype.is_complex):
        raise ArgumentError(f"{name}: {op.name} needs an integer tensor, got {dtype}")
    if op.name in _ORDERED and dtype.is_complex:
        raise ArgumentError(f"{name}: {op.name} is not defined for complex numbers, got {dtype}")
    if op.name in ("AVG", "PREMUL_SUM") and dtype == fb.bool:
        raise ArgumentError(f"{name}: {op.name} is not defined for bool; use SUM, MAX or a number dtype")
    if dtype.is_floating_point and dtype.itemsize == 1:
        raise ArgumentError(f"{name}: {dtype} is a dtype for storage; reduce in another one, say x.to(float32)")
    if op.name == "PREMUL_SUM" and op.factor is None:
        raise ArgumentError(f"{name}: PREMUL_SUM needs a factor; ReduceOp('PREMUL_SUM', 0.5) has one")
    return op


def agree(op: str, target: Tensor, source: Tensor, count: int | None = None) -> None:
    """Raises unless source, or count elements of its dtype, fits into target."""
    count = source.numel() if count is None else count
    if target.dtype != source.dtype or target.numel() != count:
        raise ArgumentError(
            f"{op}: output and input must agree, got {target.dtype} {tuple(target.shape)} and {source.dtype} "
            f"{tuple(source.shape)}" + (f", for an output of {count} elements" if count != source.numel() else "")
        )


def describe(op: str, *what: Any) -> str:
    """A description of a call, equal on all ranks that make the same call: all_reduce(float32 (3,), SUM)."""
    return f"{op}({', '.join(map(_word, what))})"


def _word(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).rpartition('.')[2]} {tuple(value.shape)}"
    return value.name if isinstance(value, ReduceOp) else str(value)


def equal_parts(flat: Tensor, count: int) -> list[Tensor]:
    """Splits a flat tensor into parts of one size, which may be 0."""
    size = flat.numel() // count
    return [flat[i * size : (i + 1) * size] for i in range(count)]


def ranged(text: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call as a range of the profiler."""

    def run() -> Any:
        mark = _C.profile_begin(text)
        try:
            return call()
        finally:
            _C.profile_end(mark)

    return run


class Staged:
    """The tensors of one call. Tensors that are written to are updated from flat copies at the end."""

    def __init__(self) -> None:
        self._back: list[tuple[Tensor, Tensor]] = []
        self._written: list[Tensor] = []

    def read(self, tensor: Tensor) -> Tensor:
        """A flat tensor with the values of `tensor`."""
        value = tensor.detach()
        if value.device.type != "cpu":
            return value.cpu().reshape(-1)
        return value.contiguous().view(-1)

    def write(self, tensor: Tensor, filled: bool = True) -> Tensor:
        """A flat tensor, copied to `tensor` at the end. With `filled` it starts with the tensor's values."""
        value = tensor.detach()
        if value.device.type == "cpu" and value.is_contiguous():
            self._written.append(value)
            return value.view(-1)
        flat = self.read(tensor).clone() if filled else fb.empty(tensor.numel(), dtype=tensor.dtype)
        self._back.append((value, flat))
        return flat

    def run(self, group: ProcessGroup, text: str, call: Callable[[], Any], result: list[Tensor], async_op: bool) -> Any:
        """Makes the call, then copies back what was staged. The profiler shows it as a range with this text."""

        def whole() -> None:
            with fb.no_grad():
                call()
                self.finish()

        return group._run(ranged(text, whole), result, async_op)

    def finish(self) -> None:
        """Copies staged results back."""
        for tensor, flat in self._back:
            tensor.copy_(flat.view(tensor.shape))
        for tensor in self._written:
            increment_version(tensor)
