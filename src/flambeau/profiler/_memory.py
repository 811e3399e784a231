"""The ops and lines of the program that held memory at the peak."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from flambeau.errors import ArgumentError
from flambeau.profiler._events import MemoryEvent, _bytes

__all__ = ["Holder", "Peak", "peak_of"]


class Holder(NamedTuple):
    """Live tensors created by one op in one line."""

    bytes: int
    tensors: int
    op: str
    line: str


@dataclasses.dataclass
class Peak:
    """The moment when tensors had the most memory; printed, it is a table.

    Attributes:
        device: of the memory.
        bytes: of all living tensors.
        before: of those that were there when the recording began.
        time_ns: when that was.
        holders: ops and lines, the largest first.
    """

    device: str
    bytes: int
    before: int
    time_ns: int
    holders: list[Holder]

    def __str__(self) -> str:
        lines = [f"{_bytes(self.bytes)} in tensors on {self.device} at the peak", f"{'memory':>12}  {'tensors':>7}  op, line"]
        lines += [f"{_bytes(h.bytes):>12}  {h.tensors:>7}  {h.op or 'outside of ops'}, {h.line or 'unknown line'}" for h in self.holders]
        if self.before:
            lines.append(f"{_bytes(self.before):>12}  {'':>7}  before the recording")
        return "\n".join(lines)


def peak_of(events: Iterable[MemoryEvent], device: str) -> Peak:
    """The peak of a device, from its memory events in chronological order."""
    own = sorted((e for e in events if e.device == device), key=lambda e: e.time_ns)
    if not own:
        raise ArgumentError(f"peak_memory: nothing was allocated on '{device}' while recording with profile_memory=True")
    top = max(range(len(own)), key=lambda i: own[i].total)
    alive: dict[int, MemoryEvent] = {}
    for event in own[: top + 1]:
        if event.bytes > 0:
            alive[event.address] = event
        else:
            alive.pop(event.address, None)
    places: dict[tuple[str, str], tuple[int, int]] = {}
    for event in alive.values():
        size, count = places.get((event.op, event.line), (0, 0))
        places[event.op, event.line] = size + event.bytes, count + 1
    holders = sorted((Holder(size, count, *place) for place, (size, count) in places.items()), reverse=True)
    before = max(0, own[top].total - sum(h.bytes for h in holders))
    return Peak(device, own[top].total, before, own[top].time_ns, holders)
