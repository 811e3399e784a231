"""How fast collectives are between processes of one host, against PyTorch's gloo.

    python benchmarks/distributed.py [--quick] [--only PATTERN] [--torch-python PATH] [--write]

A row is a batch of calls on 2 or 4 ranks with one thread each. Its size is that of the whole tensor: what all_reduce and
broadcast work on, what all_gather gives and what reduce_scatter takes. About 4 GB of memory.
"""

from __future__ import annotations

import sys

from compare import main
from harness.report import geomean, ratios
from harness.rows import Budget, Suite

suite = Suite(
    "distributed",
    __file__,
    "Distributed: collectives on one host",
    target_seconds=0.05,
    libs=("flambeau", "torch"),
    patience=300,
    rounds=3,
    slow=0.3,
)

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
SIZES = (("4 KB", 4 << 10, 200), ("64 KB", 64 << 10, 100), ("1 MB", 1 << 20, 20), ("16 MB", 16 << 20, 2), ("256 MB", 256 << 20, 1))
for ranks in (2, 4):
    for op in OPS:
        group = suite.group(f"{op}, {ranks} ranks")
        for text, nbytes, repeats in SIZES:
            setup = f"from rows.collectives import Collective; task = Collective(lib, {op!r}, {nbytes}, {ranks}, {repeats})"
            group(f"{text}, {repeats} call{'s' * (repeats > 1)}", "task.batch()", setup=setup, check=False)


def mean(results):
    found = ratios(results, "torch")
    return geomean(found) if found else None


def worst(results):
    found = ratios(results, "torch")
    return min(found) if found else None


suite.budgets = [
    Budget("collectives, geometric mean of PyTorch's time by ours", mean, at_least=1.5),
    Budget("slowest of them", worst, at_least=1.0),
]

if __name__ == "__main__":
    sys.exit(main(suite))
