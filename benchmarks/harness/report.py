"""From measurements to a Markdown section: medians, ratios, geometric means, losses, budgets, markers, chart."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from harness.rows import Budget

WORST_RATIO = 0.8  # nothing in the op table may be slower than this
TIE = 0.95  # closer to 1 than this, the next run may say the opposite


@dataclass
class Result:
    """One row, measured: per library the figures of each round, or the error that stopped it."""

    group: str
    name: str
    unit: str = "s"
    rounds: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    best: bool = False

    def figure(self, seat: str) -> float | None:
        """The median over the rounds, or their best; None when the library has no such row or failed in it."""
        rounds = self.rounds.get(seat)
        if not rounds or seat in self.errors:
            return None
        return min(rounds) if self.best else median(rounds)

    def ratio(self, other: str = "torch") -> float | None:
        """How many times better flambeau is than `other` (time or memory of the other ÷ ours)."""
        ours, theirs = self.figure("flambeau"), self.figure(other)
        if ours is None or theirs is None or ours <= 0 or theirs <= 0:
            return None
        return theirs / ours


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean; None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def ratios(results: Iterable[Result], other: str = "torch", group: str | None = None) -> list[float]:
    """The ratios that exist, of one group or of all."""
    chosen = (r.ratio(other) for r in results if group is None or r.group == group)
    return [ratio for ratio in chosen if ratio is not None]


def quantity(value: float | None, unit: str = "s") -> str:
    """Three significant digits with a fitting unit: 312 ns, 4.56 ms, 78.9 MB."""
    if value is None:
        return "–"
    if unit != "s":
        return f"{digits(value)} {unit}"
    for factor, name in ((1e-6, "ns"), (1e-3, "µs"), (1.0, "ms")):
        if value < factor:
            return f"{digits(value * 1e3 / factor)} {name}"
    return f"{digits(value)} s"


def digits(value: float) -> str:
    places = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(places, 3)}f}"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f} ×"


def table(head: list[str], body: list[list[str]]) -> list[str]:
    """A Markdown table whose columns line up in a terminal too; the first column is text, the rest are figures."""
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        padded = (c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return [line(head), line(rule), *(line(cells) for cells in body)]


def verdict(result: Result) -> str:
    """The mark of a row: an error, a loss, a loss past the budget, or nothing."""
    if "flambeau" in result.errors or "torch" in result.errors:
        return "error"
    ratio = result.ratio()
    if ratio is None or ratio >= 1:
        return ""
    if ratio >= TIE:
        return "even"
    word = "slower" if result.unit == "s" else "more"
    return f"**{word}, < {WORST_RATIO}**" if ratio < WORST_RATIO else word


def group_table(results: list[Result], seats: list) -> list[str]:
    """The rows of one group."""
    others = [seat for seat in seats if seat.name != "flambeau"]
    compared = others if any(seat.name == "flambeau" for seat in seats) else []
    head = ["row", *(s.title for s in seats), *(f"vs {s.title}" for s in compared), "note"]
    body = []
    for result in results:
        figures = ["error" if s.name in result.errors else quantity(result.figure(s.name), result.unit) for s in seats]
        body.append([result.name, *figures, *(times(result.ratio(s.name)) for s in compared), verdict(result)])
    return table(head, body)


def summary(results: list[Result], seats: list) -> list[str]:
    """Geometric mean per group and of all rows, with the worst row of each."""
    others = [seat for seat in seats if seat.name != "flambeau"]
    groups = list(dict.fromkeys(r.group for r in results))
    body = []
    mixed = len({r.unit for r in results}) > 1  # a mean of seconds and megabytes would say nothing
    for name in groups if mixed else [*groups, None]:
        chosen = [r for r in results if name is None or r.group == name]
        ranked = sorted((r.ratio(), r.name) for r in chosen if r.ratio() is not None)
        worst = f"{ranked[0][1]}: {times(ranked[0][0])}" if ranked else "–"
        means = [times(geomean(ratios(chosen, s.name))) for s in others]
        count = str(len(chosen)) if len(ranked) in (0, len(chosen)) else f"{len(ranked)} of {len(chosen)}"
        body.append([name or "**all rows**", count, *means, worst])
    return table(["group", "rows", *(f"vs {s.title}" for s in others), "worst against PyTorch"], body)


def losses(results: list[Result]) -> list[str]:
    """Every row in which PyTorch is ahead by more than chance, worst first."""
    lost = [(ratio, r) for r in results if (ratio := r.ratio()) is not None and ratio < TIE]
    lines = []
    for ratio, r in sorted(lost, key=lambda pair: pair[0]):
        ours, theirs = quantity(r.figure("flambeau"), r.unit), quantity(r.figure("torch"), r.unit)
        lines.append(f"- {times(ratio)} {r.group} / {r.name}: {ours}, PyTorch {theirs}")
    return lines


def budget_table(budgets: list[Budget], results: list[Result]) -> list[str]:
    body = []
    for budget in budgets:
        value = budget.value(results)
        met = "not measured" if value is None else "met" if budget.met(value) else "**missed**"
        body.append([budget.text, budget.limit, "–" if value is None else f"{digits(value)} {budget.unit}", met])
    return table(["budget", "limit", "measured", ""], body)


def errors(results: list[Result], seats: list) -> list[str]:
    titles = {seat.name: seat.title for seat in seats}
    return [f"- {r.group} / {r.name}, {titles[s]}: {text}" for r in results for s, text in r.errors.items()]


def section(title: str, about: list[str], results: list[Result], seats: list, budgets: list[Budget]) -> str:
    """The whole section of one suite, summary first."""
    lines = [f"## {title}", "", *about]
    if any(seat.name == "flambeau" for seat in seats) and len(seats) > 1:
        lines += ["", "A ratio is the other library's figure divided by flambeau's: above 1, flambeau is better.", ""]
        lines += summary(results, seats)
        if budgets:
            lines += ["", *budget_table(budgets, results)]
        behind = losses(results)
        lines += [
            "",
            f"Rows in which PyTorch is ahead (below {TIE} ×): {len(behind)}" + (", worst first:" if behind else "."),
            *behind,
        ]
    failed = errors(results, seats)
    if failed:
        lines += ["", f"Errors, left out of every mean: {len(failed)}", *failed]
    for group in dict.fromkeys(r.group for r in results):
        lines += ["", f"### {group}", "", *group_table([r for r in results if r.group == group], seats)]
    return "\n".join(lines) + "\n"


def replace_section(text: str, name: str, body: str) -> str:
    """`text` with the part between the suite's markers replaced, or with the part added at the end."""
    begin, end = f"<!-- {name}: begin, written by benchmarks/{name}.py -->", f"<!-- {name}: end -->"
    part = f"{begin}\n{body.strip()}\n{end}"
    if (begin in text) != (end in text) or text.count(begin) > 1 or text.count(end) > 1:
        raise ValueError(f"the markers of section {name!r} do not come in one pair; mend the file by hand")
    if begin not in text:
        return text.rstrip() + ("\n\n" if text.strip() else "") + part + "\n"
    head, tail = text.split(begin)[0], text.split(end)[1]
    return head + part + tail


