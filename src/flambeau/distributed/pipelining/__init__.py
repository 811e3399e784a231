"""Pipeline parallelism: each process has some of a model's layers, and parts of a batch flow through them.

Example:
    >>> from flambeau.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> layers = fb.nn.Linear(4, 2)  # of a longer model, those of this process
    >>> stage = PipelineStage(layers, stage_index=0, num_stages=1, device=fb.device("cpu"))
    >>> schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=fb.nn.MSELoss())
    >>> losses = []
    >>> schedule.step(fb.ones(8, 4), target=fb.zeros(8, 2), losses=losses).shape
    flambeau.Size([8, 2])
    >>> len(losses), layers.weight.grad.shape
    (4, flambeau.Size([2, 4]))
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.pipelining._pipe import Pipe, SplitPoint, build_stage, pipe_split, pipeline
from flambeau.distributed.pipelining._zero_bubble import ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble
from flambeau.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from flambeau.distributed.pipelining.stage import PipelineStage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage", "pipe_split", "pipeline",
]  # fmt: skip
__dir__ = _package_dir(__name__)
