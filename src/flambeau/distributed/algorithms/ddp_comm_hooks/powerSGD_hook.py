"""Gradients sent as products of two thin matrices (Vogels et al., PowerSGD, 2019).

A gradient M of n × m elements is approximated by P Qᵀ, with r columns in P and Q. Per step, one round of power iteration::

    P ← mean over processes of M Q;   orthogonalize the columns of P;   Q ← mean of Mᵀ P;   M ≈ P Qᵀ

What the approximation loses is added to the next step's gradient (error feedback).
"""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._futures import WorkFuture, future_of
from flambeau.distributed._reducer import GradBucket
from flambeau.errors import ArgumentError
from flambeau.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
__dir__ = __all__.copy


class PowerSGDState:
    """What powerSGD_hook keeps from step to step.

    Args:
        process_group: the default group if None.
        matrix_approximation_rank: r, the number of columns.
        start_powerSGD_iter: how many steps send whole gradients first; at least 2 with feedback or warm start, because
            buckets are made again after the first step.
        min_compression_rate: gradients that would not become smaller by this factor are sent whole.
        use_error_feedback: whether what is lost is added to the next step's gradient.
        warm_start: whether each step begins with the Q of the step before.
        orthogonalization_epsilon: added to norms before dividing by them.
        random_seed: of the first Q, the same in all processes.
        batch_tensors_with_same_shape: accepted; matrices are always handled one by one.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
        >>> PowerSGDState(None, matrix_approximation_rank=2).matrix_approximation_rank
        2
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ArgumentError(f"PowerSGDState: matrix_approximation_rank must be at least 1, got {matrix_approximation_rank}")
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ArgumentError(
                "PowerSGDState: Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because "
                f"buckets are made again after the first step; got {start_powerSGD_iter}"
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon, self.random_seed = orthogonalization_epsilon, random_seed
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = fb.Generator()
        self.generator.manual_seed(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """Ratio of elements before and after compression, and both numbers.

        Example:
            >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
            >>> PowerSGDState(None).compression_stats()
            (0, 0, 0)
        """
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)

    def is_worth(self, grad: Tensor) -> bool:
        """Whether a gradient becomes smaller by more than min_compression_rate.

        Args:
            grad: the gradient; its first dimension becomes the rows of the matrix.

        Example:
            >>> from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
            >>> state = PowerSGDState(None)
            >>> state.is_worth(fb.zeros(64, 64)), state.is_worth(fb.zeros(64))
            (True, False)
        """
        if grad.dim() < 2:
            return False
        rows, columns = grad.shape[0], grad.numel() // max(grad.shape[0], 1)
        rank = min(rows, columns, self.matrix_approximation_rank)
        return (rows + columns) * rank * self.min_compression_rate < rows * columns


def _orthogonalize(matrix: Tensor, epsilon: float) -> None:
    """Gram-Schmidt on the columns, in place; fast and accurate enough for few columns."""
    for i in range(matrix.shape[1]):
        column = matrix[:, i : i + 1]
        norm = column.norm()
        column.div_(norm + epsilon if epsilon > 0 else norm.clamp(min=fb.finfo(matrix.dtype).tiny))
        if i + 1 < matrix.shape[1]:
            rest = matrix[:, i + 1 :]
            rest.sub_(column * (column * rest).sum(0))


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Averages gradients as products of thin matrices; those of one dimension, or too small, whole.

    Args:
        state: what is kept from step to step.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(64, 64))
        >>> model.register_comm_hook(power.PowerSGDState(None, start_powerSGD_iter=2), power.powerSGD_hook)
        >>> fb.distributed.destroy_process_group()
    """
    group, buffer = state.process_group, bucket.buffer()
    size = dist.get_world_size(group)
    if state.iter < state.start_powerSGD_iter:
        if bucket.is_last():
            state.iter += 1
        return future_of(dist.all_reduce(buffer.div_(size), group=group, async_op=True), buffer)
    index = bucket.index()
    if state.use_error_feedback:
        if index in state.error_dict:
            buffer.add_(state.error_dict[index])
        else:
            state.error_dict[index] = fb.zeros_like(buffer)
    before = buffer.clone() if state.use_error_feedback else None
    grads = bucket.gradients()
    matrices = [g.view(g.shape[0], -1) for g in grads if state.is_worth(g)]
    whole = [g for g in grads if not state.is_worth(g)]
    flat = fb.cat([g.reshape(-1) for g in whole]).div_(size) if whole else None
    whole_work = None if flat is None else dist.all_reduce(flat, group=group, async_op=True)
    if not state.warm_start or index not in state.q_memory_dict:
        state.q_memory_dict[index] = [_random_columns(m, state) for m in matrices]
    qs = state.q_memory_dict[index]
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += sum(g.numel() for g in whole)
    state.total_numel_after_compression += sum((m.shape[0] + m.shape[1]) * q.shape[1] for m, q in zip(matrices, qs, strict=True))
    if bucket.is_last():
        state.iter += 1
    epsilon = state.orthogonalization_epsilon
    for q in qs:
        _orthogonalize(q, epsilon)
    ps = [m @ q for m, q in zip(matrices, qs, strict=True)]

    def finish() -> Tensor:
        """The rest, when the result is needed: averages P, then Q, then multiplies both."""
        with fb.no_grad():
            _mean(ps, group, 1)  # the columns are normalized, so the sum works as well as the mean
            for p in ps:
                _orthogonalize(p, epsilon)
            for k, (m, p) in enumerate(zip(matrices, ps, strict=True)):
                qs[k] = m.t() @ p
            _mean(qs, group, size)
            for m, p, q in zip(matrices, ps, qs, strict=True):
                m.copy_(p @ q.t())
            if before is not None:
                # The approximation error: this process's gradient minus the common approximation.
                state.error_dict[index] = before.sub_(buffer)
                for g, kept in zip(grads, _parts(state.error_dict[index], grads), strict=True):
                    if not state.is_worth(g):
                        kept.zero_()
            if flat is not None:
                if whole_work is not None:
                    whole_work.wait()
                for g, part in zip(whole, _parts(flat, whole), strict=True):
                    g.copy_(part)
            return buffer

    return WorkFuture(finish, lambda: False)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Averages all gradients of a bucket as one square matrix: fewer products than powerSGD_hook, and less exact.

    Args:
        state: what is kept from step to step.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(64, 64))
        >>> model.register_comm_hook(power.PowerSGDState(None, start_powerSGD_iter=2), power.batched_powerSGD_hook)
        >>> fb.distributed.destroy_process_group()
    """
    buffer = bucket.buffer()
    side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
    square = fb.cat([buffer, buffer.new_zeros(side * side - buffer.numel())])
    whole = GradBucket(bucket.index(), square, [fb.empty(side, side, device="meta")], bucket.is_last())

    def taken_back(future: Future[Tensor]) -> Tensor:
        with fb.no_grad():
            return buffer.copy_(future.value()[: buffer.numel()])

    return powerSGD_hook(state, whole).then(taken_back)


def _random_columns(matrix: Tensor, state: PowerSGDState) -> Tensor:
    rank = min(*matrix.shape, state.matrix_approximation_rank)
    return fb.randn(matrix.shape[1], rank, generator=state.generator, dtype=fb.float32).to(matrix.dtype)


def _mean(tensors: list[Tensor], group: Any, divisor: int) -> None:
    if not tensors:
        return
    flat = fb.cat([t.reshape(-1) for t in tensors]).div_(divisor)
    dist.all_reduce(flat, group=group)
    for t, part in zip(tensors, _parts(flat, tensors), strict=True):
        t.copy_(part)


def _parts(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    parts = flat.split([t.numel() for t in like])
    return [part.view(t.shape) for part, t in zip(parts, like, strict=True)]