def usable_cores() -> int:
    """Cores this process may use: affinity, cut by a cgroup quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def machine() -> str:
    """Processor, cores, memory and load, so that a number can be judged."""
    model, memory = platform.processor() or platform.machine(), ""
    try:
        info = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
        kilobytes = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
        memory = f", {int(kilobytes) / 2**20:.0f} GiB"
    except (OSError, IndexError):
        memory = ""
    return f"{model}, {usable_cores()} cores{memory}, {platform.system()} {platform.release()}"


def plot(results: list[Result], title: str, path: str) -> None:
    """A bar per row: how many times faster than PyTorch (or NumPy, when PyTorch is missing), on a log scale."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    other = "torch" if ratios(results) else "numpy"
    rows = [(r.group, r.name, r.ratio(other)) for r in results if r.ratio(other) is not None]
    if not rows:
        raise SystemExit("--plot: no row has a ratio; run with flambeau and PyTorch or NumPy")
    groups = list(dict.fromkeys(group for group, _, _ in rows))
    colours = pyplot.get_cmap("tab20")
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.22 * len(rows)))
    for place, (group, _, ratio) in enumerate(rows):
        axes.barh(place, ratio - 1, left=1, color=colours(groups.index(group) % 20))
    axes.set_yticks(range(len(rows)), [f"{group}: {name}" for group, name, _ in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel(f"times faster than {'PyTorch' if other == 'torch' else 'NumPy'}")
    axes.set_title(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
