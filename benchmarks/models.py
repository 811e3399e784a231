"""Speed of training and inference of whole models (the paper's six, a GPT-2 and a vision transformer), and the memory they need.

    python benchmarks/models.py [--small] [--only PATTERN] [--torch-python PATH] [--write]

PyTorch has several columns: as it is, in channels_last order, compiled, and on jemalloc (found by the system's
loader, or in the file that FLAMBEAU_JEMALLOC names). All processes keep their models at once: the full sizes need about
14 GB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import models
from compare import main
from harness.process import TITLES
from harness.report import Result, geomean, quantity, table, times
from harness.rows import Budget, Suite

DEFAULTS = ("torch", "torch-channels-last", "torch-compile")  # what PyTorch offers without a second malloc
CONVOLUTIONAL = ("alexnet", "vgg", "resnet", "mobilenet")
MATRIX = 2048  # the product that tells how much arithmetic the machine does in a second
CHART = Path(__file__).with_name("models.png")

suite = Suite(
    "models",
    __file__,
    "Models: training, inference and memory",
    target_seconds=0.05,
    libs=("flambeau", *DEFAULTS, "torch-jemalloc"),
    rounds=3,
    slow=0.5,
    patience=900,
)


def title(name: str, small: bool) -> str:
    """The row of a model: "AlexNet, 32 images"."""
    model = models.load(name)
    size = model.SMALL if small else model.FULL
    return f"{model.TITLE}, {model.items(**size)} {model.ITEMS}" + (", small" if small else "")


training, inference = suite.group("training step"), suite.group("inference")
peaks = suite.group("peak memory of two training steps", kind="peak")
losses = suite.group("sum of the losses of three steps", kind="value")
for name in models.NAMES:
    layout = () if hasattr(models.load(name), "PATCH") or name in CONVOLUTIONAL else ("torch-channels-last",)
    for small in (False, True):
        row = title(name, small)
        setup = f"from models.training import Training; task = Training(lib, {name!r}, {small}, seat"
        training(row, "task.step()", setup=setup + ")", check=False, skip=layout, small=small)
        inference(row, "task.infer()", setup=setup + ")", skip=layout, small=small)
        # A compiler's own memory is not the model's, and jemalloc keeps what it is told to keep.
        rest = (*layout, "torch-compile", "torch-jemalloc")
        peaks(row, "task.step(); task.step()", setup=setup + ")", skip=rest, small=small)
        losses(row, "sum(task.losses(3))", setup=setup + ", dropout=False)", skip=rest, small=small)

limit = suite.group("arithmetic")
for small in (False, True):
    factors = f"a = lib.randn({MATRIX}, {MATRIX}); b = lib.randn({MATRIX}, {MATRIX})"
    others = ("torch-channels-last", "torch-compile", "torch-jemalloc")
    words = f"{MATRIX} × {MATRIX} product" + (", small" if small else "")
    limit(words, "a @ b", setup=factors, check=False, skip=others, small=small)


def steps(results: list[Result], group: str = "training step") -> dict[str, Result]:
    """The measured rows of a group, by the name of the model."""
    names = {title(name, small): name for name in models.NAMES for small in (False, True)}
    return {names[r.name]: r for r in results if r.group == group}


def best(result: Result, seats: tuple[str, ...] = DEFAULTS) -> float | None:
    """How many times faster flambeau is than the fastest of these columns."""
    return min((ratio for seat in seats if (ratio := result.ratio(seat)) is not None), default=None)


def against(results: list[Result], seats: tuple[str, ...], names: tuple[str, ...] = models.NAMES) -> list[float]:
    """A ratio for each of the models at full size; nothing when one is missing, since a budget speaks of all."""
    rows = {row.name: best(row, seats) for row in steps(results).values()}
    found = [ratio for name in names if (ratio := rows.get(title(name, False))) is not None]
    return found if len(found) == len(names) else []


def memory_share(results: list[Result]) -> float | None:
    """Our peak as a share of PyTorch's, in the worst model."""
    rows = steps(results, "peak memory of two training steps").items()
    shares = [1 / ratio for name, r in rows if r.name == title(name, False) and (ratio := r.ratio()) is not None]
    return max(shares, default=None)


