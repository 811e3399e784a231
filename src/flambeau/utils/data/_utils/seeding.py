"""Random state of a sample: a function of the epoch's seed and the sample's index, whoever loads it."""

from __future__ import annotations

import _random
import contextlib
import random
import threading

import flambeau as fb

_current = threading.local()  # .seed: of the sample being loaded on this thread
_MASK = (1 << 64) - 1


def mix(seed: int, index: int) -> int:
    """64 well-mixed bits of a seed and an index (the finaliser of SplitMix64)."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def seed_everything(seed: int) -> None:
    """Seeds flambeau, the module random, and NumPy."""
    import numpy as np

    _current.seed = seed
    fb.default_generator.manual_seed(seed & (_MASK >> 1))
    _random.Random.seed(random._inst, seed)  # type: ignore[attr-defined]
    np.random.seed(seed & 0xFFFFFFFF)


def only_remember(seed: int) -> None:
    """For threads, which share the generators with everybody: the seed is for sample_generator() alone."""
    _current.seed = seed


@contextlib.contextmanager
def preserved():
    """Puts the generators of flambeau, random and NumPy back afterwards."""
    import numpy as np

    ours, python, numpy = fb.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        fb.default_generator.set_state(ours)
        random.setstate(python)
        np.random.set_state(numpy)


def sample_generator():
    """A generator for the sample being loaded: the same numbers for the same seed, epoch and index.

    In worker processes and in the main process the default generators are seeded like this too; thread workers share those
    with the whole program, so that a dataset for threads takes its random numbers from here.

    Example:
        >>> class Noisy(fb.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return fb.rand(2, generator=fb.utils.data.sample_generator())
        >>> load = lambda n: next(iter(fb.utils.data.DataLoader(
        ...     Noisy(), 4, num_workers=n, worker_type="thread", generator=fb.Generator().manual_seed(1))))
        >>> bool((load(0) == load(2)).all())
        True
    """
    seed = getattr(_current, "seed", None)
    if seed is None:
        raise RuntimeError(
            "sample_generator: no sample is being loaded on this thread; call it in a dataset's __getitem__"
        )
    generator = fb.Generator()
    generator.manual_seed(seed & (_MASK >> 1))
    return generator
