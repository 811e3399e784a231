"""Tensors as Python objects: numbers, containers, copies, pickles, references, threads, forks."""

from __future__ import annotations

import copy
import gc
import math
import multiprocessing
import operator
import os
import pickle
import signal
import sys
import threading
import weakref

import pytest

import flambeau as fb

DTYPES = [
    fb.bool, fb.uint8, fb.uint16, fb.uint32, fb.uint64, fb.int8, fb.int16, fb.int32, fb.int64,
    fb.float16, fb.bfloat16, fb.float32, fb.float64, fb.complex64, fb.complex128,
]  # fmt: skip
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.fixture
def no_leak():
    """Bytes alive after the test are those before it."""
    gc.collect()
    before = fb.memory_allocated()
    yield
    gc.collect()
    assert fb.memory_allocated() == before


class Marked(fb.Tensor):
    """A subclass with attributes."""

    unit = "m"

    def doubled(self):
        return self * 2


class Slotted(fb.Tensor):
    """A subclass with a slot of its own."""

    __slots__ = ("label",)


# ---- numbers and containers ----------------------------------------------------------------------------------------------


def test_numbers():
    assert int(fb.tensor(2.9)) == 2 and float(fb.tensor([3])) == 3.0 and complex(fb.tensor(1 + 2j)) == 1 + 2j
    assert operator.index(fb.tensor(7)) == 7 and list("abc")[fb.tensor(1)] == "b" and range(fb.tensor(2)) == range(2)
    assert bool(fb.tensor([True])) is True and not fb.tensor(0.0)
    assert math.sqrt(fb.tensor(4.0)) == 2.0 and round(float(fb.tensor(2.6))) == 3
    for bad in (lambda: operator.index(fb.tensor(1.0)), lambda: int(fb.tensor(1j)), lambda: float(fb.tensor(1j))):
        with pytest.raises(TypeError):
            bad()
    for many in (bool, int, float, lambda t: t.item()):
        with pytest.raises((ValueError, RuntimeError)):
            many(fb.ones(2))
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(fb.empty(0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item_and_tolist(dtype):
    t = fb.tensor([[1, 0], [1, 1]]).to(dtype)
    kind = bool if dtype is fb.bool else complex if dtype.is_complex else float if dtype.is_floating_point else int
    assert t[0, 0].item() == 1 and type(t[0, 0].item()) is kind
    assert t.tolist() == [[1, 0], [1, 1]] and type(t.tolist()[1][0]) is kind
    assert t[:, ::-1].tolist() == [[0, 1], [1, 1]]
    assert fb.empty(0, 2).tolist() == [] and fb.empty(2, 0).tolist() == [[], []]
    assert fb.tensor(2**64 - 1, dtype=fb.uint64).item() == 2**64 - 1


def test_containers():
    t = fb.arange(6).view(3, 2)
    assert len(t) == 3 and [row.tolist() for row in t] == [[0, 1], [2, 3], [4, 5]]
    a, b, c = t
    assert b.data_ptr() == t[1].data_ptr() and a.sum() == 1 and c.sum() == 9
    assert 5 in t and 7 not in t and fb.tensor(3) in t and 2.5 not in t
    assert [x.item() for x in reversed(fb.arange(3))] == [2, 1, 0]
    assert max(fb.arange(3)) == 2 and sum(fb.arange(4)) == 6 and dict(zip("ab", fb.arange(2), strict=True))["b"] == 1
    with pytest.raises(TypeError, match="0-d"):
        len(fb.tensor(1))
    with pytest.raises(TypeError, match="0-d"):
        iter(fb.tensor(1))


def test_format_and_repr():
    assert f"{fb.tensor(2.5):.3f}" == "2.500" and f"{fb.tensor(7):04d}" == "0007"
    assert str(fb.tensor([1, 2])) == repr(fb.tensor([1, 2])) == f"{fb.tensor([1, 2])}" == "tensor([1, 2])"


def test_hash_is_identity():
    a, b = fb.ones(2), fb.ones(2)
    table = {a: 1, b: 2}
    assert table[a] == 1 and table[b] == 2 and len({a, b, a}) == 2 and hash(a) != hash(b)


# ---- identity, references, attributes --------------------------------------------------------------------------------------


def test_attributes_weak_references_and_cycles(no_leak):
    t = fb.zeros(1000)
    t.note = "hello"
    assert t.note == "hello" and vars(t) == {"note": "hello"}
    gone = weakref.ref(t)
    del t
    assert gone() is None
    for make in (
        lambda x: setattr(x, "me", x),
        lambda x: x.__dict__.update(me=[x]),
        lambda x: vars(x).setdefault("me", x),
    ):
        c = fb.zeros(1000)
        make(c)
        gone = weakref.ref(c)
        del c
        gc.collect()
        assert gone() is None
    seen = []
    t = fb.zeros(1)
    reference = weakref.ref(t, lambda r: seen.append(r))
    del t
    assert seen == [reference]


def test_memory_returns_with_the_last_reference(no_leak):
    before = fb.memory_allocated()
    t = fb.zeros(10_000)
    view = t[10:20]
    del t
    assert fb.memory_allocated() - before >= 40_000
    del view
    assert fb.memory_allocated() == before
    for _ in range(50):
        x = fb.randn(100)
        y = (x * 2 + 1).sum()
        x[3:5] = y
        x.add_(1)
        list(x)
        fb.cat([x, x]).sort()
        with pytest.raises(RuntimeError):
            x + fb.ones(3)
    del x, y
    gc.collect()
    assert fb.memory_allocated() == before


def test_reference_counts_stay_put():
    t, args = fb.ones(3), fb.arange(3)
    f = fb.add

    def work():
        f(t, args)
        t + 1
        t[args]
        t.numpy()
        memoryview(t)
        t.__dlpack__()
        pickle.dumps(t)
        copy.copy(t)
        t.to(fb.float64)
        t.tolist()

    work()
    counts = sys.getrefcount(t), sys.getrefcount(args), sys.getrefcount(None), sys.getrefcount(fb.float32)
    for _ in range(100):
        work()
    after = sys.getrefcount(t), sys.getrefcount(args), sys.getrefcount(None), sys.getrefcount(fb.float32)
    assert after[:2] == counts[:2] and abs(after[2] - counts[2]) < 50 and abs(after[3] - counts[3]) < 50


def test_subclasses(no_leak):
    m = fb.arange(3).as_subclass(Marked)
    m.owner = "me"
    assert type(m) is Marked and isinstance(m, fb.Tensor) and m.unit == "m" and m.doubled().tolist() == [0, 2, 4]
    assert type(Marked(2, 3)) is Marked and tuple(Marked(2, 3).shape) == (2, 3)
    for protocol in PROTOCOLS:
        back = pickle.loads(pickle.dumps(m, protocol))
        assert type(back) is Marked and back.owner == "me" and back.tolist() == [0, 1, 2]
    twin = copy.copy(m)
    assert type(twin) is Marked and twin.owner == "me" and twin.data_ptr() == m.data_ptr()
    s = fb.arange(3).as_subclass(Slotted)
    assert not hasattr(s, "label")
    s.label = "x"
    assert s.label == "x" and (s + 1).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="subclass"):
        fb.ones(2).as_subclass(int)


# ---- copies and pickles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pickle_every_dtype(dtype, protocol):
    for t in (fb.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype), fb.tensor(1).to(dtype), fb.empty(0, 3, dtype=dtype)):
        for x in (t, t.t() if t.ndim == 2 else t, t[..., ::-1] if t.ndim else t):
            back = pickle.loads(pickle.dumps(x, protocol))
            assert back.dtype is dtype and back.shape == x.shape and back.tolist() == x.tolist()
            if back.numel():
                back.zero_()
                assert (back == 0).all()
            back.resize_(40)


