"""DataLoader: batches, order, random state, workers, resuming."""

import multiprocessing
import random
import threading
import time

import numpy as np
import pytest

import flambeau as fb
from flambeau.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SequentialSampler,
    SharedDict,
    SharedList,
    TensorDataset,
    get_worker_info,
    sample_generator,
)

WORKERS = [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}]
ids = ["main", "processes", "threads"]


class Noisy(Dataset):
    """Samples that use every random generator there is."""

    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return {"i": index, "fb": fb.rand(3), "py": random.gauss(0, 1), "np": np.random.randn()}


class Own(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index, fb.rand(2, generator=sample_generator())


class Share(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n, step))


class Shuffled(Sampler):
    """A sampler as people write them, on the module random."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        order = list(range(self.n))
        random.shuffle(order)
        return iter(order)

    def __len__(self):
        return self.n


def seeded(seed=5):
    return fb.Generator().manual_seed(seed)


def plain(value):
    if isinstance(value, fb.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("workers", WORKERS, ids=ids)
def test_batches_in_order(workers):
    data = TensorDataset(fb.arange(10), fb.arange(20).view(10, 2))
    batches = list(DataLoader(data, batch_size=4, **workers))
    assert [x.tolist() for x, y in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][1].tolist() == [[16, 17], [18, 19]]
    assert len(DataLoader(data, batch_size=4, drop_last=True)) == 2
    assert [len(x) for x, y in DataLoader(data, batch_size=4, drop_last=True, **workers)] == [4, 4]
    assert [plain(x) for x in DataLoader(range(3), batch_size=None, **workers)] == [0, 1, 2]
    assert plain(list(DataLoader("abc", batch_sampler=[[2], [0, 1]], **workers))) == [["c"], ["a", "b"]]
    assert plain(list(DataLoader(range(9), 2, sampler=[8, 1, 3], **workers))) == [[8, 1], [3]]
    assert list(DataLoader(range(5), 2, collate_fn=sum, **workers)) == [1, 5, 4]
    assert list(DataLoader([], **workers)) == []


def test_rows_of_tensors_equal_samples_one_by_one():
    data = TensorDataset(fb.arange(10), fb.rand(10, 3), fb.empty(10, 0))

    class Wrapped(Dataset):
        def __len__(self):
            return len(data)

        def __getitem__(self, index):
            return data[index]

    for fast, slow in zip(DataLoader(data, 3), DataLoader(Wrapped(), 3), strict=True):
        assert type(fast) is type(slow) is list
        assert all(f.dtype == s.dtype and f.shape == s.shape and f.equal(s) for f, s in zip(fast, slow, strict=True))
    assert plain(list(DataLoader(data, sampler=[-1], batch_size=1)))[0][0] == [9]


def test_random_state_depends_on_seed_epoch_and_index_only():
    epochs = {}
    for name, options in {
        "main": {},
        "one": {"num_workers": 1},
        "two": {"num_workers": 2},
        "persistent": {"num_workers": 2, "persistent_workers": True},
    }.items():
        loader = DataLoader(Noisy(), 6, shuffle=True, generator=seeded(), **options)
        epochs[name] = [plain(list(loader)) for _ in range(2)]
    assert epochs["main"] == epochs["one"] == epochs["two"] == epochs["persistent"]
    assert epochs["main"][0] != epochs["main"][1]
    single = plain(list(DataLoader(Noisy(), 1, shuffle=True, generator=seeded())))
    in_batches = [row for batch in epochs["main"][0] for row in zip(*batch.values(), strict=True)]
    assert in_batches == [tuple(v[0] for v in sample.values()) for sample in single]  # nor on the size of the batch


def test_loading_leaves_the_programs_generators_alone():
    fb.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = fb.rand(2).tolist(), random.random(), np.random.rand()
    fb.manual_seed(1), random.seed(1), np.random.seed(1)
    list(DataLoader(Noisy(), 4, generator=seeded()))
    assert (fb.rand(2).tolist(), random.random(), np.random.rand()) == expected


def test_sample_generator_is_the_same_for_threads():
    results = [plain(list(DataLoader(Own(), 4, generator=seeded(), **w))) for w in WORKERS]
    assert results[0] == results[1] == results[2]
    with pytest.raises(RuntimeError, match="no sample is being loaded"):
        thread_result = []
        thread = threading.Thread(target=lambda: thread_result.append(pytest.raises(RuntimeError, sample_generator)))
        thread.start(), thread.join()
        raise thread_result[0].value


@pytest.mark.parametrize("workers", WORKERS, ids=ids)
def test_iterable(workers):
    found = sorted(i for batch in DataLoader(Share(11), 3, **workers) for i in batch.tolist())
    assert found == list(range(11))
    assert sorted(DataLoader(Share(7), None, **workers)) == list(range(7))
    sizes = [len(b) for b in DataLoader(Share(11), 3, drop_last=True, **workers)]
    assert set(sizes) == {3}


def test_iterable_order_is_in_turns():
    """Worker 0 has 0, 2, 4 …, worker 1 has 1, 3, 5 …; batches alternate, and one that has ended is left out."""
    batches = [b.tolist() for b in DataLoader(Share(7), 2, num_workers=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5]]


def test_iterable_that_gives_more_than_its_length():
    class Liar(Share):
        def __len__(self):
            return 2

    loader = DataLoader(Liar(4), 1)
    assert len([*iter(loader)]) == 4  # the length has not been requested yet
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2"):
        assert len(list(loader)) == 4


def init_fn(number):
    fb._worker_mark = number


class Marks(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        return info.id, fb._worker_mark, info.num_workers, fb.get_num_threads(), info.seed


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods_and_worker_info(method):
    loader = DataLoader(
        Marks(), 1, num_workers=2, worker_init_fn=init_fn, multiprocessing_context=method, generator=seeded()
    )
    rows = [[int(v) for v in batch] for batch in loader]
    assert [row[0] for row in rows] == [0, 1, 0, 1]
    assert all(row[0] == row[1] and row[2] == 2 and row[3] == 1 for row in rows)
    assert rows[1][4] == rows[0][4] + 1
    assert get_worker_info() is None


def test_prefetch_stays_within_its_bounds():
    started = multiprocessing.Value("i", 0)

    class Counting(Dataset):
        def __len__(self):
            return 50

        def __getitem__(self, index):
            with started.get_lock():
                started.value += 1
            return index

    batches = iter(DataLoader(Counting(), 1, num_workers=2, prefetch_factor=3))
    next(batches)
    time.sleep(1)
    assert started.value <= 2 * 3 + 1
    assert len(list(batches)) == 49


def test_many_orders_and_long_messages_do_not_block():
    """Pipes hold 64 KiB: neither long lists of indices nor many answers may block."""
    order = [list(range(20000))] * 6
    batches = list(DataLoader(range(20000), batch_sampler=order, num_workers=1, collate_fn=list, prefetch_factor=4))
    assert [len(b) for b in batches] == [20000] * 6
    loader = DataLoader(range(3000), 1, num_workers=1, prefetch_factor=3000, collate_fn=lambda b: "x" * 200)
    batches = iter(loader)
    next(batches)
    time.sleep(0.5)
    assert len(list(batches)) == 2999


def test_out_of_order():
    class Slow(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            time.sleep(1.5 if index == 0 else 0)
            return index

    loader = DataLoader(Slow(), None, num_workers=2, in_order=False)
    got = list(loader)
    assert sorted(got) == [0, 1, 2, 3] and got[0] != 0


def test_persistent_workers_stay():
    loader = DataLoader(Noisy(), 5, num_workers=2, persistent_workers=True, generator=seeded())
    first = iter(loader)
    next(first)
    pids = [p.pid for p in loader._pool.processes]
    assert len(list(loader)) == 4  # an epoch that was broken off does not leak into the next
    assert [p.pid for p in loader._pool.processes] == pids
    processes = list(loader._pool.processes)
    del first, loader
    assert not multiprocessing.active_children(), processes


@pytest.mark.parametrize("workers", [*WORKERS, {"num_workers": 1, "in_order": False}], ids=[*ids, "any order"])
@pytest.mark.parametrize("steps", [0, 3, 7])
def test_resume_in_the_middle_of_an_epoch(workers, steps):
    def make(seed):
        return DataLoader(Own(), 2, shuffle=True, generator=seeded(seed), **workers)

    whole = make(5)
    expected = [plain(b) for _ in range(3) for b in whole]
    part, done = make(5), []
    batches = iter(part)
    while len(done) < steps:
        for batch in batches:
            done.append(plain(batch))
            if len(done) == steps:
                break
        else:
            batches = iter(part)
    state = part.state_dict()
    again = make(77)
    again.load_state_dict(state)
    assert again.state_dict()["epoch"] == state["epoch"]
    rest = [plain(b) for b in again]
    for _ in range(3):
        rest += [plain(b) for b in again]
    assert done + rest[: len(expected) - len(done)] == expected
    # A loader with other workers goes on at the same place.
    other = DataLoader(Own(), 2, shuffle=True, generator=seeded(1))
    other.load_state_dict(state)
    assert [plain(b) for b in other] == rest[: len(list(other)) - steps % 6]


def test_resume_with_default_generator_and_foreign_sampler():
    loader = DataLoader(Own(), 2, sampler=Shuffled(12))
    batches = iter(loader)
    done = [plain(next(batches)) for _ in range(2)]
    state = loader.state_dict()
    rest = [plain(b) for b in batches]
    random.seed(99), fb.manual_seed(99)
    before = fb.get_rng_state().tolist(), random.getstate()
    again = DataLoader(Own(), 2, sampler=Shuffled(12))
    again.load_state_dict(state)
    assert [plain(b) for b in again] == rest and len(done) == 2
    assert (fb.get_rng_state().tolist(), random.getstate()) == before
    with pytest.raises(ValueError, match="not the state of a DataLoader"):
        again.load_state_dict({})


@pytest.mark.parametrize("workers", WORKERS, ids=ids)
def test_resume_iterable(workers):
    loader = DataLoader(Share(20), 3, **workers)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    rest = plain(list(batches))
    again = DataLoader(Share(20), 3, **workers)
    again.load_state_dict(state)
    assert plain(list(again)) == rest and rest


def test_arguments():
    data = range(4)
    for options, match in [
        ({"num_workers": -1}, "num_workers"), ({"timeout": -1}, "timeout"), ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"), ({"sampler": [1], "shuffle": True}, "mutually exclusive"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "mutually exclusive"), ({"batch_size": None, "drop_last": True}, "drop_last"),
        ({"multiprocessing_context": "fork"}, "num_workers"), ({"batch_size": 0}, "batch_size"),
        ({"num_workers": 1, "multiprocessing_context": "none"}, "start method"), ({"worker_type": "fiber"}, "worker_type"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=match):
            DataLoader(data, **options)
    with pytest.raises(TypeError, match="context object"):
        DataLoader(data, num_workers=1, multiprocessing_context=3)
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Share(3), **options)
    with pytest.warns(UserWarning, match="not pinned"):
        list(DataLoader(data, pin_memory=True))
    with pytest.warns(UserWarning, match="suggested max number"):
        DataLoader(data, num_workers=1000)
    loader = DataLoader(data)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match="should not be set"):
            setattr(loader, name, None)
    loader.num_workers = 0
    assert isinstance(loader.sampler, SequentialSampler) and isinstance(loader.batch_sampler, BatchSampler)


def test_progress_bar(capsys):
    list(DataLoader(range(6), 2, progress=True))
    shown = capsys.readouterr().err
    assert "3/3" in shown and "epoch 1" in shown


def test_shared_list_and_dict():
    items = SharedList([{"name": f"n{i}", "value": i} for i in range(50)])
    assert len(items) == 50 and items[7]["value"] == 7 and items[-1]["name"] == "n49" and len(items[3:5]) == 2
    with pytest.raises(IndexError):
        items[50]
    assert items._data.is_shared()
    batches = list(DataLoader(items, 10, num_workers=2, multiprocessing_context="spawn"))
    assert batches[4]["value"].tolist() == list(range(40, 50))
    table = SharedDict({"a": 1, ("x", 2): [1], 5: None, b"raw": "bytes"})
    assert table["a"] == 1 and table["x", 2] == [1] and table[5.0] is None and list(table)[0] == "a" and len(table) == 4
    assert dict(table) == {"a": 1, ("x", 2): [1], 5: None, b"raw": "bytes"} and "b" not in table
    assert len(SharedDict({})) == 0 and "a" not in SharedDict({})
    with pytest.raises(TypeError, match="keys are"):
        SharedDict({object(): 1})
