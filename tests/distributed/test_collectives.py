"""Collectives and messages between two to four processes, over every engine."""

import pytest
from ranks import run

BOTH = pytest.mark.parametrize("engine", [{"FLAMBEAU_SHARED_MEMORY": "1"}, {"FLAMBEAU_SHARED_MEMORY": "0"}], ids=["shared", "tcp"])
SIZES = pytest.mark.parametrize(
    ("size", "engine"), [(2, BOTH.args[1][0]), (3, BOTH.args[1][1]), (4, BOTH.args[1][0])], ids=["2-shared", "3-tcp", "4-shared"]
)

VALUES = """
names = ("float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 bool "
         "float8_e4m3fn float8_e5m2").split()
dtypes = [getattr(fb, name) for name in names]

def value(r, shape, dtype, seed=0):
    g = np.random.default_rng([r, seed, *shape])
    x = fb.tensor(g.integers(0, 2 if dtype == fb.bool else 5, shape))
    return x.to(fb.float32).to(dtype) if dtype.itemsize == 1 and dtype.is_floating_point else x.to(dtype)

def same(x, y, what=""):
    assert x.dtype == y.dtype and x.shape == y.shape, (what, x.dtype, y.dtype, x.shape, y.shape)
    assert x.contiguous().view(-1).view(fb.uint8).tolist() == y.contiguous().view(-1).view(fb.uint8).tolist(), (what, x, y)

def layouts(shape, dtype, r, seed=0):
    x = value(r, shape, dtype, seed)
    yield x.clone()
    if x.dim() > 1:
        yield x.t().contiguous().t()
        wide = fb.zeros(shape[0], 2 * shape[1], dtype=dtype)
        wide[:, ::2] = x
        yield wide[:, ::2]
shapes = [(3, 4), (1,), (0,), (), (40, 300)]
"""


@SIZES
def test_data_movement_of_every_dtype_and_layout(size, engine):
    run(size, VALUES + """
for dtype in dtypes:
    for shape in shapes if dtype in (fb.float32, fb.bfloat16) else shapes[:4]:
        everyone = [value(r, shape, dtype) for r in range(size)]
        for i, x in enumerate(layouts(shape, dtype, rank)):
            what = (dtype, shape, i)
            dist.broadcast(x, src=1)
            same(x, everyone[1], what)
        for i, x in enumerate(layouts(shape, dtype, rank)):
            outs = [list(layouts(shape, dtype, 9))[-1] for _ in range(size)]  # strided where it has two dimensions
            dist.all_gather(outs, x)
            for out, expected in zip(outs, everyone): same(out, expected, what)
            outs = [fb.zeros(shape, dtype=dtype) for _ in range(size)] if rank == size - 1 else None
            dist.gather(x, outs, dst=size - 1)
            if outs:
                for out, expected in zip(outs, everyone): same(out, expected, what)
            got = fb.zeros(shape, dtype=dtype)
            dist.scatter(got, everyone if rank == 0 else None, src=0)
            same(got, everyone[rank], what)
            whole = fb.zeros((size, *shape), dtype=dtype)
            dist.all_gather_into_tensor(whole, x)
            same(whole, fb.stack(everyone), what)
            outs = [fb.zeros(shape, dtype=dtype) for _ in range(size)]
            dist.all_to_all(outs, [value(rank, shape, dtype, seed=r) for r in range(size)])
            for r in range(size): same(outs[r], value(r, shape, dtype, seed=rank), what)
""", **engine)  # fmt: skip


@SIZES
def test_reductions_of_every_dtype(size, engine):
    run(size, VALUES + """
import functools
O = dist.ReduceOp
ops = {O.SUM: fb.add, O.PRODUCT: fb.mul, O.MIN: fb.minimum, O.MAX: fb.maximum, O.AVG: fb.add, O("PREMUL_SUM", 2): fb.add,
       O.BAND: fb.bitwise_and, O.BOR: fb.bitwise_or, O.BXOR: fb.bitwise_xor}
for dtype in dtypes:
    for op, join in ops.items():
        refused = (
            dtype.itemsize == 1 and dtype.is_floating_point
            or dtype.is_complex and op.name in ("MIN", "MAX")
            or (dtype.is_floating_point or dtype.is_complex) and op.name[0] == "B"
            or dtype == fb.bool and op.name in ("AVG", "PREMUL_SUM")
        )
        if refused:
            with pytest.raises(ValueError, match="all_reduce"):
                dist.all_reduce(fb.zeros(2).to(dtype), op)
            continue
        for shape in shapes if dtype == fb.float32 and op == O.SUM else shapes[:3]:
            def reduced(seed=0):
                each = [value(r, shape, dtype, seed) for r in range(size)]
                if op.name == "PREMUL_SUM":
                    each = [e * 2 for e in each]
                total = functools.reduce(join, each)
                if op == O.AVG:
                    total = total / size if not (dtype.is_floating_point or dtype.is_complex) else total.div(size)
                    total = total.to(dtype)
                return total.to(dtype)
            for x in layouts(shape, dtype, rank):
                what = (dtype, op, shape)
                version = x._version
                dist.all_reduce(x, op)
                same(x, reduced(), what)
                assert x._version > version
            mine = value(rank, shape, dtype)
            dist.reduce(mine, dst=size - 1, op=op)
            same(mine, reduced() if rank == size - 1 else value(rank, shape, dtype), what)
            out = fb.zeros(shape, dtype=dtype)
            parts = [value(rank, shape, dtype, seed=r) for r in range(size)]
            dist.reduce_scatter(out, parts, op)
            same(out, reduced(rank), what)
            same(parts[0], value(rank, shape, dtype, 0))
            out = fb.zeros(shape, dtype=dtype)
            dist.reduce_scatter_tensor(out, fb.stack(parts), op)
            same(out, reduced(rank), what)
""", **engine)  # fmt: skip


