"""profile, schedules, named ranges and handlers of traces."""

from __future__ import annotations

import enum
import functools
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import flambeau as fb
from flambeau import _C
from flambeau._settings.strict import strict_or_warn
from flambeau.errors import ArgumentError, StateError
from flambeau.profiler._events import BACKWARD, OP, RANGE, EventList, MemoryEvent, _write, nested
from flambeau.profiler._memory import Peak, peak_of

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What can be recorded: the CPU, and the accelerator, whatever its kind, by any of the other names.

    Example:
        >>> fb.profiler.ProfilerActivity.CPU in fb.profiler.supported_activities()
        True
    """

    CPU = 0
    CUDA = 2
    XPU = 1
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The actions of a schedule's step.

    Example:
        >>> fb.profiler.schedule(wait=1, warmup=0, active=1)(0)
        <ProfilerAction.NONE: 0>
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What this machine can record.

    Example:
        >>> fb.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    there = fb.accelerator.is_available()
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if there else {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: the recorder is flambeau's own.

    Example:
        >>> fb.profiler.kineto_available()
        False
    """
    return False


class record_function:
    """A named range: a context manager, or a decorator of functions.

    Args:
        name: what the range is called in tables and traces.
        args: a text to show with it; becomes part of the name.

    Example:
        >>> with fb.profiler.profile() as p:
        ...     with fb.profiler.record_function("step"):
        ...         y = fb.ones(3)
        >>> [e.name for e in p.events() if e.is_user_annotation]
        ['step']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: the name must be a str, got {type(name).__name__}")
        self.name, self.args = name, args
        self._range: Any = None

    def __enter__(self) -> Self:
        self._range = _C.profile_begin(self.name if self.args is None else f"{self.name}({self.args})")
        return self

    def __exit__(self, *exception: object) -> None:
        _C.profile_end(self._range)
        self._range = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapper


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps to record: cycles of some to wait, some to warm up and some to record.

    Args:
        wait: steps at the beginning of a cycle that are not recorded.
        warmup: steps that are recorded and thrown away.
        active: steps that are recorded.
        repeat: how many cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: 1 leaves out the wait of the first cycle.

    Example:
        >>> steps = fb.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [steps(i).name for i in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active < 1:
        raise ArgumentError("schedule: active must be at least 1 and no number negative")

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if repeat and cycle >= repeat or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """A handler that writes each trace to a file of its own, named as TensorBoard's plugin expects.

    Args:
        dir_name: the folder, made when it is not there.
        worker_name: names the process; machine and process number if not given.
        use_gzip: whether to compress.
        use_python_export: traces are written by Python in any case.

    Example:
        >>> handler = fb.profiler.tensorboard_trace_handler("runs/profile")
        >>> callable(handler)
        True
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


_active: profile | None = None


