"""Recorded events: their costs without nested events, sums per name, tables and traces."""

from __future__ import annotations

import enum
import gzip
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from flambeau.errors import ArgumentError

__all__ = ["Averages", "DeviceType", "EventList", "FunctionEvent", "MemoryEvent"]

OP, BACKWARD, RANGE, KERNEL, COPY, FALLBACK = range(6)
_CATEGORIES = {OP: "cpu_op", BACKWARD: "autograd", RANGE: "user_annotation", KERNEL: "kernel", COPY: "gpu_memcpy", FALLBACK: "fallback"}


class DeviceType(enum.Enum):
    """Where an event ran: on the CPU, on a CUDA device, or on another accelerator, which PyTorch calls PrivateUse1.

    Example:
        >>> fb.profiler.DeviceType.CPU.name
        'CPU'
    """

    CPU = 0
    CUDA = 1
    PrivateUse1 = 20


class Interval(NamedTuple):
    """When an event ran, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long that was."""
        return self.end - self.start


class FunctionEvent:
    """One run of an op, of a node of the graph in backward, of a named range, or of what an accelerator did for them: a
    kernel or a copy, with the times of the device. Times are microseconds.

    Example:
        >>> with fb.profiler.profile(record_shapes=True) as p:
        ...     y = fb.ones(3).exp()
        >>> [(e.name, e.input_shapes) for e in p.events() if e.name == "exp"]
        [('exp', [[3]])]
    """

    def __init__(self, record: tuple[int, str, int, int, int, int, str, str, str, int, int]) -> None:
        self.kind, name, self.thread, start, end, amount, shapes, stack, self.device, self.stream, self.launched_ns = record
        self.start_ns, self.end_ns = start, end
        self.on_device = self.kind in (KERNEL, COPY)
        self.name = f"{name} (kernel)" if self.kind == KERNEL else f"{name} (fallback)" if self.kind == FALLBACK else name
        self.bytes_moved = amount if self.kind == COPY else 0
        self.cpu_memory_usage = 0 if self.on_device else amount
        self.kernels: list[FunctionEvent] = []  # launched directly, without those of its children
        self.self_device_memory_usage = 0
        self.input_shapes: list[list[int]] = json.loads(shapes) if shapes else []
        self.stack = stack.split("\n") if stack else []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.count = 1

    @property
    def device_type(self) -> DeviceType:
        """The device it ran on."""
        kind = self.device.partition(":")[0]
        return DeviceType.CPU if not self.on_device else DeviceType.CUDA if kind == "cuda" else DeviceType.PrivateUse1

    @property
    def device_index(self) -> int:
        """The number of the accelerator, -1 on the CPU."""
        return int(self.device.partition(":")[2] or 0) if self.on_device else -1

    @property
    def self_device_time_total(self) -> float:
        """Time that an accelerator worked for it, without what nested events launched."""
        if self.on_device:
            return (self.end_ns - self.start_ns) / 1000
        return sum(kernel.self_device_time_total for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:
        """Time that an accelerator worked for it."""
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    device_time = device_time_total

    @property
    def device_memory_usage(self) -> int:
        """Bytes allocated minus freed on accelerators."""
        return self.self_device_memory_usage + sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a named range."""
        return self.kind == RANGE

    @property
    def time_range(self) -> Interval:
        """When it began and ended."""
        return Interval(self.start_ns / 1000, self.end_ns / 1000)

    @property
    def cpu_time_total(self) -> float:
        """Its time on the CPU."""
        return 0.0 if self.on_device else (self.end_ns - self.start_ns) / 1000

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Its time without nested events."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated minus freed, without nested events."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} {self.cpu_time_total:.3f}us thread {self.thread}>"


class MemoryEvent(NamedTuple):
    """Memory of a tensor that was allocated (bytes > 0) or freed; `total` is that of live tensors afterwards.

    Example:
        >>> with fb.profiler.profile(profile_memory=True) as p:
        ...     x = fb.ones(256)
        >>> p.memory_events()[0].bytes, p.memory_events()[0].device, p.memory_events()[0].op
        (1024, 'cpu', 'ones')
    """

    time_ns: int
    thread: int
    address: int
    bytes: int
    total: int
    device: str
    op: str
    line: str


class Averages:
    """All events of one name (and shape or stack, when grouped by them). Times are microseconds."""

    def __init__(self, events: list[FunctionEvent]) -> None:
        first = events[0]
        self.device_type, self.on_device, self.device = first.device_type, first.on_device, first.device
        self.self_device_time_total = sum(e.self_device_time_total for e in events)
        self.device_time_total = sum(e.device_time_total for e in events)
        self.device_memory_usage = sum(e.device_memory_usage for e in events)
        self.self_device_memory_usage = sum(e.self_device_memory_usage for e in events)
        self.key, self.input_shapes, self.stack, self.count = first.name, first.input_shapes, first.stack, len(events)
        self.is_user_annotation = first.is_user_annotation
        self.cpu_time_total = sum(e.cpu_time_total for e in events)
        self.self_cpu_time_total = sum(e.self_cpu_time_total for e in events)
        self.cpu_memory_usage = sum(e.cpu_memory_usage for e in events)
        self.self_cpu_memory_usage = sum(e.self_cpu_memory_usage for e in events)

    @property
    def cpu_time(self) -> float:
        """Average time of one event."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Average time that an accelerator worked for one event."""
        return self.device_time_total / self.count

    def __repr__(self) -> str:
        return f"<Averages {self.key} {self.count} calls, {self.cpu_time_total:.3f}us>"


class EventList(list[Any]):
    """Events, or sums of events, that print as a table.

    Example:
        >>> with fb.profiler.profile() as p:
        ...     y = fb.ones(3).exp()
        >>> "exp" in p.key_averages().table(sort_by="cpu_time_total", row_limit=5)
        True
    """

    def __init__(self, events: Iterable[Any] = (), memory: bool = False) -> None:
        super().__init__(events)
        self._memory = memory

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together, none counted twice."""
        return sum(e.self_cpu_time_total for e in self)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds that accelerators worked, none counted twice."""
        return sum(e.self_device_time_total for e in self if e.on_device)

    def _devices(self) -> str:
        """The column title of accelerators: SIM, CUDA …; empty without one."""
        kinds = {e.device.partition(":")[0] for e in self if e.on_device}
        return kinds.pop().upper() if len(kinds) == 1 else "Device" if kinds else ""

    def total_average(self) -> Any:
        """The sum of all events."""
        total = Averages([e for e in self if isinstance(e, FunctionEvent)])
        total.key = "Total"
        return total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Sums per name.

        Args:
            group_by_input_shape: whether different shapes are summed apart.
            group_by_stack_n: how many stack entries are compared too.
        """
        groups: dict[Any, list[FunctionEvent]] = {}
        for e in self:
            shapes = str(e.input_shapes) if group_by_input_shape else ""
            groups.setdefault((e.name, e.kind, shapes, tuple(e.stack[:group_by_stack_n])), []).append(e)
        return EventList((Averages(events) for events in groups.values()), self._memory)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as a table.

        Args:
            sort_by: an attribute to sort by, largest first: cpu_time_total, self_cpu_time_total, cpu_time, count,
                cpu_memory_usage, self_cpu_memory_usage, the same with device for cpu; in the order of events if not given.
            row_limit: how many rows; -1 for all.
            max_src_column_width: where source places are cut off.
            max_name_column_width: where names are cut off.
            max_shapes_column_width: where shapes are cut off.
            header: a line above the table.
            top_level_events_only: whether to leave out events inside others.
        """
        rows = [e for e in self if not (top_level_events_only and getattr(e, "cpu_parent", None))]
        if sort_by is not None:
            sort_by = sort_by.replace("cuda", "device").replace("xpu", "device")
            if sort_by not in _SORTABLE:
                raise ArgumentError(f"table: sort_by must be one of {', '.join(_SORTABLE)}, got {sort_by!r}")
            rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        whole = self.self_cpu_time_total or 1.0
        name, device_whole = self._devices(), self.self_device_time_total or 1.0
        device_head = [f"Self {name}", f"Self {name} %", f"{name} total", f"{name} time avg"] if name else []
        cells = [_HEAD[:-3] + device_head + _HEAD[-3:-2] + _HEAD[-2:] * self._memory + [f"Self {name} Mem"] * bool(name and self._memory)]
        shapes, stacks = any(e.input_shapes for e in rows), any(e.stack for e in rows)
        cells[0] = cells[0] + ["Input Shapes"] * shapes + ["Source Location"] * stacks
        for e in rows[: None if row_limit < 0 else row_limit]:
            key = getattr(e, "key", "")
            row = [
                key if len(key) <= max_name_column_width else key[: max_name_column_width - 3] + "...",
                f"{100 * e.self_cpu_time_total / whole:.2f}%",
                _time(e.self_cpu_time_total),
                f"{100 * e.cpu_time_total / whole:.2f}%",
                _time(e.cpu_time_total),
                _time(e.cpu_time_total / e.count),
            ]
            if name:
                own = e.self_device_time_total
                row += [_time(own), f"{100 * own / device_whole:.2f}%", _time(e.device_time_total), _time(e.device_time_total / e.count)]
            row += [str(e.count)]
            row += [_bytes(e.cpu_memory_usage), _bytes(e.self_cpu_memory_usage)] * self._memory
            row += [_bytes(e.self_device_memory_usage)] * bool(name and self._memory)
            row += [str(e.input_shapes)[:max_shapes_column_width]] * shapes
            row += [(e.stack[0] if e.stack else "")[-max_src_column_width:]] * stacks
            cells.append(row)
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * width for width in widths)
        lines = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in cells]
        title = [header] if header else []
        ends = [f"Self CPU time total: {_time(whole)}"] + [f"Self {name} time total: {_time(device_whole)}"] * bool(name)
        return "\n".join([*title, rule, lines[0], rule, *lines[1:], rule, *ends, ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(
        self, path: Any, metadata: dict[str, str] | None = None, memory: Iterable[MemoryEvent] = ()
    ) -> None:
        """Writes a trace that Perfetto and Chrome's about:tracing open; compressed when the path ends in .gz.

        Accelerators are processes of their own, with a track for each stream, and arrows from launches to kernels.

        Args:
            path: the file.
            metadata: texts to put beside the events.
            memory: allocations, drawn as a counter for each device.
        """
        process = os.getpid()
        trace: list[dict[str, Any]] = [
            {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": "flambeau"}}
        ]
        devices = {device: -1 - i for i, device in enumerate(sorted({e.device for e in self if e.on_device}))}
        for device, number in devices.items():
            trace.append({"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": {"name": device}})
        for device, stream in sorted({(e.device, e.stream) for e in self if e.on_device}):
            name = {"name": f"stream {stream}"}
            trace.append({"ph": "M", "pid": devices[device], "tid": stream, "name": "thread_name", "args": name})
        for m in memory:
            level = {"name": f"memory {m.device}", "ts": m.time_ns / 1000, "args": {"bytes": m.total}}
            trace.append({"ph": "C", "pid": process, "tid": 0, **level})
        for number, e in enumerate(self):
            details: dict[str, Any] = {"Input Dims": e.input_shapes} if e.input_shapes else {}
            if e.kind == FALLBACK:
                place = {"pid": process, "tid": e.thread, "ts": e.start_ns / 1000}
                trace.append({"ph": "i", "s": "t", "cat": "fallback", "name": e.name, **place})
                continue
            if e.on_device:
                place = {"pid": devices[e.device], "tid": e.stream}
                if e.bytes_moved:
                    details["bytes"] = e.bytes_moved
                arrow = {"cat": "ac2g", "name": "ac2g", "id": number}
                trace.append({"ph": "s", **arrow, "pid": process, "tid": e.thread, "ts": e.launched_ns / 1000})
                trace.append({"ph": "f", "bp": "e", **arrow, **place, "ts": e.start_ns / 1000})
                trace.append(
                    {"ph": "X", "cat": _CATEGORIES[e.kind], "name": e.name, **place, "ts": e.start_ns / 1000,
                     "dur": e.self_device_time_total, "args": {"device": e.device, "stream": e.stream, **details}}
                )  # fmt: skip
                continue
            if e.stack:
                details["Call stack"] = ";".join(reversed(e.stack))
            if self._memory:
                details["Bytes"] = e.cpu_memory_usage
            trace.append(
                {
                    "ph": "X", "cat": _CATEGORIES[e.kind], "name": e.name, "pid": process, "tid": e.thread,
                    "ts": e.start_ns / 1000, "dur": e.cpu_time_total, "args": details,
                }
            )  # fmt: skip
        document = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": trace}
        text = json.dumps(document).encode()
        _write(path, gzip.compress(text) if os.fsdecode(path).endswith(".gz") else text)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Writes one line per stack and its time in microseconds, the form that flame graph tools read.

        Args:
            path: the file.
            metric: self_cpu_time_total.
        """
        if metric != "self_cpu_time_total":
            raise ArgumentError(f"export_stacks: metric must be 'self_cpu_time_total', got {metric!r}")
        sums: dict[str, int] = {}
        for e in self:
            if e.stack:
                line = ";".join([*(entry.replace(" ", "_") for entry in reversed(e.stack)), e.name])
                sums[line] = sums.get(line, 0) + int(e.self_cpu_time_total)
        _write(path, "".join(f"{line} {time}\n" for line, time in sums.items() if time > 0).encode())


def _write(path: Any, data: bytes) -> None:
    """Writes atomically: viewers cannot read a truncated trace."""
    from flambeau._files.target import opened

    with opened(os.fspath(path)) as writer:
        writer.write(data)


_HEAD = [
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls", "CPU Mem", "Self CPU Mem",
]  # fmt: skip
_SORTABLE = [
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "device_time",
    "device_time_total", "self_device_time_total", "device_memory_usage", "self_device_memory_usage", "count",
]  # fmt: skip


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def nested(records: list[Any], memory: bool, allocations: Iterable[MemoryEvent] = ()) -> EventList:
    """Converts the recorded tuples to events in the order of their starts, each with the events nested in it on its
    thread, and with what it launched and allocated on accelerators.
    """
    events = sorted((FunctionEvent(record) for record in records), key=lambda e: (e.start_ns, -e.end_ns))
    # Actions on the host's threads by time: events begin, kernels are launched, memory is allocated.
    points: list[tuple[int, int, Any]] = []
    for event in events:
        points.append((event.launched_ns, 1, event) if event.on_device else (event.start_ns, 0, event))
    points += [(m.time_ns, 1, m) for m in allocations if m.device != "cpu"]
    points.sort(key=lambda point: point[:2])
    open_: dict[int, list[FunctionEvent]] = {}
    for time, _, what in points:
        stack = open_.setdefault(what.thread, [])
        while stack and stack[-1].end_ns <= time:
            stack.pop()
        if isinstance(what, MemoryEvent):
            if stack:
                stack[-1].self_device_memory_usage += what.bytes
        elif what.on_device:
            if stack:
                stack[-1].kernels.append(what)
        else:
            if stack:
                what.cpu_parent = stack[-1]
                stack[-1].cpu_children.append(what)
            stack.append(what)
    return EventList(events, memory)
