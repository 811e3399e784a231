"""Schedules with a split backward: first the gradients for the previous stage, those of weights when there is time.

Note [Splitting backward]
A stage waits for gradients of the stage after it, and those do not depend on the gradients of its weights. For linear
layers the latter are half of the work: their backward computes the gradient of the input and records the operands of
the weight's gradient, which an action "W" computes later. The gradients of other layers are computed at once.

The order of actions comes from a simulation in which each action takes one tick, the same in all processes: a process
prefers backward, then forward as long as it does not hold too many parts, then weights.
"""

from __future__ import annotations

import functools
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.autograd.function import Function
from flambeau.distributed.fsdp import FSDPModule
from flambeau.distributed.pipelining.schedules import PipelineScheduleMulti, _Action
from flambeau.distributed.pipelining.stage import PipelineStage
from flambeau.errors import ArgumentError
from flambeau.nn.modules.linear import Linear
from flambeau.nn.parallel import DistributedDataParallel

__all__ = ["ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble"]


class _LaterWeights(Function):
    """A linear layer whose backward defers the weight's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, later: list[Any]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias, ctx.later = bias, later
        return fb.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        ctx.later.append(functools.partial(_compute, weight, ctx.bias, x.detach(), grad.detach()))
        return grad @ weight.to(grad.dtype) if ctx.needs_input_grad[0] else None, None, None, None


def _compute(weight: Tensor, bias: Tensor | None, x: Tensor, grad: Tensor) -> None:
    """The gradients of a linear layer's weight and bias."""
    with fb.no_grad():
        flat = grad.reshape(-1, grad.shape[-1])
        _accumulate(weight, flat.mT @ x.reshape(-1, x.shape[-1]).to(flat.dtype))
        if bias is not None and bias.requires_grad:
            _accumulate(bias, flat.sum(0))


def _accumulate(p: Tensor, grad: Tensor) -> None:
    grad = grad.to(p.dtype)
    p.grad = grad if p.grad is None else p.grad + grad


def split_backward(stage: PipelineStage) -> None:
    """Lets backward of a stage defer weight gradients of linear layers to `stage.later`, by part."""
    for module in stage.submod.modules():
        if type(module) is not Linear or "forward" in module.__dict__:
            continue

        def forward(x: Tensor, layer: Any = module) -> Tensor:
            p = layer.weight
            if stage.part is None or not fb.is_grad_enabled() or not p.requires_grad or getattr(p, "_backward_hooks", None):
                return fb.nn.functional.linear(x, p, layer.bias)
            return _LaterWeights.apply(x, p, layer.bias, stage.later.setdefault(stage.part, []))

        module.__dict__["forward"] = forward


def simulated(ranks: int, owner: list[int], parts: int) -> list[list[_Action]]:
    """The actions of each process, for stages whose processes are given."""
    stages = len(owner)
    done: dict[tuple[str, int, int], int] = {}  # the tick in which each action ran
    following = {(kind, stage): 0 for kind in "FIW" for stage in range(stages)}  # the next part
    first = [min(s for s in range(stages) if owner[s] == rank) for rank in range(ranks)]
    result: list[list[_Action]] = [[] for _ in range(ranks)]
    tick = 0

    def ready(kind: str, stage: int, rank: int) -> bool:
        part = following[kind, stage]
        if part == parts:
            return False
        if kind == "W":
            return part < following["I", stage]
        if kind == "I":
            before = ("F", stage, part) if stage == stages - 1 else ("I", stage + 1, part)
        elif stage == 0:
            before = None
        else:
            before = ("F", stage - 1, part)
        if before is not None and done.get(before, tick) >= tick:
            return False
        held = following["F", stage] - following["W", stage]
        return kind != "F" or stage != first[rank] or held < stages

    while any(following["W", stage] < parts for stage in range(stages)):
        chosen = []
        for rank in range(ranks):
            own = [stage for stage in range(stages) if owner[stage] == rank]
            options = [("I", s) for s in own] + [("F", s) for s in reversed(own)] + [("W", s) for s in reversed(own)]
            found = next(((kind, s) for kind, s in options if ready(kind, s, rank)), None)
            if found is not None:
                chosen.append((rank, *found))
        for rank, kind, stage in chosen:
            part = following[kind, stage]
            following[kind, stage] += 1
            done[kind, stage, part] = tick
            result[rank].append(_Action(kind, stage, part))
        tick += 1
    return result


class _ZeroBubble(PipelineScheduleMulti):
    """Shared by both schedules."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stages, n_microbatches, *args, **kwargs)
        name = type(self).__name__
        owner = self._owners()
        wanted = [stage for stage, rank in enumerate(owner) if rank == self._rank]
        if sorted(self._stages) != wanted:
            raise ArgumentError(f"{name}: rank {self._rank} must have the stages {wanted}, got {sorted(self._stages)}")
        for stage in stages:
            if isinstance(stage.submod, (DistributedDataParallel, FSDPModule)):
                raise ArgumentError(f"{name}: data parallel layers in a stage are not supported; ScheduleInterleaved1F1B takes them")
            stage.owner = owner
            split_backward(stage)
        self._order = simulated(self._ranks, owner, n_microbatches)[self._rank]

    def _owners(self) -> list[int]:
        raise AssertionError("each schedule has its own")

    def _actions(self) -> list[_Action]:
        return self._order


class ScheduleInterleavedZeroBubble(_ZeroBubble):
    """Several stages per process, rank r with stages r, r + ranks …; gradients of weights fill the times of waiting.

    Args:
        stages: as for PipelineScheduleMulti, like the other arguments.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stages = [PipelineStage(fb.nn.Linear(2, 2), i, 2, "cpu") for i in range(2)]
        >>> ScheduleInterleavedZeroBubble(stages, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 2)).shape
        flambeau.Size([4, 2])
        >>> fb.distributed.destroy_process_group()
    """

    def _owners(self) -> list[int]:
        return [stage % self._ranks for stage in range(self._num_stages)]


class ScheduleZBVZeroBubble(_ZeroBubble):
    """Two stages per process, rank r with stages r and 2 * ranks - 1 - r; gradients of weights fill the times of waiting.

    The process of the first stage has the last one, too: it passes both the batch and the target to step().

    Args:
        stages: as for PipelineScheduleMulti, like the other arguments.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stages = [PipelineStage(fb.nn.Linear(2, 2), i, 2, "cpu") for i in range(2)]
        >>> ScheduleZBVZeroBubble(stages, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 2)).shape
        flambeau.Size([4, 2])
        >>> fb.distributed.destroy_process_group()
    """

    def _owners(self) -> list[int]:
        if self._num_stages != 2 * self._ranks:
            raise ArgumentError(f"ScheduleZBVZeroBubble: needs two stages per process, got {self._num_stages} for {self._ranks}")
        return [*range(self._ranks), *reversed(range(self._ranks))]