class profile:
    """Records every op, backward node and named range while it is on, and what accelerators do for them.

    Args:
        activities: what to record: the CPU, the accelerator (CUDA, XPU), or both; None means both.
        schedule: a function from a step's number to a ProfilerAction, see `schedule`; without one everything is
            recorded.
        on_trace_ready: called with this profile whenever a recording is complete.
        record_shapes: whether to record the shapes of tensor arguments.
        profile_memory: whether to record allocations and frees, on every device.
        with_stack: whether to record where ops were called.
        with_flops: not supported.
        with_modules: not supported.
        experimental_config: not supported.
        acc_events: whether events of several cycles are kept together.
        max_events: how many events of each kind (of the host, of accelerators, of memory) are kept: the latest ones.

    Attributes:
        dropped_events: how many older ones were dropped for that.

    Example:
        >>> x = fb.ones(4, 4, requires_grad=True)
        >>> with fb.profiler.profile(profile_memory=True) as p:
        ...     (x @ x).sum().backward()
        >>> {"matmul", "MatmulBackward0"} <= {e.name for e in p.events()}
        True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        max_events: int = 1_000_000,
    ) -> None:
        for name, value in (
            ("with_flops", with_flops),
            ("with_modules", with_modules),
            ("experimental_config", experimental_config),
        ):
            if value:
                strict_or_warn(f"profile: {name} is not supported and has no effect; drop it")
        chosen = set(supported_activities() if activities is None else activities)
        if not all(isinstance(activity, ProfilerActivity) for activity in chosen):
            raise TypeError(f"profile: activities must be ProfilerActivity members, got {activities}")
        if ProfilerActivity.CPU not in chosen and not fb.accelerator.is_available():
            raise ArgumentError("profile: there is no accelerator to record; add ProfilerActivity.CPU to activities")
        if max_events < 1:
            raise ArgumentError(f"profile: max_events must be at least 1, got {max_events}")
        self.activities, self._all = chosen, activities is None
        self.max_events: int = max_events
        self.dropped_events: int = 0
        self._memory: list[MemoryEvent] = []
        self._schedule, self.on_trace_ready, self._keep = schedule, on_trace_ready, acc_events
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._records: list[Any] = []
        self._events: EventList | None = None
        self._metadata: dict[str, str] = {}
        self._step_range: Any = None

    # ---- on and off ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins the first step."""
        global _active
        if _active is not None:
            raise StateError("profile: another profile is on in this process; stop it first")
        _active = self
        self.step_num = 0
        self._begin(self._action())

    def stop(self) -> None:
        """Stops; completes a running recording."""
        global _active
        if _active is not self:
            return
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._finish(save=recording)
        self.current_action = ProfilerAction.NONE
        _active = None

    def step(self) -> None:
        """Marks the end of one step of a schedule and the beginning of the next."""
        if _active is not self:
            raise StateError("profile: step() is for a profile that is on; call start() first")
        before = self.current_action
        _C.profile_end(self._step_range)
        self._step_range = None
        self.step_num += 1
        after = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish(save=True)
            self._begin(after)
        elif before is ProfilerAction.RECORD and after in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self.current_action = after
            self._name_step()
        else:
            self._finish(save=before is ProfilerAction.RECORD)
            self._begin(after)

    def _action(self) -> ProfilerAction:
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def _begin(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action is not ProfilerAction.NONE:
            _C.profile_start(self.record_shapes, self.profile_memory, self.with_stack, self.max_events)
            self._name_step()

    def _name_step(self) -> None:
        if self._schedule:
            self._step_range = _C.profile_begin(f"ProfilerStep#{self.step_num}")

    def _finish(self, save: bool) -> None:
        if self.current_action is ProfilerAction.NONE:
            return
        _C.profile_end(self._step_range)
        self._step_range = None
        records, memory, dropped = _C.profile_stop()
        if not save:
            return
        wanted = {OP, BACKWARD, RANGE} if ProfilerActivity.CPU in self.activities else set()
        device = self._all or len(self.activities) > len(wanted & {OP})
        records = [r for r in records if (r[0] in wanted if r[0] in (OP, BACKWARD, RANGE) else device)]
        allocations = [MemoryEvent(*m) for m in memory if device or m[5] == "cpu"]
        self._records = self._records + records if self._keep else records
        self._memory = self._memory + allocations if self._keep else allocations
        self.dropped_events = dropped
        self._events = None
        if self.on_trace_ready:
            self.on_trace_ready(self)

    # ---- results ---------------------------------------------------------------------------------------------------

    def events(self) -> EventList:
        """All events of the last recording, in the order of their starts."""
        if self._events is None:
            self._events = nested(self._records, self.profile_memory, self._memory)
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Sums of events per name.

        Args:
            group_by_input_shape: whether different shapes are summed apart; needs record_shapes.
            group_by_stack_n: how many stack entries are compared too; needs with_stack.
            group_by_overload_name: an op has one name here, so it makes no difference.

        Example:
            >>> with fb.profiler.profile() as p:
            ...     y = fb.ones(3).exp().exp()
            >>> [row.count for row in p.key_averages() if row.key == "exp"]
            [2]
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: Any, use_python_export: bool = False) -> None:
        """Writes a trace that Perfetto and Chrome's about:tracing open; compressed when the path ends in .gz.

        Args:
            path: the file.
            use_python_export: traces are written by Python in any case.
        """
        self.events().export_chrome_trace(path, self._metadata, self._memory)

    def memory_events(self) -> list[MemoryEvent]:
        """Allocations and frees of the last recording in the order of time; needs profile_memory."""
        return sorted(self._memory, key=lambda event: event.time_ns)

    def peak_memory(self, device: Any = None) -> Peak:
        """What held memory when tensors had the most: by op and line of the program; needs profile_memory.

        Args:
            device: the CPU or an accelerator; by default the accelerator, if memory was taken there.

        Example:
            >>> with fb.profiler.profile(profile_memory=True) as p:
            ...     x = fb.zeros(1000)
            ...     y = (x + 1).sum()
            >>> p.peak_memory().holders[0].bytes, sorted(h.op for h in p.peak_memory().holders)
            (4000, ['add', 'sum', 'zeros'])
        """
        if not self.profile_memory:
            raise StateError("peak_memory: no memory was recorded; make the profile with profile_memory=True")
        if device is None:
            name = max((m.device for m in self._memory), key=lambda d: d != "cpu", default="cpu")
        else:
            given = fb.device(device)
            name = "cpu" if given.type == "cpu" else f"{given.type}:{given.index or 0}"
        return peak_of(self._memory, name)

    def export_html(self, path: Any) -> None:
        """Writes a page that shows the timeline in a browser, without anything from elsewhere: a track for each thread and
        stream, the memory of each device, zoom, search, and what held memory at the peak.

        Args:
            path: the file.
        """
        from flambeau.profiler._page import page

        _write(path, page(self.events(), self.memory_events()).encode())

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Writes one line per stack and its time, the form that flame graph tools read; needs with_stack.

        Args:
            path: the file.
            metric: self_cpu_time_total.
        """
        if not self.with_stack:
            raise StateError("export_stacks: no stacks were recorded; make the profile with with_stack=True")
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Puts a text beside the events of traces.

        Args:
            key: its name.
            value: the text.
        """
        self._metadata[key] = value
