"""How training scales to thousands of processes, by a model whose parameters are measured here.

    python benchmarks/scale.py [--write] [--measure]

Collectives follow LogGP: a message of n bytes takes L + o + n G, a ring over p processes 2 (p - 1) steps of n / p bytes for a
sum everywhere and p - 1 steps for gathering, a tree log2(p) steps. Within a host the parameters are those of the shared
memory of this machine, between hosts those of a network that --latency and --bandwidth describe. --measure fits the former
anew. Nothing here is a measurement of many hosts: RESULTS.md lists the assumptions.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from harness.report import replace_section, table

HERE = Path(__file__).parent
CHART = HERE / "scale.png"
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 10_000)


@dataclass(frozen=True)
class Link:
    """One kind of connection: seconds before the first byte arrives, and seconds per byte."""

    latency: float
    per_byte: float


@dataclass(frozen=True)
class Cluster:
    """Hosts of some processes each."""

    inside: Link
    between: Link
    per_host: int
    flops: float  # of one process


@dataclass(frozen=True)
class Model:
    """A transformer: bytes and work of a step."""

    parameters: float
    layers: int
    width: int
    batch: float  # tokens of a step, of all processes together

    def work(self, processes: int) -> float:
        """Floating-point operations of a process in forward and backward."""
        return 6 * self.parameters * self.batch / processes


def fit(points: list[tuple[int, float]], ranks: int) -> Link:
    """The latency of the smallest all_reduce and the time per byte of the largest, which no cache holds."""
    steps = 2 * (ranks - 1)
    (_, least), (nbytes, most) = points[0], points[-1]
    return Link(least / steps, (most - least) / (steps * nbytes / ranks))


# ---- collectives -------------------------------------------------------------------------------------------------------


def ring(link: Link, processes: int, nbytes: float, rounds: int) -> float:
    """`rounds` times p - 1 steps, each with a part of the bytes."""
    return rounds * (processes - 1) * (link.latency + nbytes / processes * link.per_byte)


def tree(link: Link, processes: int, nbytes: float) -> float:
    """Up a binary tree and down again."""
    return 2 * math.ceil(math.log2(processes)) * (link.latency + nbytes * link.per_byte) if processes > 1 else 0.0


def all_reduce(cluster: Cluster, processes: int, nbytes: float) -> float:
    """Within the hosts, then between them by what is faster, a ring or a tree, then within the hosts again."""
    local = min(processes, cluster.per_host)
    hosts = math.ceil(processes / local)
    inside = ring(cluster.inside, local, nbytes, 2)
    between = min(ring(cluster.between, hosts, nbytes, 2), tree(cluster.between, hosts, nbytes)) if hosts > 1 else 0.0
    return inside + between


def gather(cluster: Cluster, processes: int, nbytes: float) -> float:
    """all_gather of `nbytes` in all, and reduce_scatter, which takes as long."""
    local = min(processes, cluster.per_host)
    hosts = math.ceil(processes / local)
    return ring(cluster.inside, local, nbytes, 1) + (ring(cluster.between, hosts, nbytes, 1) if hosts > 1 else 0.0)


# ---- ways to train -----------------------------------------------------------------------------------------------------


def data_parallel(model: Model, cluster: Cluster, processes: int, bucket: float = 25e6) -> float:
    """Seconds of a step: buckets travel while the rest of backward runs; the last one cannot."""
    compute = model.work(processes) / cluster.flops
    nbytes = 4 * model.parameters
    count = max(1, math.ceil(nbytes / bucket))
    each = all_reduce(cluster, processes, nbytes / count)
    hidden = min(compute * 2 / 3, each * (count - 1))
    return compute + each * count - hidden


def sharded(model: Model, cluster: Cluster, processes: int) -> float:
    """Seconds of a step of fully_shard: each layer is gathered twice and its gradient reduced once, beside computation."""
    compute = model.work(processes) / cluster.flops
    layer = 4 * model.parameters / model.layers
    each = gather(cluster, processes, layer)
    forward, backward = compute / 3 / model.layers, compute * 2 / 3 / model.layers
    step = max(forward, each) + max(backward, 2 * each)
    return each + model.layers * step


def mesh(model: Model, cluster: Cluster, processes: int) -> float:
    """Layers cut over the processes of a host (two sums of activations per layer and direction), fully_shard between hosts."""
    local = min(processes, cluster.per_host)
    if processes % local:
        return math.inf  # hosts would be used in part
    hosts = processes // local
    part = replace(model, parameters=model.parameters / local)
    activations = 4.0 * model.batch / hosts * model.width
    return sharded(part, replace(cluster, per_host=1), hosts) + 4 * model.layers * ring(cluster.inside, local, activations, 2)


WAYS = {"DDP": data_parallel, "FSDP": sharded, "2-d mesh": mesh}


def efficiency(way: str, model: Model, cluster: Cluster, processes: int) -> float:
    """Speed per process, in parts of that of one process that communicates with none."""
    return model.work(processes) / cluster.flops / WAYS[way](model, cluster, processes)


def scaling_stops(way: str, model: Model, cluster: Cluster, limit: float = 0.5) -> int | None:
    """The first number of processes at which less than `limit` of the speed is left; None up to 10,000."""
    return next((p for p in SIZES if efficiency(way, model, cluster, p) < limit), None)


# ---- this machine ------------------------------------------------------------------------------------------------------


# all_reduce on two processes of a machine with two cores, on which other programs ran (bytes, seconds).
MEASURED = [(4096, 36e-6), (65_536, 131e-6), (1 << 20, 717e-6), (16 << 20, 10.447e-3), (64 << 20, 39.941e-3)]
FLOPS = 5.4e10  # float32, of one core in products of matrices of 1024 × 1024


def measure(runs: int = 5) -> list[tuple[int, float]]:
    """all_reduce on two processes here, the best of some runs: other programs only ever add time."""
    sizes = ",".join(str(n) for n, _ in MEASURED)
    command = [sys.executable, "-m", "flambeau.distributed.benchmark", "--ops=all_reduce", f"--sizes={sizes}"]
    best = [math.inf] * len(MEASURED)
    for _ in range(runs):
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        times = [float(re.search(r"([\d.]+) us", line)[1]) * 1e-6 for line in lines]
        best = [min(pair) for pair in zip(best, times, strict=True)]
    return [(n, seconds) for (n, _), seconds in zip(MEASURED, best, strict=True)]


MODELS = {
    "125 M parameters": Model(125e6, 12, 768, 0.5e6),
    "1.3 G parameters": Model(1.3e9, 24, 2048, 1e6),
    "13 G parameters": Model(13e9, 40, 5120, 2e6),
}


def draw(cluster: Cluster, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axis, (title, model) in zip(figure.subplots(1, len(MODELS), sharey=True), MODELS.items(), strict=True):
        for way in WAYS:
            axis.plot(SIZES, [efficiency(way, model, cluster, p) for p in SIZES], marker=".", label=way)
        axis.set(title=title, xlabel="processes", xscale="log", ylim=(0, 1.05))
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel("speed per process, of one alone")
    figure.axes[0].legend()
    figure.savefig(path, dpi=110)


def section(cluster: Cluster, points: list[tuple[int, float]]) -> str:
    """The text of RESULTS.md."""
    rows = []
    for title, model in MODELS.items():
        for way in WAYS:
            stop = scaling_stops(way, model, cluster)
            numbers = [f"{efficiency(way, model, cluster, p):.2f}" for p in (8, 64, 512, 4096, 10_000)]
            rows.append([title, way, *numbers, "beyond 10,000" if stop is None else str(stop)])
    fitted = ", ".join(f"{n >> 10} KB in {s * 1e6:.0f} µs" for n, s in points)
    lines = [
        "## Scale: a model of many hosts",
        "",
        "Computed by `benchmarks/scale.py`, not measured: LogGP for collectives, with the parameters of shared memory fitted to",
        f"all_reduce on two processes here ({fitted}):",
        f"{cluster.inside.latency * 1e6:.1f} µs and {1e-9 / cluster.inside.per_byte:.1f} GB/s per step.",
        "",
        "Assumptions:",
        "",
        f"- {cluster.per_host} processes per host of {cluster.flops / 1e9:.0f} GFLOP/s each, as one core here, at full speed all the time.",
        f"- Between hosts {cluster.between.latency * 1e6:.0f} µs and {1e-9 / cluster.between.per_byte:.2f} GB/s per host, the same for all "
        "pairs, without congestion.",
        "- float32 gradients and parameters; 6 operations per parameter and token. The batch stays as it is for any number of processes:",
        f"  {', '.join(f'{model.batch / 1e6:g} M tokens for {title}' for title, model in MODELS.items())}.",
        "- DDP hides all buckets but the last behind backward; FSDP gathers one layer ahead. Collectives between hosts are one ring or",
        "  one tree, whichever is faster. No stragglers, no failures, no input pipeline.",
        "- The mesh cuts layers within a host and distributes parameters between hosts.",
        "",
        "Speed per process in parts of that of one alone, and the number of processes at which less than half is left:",
        "",
        *table(["model", "way", "8", "64", "512", "4096", "10,000", "half is lost at"], rows),
        "",
        "![speed per process](scale.png)",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-host", type=int, default=8, help="processes on a host")
    parser.add_argument("--gflops", type=float, default=FLOPS / 1e9, help="of one process")
    parser.add_argument("--latency", type=float, default=30.0, help="between hosts, in microseconds")
    parser.add_argument("--bandwidth", type=float, default=1.25, help="between hosts, in GB/s")
    parser.add_argument("--measure", action="store_true", help="fit the parameters of shared memory to measurements made now")
    parser.add_argument("--write", action="store_true", help="replace the section of RESULTS.md, and draw scale.png")
    options = parser.parse_args(argv)
    points = measure() if options.measure else MEASURED
    between = Link(options.latency * 1e-6, 1e-9 / options.bandwidth)
    cluster = Cluster(fit(points, 2), between, options.per_host, options.gflops * 1e9)
    text = section(cluster, points)
    print(text)
    if options.write:
        draw(cluster, CHART)
        results = HERE / "RESULTS.md"
        results.write_text(replace_section(results.read_text(), "scale", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
