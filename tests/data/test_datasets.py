"""Datasets, samplers and splits."""

import pytest

import flambeau as fb
from flambeau.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_tensor_dataset():
    data = TensorDataset(fb.arange(4), fb.arange(8).view(4, 2))
    assert len(data) == 4
    x, y = data[2]
    assert x.item() == 2 and y.tolist() == [4, 5]
    with pytest.raises(ValueError, match="Size mismatch"):
        TensorDataset(fb.ones(2), fb.ones(3))


def test_stack_dataset():
    assert StackDataset([1, 2], "ab")[1] == (2, "b")
    both = StackDataset(x=[1, 2], y="ab")
    assert both[0] == {"x": 1, "y": "a"}
    assert both.__getitems__([1, 0]) == [{"x": 2, "y": "b"}, {"x": 1, "y": "a"}]
    assert StackDataset([1, 2], Subset("abc", [2, 0])).__getitems__([0]) == [(1, "c")]
    for bad in (
        {"args": ([1],), "kwargs": {"x": [1]}},
        {"args": (), "kwargs": {}},
        {"args": ([1], "ab"), "kwargs": {}},
    ):
        with pytest.raises(ValueError):
            StackDataset(*bad["args"], **bad["kwargs"])

    class Short(Dataset):
        def __len__(self):
            return 2

        def __getitems__(self, indices):
            return []

    with pytest.raises(ValueError, match="output size mismatch.*got 0"):
        StackDataset(Short()).__getitems__([0])


def test_concat_dataset():
    both = ConcatDataset(["ab", [], "cde"])
    assert [both[i] for i in range(5)] == list("abcde")
    assert both[-5] == "a" and both.cumulative_sizes == [2, 2, 5]
    with pytest.raises(ValueError, match="absolute value"):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(ValueError, match="empty"):
        ConcatDataset([])
    with pytest.raises(ValueError, match="IterableDataset"):
        ConcatDataset([Count(2)])
    plus = TensorDataset(fb.arange(2)) + TensorDataset(fb.arange(3))
    assert isinstance(plus, ConcatDataset) and len(plus) == 5


def test_chain_dataset():
    chain = Count(2) + Count(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    with pytest.raises(ValueError, match="ChainDataset only supports IterableDataset"):
        list(ChainDataset([[1]]))


def test_abstract_methods_say_what_is_missing():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(IterableDataset())


def test_random_split():
    g = fb.Generator().manual_seed(3)
    parts = random_split(range(10), [7, 3], generator=g)
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert [len(p) for p in random_split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="not between 0 and 1"):
        random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="is 0"):
        random_split(range(1), [0.5, 0.5])


def test_sequential_and_batches():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    batches = BatchSampler(SequentialSampler(range(7)), 3, False)
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
    batches = BatchSampler(SequentialSampler(range(7)), 3, True)
    assert list(batches) == [[0, 1, 2], [3, 4, 5]] and len(batches) == 2
    for size in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="batch_size"):
            BatchSampler(range(3), size, False)
    with pytest.raises(ValueError, match="drop_last"):
        BatchSampler(range(3), 1, 1)


def test_random_sampler():
    g = fb.Generator().manual_seed(1)
    sampler = RandomSampler(range(20), generator=g)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(20)) and first != second
    g.manual_seed(1)
    assert list(sampler) == first
    more = list(RandomSampler(range(3), num_samples=8))
    assert len(more) == 8 and sorted(more[:3]) == sorted(more[3:6]) == [0, 1, 2]
    many = list(RandomSampler(range(3), replacement=True, num_samples=3000))
    assert len(many) == 3000 and min(many.count(i) for i in range(3)) > 850
    with pytest.raises(TypeError, match="replacement"):
        RandomSampler(range(3), replacement=1)
    with pytest.raises(ValueError, match="num_samples"):
        RandomSampler(range(3), num_samples=-1)


def test_subset_and_weighted():
    assert sorted(SubsetRandomSampler([5, 1, 9])) == [1, 5, 9]
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert 0 not in drawn and 2.5 < drawn.count(2) / drawn.count(1) < 3.6
    assert sorted(WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    for args in (([1.0], 0), ([1.0], 1, 1), ([[1.0]], 1)):
        with pytest.raises(ValueError):
            WeightedRandomSampler(*args)


@pytest.mark.parametrize("count", [1, 5, 10, 11])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler(count, drop_last):
    shares = [DistributedSampler(range(count), 3, r, shuffle=False, drop_last=drop_last) for r in range(3)]
    size = count // 3 if drop_last else -(-count // 3)
    expected = list(range(count))
    while not drop_last and len(expected) < 3 * size:
        expected += expected[: 3 * size - len(expected)]
    for rank, share in enumerate(shares):
        assert list(share) == expected[rank : 3 * size : 3] and len(share) == size
    mixed = [DistributedSampler(range(count), 3, r, seed=4, drop_last=drop_last) for r in range(3)]
    union = [i for share in mixed for i in share]
    assert len(union) == 3 * size and (drop_last or set(union) == set(range(count)))
    if count > 9:
        before = list(mixed[0])
        mixed[0].set_epoch(1)
        assert list(mixed[0]) != before
        mixed[0].set_epoch(0)
        assert list(mixed[0]) == before
    with pytest.raises(ValueError, match="Invalid rank"):
        DistributedSampler(range(count), 3, 3)


def test_errors_are_those_of_pytorch_too():
    for make in (lambda: ConcatDataset([]), lambda: TensorDataset(fb.ones(2), fb.ones(3)), lambda: list(ChainDataset([[1]]))):
        with pytest.raises(AssertionError):
            make()
    with pytest.raises(ValueError, match="empty dataset"):
        RandomSampler([])
    with pytest.warns(FutureWarning):
        assert ConcatDataset([[1, 2], [3]]).cummulative_sizes == [2, 3]
    assert TensorDataset().tensors == ()


def test_stack_says_what_is_wrong():
    with pytest.raises(ValueError, match="At least one dataset should be passed"):
        StackDataset()
    with pytest.raises(ValueError, match="Supported either"):
        StackDataset([1], x=[1])


def test_subset_with_items_of_its_own_needs_lists_of_items_too():
    class Half(Subset):
        def __getitem__(self, i):
            return super().__getitem__(i) / 2

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half([1, 2], [0])
