"""Accelerators that compute on this processor, against the CPU backend on the same cores.

python benchmarks/accelerator.py [--quick] [--only PATTERN] [--write]

A row's value is the speed of an accelerator as a share of the CPU backend's: processor time of both, the least of short
runs in turns, so that other programs on the machine and threads that sleep do not count. Launches are microseconds of the
host for one op with a tensor of 4 × 4, and for the driver's call alone (clEnqueueNDRangeKernel). The last group counts what
1,000 shapes leave behind.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from compare import main
from harness.report import Result, geomean
from harness.rows import Budget, Suite

DEVICES = ("opencl", "sim")
ROUNDS = 7
suite = Suite(
    "accelerator",
    __file__,
    "Accelerators on this processor",
    libs=("flambeau",),
    patience=1800,
)

# Group, name, statement, shapes of a, b and c, and whether a gradient is taken.
OPS: tuple[tuple[str, str, str, tuple[tuple[int, ...], ...]], ...] = (
    ("elementwise", "a + b", "a + b", ((2048, 2048), (2048, 2048))),
    ("elementwise", "a * row", "a * b", ((2048, 2048), (2048,))),
    ("elementwise", "exp", "a.exp()", ((2048, 2048),)),
    ("elementwise", "tanh", "a.tanh()", ((2048, 2048),)),
    ("elementwise", "relu", "a.relu()", ((2048, 2048),)),
    ("elementwise", "where", "lib.where(a > 0, a, b)", ((2048, 2048), (2048, 2048))),
    ("reductions", "sum", "a.sum()", ((2048, 2048),)),
    ("reductions", "sum along rows", "a.sum(1)", ((2048, 2048),)),
    ("reductions", "sum along columns", "a.sum(0)", ((2048, 2048),)),
    ("reductions", "amax along rows", "a.amax(1)", ((2048, 2048),)),
    ("reductions", "var along rows", "a.var(1)", ((2048, 2048),)),
    ("products", "1024 × 1024", "a @ b", ((1024, 1024), (1024, 1024))),
    ("products", "1024 × 1024, transposed", "a @ b.mT", ((1024, 1024), (1024, 1024))),
    ("products", "1000 × 777 × 333", "a @ b", ((1000, 777), (777, 333))),
    ("products", "64 of 128 × 64 × 128", "a @ b", ((64, 128, 64), (64, 64, 128))),
    ("products", "linear, 64 rows", "F.linear(a, b)", ((64, 1024), (1024, 1024))),
    ("convolutions", "3 × 3, 64 channels", "F.conv2d(a, b, padding=1)", ((4, 64, 56, 56), (64, 64, 3, 3))),
    ("convolutions", "3 × 3, 256 channels", "F.conv2d(a, b, padding=1)", ((4, 256, 14, 14), (256, 256, 3, 3))),
    ("convolutions", "1 × 1, 256 to 128", "F.conv2d(a, b)", ((4, 256, 28, 28), (128, 256, 1, 1))),
    ("convolutions", "7 × 7, 3 to 64", "F.conv2d(a, b, stride=2, padding=3)", ((4, 3, 112, 112), (64, 3, 7, 7))),
)
MODEL = "ResNet-50, training step"


def interleaved(cpu: Callable[[], Any], other: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Processor time of `cpu` ÷ that of `other`, the least of each."""
    best = [float("inf")] * 2
    for call in (cpu, other):
        call()
    for _ in range(rounds):
        for place, call in enumerate((cpu, other)):
            start = time.process_time()
            call()
            best[place] = min(best[place], time.process_time() - start)
    return best[0] / best[1]


def exists(lib: Any, device: str) -> None:
    """Raises where there is no such device, with the reason."""
    lib.zeros(1, device=device).cpu()


def share(lib: Any, device: str, statement: str, shapes: tuple[tuple[int, ...], ...]) -> float:
    """The speed of a statement on `device`, where that of the CPU is 1."""
    exists(lib, device)
    lib.manual_seed(0)
    given = [lib.randn(*shape) for shape in shapes]
    code = compile(statement, statement, "eval")
    calls = []
    for where in ("cpu", device):
        names = {"lib": lib, "F": lib.nn.functional, **dict(zip("abc", (t.to(where) for t in given), strict=False))}

        def call(names=names, where=where) -> None:
            for _ in range(3):
                eval(code, names)
            if where != "cpu":
                lib.accelerator.synchronize(where)

        calls.append(call)
    return interleaved(calls[0], calls[1])


