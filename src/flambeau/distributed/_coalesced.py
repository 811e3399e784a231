"""Many small tensors in few collectives: flat copies per dtype and device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.errors import ArgumentError

__all__ = ["broadcast_all", "check_same", "flat_chunks"]

_CHUNK = 250 << 20


def flat_chunks(tensors: Iterable[Tensor], limit: int = _CHUNK) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Groups tensors by dtype and device: yields a flat copy of up to `limit` bytes, and the tensors it holds."""
    kinds: dict[Any, list[Tensor]] = {}
    for t in tensors:
        kinds.setdefault((t.dtype, t.device), []).append(t.detach())
    for members in kinds.values():
        chunk: list[Tensor] = []
        size = 0
        for t in members:
            bytes_of_t = t.numel() * t.element_size()
            if chunk and size + bytes_of_t > limit:
                yield _flat(chunk), chunk
                chunk, size = [], 0
            chunk.append(t)
            size += bytes_of_t
        yield _flat(chunk), chunk


def _flat(tensors: list[Tensor]) -> Tensor:
    return fb.cat([t.reshape(-1) for t in tensors])


def broadcast_all(tensors: Iterable[Tensor], group: Any, src: int = 0) -> None:
    """Copies the tensors of one process to all; `src` is its rank in the group."""
    if dist.get_world_size(group) == 1:
        return
    with fb.no_grad():
        for flat, members in flat_chunks(tensors):
            dist.broadcast(flat, group=group, group_src=src)
            if dist.get_rank(group) == src:
                continue
            start = 0
            for t in members:
                t.copy_(flat[start : start + t.numel()].view(t.shape))
                start += t.numel()


def check_same(op: str, named: list[tuple[str, Tensor]], group: Any) -> None:
    """Raises in every process if names, shapes or dtypes of tensors differ between ranks, and says where."""
    mine = [(name, tuple(t.shape), str(t.dtype)) for name, t in named]
    everywhere: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everywhere, mine, group=group)
    first = everywhere[0]
    for rank, other in enumerate(everywhere):
        if other == first:
            continue
        if len(other) != len(first):
            raise ArgumentError(
                f"{op}: the ranks have different models: rank 0 has {len(first)} parameters, rank {rank} has {len(other)}"
            )
        a, b = next((a, b) for a, b in zip(first, other, strict=True) if a != b)
        raise ArgumentError(
            f"{op}: the ranks have different models: {a[0]} has shape {a[1]} and dtype {a[2]} in rank 0, but in rank {rank} "
            f"{b[0]} has shape {b[1]} and dtype {b[2]}; expected the same in all"
        )
