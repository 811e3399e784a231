"""Runs a suite of rows in flambeau, PyTorch and NumPy: a process for each, in turns, and prints the table.

Every suite (overhead.py, ops.py, memory.py) is a script that ends in `main(suite)`; the same script, started with
`--worker`, is the process that runs one library.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import quantiles

from harness import report
from harness.process import TITLES, Seat, jemalloc
from harness.report import Result
from harness.rows import Row, Suite

RESULTS = Path(__file__).with_name("RESULTS.md")
REPEATS = 7  # timed repetitions within a round; the best counts, since other programs only ever add time
MOST_ROUNDS = 2  # a row whose rounds disagree gets up to this many times the rounds
UNITS = {"time": "s", "peak": "MB", "value": ""}
TORCH_HINT = "PyTorch not installed: pip install torch==2.13.0"


def parse(suite: Suite, argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=suite.title)
    parser.add_argument(
        "--libs", default=",".join(suite.libs), help="columns, comma separated (default: %(default)s)"
    )
    parser.add_argument(
        "--before", metavar="TREE", help="add a column for another work tree of flambeau, built by `make build` there"
    )
    parser.add_argument(
        "--tuned", action="store_true", help="add PyTorch in inference mode on a malloc that keeps memory"
    )
    parser.add_argument(
        "--torch-python",
        default=os.environ.get("FLAMBEAU_TORCH_PYTHON"),
        help="interpreter that has PyTorch (default: $FLAMBEAU_TORCH_PYTHON, else this one)",
    )
    parser.add_argument("--threads", type=int, default=report.usable_cores(), help="per library (default: %(default)s)")
    parser.add_argument("--only", metavar="PATTERN", help="rows whose 'group/name' matches this regular expression")
    parser.add_argument("--quick", action="store_true", help="3 short rounds: a first impression")
    parser.add_argument("--small", action="store_true", help="small sizes instead of the full ones, for a first look")
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds per row (default: {suite.rounds})")
    parser.add_argument("--best", action="store_true", help="the best round counts, not the median: for a busy machine")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--write", action="store_true", help=f"replace this suite's section of {RESULTS.name}")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios as a bar chart (needs matplotlib)")
    parser.add_argument("--flambeau-module", default="flambeau", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.rounds = options.rounds or (min(3, suite.rounds) if options.quick else suite.rounds)
    # Against interruptions many short repetitions help: one of them goes through in peace.
    options.repeats = 6 * REPEATS if options.best else REPEATS
    options.target = suite.target_seconds / (10 if options.best else 2 if options.quick else 1)
    if options.threads < 1 or options.rounds < 1:
        parser.error("--threads and --rounds are at least 1")
    if options.write and options.only:
        parser.error("--write replaces the whole section, so it cannot go with --only")
    if options.small and not any(row.small for row in suite.rows):
        parser.error("--small: this suite has one size only")
    if options.write and options.small:
        parser.error("--write records the full sizes, so it cannot go with --small")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")
    try:
        options.only = re.compile(options.only or "", re.IGNORECASE)
    except re.error as error:
        parser.error(f"--only: {error}")
    return options


def open_seats(suite: Suite, options: argparse.Namespace) -> tuple[list[Seat], list[str]]:
    """Start one worker per library; a library that is not installed is omitted, and a note says so."""
    names = [name.strip() for name in options.libs.split(",") if name.strip()]
    if options.tuned and "torch" in names:
        names.insert(names.index("torch") + 1, "torch-tuned")
    if options.before and "flambeau" in names:
        names.insert(names.index("flambeau") + 1, "before")
    torch_python = options.torch_python or sys.executable
    seats, notes = [], []
    for name in names:
        if name == "flambeau":
            module = options.flambeau_module
            seat = Seat(name, module, torch_python if module == "torch" else sys.executable)
        elif name == "before" and options.before:
            seat = Seat(name, "flambeau", tree=os.path.abspath(options.before))
        elif name == "torch-jemalloc" and jemalloc() is None:
            notes.append("jemalloc not found: install it, or set FLAMBEAU_JEMALLOC to the library's file")
            continue
        elif name in TITLES and name.startswith("torch"):
            seat = Seat(name, "torch", torch_python)
        elif name == "numpy":
            seat = Seat(name, "numpy")
        else:
            raise SystemExit(f"--libs: unknown library {name!r}; known: {', '.join(TITLES)}")
        seat.threads = options.threads
        error = seat.start(suite.path)
        if error is None:
            seats.append(seat)
        elif name == "flambeau":
            close(seats)
            raise SystemExit(f"flambeau cannot be imported by {seat.python}: {error}\nBuild it first: make dev")
        elif "No module named" in error:
            notes.append(
                TORCH_HINT if seat.module == "torch" else f"{seat.title} not installed: pip install {seat.module}"
            )
        else:
            notes.append(f"{seat.title} left out: {error}")
    return seats, list(dict.fromkeys(notes))


def close(seats: list[Seat]) -> None:
    for seat in seats:
        seat.stop()


def run_row(suite: Suite, row: Row, seats: list[Seat], options: argparse.Namespace) -> Result:
    """All rounds of a row. The libraries take turns and every round starts with another one."""
    result = Result(row.group, row.name, UNITS[row.kind], best=options.best)
    first: dict[str, dict] = {}
    active = [seat for seat in seats if row.source(seat.name) is not None]
    for turn in range(options.rounds * MOST_ROUNDS if row.kind == "time" else 1):
        if turn >= options.rounds and not noisy(result):
            break
        shift = turn % max(1, len(active))
        for seat in active[shift:] + active[:shift]:
            if seat.name in result.errors:
                continue
            if row.kind == "peak":
                answer = peak(suite, row, seat)
            elif row.kind == "value":
                answer = seat.ask(suite.path, suite.patience, do="value", key=row.key)
            else:
                request = {"do": "time", "key": row.key, "target": options.target, "repeats": options.repeats}
                answer = seat.ask(suite.path, suite.patience, **request)
            if "error" in answer:
                result.errors[seat.name] = answer["error"]
                continue
            first.setdefault(seat.name, answer.get("result") or {})
            result.rounds.setdefault(seat.name, []).append(min(answer["times"]))
    clash = disagreement(first.get("flambeau"), first.get("torch"), row.check)
    if clash:
        result.errors.setdefault("flambeau", clash)
    return result


def noisy(result: Result) -> bool:
    """Whether the middle half of a library's rounds spreads over more than a tenth of its figure."""
    for seat, rounds in result.rounds.items():
        low, middle, high = quantiles(rounds, n=4) if len(rounds) > 1 else (0.0, 1.0, 0.0)
        if seat not in result.errors and high - low > middle / 10:
            return True
    return False