@BOTH
def test_large_tensors_and_lengths_that_do_not_divide(engine):
    run(3, """
for n in (1, 2, 3, 4097, 70001, 3_000_001):
    x = fb.arange(n, dtype=fb.float32) * (rank + 1)
    dist.all_reduce(x)
    assert fb.equal(x, fb.arange(n, dtype=fb.float32) * 6) or fb.allclose(x, fb.arange(n, dtype=fb.float32) * 6)
    x = fb.full((n,), rank, dtype=fb.int64)
    dist.broadcast(x, src=2)
    assert int(x.sum()) == 2 * n
    parts = [fb.zeros(n + r) for r in range(size)]
    dist.all_gather(parts, fb.full((n + rank,), float(rank)))
    assert [float(p.mean()) for p in parts] == [0.0, 1.0, 2.0]
    out, ins = fb.zeros(n + rank), [fb.full((n + r,), float(r)) for r in range(size)]
    dist.reduce_scatter(out, ins)
    assert float(out.double().mean()) == 3 * rank
""", **engine)  # fmt: skip


@BOTH
def test_results_have_the_same_bits_on_all_ranks_and_in_all_runs(engine):
    code = """
    out = []
    for n in (10, 1000, 50001):
        g = np.random.default_rng([rank, n])
        x = fb.tensor(g.standard_normal(n).astype(np.float32))
        dist.all_reduce(x)
        out.append(x)
    import hashlib
    print(hashlib.sha256(fb.cat(out).numpy().tobytes()).hexdigest())
    """
    assert len({*run(3, code, **engine), *run(3, code, **engine)}) == 1


@BOTH
def test_asynchronous_work_runs_in_order_and_tells_when_it_is_done(engine):
    run(2, """
works, tensors = [], [fb.full((1000 * i + 1,), float(i)) for i in range(20)]
for i, x in enumerate(tensors):
    works.append(dist.all_reduce(x, async_op=True) if i % 2 else dist.broadcast(x, src=0, async_op=True))
y = fb.ones(3)
dist.all_reduce(y)
assert y.tolist() == [2.0] * 3
for work in works:
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
assert [float(x.mean()) for x in tensors] == [i * (1 + i % 2) for i in range(20)]
t = fb.ones(2)
future = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] / 2)
assert future.wait().tolist() == [1.0, 1.0]
assert dist.barrier(async_op=True).wait()
""", **engine)  # fmt: skip


def test_messages():
    run(3, """
after, before = (rank + 1) % size, (rank - 1) % size
big = fb.full((300_000,), float(rank))
got = fb.zeros(300_000)
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, big, after), dist.P2POp(dist.irecv, got, before)])
for work in works: work.wait()
assert float(got.mean()) == before
# Sent before they are asked for, with tags in another order; an empty tensor and one that is not contiguous.
dist.send(fb.ones(2) * 10, after, tag=1)
dist.send(fb.ones(2) * 20, after, tag=2)
dist.send(fb.arange(6.0).view(2, 3).t(), after)
dist.send(fb.zeros(0), after)
x = fb.zeros(2)
dist.recv(x, before, tag=2); assert x.tolist() == [20.0, 20.0]
dist.recv(x, before, tag=1); assert x.tolist() == [10.0, 10.0]
y = fb.zeros(2, 3).t()
dist.recv(y, before); assert y.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
dist.recv(fb.zeros(0), before)
dist.barrier()
if rank:
    dist.send(fb.full((1,), float(rank)), 0)
else:
    z = fb.zeros(1)
    senders = {dist.recv(z): z.item(), dist.recv(z): z.item()}
    assert senders == {1: 1.0, 2: 2.0}, senders
dist.barrier()
if rank == 0: dist.send(fb.zeros(3), 1)
if rank == 1:
    with pytest.raises(dist.CollectiveMismatch, match="expected 16 bytes from rank 0, which sent 12 in send"):
        dist.recv(fb.zeros(4), 0)
for call in (dist.send, dist.recv, dist.isend, dist.irecv):
    with pytest.raises(ValueError, match="another process"):
        call(fb.zeros(1), rank)
    with pytest.raises(ValueError, match="7 is out of range"):
        call(fb.zeros(1), 7)
with pytest.raises(ValueError, match="tag"):
    dist.send(fb.zeros(1), after, tag=-1)
""")  # fmt: skip