def test_pickles_keep_dense_strides_and_hold_only_what_is_needed():
    big = fb.arange(100_000)
    assert len(pickle.dumps(big[5:8])) < 400 and pickle.loads(pickle.dumps(big[5:8])).tolist() == [5, 6, 7]
    t = fb.arange(24).view(2, 3, 4)
    for x in (t.permute(2, 0, 1), t.transpose(0, 2), fb.zeros(2, 3, 4, 5).contiguous(memory_format=fb.channels_last)):
        assert pickle.loads(pickle.dumps(x)).stride() == x.stride()
    expanded = fb.ones(1).expand(1000)
    assert pickle.loads(pickle.dumps(expanded)).tolist() == [1] * 1000
    buffers: list = []
    data = pickle.dumps(big, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 400 and len(buffers) == 1
    assert pickle.loads(data, buffers=buffers).tolist() == big.tolist()


def test_pickles_of_attributes_and_cycles():
    t = fb.ones(2)
    t.info = {"a": [1, 2]}
    t.me = t
    for protocol in PROTOCOLS:
        back = pickle.loads(pickle.dumps(t, protocol))
        assert back.info == {"a": [1, 2]} and back.me is back


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_other_objects_pickle(protocol):
    def again(x):
        return pickle.loads(pickle.dumps(x, protocol))

    for dtype in DTYPES:
        assert again(dtype) is dtype
    assert again(fb.device("cpu")) == fb.device("cpu") and again(fb.device("cuda:1")) == fb.device("cuda:1")
    size = again(fb.zeros(2, 3).shape)
    assert type(size) is fb.Size and size == (2, 3)
    for same in (
        fb.add,
        fb.sum,
        fb.Tensor.add_,
        fb.Tensor.sum,
        fb.strided,
        fb.channels_last,
        fb.special.expit,
        fb.Tensor,
    ):
        assert again(same) is same
    g = fb.Generator().manual_seed(5)
    fb.rand(3, generator=g)
    h = again(g)
    assert h is not g and fb.rand(3, generator=h).tolist() == fb.rand(3, generator=g).tolist()
    result = again(fb.tensor([2, 1]).sort())
    assert type(result) is fb.return_types.sort and result.values.tolist() == [1, 2]


def test_copies():
    t = fb.arange(4)
    t.tag = ["x"]
    shallow = copy.copy(t)
    assert shallow is not t and shallow.data_ptr() == t.data_ptr() and shallow.tag is t.tag
    deep = copy.deepcopy(t)
    assert (
        deep.data_ptr() != t.data_ptr() and deep.tolist() == t.tolist() and deep.tag == ["x"] and deep.tag is not t.tag
    )
    deep[0] = 9
    assert t[0] == 0
    for special in (
        fb.empty(0, 3),
        fb.tensor(1.5),
        fb.arange(5)[::-1],
        fb.ones(2, dtype=fb.bfloat16),
        fb.ones(1).expand(3),
    ):
        twin = copy.deepcopy(special)
        assert twin.shape == special.shape and twin.tolist() == special.tolist() and twin.dtype is special.dtype
    assert copy.deepcopy(fb.arange(5)[::-1]).stride() == (-1,)
    read_only = fb.frombuffer(b"abc", dtype=fb.uint8)
    copy.deepcopy(read_only).zero_()


def test_deepcopy_keeps_sharing(no_leak):
    base = fb.zeros(4)
    things = {"base": base, "view": base[1:3], "bits": base.view(fb.int32), "again": base, "other": fb.zeros(4)}
    twin = copy.deepcopy(things)
    twin["view"].fill_(7)
    assert twin["base"].tolist() == [0, 7, 7, 0] and twin["again"] is twin["base"] and twin["bits"][1] != 0
    assert not twin["other"].any() and not base.any()
    loop = fb.zeros(2)
    loop.me = loop
    other = copy.deepcopy(loop)
    assert other.me is other and other is not loop


# ---- threads and processes -----------------------------------------------------------------------------------------------------


def test_many_threads():
    x = fb.arange(40_000, dtype=fb.float64)
    want = ((x * 2 + 1).sum().item(), x.view(200, 200).t().contiguous().sum(0)[7].item())
    failures: list = []
    start = threading.Barrier(8)

    def work(seed):
        try:
            start.wait()
            for i in range(40):
                small = fb.full((5,), seed + i)
                got = ((x * 2 + 1).sum().item(), x.view(200, 200).t().contiguous().sum(0)[7].item())
                assert got == want and (small + small).tolist() == [2 * (seed + i)] * 5
                with pytest.raises(RuntimeError):
                    small + fb.ones(3)
                pickle.loads(pickle.dumps(small))
                memoryview(small).tolist()
        except BaseException as error:  # a thread has no other way to tell
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not failures and not any(t.is_alive() for t in threads)


def _child(queue):
    x = fb.ones(500, 500)
    queue.put((x @ x).sum().item() + fb.randn(100_000).sum().isfinite().item() + x.add(1).sum().item())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_compute(method):
    x = fb.ones(500, 500)
    assert (x @ x).sum() == 500**3  # the parent's worker threads exist before the fork
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=90) == 500**3 + 1 + 500_000
        child.join(30)
        assert child.exitcode == 0
    finally:
        if child.is_alive():
            child.kill()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_other_threads_compute():
    stop = threading.Event()
    x = fb.rand(300, 300)

    def busy():
        while not stop.is_set():
            (x @ x).sum()

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                os._exit(0 if (fb.ones(300, 300) * 2).sum().item() == 180_000 and fb.zeros(10**6).sum() == 0 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        worker.join()