def peak(suite: Suite, row: Row, seat: Seat) -> dict:
    """Peak memory needs a process that has done nothing else."""
    alone = dataclasses.replace(seat, process=None)
    try:
        return alone.ask(suite.path, suite.patience, do="peak", key=row.key)
    finally:
        alone.stop()


def disagreement(ours: dict | None, theirs: dict | None, values: bool) -> str | None:
    """Why two first results are not the same work, or None. A fast wrong answer must not count as a win."""
    if not ours or not theirs:
        return None
    for what in ("shape", "dtype"):
        if ours[what] != theirs[what]:
            return f"result has {what} {ours[what]}, PyTorch's has {theirs[what]}"
    loose = 2e-2 if ours["dtype"] in ("bfloat16", "float16") else 1e-3
    if values and not math.isclose(ours["size"], theirs["size"], rel_tol=loose, abs_tol=1e-6):
        if not (math.isnan(ours["size"]) and math.isnan(theirs["size"])):
            return f"results differ: sum of magnitudes {ours['size']:.6g}, PyTorch's {theirs['size']:.6g}"
    return None


def busy_note() -> list[str]:
    """A warning when other programs hold the cores: figures of ops on several threads then say little."""
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * report.usable_cores():
        return [
            f"the machine was busy: load average {os.getloadavg()[0]:.1f} before the start; run again when it is quiet"
        ]
    return []


