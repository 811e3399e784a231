"""The order in which stages run forward and backward for the parts of a batch.

Note [Schedules]
A schedule is a list of actions for each process: forward or backward, a stage, a part. Before an action a stage
receives what it needs, after it the stage starts sending its results; sending does not wait for the receiver. So any
order works in which each stage processes the parts in the order of their numbers and no stage waits for a later action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from flambeau.distributed.pipelining.stage import PipelineStage
from flambeau.errors import ArgumentError

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS", "get_schedule_class",
]  # fmt: skip
__dir__ = __all__.copy


class _Action(NamedTuple):
    kind: str  # "F", "B", or of a backward that is split, "I" and "W"
    stage: int
    part: int


class _Schedule:
    """The base of all schedules."""

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None,
        args_chunk_spec: Any, kwargs_chunk_spec: Any, output_merge_spec: Any, scale_grads: bool,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if n_microbatches < 1:
            raise ArgumentError(f"{name}: n_microbatches must be at least 1, got {n_microbatches}")
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn = n_microbatches, loss_fn
        self._specs, self._merge_spec, self._scale = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec, scale_grads
        first = next(iter(self._stages.values()))
        self._rank, self._ranks, self._num_stages = first.group_rank, first.group_size, first.num_stages

    def _actions(self) -> list[_Action]:
        raise AssertionError("each schedule has its own")

    def step(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, return_outputs: bool = True, **kwargs: Any
    ) -> Any:  # fmt: skip
        """Runs forward and backward for a batch; gradients of parameters are added to, as backward() does.

        Args:
            args: the batch, in the process of the first stage.
            target: what loss_fn compares with, in the process of the last stage.
            losses: gets the loss of each part, in the process of the last stage.
            return_outputs: whether to return the model's results there.
            kwargs: arguments by name, for the stages of this process.
        """
        return self._run(self._loss_fn is not None, args, kwargs, target, losses, return_outputs)

    def eval(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, return_outputs: bool = True, **kwargs: Any
    ) -> Any:  # fmt: skip
        """Runs forward only, without gradients.

        Args:
            args: as for step().
            target: what loss_fn compares with, if losses are wanted.
            losses: gets the loss of each part.
            return_outputs: whether to return the model's results.
            kwargs: arguments by name.
        """
        return self._run(False, args, kwargs, target, losses, return_outputs)

    def _run(
        self, learn: bool, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, losses: list[Tensor] | None, keep: bool
    ) -> Any:
        count, name = self._n_microbatches, type(self).__name__
        has_first, last = 0 in self._stages, self._stages.get(self._num_stages - 1)
        if args and not has_first:
            raise ArgumentError(f"{name}.step: positional arguments go to the first stage, which is in another process")
        if learn and last is not None and target is None:
            raise ArgumentError(f"{name}.step: target is missing in the process of the last stage")
        cut, named = split_args_kwargs_into_chunks(args, kwargs, count, self._specs[0] if args else None, self._specs[1])
        targets = split_args_kwargs_into_chunks((target,), {}, count)[0] if target is not None else None
        own_losses: dict[int, Tensor] = {}
        results: list[Any] = []
        for stage in self._stages.values():
            stage.clear()
        left = dict.fromkeys(self._stages, count)
        for action in self._actions():
            stage, part = self._stages[action.stage], action.part
            if action.kind == "F":
                output = stage.forward(part, cut[part] if stage.is_first else (), named[part], learn)
                if stage.is_last:
                    if targets is not None and self._loss_fn is not None:
                        with fb.set_grad_enabled(learn):
                            own_losses[part] = self._loss_fn(output, *targets[part])
                    if keep:
                        results.append(_detached(output))
                else:
                    stage.send("activation", stage.results(part), self._beside(action.stage + 1), part)
                if not learn:
                    stage.outputs.pop(part)
                    stage.inputs.pop(part, None)
            elif action.kind == "W":
                if learn:
                    stage.weights(part)
            elif learn:
                left[action.stage] -= 1
                loss = own_losses[part] / (count if self._scale else 1) if stage.is_last else None
                grads = stage.backward(part, loss, last=left[action.stage] == 0)
                if loss is not None:
                    own_losses[part] = own_losses[part].detach()
                if not stage.is_first:
                    stage.send("gradient", grads, self._beside(action.stage - 1), part)
        for stage in self._stages.values():
            stage.finish()
        if losses is not None and own_losses:
            losses[:] = [own_losses[part].detach() for part in range(count)]
        return merge_chunks(results, self._merge_spec) if last is not None and keep else None

    def _beside(self, stage: int) -> PipelineStage | int:
        """A neighbouring stage in this process, or the number of one elsewhere."""
        return self._stages.get(stage, stage)


def _detached(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.detach()
    return type(output)(_detached(item) for item in output) if isinstance(output, (list, tuple)) else output


class PipelineScheduleSingle(_Schedule):
    """Schedules with one stage in each process.

    Args:
        stage: the stage of this process.
        n_microbatches: number of parts of a batch.
        loss_fn: of the last stage's result and the target. All processes give it; without one, step() runs forward only.
        args_chunk_spec: a TensorChunkSpec per positional argument; dimension 0 if not given.
        kwargs_chunk_spec: TensorChunkSpecs by name.
        output_merge_spec: how results are put together: TensorChunkSpecs; dimension 0 if not given.
        scale_grads: whether gradients are means over the parts, as those of a mean over the batch are; else sums.

    Example:
        >>> from flambeau.distributed.pipelining import schedules
        >>> issubclass(schedules.ScheduleGPipe, schedules.PipelineScheduleSingle)
        True
    """

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        if not isinstance(stage, PipelineStage):
            raise TypeError(f"{type(self).__name__}: expected a PipelineStage, got {type(stage).__name__}")
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage
        if self._num_stages != self._ranks:
            raise ArgumentError(f"{type(self).__name__}: needs one stage per process, got {self._num_stages} for {self._ranks}")


class ScheduleGPipe(PipelineScheduleSingle):
    """All parts forward, then all parts backward. Keeps what backward needs of all parts.

    Args:
        stage: as for PipelineScheduleSingle, like the other arguments.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleGPipe
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stage = PipelineStage(fb.nn.Linear(2, 1), 0, 1, "cpu")
        >>> ScheduleGPipe(stage, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 1)).shape
        flambeau.Size([4, 1])
        >>> fb.distributed.destroy_process_group()
    """

    def _actions(self) -> list[_Action]:
        return [_Action(kind, self._stage.stage_index, part) for kind in "FB" for part in range(self._n_microbatches)]


class Schedule1F1B(PipelineScheduleSingle):
    """After some parts forward, one backward and one forward in turn: a stage keeps no more parts than stages follow it.

    Args:
        stage: as for PipelineScheduleSingle, like the other arguments; n_microbatches is at least the number of stages.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, Schedule1F1B
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stage = PipelineStage(fb.nn.Linear(2, 1), 0, 1, "cpu")
        >>> Schedule1F1B(stage, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 1)).shape
        flambeau.Size([4, 1])
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(self, stage: PipelineStage, n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stage, n_microbatches, *args, **kwargs)
        if n_microbatches < self._num_stages:
            raise ArgumentError(
                f"Schedule1F1B: Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({self._num_stages}); ScheduleGPipe takes fewer"
            )

    def _actions(self) -> list[_Action]:
        ahead = min(self._n_microbatches, self._num_stages - self._stage.stage_index)
        order = [("F", part) for part in range(ahead)]
        for part in range(self._n_microbatches):
            order.append(("B", part))
            if part + ahead < self._n_microbatches:
                order.append(("F", part + ahead))
        return [_Action(kind, self._stage.stage_index, part) for kind, part in order]