def launch(lib: Any, device: str, what: str, calls: int = 200) -> float:
    """Microseconds that the host takes for one op, or that the driver's own call to launch its kernel takes."""
    exists(lib, device)
    a, b = (lib.randn(4, 4).to(device) for _ in range(2))
    out = lib.empty_like(a)
    where = lib.device(device, 0)
    best = {"op": float("inf"), "bare": float("inf")}
    for _ in range(30):
        lib.accelerator.synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            lib.add(a, b, out=out)
        best["op"] = min(best["op"], time.perf_counter() - start)
        lib.accelerator.synchronize(device)
        best["bare"] = min(best["bare"], sum(lib._C.accelerator_bare_launch(where) for _ in range(calls)))
    return (best["op"] - best["bare"] if what == "over" else best[what]) / calls * 1e6


def training(lib: Any, device: str) -> float:
    """The speed of a training step."""
    exists(lib, device)
    from models.training import Training

    tasks = [Training(lib, "resnet"), Training(lib, "resnet")]
    tasks[1].net.to(device)
    tasks[1].inputs = [x.to(device) for x in tasks[1].inputs]
    tasks[1].targets = tuple(t.to(device) for t in tasks[1].targets)
    tasks[1].optimiser = tasks[1].model.optimiser(lib, tasks[1].net)
    return interleaved(lambda: float(tasks[0].step()), lambda: float(tasks[1].step()), rounds=3)


def left_behind(lib: Any, device: str, what: str) -> float:
    """What a second thousand of shapes adds to what a first one needed: programs, or megabytes of this process."""
    exists(lib, device)

    def work(first: int) -> None:
        for n in range(first, first + 1000):
            x = lib.randn(8 + n % 50, 30 + n // 50, device=device)
            y = ((x @ x.mT).softmax(1).sum(0) + x.var()).relu()
            lib.cat((y, y[1:]))[::2].sum().item()

    def count() -> float:
        if what == "programs":
            return len(lib._C.accelerator_sources())
        if what == "reserved":
            return lib.accelerator.memory_reserved(device) / 1e6
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    work(0)
    work(0)
    before = count()
    work(1000)
    return count() - before


for kind in DEVICES:
    rows = suite.group(f"{kind}: speed, the CPU's is 1", kind="value")
    for group, name, statement, shapes in OPS:
        rows(
            f"{group}: {name}",
            f"measure.share(lib, {kind!r}, {statement!r}, {shapes!r})",
            setup="import accelerator as measure",
            check=False,
        )
    rows(MODEL, f"measure.training(lib, {kind!r})", setup="import accelerator as measure", check=False)
    others = suite.group(f"{kind}: launches and 1,000 more shapes", kind="value")
    for what, text in (
        ("op", "µs for one op"),
        ("bare", "µs of the driver's call"),
        ("over", "µs above the driver's call"),
    ):
        others(text, f"measure.launch(lib, {kind!r}, {what!r})", setup="import accelerator as measure", check=False)
    for what, text in (
        ("programs", "programs"),
        ("reserved", "MB of device memory"),
        ("resident", "MB of the process"),
    ):
        others(
            f"{text} more",
            f"measure.left_behind(lib, {kind!r}, {what!r})",
            setup="import accelerator as measure",
            check=False,
        )


def figures(results: list[Result], group: str, name: str) -> list[float]:
    found = [r.figure("flambeau") for r in results if r.group.startswith(group) and r.name.startswith(name)]
    return [value for value in found if value is not None]


def mean_of(device: str, name: str) -> Callable[[list[Result]], float | None]:
    return lambda results: geomean(figures(results, f"{device}: speed", name))


def largest_of(device: str, name: str) -> Callable[[list[Result]], float | None]:
    return lambda results: max(figures(results, f"{device}: launches", name), default=None)


LIMITS = {"elementwise": 0.7, "reductions": 0.7, "products": 0.6, "convolutions": 0.4, MODEL: 0.35}
for kind in DEVICES:
    for group, limit in LIMITS.items():
        suite.budgets.append(Budget(f"{kind}: {group}, mean", mean_of(kind, group), at_least=limit))
    suite.budgets.append(
        Budget(f"{kind}: a launch above the driver's call", largest_of(kind, "µs above"), at_most=5, unit="µs")
    )
    suite.budgets.append(Budget(f"{kind}: programs of new shapes", largest_of(kind, "programs"), at_most=0, unit=""))


def tables(results: list[Result]) -> list[str]:
    """The budgets: with one library in the table, the harness shows none of its own."""
    from harness.report import budget_table

    return ["### Budgets", "", *budget_table(suite.budgets, results)]


suite.tables = tables
if __name__ == "__main__":
    sys.exit(main(suite))
