"""Hooks that send whole gradients, or gradients in 16 bits.

Example:
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
    >>> model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    >>> model(fb.ones(1, 2)).backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> fb.distributed.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._futures import future_of
from flambeau.distributed._reducer import GradBucket
from flambeau.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip
__dir__ = __all__.copy

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _sum(flat: Tensor, group: Any) -> Future[Tensor]:
    return future_of(dist.all_reduce(flat, group=group, async_op=True), flat)


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages the gradients as DistributedDataParallel does without a hook.

    Args:
        process_group: the default group if None.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        >>> callable(allreduce_hook)
        True
    """
    return _sum(bucket.buffer().div_(dist.get_world_size(process_group)), process_group)


def _compressed(dtype: fb.dtype, process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    small = buffer.to(dtype).div_(dist.get_world_size(process_group))

    def widened(future: Future[Tensor]) -> Tensor:
        with fb.no_grad():
            return buffer.copy_(future.value())

    return _sum(small, process_group).then(widened)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages the gradients in float16, which halves the bytes sent. Values above 65504 become infinite.

    Args:
        process_group: the default group if None.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        >>> callable(fp16_compress_hook)
        True
    """
    return _compressed(fb.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Averages the gradients in bfloat16, which halves the bytes sent and keeps the range of float32.

    Args:
        process_group: the default group if None.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
        >>> callable(bf16_compress_hook)
        True
    """
    return _compressed(fb.bfloat16, process_group, bucket)


def _wrapped(dtype: fb.dtype, hook: Hook) -> Hook:
    def run(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        inner = GradBucket(bucket.index(), buffer.to(dtype), bucket.parameters(), bucket.is_last())

        def widened(future: Future[Tensor]) -> Tensor:
            with fb.no_grad():
                return buffer.copy_(future.value())

        return hook(state, inner).then(widened)

    return run


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the gradients in float16.

    Args:
        hook: the other hook, say powerSGD_hook.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
        >>> callable(default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
        True
    """
    return _wrapped(fb.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the gradients in bfloat16.

    Args:
        hook: the other hook, say powerSGD_hook.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
        >>> callable(default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))
        True
    """
    return _wrapped(fb.bfloat16, hook)