def progress(result: Result, seats: list[Seat]) -> None:
    figures = (
        f"{s.title} {'error' if s.name in result.errors else report.quantity(result.figure(s.name), result.unit)}"
        for s in seats
    )
    ratio = result.ratio()
    end = f"  {ratio:.2f} ×" if ratio is not None else ""
    print(f"{', '.join(figures)}{end}", file=sys.stderr, flush=True)


def about(seats: list[Seat], notes: list[str], options: argparse.Namespace) -> list[str]:
    """What was measured where and how."""
    figure = "best" if options.best else "median"
    versions = ", ".join(f"{s.title} {s.version} (Python {s.python_version})" for s in seats)
    lines = [
        f"- Machine: {report.machine()}",
        f"- Libraries: {versions}; {options.threads} {'thread' if options.threads == 1 else 'threads'} each",
        f"- How: a process per library, in turns, {figure} over at least {options.rounds} rounds of the best of "
        f"{options.repeats} repetitions; {datetime.date.today()}",
    ]
    if any(seat.name == "torch-tuned" for seat in seats):
        lines.append(
            "- PyTorch tuned: `inference_mode` and a malloc that never returns memory (`MALLOC_MMAP_MAX_=0` …)"
        )
    if any(seat.name == "before" for seat in seats):
        lines.append(f"- before: flambeau at {commit(options.before)}")
    return lines + [f"- {note}" for note in notes]


def commit(tree: str) -> str:
    """The commit of a work tree, for the record."""
    shown = subprocess.run(["git", "-C", tree, "log", "-1", "--format=%h, %cs"], capture_output=True, text=True)
    return shown.stdout.strip() or tree


def select(suite: Suite, options: argparse.Namespace) -> list[Row]:
    """The rows asked for. `--small` takes the small ones instead of the full ones."""
    return [row for row in suite.rows if options.only.search(row.key) and row.small == options.small]


def run(suite: Suite, options: argparse.Namespace) -> tuple[list[Result], str]:
    """Measure everything and write the section's text."""
    rows = select(suite, options)
    busy = busy_note()
    seats, notes = open_seats(suite, options)
    notes += busy
    postscript: list[str] = []
    try:
        if not seats:
            raise SystemExit("no library to measure: " + "; ".join(notes))
        results = []
        for place, row in enumerate(rows, 1):
            print(f"[{place}/{len(rows)}] {row.key}: ", end="", file=sys.stderr, flush=True)
            results.append(run_row(suite, row, seats, options))
            progress(results[-1], seats)
        if suite.after and seats[0].name == "flambeau":
            answer = seats[0].ask(suite.path, do="after")
            postscript = ["", "### After the run", "", "```", answer.get("text") or answer["error"], "```"]
    finally:
        close(seats)
    if suite.extra:
        more, remarks = suite.extra(options, seats)
        results += [result for result in more if options.only.search(f"{result.group}/{result.name}")]
        notes = remarks + notes
    if not results:
        raise SystemExit(f"no row matches --only {options.only.pattern!r}; see --list")
    text = report.section(suite.title, about(seats, notes, options), results, seats, suite.budgets)
    tables = ["", *suite.tables(results)] if suite.tables else []
    return results, text + "\n".join([*tables, *postscript, ""])


def main(suite: Suite, argv: list[str] | None = None) -> int:
    """The command line of a suite."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--worker"]:
        from harness.worker import serve

        serve(suite, argv[1], argv[2], int(argv[3]))
        return 0
    options = parse(suite, argv)
    if options.list:
        print("\n".join(row.key for row in select(suite, options)))
        return 0
    results, text = run(suite, options)
    print(text)
    if options.write:
        picture = suite.chart(results) if suite.chart else None
        text += f"\n{picture}\n" if picture else ""
        old = RESULTS.read_text() if RESULTS.exists() else "# Benchmark results\n"
        RESULTS.write_text(report.replace_section(old, suite.name, text))
    if options.plot:
        report.plot(results, suite.title, options.plot)
    return 0
