"""Cross entropy of scores whose classes are sharded over processes, without gathering them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.tensor._dtensor import DTensor, make
from flambeau.distributed.tensor._redistribute import exchange
from flambeau.distributed.tensor.placement_types import Replicate, Shard, piece
from flambeau.errors import ArgumentError

__all__ = ["loss_parallel"]
__dir__ = __all__.copy


class _Active(threading.local):
    depth = 0


_active = _Active()


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, cross_entropy() of a DTensor cut along its classes computes on the parts.

    Processes exchange a maximum, a sum and one score per row in place of all scores. The target may be a plain tensor, the
    same in all processes.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> from flambeau.distributed.tensor.parallel import loss_parallel
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> scores = distribute_tensor(fb.zeros(2, 4), mesh, [Shard(1)])
        >>> with loss_parallel():
        ...     fb.nn.functional.cross_entropy(scores, fb.tensor([0, 3])).full_tensor()
        tensor(1.3863)
        >>> fb.distributed.destroy_process_group()
    """
    _active.depth += 1
    try:
        yield
    finally:
        _active.depth -= 1


def cut_cross_entropy(
    input: DTensor, target: Tensor, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> DTensor | None:
    """The loss, or None if the classes are not sharded or loss_parallel() is off."""
    axis = 0 if input.ndim == 1 else 1
    cuts = [d for d, placement in enumerate(input._placements) if isinstance(placement, Shard) and placement.dim == axis]
    if not _active.depth or not cuts:
        return None
    if len(cuts) > 1 or any(not p.is_replicate() for d, p in enumerate(input._placements) if d not in cuts):
        raise ArgumentError(f"cross_entropy: loss_parallel needs scores cut along the classes only, got {input._placements}")
    if weight is not None or smoothing or target.is_floating_point():
        raise ArgumentError("cross_entropy: loss_parallel does not support weight, label_smoothing or probabilities as target")
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f"cross_entropy: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if isinstance(target, DTensor):
        target = target.full_tensor()
    mesh, group = input._mesh, input._mesh.get_group(cuts[0])
    start, length = piece(input.shape[axis], dist.get_world_size(group), dist.get_rank(group))
    scores = input._local.movedim(axis, -1)
    scores = scores.float() if scores.dtype in (fb.float16, fb.bfloat16) else scores
    low = fb.finfo(scores.dtype).min
    highest = scores.detach().amax(-1) if length else scores.new_full(scores.shape[:-1], low)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    total = _summed((scores - highest.unsqueeze(-1)).exp().sum(-1), group).log() + highest
    here = (target >= start) & (target < start + length)
    place = (target - start).clamp(0, max(length - 1, 0))
    own = scores.gather(-1, place.unsqueeze(-1)).squeeze(-1) if length else scores.sum(-1)
    loss = total - _summed(fb.where(here, own, 0.0), group)
    kept = target != ignore_index
    outside = kept & ((target < 0) | (target >= input.shape[axis]))
    if outside.any():
        raise IndexError(f"cross_entropy: Target {int(target[outside][0])} is out of bounds for {input.shape[axis]} classes.")
    loss = fb.where(kept, loss, 0.0)
    if reduction != "none":
        loss = loss.sum() / kept.sum() if reduction == "mean" else loss.sum()
    return make(loss.to(input.dtype), mesh, [Replicate()] * mesh.ndim, tuple(loss.shape))


def _summed(term: Tensor, group: Any) -> Tensor:
    """The sum over processes; each term's gradient is that of the sum."""

    def there(t: Tensor) -> Tensor:
        t = t.clone()
        dist.all_reduce(t, group=group)
        return t

    return exchange(term, there, lambda grad: grad.view_as(grad))
