"""The random state of a sample, put into the generators of flambeau, random and NumPy."""

import random
import threading
import zlib

import numpy as np
import pytest

import flambeau as fb
from flambeau import _C
from flambeau.utils.data import DataLoader, Dataset, StackDataset, Subset, TensorDataset
from flambeau.utils.data._utils import generators


def draws():
    return [
        random.random(), random.gauss(0, 1), random.randrange(10**9), np.random.rand(), np.random.randn(),
        int(np.random.randint(1 << 30)), fb.rand(()).item(),
    ]  # fmt: skip


@pytest.fixture
def kept():
    """Other tests shall not depend on what is seeded here."""
    saved = generators.save()
    yield
    generators.restore(saved)


def test_a_sample_is_seeded_as_the_libraries_document_it(kept):
    for seed, index in ((1, 2), (2**63 - 1, 10**12), (0, 0)):
        generators.seed_sample(seed, index)
        found = draws()
        mixed = _C.mix(seed, index)
        random.seed(mixed)
        np.random.seed(mixed % 2**32)
        fb.manual_seed(mixed >> 1)
        assert draws() == found


def test_a_kept_normal_number_does_not_reach_the_next_sample(kept):
    generators.seed_sample(1, 2)
    first = random.gauss(0, 1), np.random.randn()
    assert np.random.get_state()[3] == 1  # NumPy keeps a second one now, and so does random
    generators.seed_sample(1, 2)
    assert (random.gauss(0, 1), np.random.randn()) == first


def test_samples_have_different_numbers(kept):
    seen = set()
    for index in range(300):
        generators.seed_sample(7, index)
        seen.update([random.random(), np.random.rand(), fb.rand((), dtype=fb.float64).item()])
    assert len(seen) == 900
    values = np.array(sorted(seen))
    assert abs(values.mean() - 0.5) < 0.05 and abs(values.std() - 12**-0.5) < 0.03


def test_saved_states_come_back_exactly(kept):
    random.gauss(0, 1), np.random.randn()
    saved = generators.save()
    wanted = draws()
    generators.seed_sample(3, 4)
    draws()
    generators.restore(saved)
    assert draws() == wanted


def test_another_bit_generator_of_numpy(kept):
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        generators.seed_sample(1, 2)
        wanted = draws()
        generators.seed_sample(1, 2)
        assert draws() == wanted
        saved = generators.save()
        wanted = draws()
        generators.restore(saved)
        assert draws() == wanted
    finally:
        np.random.set_bit_generator(before)


def test_a_thread_that_draws_meanwhile_comes_to_no_harm(kept):
    stop = threading.Event()
    sums = []

    def draw():
        while not stop.is_set():
            sums.append(np.random.rand(2000).sum())

    thread = threading.Thread(target=draw)
    thread.start()
    for index in range(5000):
        generators.seed_sample(5, index)
    stop.set()
    thread.join()
    assert sums and all(800 < value < 1200 for value in sums)


class Noise(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index, np.random.rand()


def numbers(dataset, **options):
    loader = DataLoader(dataset, generator=fb.Generator().manual_seed(1), **options)
    return {int(i): float(x) for i, x in zip(*map(fb.cat, zip(*loader, strict=True)), strict=True)}


@pytest.mark.parametrize("size", [1, 5, 12])
def test_parts_of_a_dataset_do_not_share_a_state(size):
    """Subset loads several samples at once, but each has its own numbers, whatever the batch."""
    part = Subset(Noise(), range(12))
    assert numbers(part, batch_size=size) == numbers(Noise(), batch_size=4)


def test_a_stack_of_datasets_has_one_state_per_sample():
    both = StackDataset(Noise(), Noise())
    one = [[float(a[1]), float(b[1])] for a, b in DataLoader(both, generator=fb.Generator().manual_seed(1))]
    two = [float(x) for a, _ in DataLoader(both, 4, generator=fb.Generator().manual_seed(1)) for x in a[1]]
    assert [a for a, _ in one] == two


def test_rows_of_a_part_are_taken_at_once_and_leave_the_generators_alone():
    data = TensorDataset(fb.arange(10), fb.arange(10.0))
    part = Subset(Subset(data, [9, 7, 5, 3]), [2, 0, 1])
    before = random.getstate()
    assert [b.tolist() for b, _ in DataLoader(part, 2)] == [[5, 9], [7]]
    keys = [fb.tensor(1), np.int64(2), 0]
    assert [b.tolist() for b, _ in DataLoader(data, sampler=keys)] == [[1], [2], [0]]
    assert random.getstate() == before
    with pytest.raises(IndexError):
        list(DataLoader(data, sampler=[10]))


def test_checksums_are_those_of_zlib():
    data = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8).tobytes()
    for size in [*range(200), 4095, 4999]:
        for start in (0, 1):
            piece = memoryview(data)[start : start + size]
            assert _C.crc32(piece, size) == zlib.crc32(piece, size)
