"""Where time and memory go: every op of a program, its backward and named ranges, as a table or as a trace.

While nothing records, an op pays one load and a branch for it.

Example:
    >>> with fb.profiler.profile() as p:
    ...     with fb.profiler.record_function("forward"):
    ...         y = fb.ones(8, 8) @ fb.ones(8, 8)
    >>> sorted(row.key for row in p.key_averages())
    ['forward', 'matmul', 'ones']
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.profiler._events import DeviceType, EventList, FunctionEvent
from flambeau.profiler._profile import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType", "EventList", "FunctionEvent", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
__dir__ = _package_dir(__name__)
