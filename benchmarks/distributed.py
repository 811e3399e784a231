"""How fast several processes communicate and train, against PyTorch's gloo, raw MPI and a process alone.

    python benchmarks/distributed.py [--quick] [--only PATTERN] [--torch-python PATH] [--write]

A row of collectives is a batch of calls on 2 or 4 ranks with one thread each. Its size is that of the whole tensor: what
all_reduce and broadcast work on, what all_gather gives and what reduce_scatter takes. Rows of training are a step on two
ranks with one thread each. Those of two hosts need root, ip and tc. About 6 GB of memory and ten minutes.
"""

from __future__ import annotations

import sys

from compare import main
from harness.report import geomean, ratios
from harness.rows import Budget, Suite

suite = Suite(
    "distributed",
    __file__,
    "Distributed: several processes",
    target_seconds=0.05,
    libs=("flambeau", "torch"),
    patience=400,
    rounds=3,
    slow=0.3,
)

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
SIZES = (("4 KB", 4 << 10, 200), ("64 KB", 64 << 10, 100), ("1 MB", 1 << 20, 20), ("16 MB", 16 << 20, 2), ("256 MB", 256 << 20, 1))
for ranks in (2, 4):
    for op in OPS:
        group = suite.group(f"{op}, {ranks} ranks")
        for text, nbytes, repeats in SIZES:
            setup = f"from rows.ranks import Ranks; task = Ranks(lib, {ranks}, 'Calls', {op!r}, {nbytes}, {repeats})"
            group(f"{text}, {repeats} call{'s' * (repeats > 1)}", "task.run('batch')", setup=setup, check=False)

MODELS = {"ResNet-18": "resnet18", "GPT-2 of 6 blocks and width 512": "gpt", "NCF": "ncf"}
training = suite.group("training step with DistributedDataParallel, 2 ranks")
for title, name in MODELS.items():
    setup = f"from rows.ranks import Ranks; task = Ranks(lib, 2, 'DataParallel', {name!r})"
    training(title, "task.run('step')", setup=setup, check=False)

overhead = suite.group("time of a data-parallel step beyond a local one and the collective, in parts of the local one", kind="value")
for title, name in MODELS.items():
    setup = f"from rows.ranks import Ranks; task = Ranks(lib, 2, 'DataParallel', {name!r})"
    overhead(title, "task.run('overhead')", setup=setup, check=False, skip=("torch",))

peaks = suite.group("peak memory of a rank under fully_shard, in parts of that under DistributedDataParallel", kind="value")
for ranks in (2, 4):
    setup = f"from rows.ranks import Ranks; task = Ranks(lib, {ranks}, 'Peak')"
    peaks(f"GPT-2 of 12 blocks and width 512, {ranks} ranks", "task.run('share')", setup=setup, check=False, skip=("torch",))

against = suite.group("time of raw MPI by that of the own engine", kind="value")
for ranks in (2, 4):
    for op in OPS:
        for text, nbytes, _ in SIZES[:-1]:
            stmt = f"against_mpi({op!r}, {nbytes}, {ranks})"
            against(f"{op}, {ranks} ranks, {text}", stmt, setup="from rows.ranks import against_mpi", check=False, skip=("torch",))

link = suite.group("two hosts and a link of 1 Gbit/s between them, ResNet-18", kind="value")
LINK = {
    "hidden()": "share of the communication that backward hides",
    "compressed()": "bytes sent with bfloat16 compression, in parts of those without",
}
for call, title in LINK.items():
    link(title, call, setup=f"from rows.link import {call[:-2]}", check=False, skip=("torch",))


def of(results, start):
    return [result for result in results if result.group.startswith(start)]


def values(results, start):
    return [figure for result in of(results, start) if (figure := result.figure("flambeau")) is not None]


def calls(results):
    return [result for result in results if result.group.startswith(OPS)]


def over(function, choose):
    """A budget's value: None without measurements."""

    def value(results):
        found = choose(results)
        return function(found) if found else None

    return value


def named(results, start, word):
    return [r.figure("flambeau") for r in of(results, start) if word in r.name and r.figure("flambeau") is not None]


suite.budgets = [
    Budget("collectives, geometric mean of PyTorch's time by ours", over(geomean, lambda r: ratios(calls(r), "torch")), at_least=1.5),
    Budget("slowest of them", over(min, lambda r: ratios(calls(r), "torch")), at_least=1.0),
    Budget("data-parallel training, slowest model", over(min, lambda r: ratios(of(r, "training"), "torch")), at_least=1.5),
    Budget("overhead of data-parallel steps, largest", over(max, lambda r: values(r, "time of a data")), at_most=0.05, unit=""),
    Budget("peak memory under fully_shard, 2 ranks", over(max, lambda r: named(r, "peak", "2 ranks")), at_most=0.6),
    Budget("peak memory under fully_shard, 4 ranks", over(max, lambda r: named(r, "peak", "4 ranks")), at_most=0.35),
    Budget("communication hidden at 1 Gbit/s", over(min, lambda r: named(r, "two hosts", "hides")), at_least=0.5, unit=""),
    Budget("bytes with bfloat16 compression", over(max, lambda r: named(r, "two hosts", "bytes")), at_most=0.52),
    Budget("raw MPI's time by ours, geometric mean", over(geomean, lambda r: values(r, "time of raw MPI")), at_least=0.9),
]

if __name__ == "__main__":
    sys.exit(main(suite))
