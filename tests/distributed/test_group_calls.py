"""The methods of process groups and their options, chains of tensors, errors of processes that the launcher prints."""

import subprocess
import sys

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import distributed as dist


@on_ranks(2)
def test_methods_do_what_the_functions_do():
    rank, pg = dist.get_rank(), dist.group.WORLD
    x = fb.full((3,), float(rank))
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    pg.allreduce([x], options).wait()
    assert x.tolist() == [1.0] * 3
    pg.allreduce(x, dist.ReduceOp.SUM).wait()
    assert x.tolist() == [2.0] * 3
    x = fb.full((2,), float(rank))
    options = dist.BroadcastOptions()
    options.rootRank = 1
    pg.broadcast([x], options).wait()
    assert x.tolist() == [1.0] * 2
    parts = [[fb.zeros(1), fb.zeros(1)]]
    pg.allgather(parts, [fb.full((1,), float(rank))]).wait()
    assert [p.item() for p in parts[0]] == [0.0, 1.0]
    whole, piece = fb.zeros(2), fb.zeros(1)
    pg._allgather_base(whole, fb.full((1,), float(rank))).wait()
    pg._reduce_scatter_base(piece, whole).wait()
    assert whole.tolist() == [0.0, 1.0] and piece.item() == 2.0 * rank
    pg.reduce_scatter([piece], [[fb.ones(1), fb.ones(1) * 2]]).wait()
    assert piece.item() == 2.0 * (rank + 1)
    options = dist.ReduceOptions()
    options.rootRank = 1
    total = fb.ones(1)
    pg.reduce([total], options).wait()
    assert rank == 0 or total.item() == 2.0
    got = [[fb.zeros(1), fb.zeros(1)]] if rank == 0 else []
    pg.gather(got, [fb.full((1,), rank + 1.0)], dist.GatherOptions()).wait()
    assert rank == 1 or [p.item() for p in got[0]] == [1.0, 2.0]
    pg.scatter([piece], [[fb.ones(1), fb.zeros(1)]] if rank == 0 else [], dist.ScatterOptions()).wait()
    assert piece.item() == 1.0 - rank
    out = fb.zeros(2)
    pg.alltoall_base(out, fb.tensor([rank, rank + 10.0]), [], []).wait()
    assert out.tolist() == ([0.0, 1.0] if rank == 0 else [10.0, 11.0])
    if rank == 0:
        pg.send([fb.ones(1)], 1, 5).wait()
    else:
        pg.recv([piece], 0, 5).wait()
        assert piece.item() == 1.0
    pg.barrier(dist.BarrierOptions()).wait()
    with pytest.raises(ValueError, match="expected one tensor"):
        pg.allreduce([x, x])


@pytest.mark.parametrize("sizes", [(5, 0, 3), (3000, 70_000, 1, 300_000), (4096,), (0, 0)], ids=str)
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_chain_of_tensors_is_reduced_where_it_is(ranks, sizes):
    from rank_pool import run_on_ranks

    run_on_ranks(ranks, __file__, "chain", (("sizes", sizes),))


def _chain(sizes):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (fb.float32, fb.int64, fb.bfloat16):
        xs = [(fb.arange(n) % 7).to(dtype) + rank for n in sizes]
        strided = fb.zeros(4, 6, dtype=dtype)[:, ::2]
        places = [x.data_ptr() for x in xs]
        dist.all_reduce_coalesced([*xs, strided.fill_(rank)], dist.ReduceOp.SUM)
        for x, n, place in zip(xs, sizes, places, strict=True):
            expected = (fb.arange(n) % 7).to(dtype) * size + size * (size - 1) // 2
            assert fb.equal(x, expected) and x.data_ptr() == place
        assert fb.equal(strided, fb.full_like(strided, size * (size - 1) // 2))
    x = fb.full((sum(sizes) + 1,), float(rank))
    assert dist.all_reduce_coalesced([x], dist.ReduceOp.AVG, async_op=True).wait()[0] is x
    assert fb.allclose(x, fb.full_like(x, (size - 1) / 2))


class chain:  # found by name in the ranks
    body = staticmethod(_chain)


def test_the_launcher_prints_what_record_wrote(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise ValueError('the data are gone')\nmain()\n"
    )
    command = [sys.executable, "-m", "flambeau.distributed.run", "--standalone", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "ended with exit code 1: ValueError: the data are gone" in ended.stderr
