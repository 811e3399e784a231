"""Engines, which execute the calls of a group: the interface of all engines, and the engine of a single process.

Engines get flat contiguous tensors on the CPU, ranks of their group, and calls whose arguments have been checked.
`text` describes a call and is the same on all ranks; ranks whose texts differ have made different calls, which engines
report as CollectiveMismatch.
"""

from __future__ import annotations

import abc
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._types import ReduceOp


class Engine(abc.ABC):
    """Communication within one group."""

    rank: int
    size: int
    overlaps = True  # whether calls of another thread leave the cores to those who compute

    @abc.abstractmethod
    def all_reduce(self, text: str, x: Tensor, op: ReduceOp) -> None:
        """Overwrites x with the reduction of all ranks' x."""

    def all_reduce_many(self, text: str, xs: list[Tensor], op: ReduceOp) -> None:
        """Each of xs, of one dtype, becomes the reduction of all ranks' tensors in its place."""
        flat = fb.cat(xs)
        self.all_reduce(text, flat, op)
        for x, part in zip(xs, flat.split([x.numel() for x in xs]), strict=True):
            x.copy_(part)

    @abc.abstractmethod
    def reduce(self, text: str, x: Tensor, op: ReduceOp, root: int) -> None:
        """Overwrites the root's x with the reduction of all ranks' x."""

    @abc.abstractmethod
    def broadcast(self, text: str, x: Tensor, root: int) -> None:
        """Overwrites x with the root's x."""

    @abc.abstractmethod
    def all_gather(self, text: str, parts: list[Tensor], x: Tensor) -> None:
        """Overwrites parts[i] with x of rank i."""

    @abc.abstractmethod
    def reduce_scatter(self, text: str, out: Tensor, parts: list[Tensor], op: ReduceOp) -> None:
        """Overwrites out of rank i with the reduction of all ranks' parts[i]."""

    @abc.abstractmethod
    def gather(self, text: str, parts: list[Tensor] | None, x: Tensor, root: int) -> None:
        """Overwrites parts[i] of the root with x of rank i."""

    @abc.abstractmethod
    def scatter(self, text: str, x: Tensor, parts: list[Tensor] | None, root: int) -> None:
        """Overwrites x of rank i with the root's parts[i]."""

    @abc.abstractmethod
    def all_to_all(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        """Overwrites outs[j] of rank i with ins[i] of rank j; sizes may differ between pairs."""

    @abc.abstractmethod
    def barrier(self, text: str, timeout: float | None = None) -> None:
        """Waits until all ranks are here."""

    @abc.abstractmethod
    def monitored_barrier(self, timeout: float, all_ranks: bool) -> None:
        """Waits until all ranks are here; rank 0 raises an error that names those that are late."""

    @abc.abstractmethod
    def send(self, text: str, x: Tensor, dst: int, tag: int) -> Any:
        """Starts sending x; returns a Pending."""

    @abc.abstractmethod
    def recv(self, text: str, x: Tensor, src: int | None, tag: int) -> Any:
        """Starts receiving x; returns a Pending."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Releases what the engine holds."""


class Alone(Engine):
    """The engine of a group of one process, which only copies."""

    rank, size = 0, 1

    def all_reduce(self, text: str, x: Tensor, op: ReduceOp) -> None:
        if op.name == "PREMUL_SUM":
            premultiply(x, op)

    def all_reduce_many(self, text: str, xs: list[Tensor], op: ReduceOp) -> None:
        for x in xs:
            self.all_reduce(text, x, op)

    def reduce(self, text: str, x: Tensor, op: ReduceOp, root: int) -> None:
        self.all_reduce(text, x, op)

    def broadcast(self, text: str, x: Tensor, root: int) -> None:
        pass

    def all_gather(self, text: str, parts: list[Tensor], x: Tensor) -> None:
        parts[0].copy_(x)

    def reduce_scatter(self, text: str, out: Tensor, parts: list[Tensor], op: ReduceOp) -> None:
        out.copy_(parts[0])
        self.all_reduce(text, out, op)

    def gather(self, text: str, parts: list[Tensor] | None, x: Tensor, root: int) -> None:
        if parts:
            parts[0].copy_(x)

    def scatter(self, text: str, x: Tensor, parts: list[Tensor] | None, root: int) -> None:
        if parts:
            x.copy_(parts[0])

    def all_to_all(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        outs[0].copy_(ins[0])

    def barrier(self, text: str, timeout: float | None = None) -> None:
        pass

    def monitored_barrier(self, timeout: float, all_ranks: bool) -> None:
        pass

    def send(self, text: str, x: Tensor, dst: int, tag: int) -> Any:
        raise AssertionError("a process does not send to itself")

    recv = send  # type: ignore[assignment]


# ---- reductions ----------------------------------------------------------------------------------------------------

_JOIN: dict[str, Any] = {
    "SUM": fb.add, "AVG": fb.add, "PREMUL_SUM": fb.add, "PRODUCT": fb.mul, "MIN": fb.minimum, "MAX": fb.maximum,
    "BAND": fb.bitwise_and, "BOR": fb.bitwise_or, "BXOR": fb.bitwise_xor,
}  # fmt: skip


def join(op: ReduceOp, x: Tensor, y: Tensor, out: Tensor) -> None:
    """Overwrites out with the reduction of two ranks' values."""
    _JOIN[op.name](x, y, out=out)


def premultiply(x: Tensor, op: ReduceOp) -> None:
    """The premultiplication of PREMUL_SUM."""
    factor = op.factor
    x.mul_(factor.to(x.dtype) if isinstance(factor, Tensor) else factor)


def average(x: Tensor, size: int) -> None:
    """Divides the sum of AVG; integers are rounded towards zero."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        x.div_(size)
    else:
        x.div_(size, rounding_mode="trunc")


def raw(x: Tensor) -> memoryview:
    """The memory of a flat contiguous tensor on the CPU."""
    array: Any = x.view(fb.uint8).numpy() if x.numel() else b""
    return memoryview(array)


def pieces(x: Tensor, count: int) -> list[Tensor]:
    """Splits x into `count` parts of nearly equal size, some of them empty if x is short."""
    step, rest = divmod(x.numel(), count)
    ends = [0]
    for i in range(count):
        ends.append(ends[-1] + step + (i < rest))
    return [x[ends[i] : ends[i + 1]] for i in range(count)]