@BOTH
def test_all_to_all_with_uneven_parts(engine):
    run(3, """
ins = fb.cat([fb.full((rank + to, 2), 10.0 * rank + to) for to in range(size)])
sizes_in, sizes_out = [rank + to for to in range(size)], [source + rank for source in range(size)]
out = fb.zeros(sum(sizes_out), 2)
dist.all_to_all_single(out, ins, sizes_out, sizes_in)
assert fb.equal(out, fb.cat([fb.full((source + rank, 2), 10.0 * source + rank) for source in range(size)]))
out = fb.zeros(3)
dist.all_to_all_single(out, fb.arange(3.0) + 10 * rank)
assert out.tolist() == [rank, 10.0 + rank, 20.0 + rank]
with pytest.raises(ValueError, match="not divisible by 3"):
    dist.all_to_all_single(fb.zeros(4), fb.zeros(4))
""", **engine)  # fmt: skip


@BOTH
def test_objects(engine):
    run(3, """
everything = [{"rank": r, "text": "x" * 100000 * r} for r in range(size)]
places = [None] * size
dist.all_gather_object(places, everything[rank])
assert places == everything
places = [None] * size if rank == 1 else None
dist.gather_object(everything[rank], places, dst=1)
assert places is None or places == everything
places = ["a", (1, 2)] if rank == 2 else [None, None]
dist.broadcast_object_list(places, src=2)
assert places == ["a", (1, 2)]
out = [None]
dist.scatter_object_list(out, everything if rank == 0 else None, src=0)
assert out == [everything[rank]]
with pytest.raises(ValueError, match="one element per process, that is 3"):
    dist.all_gather_object([None], 1)
""", **engine)  # fmt: skip


@BOTH
def test_groups(engine):
    run(4, """
pairs = [dist.new_group([0, 1]), dist.new_group([3, 2])]
mine, other = (pairs[0], pairs[1]) if rank < 2 else (pairs[1], pairs[0])
assert other == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(other) == -1
assert mine.size() == 2 and mine.rank() == rank % 2 and dist.get_process_group_ranks(mine) == [rank // 2 * 2, rank // 2 * 2 + 1]
x = fb.full((2,), float(rank))
dist.all_reduce(x, group=mine)
dist.all_reduce(x, group=other)
assert x.tolist() == [1.0 + 4 * (rank // 2)] * 2
y = fb.full((1,), float(rank))
dist.broadcast(y, src=rank // 2 * 2 + 1, group=mine)
assert y.item() == rank // 2 * 2 + 1
dist.broadcast(y, group_src=0, group=mine)
assert y.item() == rank // 2 * 2 + 1
with pytest.raises(ValueError, match="src 3 is out of range; the ranks of the group are 0, 1" if rank < 2 else "src 0 is out"):
    dist.broadcast(y, src=3 if rank < 2 else 0, group=mine)
turned = dist.new_group([3, 1, 0], sort_ranks=False)
if rank != 2:
    parts = [fb.zeros(1) for _ in range(3)]
    dist.all_gather(parts, fb.full((1,), float(rank)), group=turned)
    assert fb.cat(parts).tolist() == [3.0, 1.0, 0.0] and dist.get_group_rank(turned, 1) == 1 and dist.get_global_rank(turned, 0) == 3
if rank in (1, 3):
    alone = dist.new_group([1, 3], use_local_synchronization=True)
    z = fb.ones(1)
    dist.all_reduce(z, group=alone)
    assert z.item() == 2.0
every = dist.new_group()
works = [dist.all_reduce(fb.ones(100), group=g, async_op=True) for g in (every, dist.group.WORLD, mine) for _ in range(5)]
for work in works: work.wait()
dist.destroy_process_group(mine)
with pytest.raises(ValueError, match="part of"):
    dist.barrier(mine)
dist.barrier()
""", **engine)  # fmt: skip
