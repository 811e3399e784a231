"""Averaging gradients for some steps, then only within small groups; PostLocalSGDOptimizer averages parameters instead.

Example:
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
    >>> state = PostLocalSGDState(None, fb.distributed.new_group([0]), start_localSGD_iter=10)
    >>> model.register_comm_hook(state, post_localSGD_hook)
    >>> fb.distributed.destroy_process_group()
"""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._futures import future_of
from flambeau.distributed._reducer import GradBucket
from flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from flambeau.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]
__dir__ = __all__.copy


class PostLocalSGDState:
    """What post_localSGD_hook keeps from step to step.

    Args:
        process_group: the group of the first steps; the default group if None.
        subgroup: the group of later steps; that of this host, made here, if None.
        start_localSGD_iter: number of first steps.
        post_local_gradient_allreduce: whether later steps average gradients within subgroup.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> PostLocalSGDState(None, None, 10).iter
        0
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:
        self.process_group, self.start_localSGD_iter, self.iter = process_group, start_localSGD_iter, 0
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.subgroup = subgroup
        if subgroup is None and post_local_gradient_allreduce:
            self.subgroup, _ = dist.new_subgroups()

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Counts a step with its last bucket.

        Args:
            bucket: the gradients.
        """
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Averages gradients over all processes in the first steps, later over a subgroup or not at all.

    Args:
        state: the settings.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import post_localSGD_hook
        >>> callable(post_localSGD_hook)
        True
    """
    first = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if first:
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return future_of(None, bucket.buffer())
    return allreduce_hook(state.subgroup, bucket)
