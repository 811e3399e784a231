"""Scaling the loss of sharded models: all processes must agree whether a step is skipped."""

from __future__ import annotations

from typing import Any

from flambeau import distributed as dist
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]
__dir__ = __all__.copy


class ShardedGradScaler(GradScaler):
    """A GradScaler whose steps are left out in all processes if one of them has gradients that are not finite.

    Args:
        device: as for GradScaler, like the following.
        init_scale: where the scale begins.
        backoff_factor: factor by which it falls.
        growth_factor: factor by which it rises.
        growth_interval: steps between two rises.
        enabled: whether it does anything.
        process_group: the processes; all if not given.

    Example:
        >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> p = fb.nn.Parameter(fb.ones(2))
        >>> scaler = ShardedGradScaler("cpu")
        >>> scaler.scale((p / 0).sum()).backward()
        >>> scaler.step(fb.optim.SGD([p], lr=1.0))
        >>> p.detach()
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5, growth_factor: float = 2.0,
        growth_interval: int = 2000, enabled: bool = True, process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale_grads(self, optimizer: Any, inv_scale: float, allow_fp16: bool) -> dict[Any, Any]:
        found = super()._unscale_grads(optimizer, inv_scale, allow_fp16)
        for flag in found.values():
            dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=self.process_group)
        return found
