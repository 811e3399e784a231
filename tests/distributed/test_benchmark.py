"""The table of collectives' times, and collectives in the profiler."""

import subprocess
import sys

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau.distributed import benchmark

dist = fb.distributed


@on_ranks(2)
def test_every_collective_is_measured():
    rows = benchmark.measure(sizes=[1024], seconds=0.001)
    assert [row.op for row in rows] == list(benchmark._OPS)
    assert all(row.seconds > 0 and row.processes == 2 for row in rows)
    times = [None, None]
    dist.all_gather_object(times, rows)
    assert times[0] == times[1]
    with pytest.raises(ValueError, match="expected one of all_reduce, .* got 'sum'"):
        benchmark.measure(["sum"])


def test_bandwidth_counts_what_each_process_sends():
    assert benchmark.Row("all_reduce", 4000, 4, 1e-6).bandwidth == pytest.approx(6)
    assert benchmark.Row("all_gather", 4000, 4, 1e-6).bandwidth == pytest.approx(3)
    assert benchmark.Row("barrier", 0, 4, 1e-6).bandwidth == 0


def test_the_module_starts_processes_by_itself():
    command = [sys.executable, "-m", "flambeau.distributed.benchmark", "--ops=all_reduce,barrier", "--sizes=4096", "--seconds=0.001"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(lines) == 3 and lines[1].startswith("all_reduce") and "4 KB" in lines[1] and lines[2].startswith("barrier")


@on_ranks(2)
def test_the_profiler_shows_collectives():
    x = fb.ones(10)
    with fb.profiler.profile() as profiled:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.barrier()
        if dist.get_rank() == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
    names = [event.name for event in profiled.events()]
    assert names.count("all_reduce(float32 (10,), SUM)") == 2 and "barrier()" in names
    assert ("recv" if dist.get_rank() else "send") + "(float32 (10,))" in names
