"""Measures how long statements take, and compares them in a table.

Example:
    >>> timer = fb.utils.benchmark.Timer("x @ x", globals={"x": fb.ones(8, 8)})
    >>> timer.timeit(10).median > 0
    True
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
import time
import timeit
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
__dir__ = __all__.copy

timer = time.perf_counter


def select_unit(t: float) -> tuple[str, float]:
    """The unit that suits a time, and how many seconds it has.

    Example:
        >>> fb.utils.benchmark.select_unit(2e-5)
        ('us', 1e-06)
    """
    for unit, seconds in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= seconds:
            return unit, seconds
    return "ns", 1e-9


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """The measured statement, and its names in tables."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label with the sub-label, or the statement."""
        if self.label is None and self.sub_label is None:
            return self.stmt.strip()
        return ": ".join(filter(None, (self.label, self.sub_label)))


@dataclasses.dataclass
class Measurement:
    """Times of a statement: of several runs, each of `number_per_run` executions.

    Example:
        >>> spec = fb.utils.benchmark.TaskSpec("x + 1")
        >>> fb.utils.benchmark.Measurement(2, [2.0, 4.0, 6.0], spec).median
        2.0
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # label, stmt, num_threads and others are those of the task.
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds for one execution, by run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles; 0 for a single run."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """The number of significant digits of the median, given the spread of the runs."""
        spread = self.iqr / math.sqrt(len(self.raw_times)) or self.median * 1e-3
        digits = math.floor(math.log10(self.median)) - math.floor(math.log10(spread)) + 1
        return max(1, min(4, digits))

    @property
    def has_warnings(self) -> bool:
        """Whether the spread is too large for the numbers to be reliable."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the distance between the quartiles is below this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def as_row_name(self) -> str:
        """The name of the row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt.strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same task as one each."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [Measurement(1, [t for one in group for t in one.times], spec) for spec, group in groups.items()]

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        runs = len(self.raw_times)
        lines = [f"<{__name__}.Measurement>", self.task_spec.title]
        if self.task_spec.setup not in ("", "pass"):
            lines.append(f"setup: {self.task_spec.setup}")
        lines.append(f"  Median: {self.median / scale:.4g} {unit}")
        if runs > 1:
            lines.append(f"  IQR:    {self.iqr / scale:.4g} {unit}")
        lines.append(f"  {runs} measurement{'s' * (runs > 1)}, {self.number_per_run} runs per measurement, {self.num_threads} thread")
        if self.has_warnings:
            lines.append("  WARNING: the runs differ by more than a tenth; something else was running")
        return "\n".join(lines)


class Timer:
    """Measures a statement with a given number of threads, one by default.

    Args:
        stmt: the statement.
        setup: run before each measurement.
        global_setup: run once, before the setup.
        timer: the clock.
        globals: names the statement may use.
        label, sub_label, description, env: names in tables.
        num_threads: threads of ops during the measurement.
        language: "python".

    Example:
        >>> t = fb.utils.benchmark.Timer("y = x + 1", setup="x = fb.ones(3)", globals={"fb": fb})
        >>> t.blocked_autorange(min_run_time=0.001).mean > 0
        True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise TypeError(f"Timer: stmt must be a string, got {type(stmt).__name__}; give functions through globals")
        if str(language).lower() not in ("python", "py"):
            raise ArgumentError(f"Timer: language must be 'python', got {language!r}")
        names = dict(globals or {})
        stmt, setup = textwrap.dedent(stmt), textwrap.dedent(setup)
        if global_setup:
            exec(textwrap.dedent(global_setup), names)
        self._timer = timeit.Timer(stmt, setup or "pass", timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _run(self, number: int) -> float:
        before = fb.get_num_threads()
        fb.set_num_threads(self._task_spec.num_threads)
        try:
            # Never 0, which cannot be divided by: a clock tick is the smallest measurable time.
            return max(self._timer.timeit(number), 1e-9)
        finally:
            fb.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Runs the statement that many times; one measurement."""
        if number < 1:
            raise ArgumentError(f"Timer.timeit: number must be at least 1, got {number}")
        self._run(max(number // 100, 2))  # warm up
        return Measurement(number, [self._run(number)], self._task_spec)

    def _block_size(self, min_run_time: float) -> int:
        """The number of executions per measurement for which the clock's own cost is negligible."""
        number = 1
        while True:
            taken = self._run(number)
            if taken >= min_run_time / 1000 and taken >= 1e-4 or taken >= min_run_time:
                return number
            number *= 10

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not for this class, as in PyTorch: a measurement has its repetitions inside."""
        raise TypeError("Timer.repeat: use blocked_autorange() or adaptive_autorange(), which repeat as needed")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measures blocks of executions until `min_run_time` seconds have been spent.

        Args:
            callback: called after each block with its number of executions and seconds.
            min_run_time: seconds to spend at least.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measures blocks until their quartiles are closer than `threshold` times the median, or time is up.

        Args:
            threshold: the spread to reach.
            min_run_time, max_run_time: seconds to spend at least and at most.
            callback: as in blocked_autorange().
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while True:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
            result = Measurement(number, times, self._task_spec)
            spent = sum(times)
            if spent >= max_run_time or (len(times) >= 4 and spent >= min_run_time and result.meets_confidence(threshold)):
                return result


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description, a part for each thread count.

    Args:
        results: the measurements.

    Example:
        >>> spec = fb.utils.benchmark.TaskSpec("x + 1", label="add", sub_label="small", description="flambeau")
        >>> print(fb.utils.benchmark.Compare([fb.utils.benchmark.Measurement(1, [2e-6], spec)]))
        [add, times in us]
                      flambeau
        1 threads
          small              2
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._trim = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows only the digits that the spread of the runs lets one trust."""
        self._trim = True

    def _table(self, label: str | None, results: list[Measurement]) -> list[str]:
        unit, scale = select_unit(min(one.median for one in results))
        columns = list(dict.fromkeys(one.task_spec.description or "" for one in results))
        width = max(14, *(len(one.as_row_name) + 4 for one in results))
        widths = [max(8, len(column) + 0) for column in columns]
        lines = [f"[{label or 'measurements'}, times in {unit}]"]
        lines.append(" " * width + "  ".join(f"{c:>{w}}" for c, w in zip(columns, widths, strict=True)))
        for threads in sorted({one.task_spec.num_threads for one in results}):
            lines.append(f"{threads} threads")
            rows: dict[tuple[Any, ...], dict[str, Measurement]] = {}
            for one in results:
                if one.task_spec.num_threads == threads:
                    rows.setdefault((one.as_row_name, one.task_spec.env), {})[one.task_spec.description or ""] = one
            for (name, env), cells in rows.items():
                shown = f"  {name}" + (f" ({env})" if env else "")
                texts = [self._cell(cells.get(c), scale) for c in columns]
                lines.append(f"{shown:<{width}}" + "  ".join(f"{t:>{w}}" for t, w in zip(texts, widths, strict=True)))
        return lines

    def _cell(self, one: Measurement | None, scale: float) -> str:
        if one is None:
            return ""
        return f"{one.median / scale:.{one.significant_figures if self._trim else 4}g}"

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for one in Measurement.merge(self._results):
            groups.setdefault(one.task_spec.label, []).append(one)
        return "\n\n".join("\n".join(self._table(label, results)) for label, results in groups.items())

    def print(self) -> None:
        """Prints the table."""
        print(str(self))
