"""Communication hooks of DistributedDataParallel: how buckets of gradients are sent."""

import enum as _enum
from typing import Any as _Any

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)

__all__ = [
    "DDPCommHookType", "debugging_hooks", "default_hooks", "post_localSGD_hook", "powerSGD_hook", "register_ddp_comm_hook",
]  # fmt: skip
__dir__ = _package_dir(__name__)


class DDPCommHookType(_enum.Enum):
    """Names of hooks for register_ddp_comm_hook().

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
        >>> DDPCommHookType.BF16_COMPRESS.name
        'BF16_COMPRESS'
    """

    ALLREDUCE = "allreduce"
    FP16_COMPRESS = "fp16_compress"
    BF16_COMPRESS = "bf16_compress"
    POWER_SGD = "powerSGD"
    POWER_SGD_RANK2 = "powerSGD, rank 2"
    BATCHED_POWER_SGD = "batched powerSGD"
    BATCHED_POWER_SGD_RANK2 = "batched powerSGD, rank 2"
    NOOP = "noop"


_PLAIN = {
    DDPCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
    DDPCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
    DDPCommHookType.BF16_COMPRESS: default_hooks.bf16_compress_hook,
    DDPCommHookType.NOOP: debugging_hooks.noop_hook,
}


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: _Any, state: _Any = None) -> None:
    """Registers a hook by its name.

    Args:
        comm_hook_type: the name.
        model: a DistributedDataParallel.
        state: the hook's first argument: a process group, the default one if not given; PowerSGD makes its state of it.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
        >>> register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
        >>> fb.distributed.destroy_process_group()
    """
    plain = _PLAIN.get(comm_hook_type)
    if plain is not None:
        model.register_comm_hook(state, plain)
        return
    rank = 2 if comm_hook_type in (DDPCommHookType.POWER_SGD_RANK2, DDPCommHookType.BATCHED_POWER_SGD_RANK2) else 1
    batched = comm_hook_type in (DDPCommHookType.BATCHED_POWER_SGD, DDPCommHookType.BATCHED_POWER_SGD_RANK2)
    hook = powerSGD_hook.batched_powerSGD_hook if batched else powerSGD_hook.powerSGD_hook
    model.register_comm_hook(powerSGD_hook.PowerSGDState(process_group=state, matrix_approximation_rank=rank), hook)
