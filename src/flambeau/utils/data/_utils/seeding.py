"""Random state of a sample: a function of the epoch's seed and the sample's index, whichever process loads it."""

from __future__ import annotations

import contextlib
import operator
import random
import threading
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau.utils.data._utils import generators

_current = threading.local()  # .sample: the Samples loading on this thread
_MASK = (1 << 63) - 1


def seed_process(seed: int) -> None:
    """Seeds flambeau, the module random and NumPy for a worker process, before its worker_init_fn."""
    import numpy as np

    fb.default_generator.manual_seed(seed & _MASK)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)


class Samples:
    """The random states of an epoch's samples.

    Args:
        seed: the epoch's.
        everywhere: whether the default generators of flambeau, random and NumPy are seeded; thread workers share
            those with
            the whole program and have sample_generator() instead.
    """

    def __init__(self, seed: int, everywhere: bool) -> None:
        self.seed, self.index = seed, 0
        self._set = generators.seed_sample if everywhere else None

    def enter(self) -> None:
        """Makes these the samples that this thread loads."""
        _current.sample = self

    def begin(self, index: Any, position: int) -> None:
        """Sets the random state of a sample; one whose index is not a number gets that of its position."""
        if type(index) is int:
            self.index = index
        else:
            self.remember(index, position)
        if self._set is not None:
            self._set(self.seed, self.index)

    def remember(self, index: Any, position: int) -> None:
        """Records the current sample without touching the default generators."""
        try:
            self.index = operator.index(index)
        except TypeError:
            self.index = position


@contextlib.contextmanager
def preserved() -> Any:
    """Restores the generators of flambeau, random and NumPy afterwards."""
    outer = getattr(_current, "sample", None)
    saved = generators.save()
    try:
        yield
    finally:
        generators.restore(saved)
        _current.sample = outer


def sample_generator() -> Any:
    """A generator for the sample being loaded: the same numbers for the same seed, epoch and index.

    In worker processes and in the main process the default generators are seeded like this too; thread workers share
    those with the whole program, so that a dataset for threads takes its random numbers from here.

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
    sample = getattr(_current, "sample", None)
    if sample is None:
        raise RuntimeError(
            "sample_generator: no sample is being loaded on this thread; call it in a dataset's __getitem__"
        )
    generator = fb.Generator()
    generator.manual_seed(_C.mix(sample.seed, sample.index) >> 1)
    return generator
