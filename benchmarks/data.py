"""How fast data is loaded: loaders with and without workers, tensors through queues, files, and what workers cost.

    python benchmarks/data.py [--quick] [--small] [--only PATTERN] [--torch-python PATH] [--write]

About ten minutes with three rounds. Files of 1 GB go to a memory disk (/dev/shm; 4 GB there, 10 GB of memory in all),
so that the table shows what the libraries cost and not the disk; files on the disk, of 64 MB, go to $TMPDIR or /tmp.
"""

from __future__ import annotations

import os
import sys
import tempfile

from compare import main
from harness.report import Result, geomean, ratios
from harness.rows import Budget, Suite
from rows import loading

suite = Suite(
    "data",
    __file__,
    "Data: loaders, queues and files",
    target_seconds=0.05,
    libs=("flambeau", "torch"),
    patience=600,
    rounds=3,
    slow=0.3,
)

small_samples, large_samples = suite.group("DataLoader, small samples"), suite.group("DataLoader, large samples")
starts = suite.group("starting workers")
memory = suite.group("megabytes of its own per worker", kind="value")
queues, files = suite.group("tensor through a Queue and a number back"), suite.group("files on a memory disk")
disk = suite.group("files on the disk")
# PyTorch's save returns before anything is on the disk: a row to know, but no contest.
APART = "for the record: waiting for the disk against not waiting"
apart = suite.group(APART)

for small in (False, True):
    mark = ", small" if small else ""

    def task(name, *arguments, **options):
        given = ", ".join([*map(repr, arguments), *(f"{key}={value!r}" for key, value in options.items())])
        return f"from rows import loading; task = loading.{name}(lib, {given})"

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

    own = "'.safetensors' if lib.__name__ == 'flambeau' else '.pt'"
    megabytes, fewer = (16, 4) if small else (1000, 64)
    for ending, words in ((own, ""), ("'.pt'", ", .pt")):
        unsaved = f"from rows import loading; task = loading.Files(lib, {megabytes}, {ending})"
        saved = unsaved[:-1] + ", saved=True)"
        size = f"{megabytes} MB{mark}"
        files(f"save{words}, {size}", "task.save()", setup=unsaved, small=small)
        files(f"load{words}, {size}", "task.load()", setup=saved, small=small)
        files(f"load mapped{words}, {size}", "task.load(mmap=True)", setup=saved, small=small)
        files(f"load mapped and sum{words}, {size}", "task.load_and_use()", setup=saved, small=small)
        unsaved, size = f"from rows import loading; task = loading.Files(lib, {fewer}, {ending}, disk=True)", f"{fewer} MB{mark}"
        name = f"save, replaced in one step and on the disk{words}, {size}"
        disk(name, "task.save_for_good()", setup=unsaved, small=small)
    apart(f"save, the plain call, {size}", "task.save()", setup=unsaved, small=small)


def contest(results: list[Result]) -> list[Result]:
    """The rows in which both libraries do the same."""
    return [result for result in results if result.group != APART]


def worst(results: list[Result]) -> float | None:
    """The row in which flambeau is furthest behind, or least ahead."""
    return min(ratios(contest(results)), default=None)


suite.budgets = [
    Budget("all rows, geometric mean", lambda results: geomean(ratios(contest(results))), at_least=2.0),
    Budget("all rows, worst", worst, at_least=1.0),
]

if __name__ == "__main__":
    if "--worker" in sys.argv:
        sys.exit(main(suite))
    memory_disk = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="flambeau-benchmark-") as folder,
        tempfile.TemporaryDirectory(prefix="flambeau-benchmark-", dir=memory_disk) as in_memory,
    ):
        os.environ.update({loading.FOLDER: folder, loading.MEMORY_FOLDER: in_memory})
        sys.exit(main(suite))
