"""Programs that mpirun starts: by default on flambeau's own engine, with backend "mpi" on MPI."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

MPIRUN = shutil.which("mpirun", path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None, reason="mpirun and mpi4py are not installed: pip install flambeau[mpi]"
)
START = """
import flambeau as fb, sys, os, signal, time
dist = fb.distributed
fb.set_num_threads(1)
"""


def mpirun(size, code, *options, timeout=90, check=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_", "PMI", "TORCHELASTIC"))}
    command = [MPIRUN, *options, "-n", str(size), sys.executable, "-c", START + textwrap.dedent(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_calls_go_to_mpi():
    output = mpirun(2, """
        dist.init_process_group("mpi")
        rank, engine = dist.get_rank(), dist.group.WORLD._engine
        assert type(engine).__name__ == "MpiEngine" and dist.get_backend() == "mpi"
        kinds = [fb.float32, fb.float64, fb.float16, fb.bfloat16, fb.complex64, fb.int8, fb.int64, fb.uint8, fb.bool]
        for dtype in kinds:
            x = fb.ones(5).to(dtype)
            dist.all_reduce(x)
            assert x.dtype == dtype and fb.equal(x, (fb.ones(5) * 2).to(dtype)), x
            whole, mine = fb.zeros(6).to(dtype), fb.zeros(3).to(dtype)
            dist.all_gather_into_tensor(whole, (fb.ones(3) * rank).to(dtype))
            assert fb.equal(whole, fb.tensor([0, 0, 0, 1, 1, 1]).to(dtype))
            dist.reduce_scatter_tensor(mine, whole)
            assert fb.equal(mine, (fb.ones(3) * (2 * rank)).to(dtype))
            dist.broadcast(mine, 1)
            assert fb.equal(mine, (fb.ones(3) * 2).to(dtype))
            if rank == 0:
                parts = [fb.zeros(3).to(dtype) for _ in range(2)]
                dist.gather(mine, parts)
                dist.scatter(mine, [fb.zeros_like(p) for p in parts])
            else:
                dist.gather(mine)
                dist.scatter(mine)
            assert not mine.bool().any()
        x = fb.full((3,), 2.0 + rank)
        for op, wanted in (("AVG", 2.5), ("PRODUCT", 6), ("MIN", 2), ("MAX", 3)):
            y = x.clone()
            dist.all_reduce(y, getattr(dist.ReduceOp, op))
            assert y.tolist() == [wanted] * 3, (op, y)
        y = fb.tensor([5 + rank])
        dist.reduce(y, 1, dist.ReduceOp.BAND)
        assert y.item() == (4 if rank else 5)
        strided = fb.zeros(3, 2).t()
        strided += rank
        dist.all_reduce(strided)
        assert strided.tolist() == [[1] * 3] * 2
        dist.all_reduce(fb.empty(0))
        group = dist.new_group([1, 0])
        outs = [fb.zeros(1 + rank), fb.zeros(1 + rank)]
        dist.all_to_all(outs, [fb.full((1,), 10.0 + rank), fb.full((2,), 20.0 + rank)], group=group)
        assert fb.cat(outs).tolist() == ([20, 20, 21, 21] if rank else [10, 11])
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        assert objects[1] == {"rank": 1}
        works = [dist.all_reduce(fb.ones(1000) * i, async_op=True) for i in range(5)]
        assert all(work.wait() for work in works)
        mine, got = fb.full((4,), float(rank)), fb.zeros(4)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - rank, tag=7), dist.P2POp(dist.irecv, got, 1 - rank, tag=7)]):
            work.wait()
        assert got.tolist() == [1 - rank] * 4
        if rank == 0:
            dist.send(fb.ones(2), 1)
        else:
            assert dist.recv(fb.zeros(2)) == 0
        dist.barrier()
        model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
        model(fb.ones(1, 2) * (rank + 1)).sum().backward()
        assert model.module.weight.grad.tolist() == [[1.5, 1.5]]
        try:
            dist.all_reduce(fb.ones(3 + rank))
        except dist.CollectiveMismatch as error:
            assert "(3,), SUM)" in str(error) and "(4,), SUM)" in str(error), error
            print(f"rank {rank} fine\\n", end="", flush=True)
        dist.destroy_process_group()
    """)  # fmt: skip
    assert "rank 0 fine" in output and "rank 1 fine" in output


def test_without_a_name_the_own_engine_carries_the_calls():
    output = mpirun(2, """
        dist.init_process_group()
        x = fb.ones(2) * (dist.get_rank() + 1)
        dist.all_reduce(x)
        print(f"{type(dist.group.WORLD._engine).__name__} {x.tolist()}\\n", end="", flush=True)
        dist.destroy_process_group()
    """)  # fmt: skip
    assert output.count("SharedEngine [3.0, 3.0]") == 2


def test_a_killed_rank_is_lost():
    before = set(os.listdir("/dev/shm"))
    output = mpirun(2, """
        dist.init_process_group("mpi")
        dist.barrier()
        if dist.get_rank() == 1:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        try:
            dist.all_reduce(fb.ones(1))
        except dist.PeerLost as error:
            print(f"lost rank {error.rank} within 10 s: {time.monotonic() - begin < 10}", flush=True)
        os._exit(0)
    """, "-disable-auto-cleanup", timeout=30, check=False)  # fmt: skip
    assert "lost rank 1 within 10 s: True" in output, output
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("mpich_shm_")]


def test_an_error_in_one_rank_ends_the_program():
    output = mpirun(2, """
        dist.init_process_group("mpi")
        if dist.get_rank() == 1:
            raise ValueError("of rank 1")
        dist.all_reduce(fb.ones(1))
    """, timeout=30, check=False)  # fmt: skip
    assert "ValueError: of rank 1" in output


def test_without_mpirun_the_own_engine_carries_mpi_and_says_so():
    code = "import flambeau as fb\nfb.distributed.init_process_group('mpi')\nprint(type(fb.distributed.group.WORLD._engine).__name__)"
    run = [sys.executable, "-m", "flambeau.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    command = [*run, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("SharedEngine") == 2, done.stderr
    assert done.stderr.count("backend 'mpi' is carried by flambeau's own engine") == 1
