"""How fast data comes: loaders with and without workers, tensors through queues, files, and what workers cost.

    python benchmarks/data.py [--small] [--only PATTERN] [--torch-python PATH] [--write]

Files go to a folder of their own in $TMPDIR (or /tmp); the full sizes need 4 GB there and 6 GB of memory.
"""

from __future__ import annotations

import os
import sys
import tempfile

import loading
from compare import main
from harness.report import Result, geomean, ratios
from harness.rows import Budget, Suite

suite = Suite(
    "data",
    __file__,
    "Data: loaders, queues and files",
    target_seconds=0.05,
    libs=("flambeau", "torch"),
    patience=600,
)

small_samples, large_samples = suite.group("DataLoader, small samples"), suite.group("DataLoader, large samples")
starts = suite.group("starting workers")
memory = suite.group("megabytes of its own per worker", kind="value")
queues, files = suite.group("tensor through a Queue and a number back"), suite.group("files")

for small in (False, True):
    mark = ", small" if small else ""

    def task(name, *arguments, **options):
        given = ", ".join([*map(repr, arguments), *(f"{key}={value!r}" for key, value in options.items())])
        return f"import loading; task = loading.{name}(lib, {given})"

    for kind, group, count in (("small", small_samples, 4096), ("large", large_samples, 256)):
        count = count // 16 if small else count
        for workers in (0, 1, 2, 4):
            name = f"{count} samples, {workers} worker{'s' * (workers != 1)}{mark}"
            group(name, "task.epoch()", setup=task("Loading", kind, count, workers), small=small)
    count = 4096 if small else 65536
    small_samples(f"{count} rows of a TensorDataset, 0 workers{mark}", "task.epoch()", setup=task("Loading", "rows", count, 0), small=small)

    for method in ("fork",) if small else ("fork", "spawn"):
        options = {"method": method, "stay": False}
        name = f"2 workers by {method}, first batch, end{mark}"
        starts(name, "task.once()", setup=task("Loading", "small", 4096, 2, **options), small=small)
        name = f"small samples, {method}{mark}"
        memory(name, "task.memory()", setup=task("Loading", "small", 4096, 2, **options), check=False, small=small)

    for text, count in (("1 KB", 256), ("64 KB", 1 << 14), ("1 MB", 1 << 18), ("10 MB", 2_500_000), ("100 MB", 25_000_000)):
        if not small or count < 1 << 18:
            queues(text + mark, "task.round_trip()", setup=task("Passing", count), small=small)

    megabytes = 16 if small else 1000
    size = f"{megabytes} MB{mark}"
    own = "'.safetensors' if lib.__name__ == 'flambeau' else '.pt'"
    for ending, words in ((own, ""), ("'.pt'", ", .pt")):
        unsaved = f"import loading; task = loading.Files(lib, {megabytes}, {ending})"
        saved = unsaved[:-1] + ", saved=True)"
        files(f"save, on the disk when it returns (PyTorch and fsync){words}, {size}", "task.save_to_disk()", setup=unsaved, small=small)
        files(f"load{words}, {size}", "task.load()", setup=saved, small=small)
        files(f"load mapped{words}, {size}", "task.load(mmap=True)", setup=saved, small=small)
    unsaved = f"import loading; task = loading.Files(lib, {megabytes}, {own})"
    files(f"save, the plain call (only flambeau waits for the disk), {size}", "task.save()", setup=unsaved, small=small)
    saved = unsaved[:-1] + ", saved=True)"
    files(f"load mapped and sum, {size}", "task.load_and_use()", setup=saved, small=small)


def worst(results: list[Result]) -> float | None:
    """The row in which flambeau is furthest behind, or least ahead."""
    return min(ratios(results), default=None)


suite.budgets = [
    Budget("all rows, geometric mean", lambda results: geomean(ratios(results)), at_least=2.0),
    Budget("all rows, worst", worst, at_least=1.0),
]

if __name__ == "__main__":
    if "--worker" in sys.argv:
        sys.exit(main(suite))
    with tempfile.TemporaryDirectory(prefix="flambeau-benchmark-") as folder:
        os.environ[loading.FOLDER] = folder
        sys.exit(main(suite))