class PipelineScheduleMulti(_Schedule):
    """Schedules with several stages in each process: rank r has stages r, r + ranks, r + 2 ranks …

    Args:
        stages: the stages of this process.
        n_microbatches: number of parts of a batch.
        loss_fn: of the last stage's result and the target. All processes give it; without one, step() runs forward only.
        args_chunk_spec: a TensorChunkSpec per positional argument; dimension 0 if not given.
        kwargs_chunk_spec: TensorChunkSpecs by name.
        output_merge_spec: how results are put together: TensorChunkSpecs; dimension 0 if not given.
        use_full_backward: accepted if True: backward computes all gradients at once, but in zero-bubble schedules.
        scale_grads: whether gradients are means over the parts, as those of a mean over the batch are; else sums.

    Example:
        >>> from flambeau.distributed.pipelining import schedules
        >>> issubclass(schedules.ScheduleInterleaved1F1B, schedules.PipelineScheduleMulti)
        True
    """

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None,
        use_full_backward: bool | None = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if use_full_backward is False:
            raise ArgumentError(f"{name}: use_full_backward=False is not supported; take a zero-bubble schedule")
        if not stages:
            raise ArgumentError(f"{name}: expected a list of stages, got an empty one")
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        if self._num_stages != self._ranks * len(stages):
            raise ArgumentError(f"{name}: {self._num_stages} stages do not fit {len(stages)} in each of {self._ranks} processes")


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Each stage runs all parts forward before the next stage of the process does; then backward likewise.

    Args:
        stages: as for PipelineScheduleMulti, like the other arguments.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleLoopedBFS
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stages = [PipelineStage(fb.nn.Linear(2, 2), i, 2, "cpu") for i in range(2)]
        >>> ScheduleLoopedBFS(stages, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 2)).shape
        flambeau.Size([4, 2])
        >>> fb.distributed.destroy_process_group()
    """

    def _actions(self) -> list[_Action]:
        order, parts = sorted(self._stages), range(self._n_microbatches)
        return [_Action("F", stage, part) for stage in order for part in parts] + [
            _Action("B", stage, part) for stage in reversed(order) for part in parts
        ]


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One forward and one backward in turn, over several stages per process, so that processes wait less at the ends.

    Args:
        stages: as for PipelineScheduleMulti, like the other arguments; n_microbatches must be divisible by the number of
            rounds, n_microbatches // processes.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stages = [PipelineStage(fb.nn.Linear(2, 2), i, 2, "cpu") for i in range(2)]
        >>> ScheduleInterleaved1F1B(stages, 2, fb.nn.MSELoss()).step(fb.ones(4, 2), target=fb.ones(4, 2)).shape
        flambeau.Size([4, 2])
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stages, n_microbatches, *args, **kwargs)
        rounds = max(1, n_microbatches // self._ranks)
        if n_microbatches % rounds:
            raise ArgumentError(
                f"ScheduleInterleaved1F1B: the number of microbatches must be a multiple of the number of rounds ({rounds}), got "
                f"{n_microbatches}"
            )
        self._round = n_microbatches // rounds

    def _actions(self) -> list[_Action]:
        own, ranks, width = len(self._stages), self._ranks, self._round
        total = own * self._n_microbatches
        counts: dict[tuple[str, int], int] = {}

        def action(kind: str, number: int) -> _Action:
            chunk = number // width % own
            stage = (chunk if kind == "F" else own - 1 - chunk) * ranks + self._rank
            part = counts.get((kind, stage), 0)
            counts[kind, stage] = part + 1
            return _Action(kind, stage, part)

        ahead = min(total, (own - 1) * width + 2 * (ranks - 1 - self._rank))
        actions = [action("F", number) for number in range(ahead)]
        for number in range(total):
            if ahead + number < total:
                actions.append(action("F", ahead + number))
            actions.append(action("B", number))
        return actions


def get_schedule_class(schedule_name: str) -> Any:
    """A schedule by its name: "GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble" or "ZBVZeroBubble".

    Args:
        schedule_name: with or without "Schedule" in front, in any case.

    Example:
        >>> from flambeau.distributed.pipelining.schedules import get_schedule_class
        >>> get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    from flambeau.distributed.pipelining import _zero_bubble

    plain = (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS)
    splitting = (_zero_bubble.ScheduleInterleavedZeroBubble, _zero_bubble.ScheduleZBVZeroBubble)
    known = {c.__name__.lower(): c for c in (*plain, *splitting)}
    name = schedule_name.lower()
    found = known.get(name) or known.get(f"schedule{name}")
    if found is None:
        raise ArgumentError(f"Unknown schedule name '{schedule_name}'. The valid options are {[c.__name__ for c in known.values()]}")
    return found
