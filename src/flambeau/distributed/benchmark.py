"""How fast collectives are here: latency and bandwidth of each, for several sizes.

    python -m flambeau.distributed.benchmark --nproc-per-node 4

starts four processes on this host. In processes that another launcher has started (`python -m flambeau.distributed.run`,
mpirun), the same module measures their group, between hosts as well.

Example:
    >>> from flambeau.distributed import benchmark
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> rows = benchmark.measure(["all_reduce"], [4096], seconds=0.001)
    >>> rows[0].op, rows[0].nbytes
    ('all_reduce', 4096)
    >>> fb.distributed.destroy_process_group()
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import distributed as dist
from flambeau.distributed._rendezvous import from_environment
from flambeau.errors import ArgumentError

__all__ = ["Row", "main", "measure", "table"]
__dir__ = __all__.copy

_OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send", "barrier")
_SIZES = tuple(4096 << 4 * i for i in range(5))  # 4 KB to 256 MB


class Row(NamedTuple):
    """One measurement: a collective of a size, and the median of the seconds that a call takes.

    Example:
        >>> from flambeau.distributed.benchmark import Row
        >>> Row("all_reduce", 1 << 20, 4, 0.001).bandwidth
        1.572864
    """

    op: str
    nbytes: int
    processes: int
    seconds: float

    @property
    def bandwidth(self) -> float:
        """GB/s that each process must at least send, for any algorithm."""
        n = self.processes
        share = {"all_reduce": 2 * (n - 1) / n, "broadcast": 1.0, "reduce": 1.0, "send": 1.0, "barrier": 0.0}.get(self.op, (n - 1) / n)
        return self.nbytes * share / self.seconds / 1e9 if self.seconds else 0.0


def _calls(nbytes: int, group: Any) -> dict[str, Callable[[], Any]]:
    """One call of each collective; `nbytes` is the size of the whole tensor."""
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    part_size = max(nbytes // 4 // count, 1)
    whole, part = fb.zeros(part_size * count), fb.zeros(part_size)
    parts, more = list(fb.zeros(part_size * count).chunk(count)), list(whole.chunk(count))

    def send() -> None:
        """From the first process to the second and back, which counts as two calls."""
        for source in (0, 1):
            if rank == source:
                dist.send(whole, group=group, group_dst=1 - source)
            elif rank == 1 - source:
                dist.recv(whole, group=group, group_src=source)

    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, group=group, group_src=0),
        "reduce": lambda: dist.reduce(whole, group=group, group_dst=0),
        "gather": lambda: dist.gather(part, parts if rank == 0 else None, group=group, group_dst=0),
        "scatter": lambda: dist.scatter(part, parts if rank == 0 else None, group=group, group_src=0),
        "all_to_all": lambda: dist.all_to_all(parts, more, group),
        "send": send,
        "barrier": lambda: dist.barrier(group),
    }


def measure(
    ops: Sequence[str] | None = None, sizes: Sequence[int] | None = None, group: Any = None, seconds: float = 0.2
) -> list[Row]:  # fmt: skip
    """Measures collectives. All processes of the group call it, and get the times of its first one.

    Args:
        ops: names such as "all_reduce"; all if not given.
        sizes: bytes of the whole tensor; 4 KB to 256 MB if not given.
        group: the default group if not given.
        seconds: how long to measure each for.

    Example:
        >>> from flambeau.distributed import benchmark
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> [row.op for row in benchmark.measure(["broadcast", "barrier"], [1024, 2048], seconds=0.001)]
        ['broadcast', 'broadcast', 'barrier']
        >>> fb.distributed.destroy_process_group()
    """
    count = dist.get_world_size(group)
    rows = []
    for op in ops or _OPS:
        if op not in _OPS:
            raise ArgumentError(f"benchmark.measure: expected one of {', '.join(_OPS)}, got {op!r}")
        if op == "send" and count < 2:
            continue
        for nbytes in [0] if op == "barrier" else sizes or _SIZES:
            call = _calls(nbytes, group)[op]
            call()
            begin = time.perf_counter()
            call()
            once = fb.tensor([time.perf_counter() - begin], dtype=fb.float64)
            dist.broadcast(once, group=group, group_src=0)
            batch = max(1, int(seconds / 5 / max(once.item(), 1e-6)))
            times = []
            for _ in range(5):
                dist.barrier(group)
                begin = time.perf_counter()
                for _ in range(batch):
                    call()
                times.append((time.perf_counter() - begin) / batch)
            middle = fb.tensor([sorted(times)[2] / (2 if op == "send" else 1)], dtype=fb.float64)
            dist.broadcast(middle, group=group, group_src=0)
            rows.append(Row(op, nbytes, count, middle.item()))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Measurements as text.

    Args:
        rows: what measure() gave.

    Example:
        >>> from flambeau.distributed.benchmark import Row, table
        >>> print(table([Row("all_reduce", 1 << 20, 2, 0.001)]))
        collective         size     time per call   bandwidth
        all_reduce         1 MB         1000.0 us    1.05 GB/s
    """
    lines = ["collective         size     time per call   bandwidth"]
    for row in rows:
        size = f"{row.nbytes >> 20} MB" if row.nbytes >= 1 << 20 else f"{row.nbytes / 1024:g} KB" if row.nbytes else ""
        speed = f"{row.bandwidth:8.2f} GB/s" if row.nbytes else ""
        lines.append(f"{row.op:<15}{size:>8}{row.seconds * 1e6:>15.1f} us{speed}".rstrip())
    return "\n".join(lines)


def main(args: Sequence[str] | None = None) -> None:
    """Measures what a command line says, and prints the table in the first process.

    Args:
        args: the arguments; those of this program if not given.

    Example:
        >>> from flambeau.distributed import benchmark
        >>> callable(benchmark.main)
        True
    """
    parser = argparse.ArgumentParser(prog="python -m flambeau.distributed.benchmark", description="Measures collectives.")
    parser.add_argument("--nproc-per-node", default="2", help="processes to start, if no launcher started this one")
    parser.add_argument("--backend", default="gloo", help="of the group")
    parser.add_argument("--ops", default="", help=f"some of {', '.join(_OPS)}, with commas between")
    parser.add_argument("--sizes", default="", help="bytes, with commas between")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each measurement")
    options = parser.parse_args(args)
    if "rank" not in from_environment():
        from flambeau.distributed import run

        own = list(args) if args is not None else sys.argv[1:]
        start = ["--standalone", f"--nproc-per-node={options.nproc_per_node}", "--no-python"]
        run.main([*start, sys.executable, "-m", "flambeau.distributed.benchmark", *own])
        return
    fb.set_num_threads(1)
    dist.init_process_group(options.backend)
    sizes = [int(size) for size in options.sizes.split(",") if size]
    rows = measure([op for op in options.ops.split(",") if op], sizes, seconds=options.seconds)
    if dist.get_rank() == 0:
        print(table(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
