"""One stage of a pipeline: forward and backward of its layers, and messages to neighbouring stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel import DistributedDataParallel

__all__ = ["PipelineStage"]
__dir__ = __all__.copy

_HEAD = 64  # numbers that describe the tensors between two stages
_KINDS = [
    fb.float32, fb.float64, fb.float16, fb.bfloat16, fb.complex64, fb.complex128,
    fb.bool, fb.uint8, fb.int8, fb.int16, fb.int32, fb.int64,
]  # fmt: skip


def _described(tensors: list[Tensor]) -> Tensor:
    numbers = [len(tensors)]
    for t in tensors:
        numbers += [_KINDS.index(t.dtype), int(t.requires_grad), t.ndim, *t.shape]
    if len(numbers) > _HEAD:
        raise ArgumentError(f"PipelineStage: {len(tensors)} tensors between two stages are too many; join them")
    return fb.tensor(numbers + [0] * (_HEAD - len(numbers)))


class PipelineStage:
    """A piece of a model, for a schedule to run.

    Stage i's results are the positional arguments of stage i + 1. Parts of a batch may differ in shape.

    Args:
        submodule: the layers.
        stage_index: the number of this stage.
        num_stages: how many there are. Stage i is in the process of rank i modulo the number of processes; for
            ScheduleZBVZeroBubble, the second half of the stages is in the opposite order.
        device: where the layers are.
        input_args: accepted; shapes travel with the tensors.
        output_args: accepted.
        group: the processes; the default group if not given.
        dw_builder: not supported.

    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> stage = PipelineStage(fb.nn.Linear(2, 2), 0, 1, fb.device("cpu"))
        >>> stage.is_first, stage.is_last
        (True, True)
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any, input_args: Any = None, output_args: Any = None,
        group: Any = None, dw_builder: Any = None,
    ) -> None:  # fmt: skip
        if dw_builder is not None:
            raise ArgumentError("PipelineStage: dw_builder is not supported; backward computes all gradients at once")
        if not 0 <= stage_index < num_stages:
            raise ArgumentError(f"PipelineStage: stage_index {stage_index} is out of range for {num_stages} stages")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = fb.device(device)
        self.group = dist.group.WORLD if group is None else group
        self.group_rank, self.group_size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if num_stages < self.group_size:
            raise ArgumentError(f"PipelineStage: {num_stages} stages are fewer than the group's {self.group_size} processes")
        if self.group_rank not in (stage_index % self.group_size, 2 * self.group_size - 1 - stage_index):
            raise ArgumentError(
                f"PipelineStage: stage {stage_index} belongs to rank {stage_index % self.group_size} of the group, this is rank "
                f"{self.group_rank}"
            )
        submodule.to(self.device)
        self.owner = [stage % self.group_size for stage in range(num_stages)]  # the rank of each stage
        self.part: int | None = None  # the running one
        self.clear()

    is_first = property(lambda self: self.stage_index == 0, doc="Whether this stage takes the batch.")
    is_last = property(lambda self: self.stage_index == self.num_stages - 1, doc="Whether this stage gives the result.")

    def clear(self) -> None:
        """Drops the parts of the last batch."""
        self.inputs: dict[int, list[Tensor]] = {}
        self.outputs: dict[int, Any] = {}
        self.later: dict[int, list[Callable[[], None]]] = {}  # gradients of weights to compute, see Note [Splitting backward]
        self.here: dict[tuple[str, int], list[Tensor]] = {}  # from a stage in this process
        self.sending: list[tuple[Any, Tensor]] = []

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _tag(self, kind: str, stage: int) -> int:
        return 2 * stage + (kind == "gradient")

    def send(self, kind: str, tensors: list[Tensor], to: PipelineStage | int, part: int) -> None:
        """Starts sending tensors to another stage, which may be in this process."""
        if isinstance(to, PipelineStage):
            to.here[kind, part] = list(tensors)
            return
        rank, tag = self.owner[to], self._tag(kind, to)
        for message in (_described(tensors), *(t.detach().contiguous() for t in tensors)):
            work = dist.isend(message, group=self.group, group_dst=rank, tag=tag)
            self.sending.append((work, message))
        self.finish(all_of_them=False)

    def receive(self, kind: str, source: int, part: int) -> list[Tensor]:
        """Waits for tensors from another stage."""
        if (kind, part) in self.here:
            return self.here.pop((kind, part))
        rank, tag = self.owner[source], self._tag(kind, self.stage_index)
        head = fb.empty(_HEAD, dtype=fb.int64)
        dist.recv(head, group=self.group, group_src=rank, tag=tag)
        numbers = iter(head.tolist())
        tensors, works = [], []
        for _ in range(next(numbers)):
            dtype, learned, ndim = _KINDS[next(numbers)], bool(next(numbers)), next(numbers)
            t = fb.empty([next(numbers) for _ in range(ndim)], dtype=dtype, device=self.device)
            works.append(dist.irecv(t, group=self.group, group_src=rank, tag=tag))
            t.requires_grad_(learned)
            tensors.append(t)
        for work in works:
            assert work is not None
            work.wait()
        return tensors

    def finish(self, all_of_them: bool = True) -> None:
        """Waits until everything has been sent, or only drops finished messages."""
        under_way = []
        for work, message in self.sending:
            if all_of_them or work.is_completed():
                work.wait()
            else:
                under_way.append((work, message))
        self.sending = under_way

    # ---- one part of a batch -------------------------------------------------------------------------------------------

    def forward(self, part: int, args: tuple[Any, ...], kwargs: dict[str, Any], learn: bool) -> Any:
        """Runs the layers on a part: on args, or in later stages on the received tensors."""
        if not self.is_first:
            received = self.receive("activation", self.stage_index - 1, part)
            received = [t.detach().requires_grad_(t.requires_grad and learn) for t in received]
            self.inputs[part] = received
            args = tuple(received)
        module, self.part = self.submod, part
        with fb.set_grad_enabled(learn):
            if isinstance(module, DistributedDataParallel) and learn:
                with module.no_sync():  # the last backward of the batch reduces the gradients
                    output = module(*args, **kwargs)
            else:
                output = module(*args, **kwargs)
        self.outputs[part] = output
        return output

    def results(self, part: int) -> list[Tensor]:
        """The tensors for the next stage."""
        output = self.outputs[part]
        values = list(output) if isinstance(output, (list, tuple)) else [output]
        for value in values:
            if not isinstance(value, Tensor):
                raise TypeError(f"PipelineStage: stage {self.stage_index} must give tensors to the next, got {type(value).__name__}")
        return values

    def backward(self, part: int, loss: Tensor | None, last: bool) -> list[Tensor]:
        """Runs backward for a part; returns the gradients of the received tensors."""
        self._synchronize(last)
        self.part = part  # for layers recomputed by checkpointing
        if loss is not None:
            loss.backward()
        else:
            outputs = [t for t in self.results(part) if t.requires_grad]
            grads = self.receive("gradient", self.stage_index + 1, part)
            if len(grads) != len(outputs):
                raise StateError(f"PipelineStage: stage {self.stage_index} got {len(grads)} gradients for {len(outputs)} results")
            fb.autograd.backward(outputs, grads)
        self.outputs.pop(part)
        inputs = [t for t in self.inputs.pop(part, []) if t.requires_grad]
        return [fb.zeros_like(t) if t.grad is None else t.grad for t in inputs]

    def weights(self, part: int) -> None:
        """Computes the weight gradients that backward has deferred."""
        for compute in self.later.pop(part, []):
            compute()

    def _synchronize(self, last: bool) -> None:
        """Lets data parallel layers inside reduce gradients in the last backward of a batch."""
        from flambeau.distributed.fsdp import FSDPModule

        if isinstance(self.submod, DistributedDataParallel):
            if last:
                self.submod.reducer.prepare_for_backward()
        elif isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last)
