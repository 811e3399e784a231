"""The iterators of a DataLoader under PyTorch's names: libraries with a loader of their own make and inspect them."""

import itertools
import multiprocessing

import pytest

import flambeau as fb
from flambeau.utils.data import DataLoader, IterableDataset, get_worker_info


@pytest.fixture
def dataloader():
    with fb.compat.torch():
        import torch.utils.data.dataloader as module

        yield module


class Count(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(6)) if info is None else iter(range(info.id, 6, info.num_workers))


class Foreign:
    """As little as PyTorch's iterators ask for."""

    _auto_collation, drop_last, in_order, persistent_workers, timeout = False, False, True, False, 0
    prefetch_factor, generator, worker_init_fn, pin_memory = 2, None, None, False
    _dataset_kind, _index_sampler = 1, itertools.count()

    def __init__(self, dataset, num_workers):
        self.dataset, self.num_workers = dataset, num_workers
        self.multiprocessing_context = multiprocessing if num_workers else None

    @staticmethod
    def collate_fn(x):
        return x


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_of_an_object_that_is_not_a_loader(dataloader, workers):
    kind = dataloader._MultiProcessingDataLoaderIter if workers else dataloader._SingleProcessDataLoaderIter
    epoch = kind(Foreign(Count(), workers))
    assert isinstance(epoch, dataloader._BaseDataLoaderIter) and list(epoch) == [0, 1, 2, 3, 4, 5]
    by_index = Foreign([10, 11, 12], workers)
    by_index._dataset_kind, by_index._index_sampler, by_index._auto_collation = 0, [[0, 2], [1]], True
    assert list(kind(by_index)) == [[10, 12], [11]]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_of_a_loader(dataloader, workers):
    loader = DataLoader(range(5), 2, num_workers=workers)
    epoch = loader._get_iterator()
    assert isinstance(iter(loader), dataloader._BaseDataLoaderIter)
    kind = dataloader._MultiProcessingDataLoaderIter if workers else dataloader._SingleProcessDataLoaderIter
    assert type(epoch) is kind and [b.tolist() for b in kind(loader)] == [[0, 1], [2, 3], [4]]
    assert len(epoch) == 3 and epoch._num_workers == workers and len(epoch._workers) == workers
    assert next(epoch).tolist() == [0, 1] and epoch._num_yielded == 1
    assert all(worker.is_alive() for worker in epoch._workers)
    epoch._shutdown_workers()
    assert len(epoch._workers) == 0


class Endless:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class Infinite(DataLoader):
    """A loader whose iterator goes on over epochs."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Endless(self.batch_sampler))
        self.iterator = self._get_iterator()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_with_one_endless_iterator(workers):
    loader = Infinite(range(4), 2, num_workers=workers)
    for _ in range(3):
        assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]
    loader.iterator._shutdown_workers()


def test_persistent_workers_keep_their_iterator():
    loader = DataLoader(range(2), num_workers=1, persistent_workers=True)
    assert loader._iterator is None
    epoch = iter(loader)
    assert loader._iterator is epoch and len(list(epoch)) == 2
    loader._iterator._shutdown_workers()
    loader._iterator = None
    assert len(list(loader)) == 2


def test_fetchers(dataloader):
    kind = dataloader._DatasetKind
    fetch = kind.create_fetcher(kind.Map, [1, 2, 3], True, list, False)
    assert fetch.fetch([0, 2]) == [1, 3]
    fetch = kind.create_fetcher(kind.Iterable, Count(), True, list, True)
    assert fetch.fetch(range(4)) == [0, 1, 2, 3]
    with pytest.raises(StopIteration):
        fetch.fetch(range(4))
    from torch.utils.data._utils.pin_memory import pin_memory

    assert pin_memory([1]) == [1] and dataloader._utils.fetch._MapDatasetFetcher([5], False, int, False).fetch(0) == 5


class Restarting:
    """A batch sampler that is its own iterator and starts anew on iter()."""

    def __iter__(self):
        self.batches = iter([[0, 1], [2, 3], [4, 5]])
        return self

    def __next__(self):
        return next(self.batches)


@pytest.mark.parametrize("workers", [0, 1])
def test_batch_sampler_that_is_its_own_iterator(workers):
    loader = DataLoader(range(6), batch_sampler=Restarting(), num_workers=workers, worker_type="thread")
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4, 5]]
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4, 5]]