def above_arithmetic(name: str) -> Callable[[list[Result]], float | None]:
    """How a model's training time compares with that of its multiplications alone, at the speed of a large product."""

    def share(results: list[Result]) -> float | None:
        product = next((r.figure("flambeau") for r in results if r.group == "arithmetic"), None)
        row = steps(results).get(name)
        seconds = row.figure("flambeau") if row is not None and row.name == title(name, False) else None
        if product is None or seconds is None:
            return None
        model = models.load(name)
        # Backward is twice forward: one product for the inputs' gradients and one for the weights'.
        return seconds / (3 * model.MULTIPLICATIONS * model.items(**model.FULL) / MATRIX**3 * product)

    return share


def throughput(results: list[Result]) -> list[str]:
    """What a reader compares first: images, tokens or samples per second, per column."""
    rows = steps(results)
    seats = [seat for seat in TITLES if any(seat in row.rounds for row in rows.values())]
    body = []
    for name, row in rows.items():
        model = models.load(name)
        items = model.items(**(model.FULL if row.name == title(name, False) else model.SMALL))
        rates = [None if (seconds := row.figure(seat)) is None else items / seconds for seat in seats]
        body.append([f"{model.TITLE}, {model.ITEMS}/s", *(quantity(r, "").strip() for r in rates), times(best(row))])
    head = ["training", *(TITLES[seat] for seat in seats), "vs the best PyTorch"]
    return ["### Throughput", "", *table(head, body)] if body else []


def chart(results: list[Result]) -> str | None:
    """Bars per model: how fast each way of training is, PyTorch's default being 1. None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no chart: pip install matplotlib", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {name: row for name, row in steps(results).items() if row.figure("torch") is not None}
    seats = [seat for seat in TITLES if any(row.figure(seat) is not None for row in rows.values())]
    figure, axes = pyplot.subplots(figsize=(10, 4.5))
    for place, seat in enumerate(seats):
        known = [(i, row) for i, row in enumerate(rows.values()) if row.figure(seat) is not None]
        offsets = [i + (place - (len(seats) - 1) / 2) * 0.8 / len(seats) for i, _ in known]
        speeds = [row.figure("torch") / row.figure(seat) for _, row in known]
        label = TITLES[seat] if seat in ("flambeau", "torch") else f"PyTorch {TITLES[seat]}"
        axes.bar(offsets, speeds, width=0.8 / len(seats), label=label)
    axes.set_xticks(range(len(rows)), [models.load(name).TITLE for name in rows])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_ylabel("training speed, PyTorch = 1")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(CHART, dpi=120)
    pyplot.close(figure)
    return f"![Training speed of every model, PyTorch's default being 1]({CHART.name})"


suite.tables, suite.chart = throughput, chart
suite.budgets = [
    Budget(
        "training, the paper's six against PyTorch's best default mode, worst",
        lambda results: min(against(results, DEFAULTS, models.PAPER), default=None),
        at_least=1.15,
    ),
    Budget(
        "training, the paper's six against PyTorch's best default mode, geometric mean",
        lambda results: geomean(against(results, DEFAULTS, models.PAPER)),
        at_least=1.5,
    ),
    Budget(
        "training, every model against PyTorch's best default mode, worst",
        lambda results: min(against(results, DEFAULTS), default=None),
        at_least=1.15,
    ),
    Budget(
        "training, every model against PyTorch on jemalloc, worst",
        lambda results: min(against(results, ("torch-jemalloc",)), default=None),
        at_least=1.0,
    ),
    Budget("peak memory of a training step against PyTorch's, worst", memory_share, at_most=1.0),
    *(
        Budget(f"{models.load(name).TITLE}: time over that of its multiplications alone", above_arithmetic(name), at_most=1.5)
        for name in CONVOLUTIONAL
    ),
]

if __name__ == "__main__":
    sys.exit(main(suite))
