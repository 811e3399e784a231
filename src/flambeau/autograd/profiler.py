"""The profiler under its older name and with its older arguments."""

from __future__ import annotations

import warnings
from typing import Any, Self

import flambeau as fb
from flambeau import profiler
from flambeau.errors import ArgumentError
from flambeau.profiler import EventList, record_function

__all__ = ["EventList", "profile", "record_function"]
__dir__ = __all__.copy


class profile:
    """Records every op inside its scope.

    Args:
        enabled: whether to record at all.
        use_cuda: whether to record the accelerator; it is recorded in any case where one is used.
        use_device: the kind of accelerator; recorded in any case.
        record_shapes: whether to record the shapes of tensor arguments.
        with_flops: not supported.
        profile_memory: whether to record bytes allocated and freed.
        with_stack: whether to record where ops were called.
        with_modules: not supported.
        use_kineto: which recorder to use; there is one.
        use_cpu: whether to record the CPU.

    Example:
        >>> with fb.autograd.profiler.profile() as p:
        ...     y = fb.ones(3).exp()
        >>> "exp" in p.key_averages().table()
        True
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
    ) -> None:
        there = fb.accelerator.is_available()
        if use_device is not None and not there:
            raise ArgumentError(f"profile: there is no accelerator to record; drop use_device={use_device!r}")
        if use_cuda and not there:
            warnings.warn("profile: there is no CUDA here; only the CPU is recorded", stacklevel=2)
        self.enabled, self.use_cuda = enabled, use_cuda and there
        self._profile = profiler.profile(
            activities=None if use_cpu else [profiler.ProfilerActivity.CUDA],
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
            with_modules=with_modules,
        )  # fmt: skip

    def __enter__(self) -> Self:
        if self.enabled:
            self._profile.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._profile.stop()

    @property
    def function_events(self) -> EventList:
        """All events, in the order of their starts."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together, none counted twice."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Sums of events per name; see fb.profiler.profile.key_averages."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """The sum of all events."""
        return self.function_events.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as a table; see EventList.table."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        """Writes a trace that Perfetto and Chrome's about:tracing open."""
        self._profile.export_chrome_trace(path)

    def __iter__(self) -> Any:
        return iter(self.function_events)

    def __str__(self) -> str:
        return str(self.function_events)
