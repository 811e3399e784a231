"""From indices to a batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau.utils.data._utils import seeding, worker
from flambeau.utils.data._utils.collate import default_collate
from flambeau.utils.data.dataset import TensorDataset


class MapFetcher:
    """Batches of a dataset with __getitem__; every sample with its own random state.

    Args:
        dataset: the dataset.
        collate: what makes a batch of samples.
        batched: whether an order is a list of indices rather than one.
        seed: the epoch's.
        reseed: how a sample's seed takes effect.
    """

    def __init__(
        self, dataset: Any, collate: Callable, batched: bool, seed: int, reseed: Callable[[int], None]
    ) -> None:
        self.dataset, self.collate, self.batched, self.seed, self.reseed = dataset, collate, batched, seed, reseed
        self.whole = callable(getattr(dataset, "__getitems__", None))
        plain = type(dataset) is TensorDataset and collate is default_collate and batched
        self.rows = plain and not any(t.requires_grad for t in dataset.tensors)

    def __call__(self, number: int, order: Any) -> Any:
        if not self.batched:
            self._prepare(order, number)
            return self.collate(self.dataset[order])
        if self.rows and order and all(type(i) is int and i >= 0 for i in order):
            return self._rows(fb.tensor(order))
        if self.whole:
            # A batch fetched at once has one random state, that of its first sample.
            self._prepare(order[0] if len(order) else 0, number)
            return self.collate(self.dataset.__getitems__(order))
        samples = []
        for position, index in enumerate(order):
            self._prepare(index, number << 32 | position)
            samples.append(self.dataset[index])
        return self.collate(samples)

    def _prepare(self, index: Any, position: int) -> None:
        self.reseed(seeding.mix(self.seed, index if isinstance(index, int) else position))

    def _rows(self, index) -> list:
        """What stacking the rows one by one would give."""
        tensors = self.dataset.tensors
        if not worker.in_process():
            return [t.index_select(0, index) for t in tensors]
        from flambeau.multiprocessing.reductions import empty_shared

        shapes = [(index.numel(), *t.shape[1:]) for t in tensors]
        return [
            fb.index_select(t, 0, index, out=empty_shared(shape, t.dtype))
            if 0 not in shape
            else t.index_select(0, index)
            for t, shape in zip(tensors, shapes, strict=True)
        ]


class IterableFetcher:
    """Batches of a dataset with __iter__; raises StopIteration at its end.

    Args:
        dataset: the dataset.
        collate: what makes a batch of samples.
        batch_size: samples per batch, None for single samples.
        drop_last: whether a last batch that is not full is left out.
    """

    def __init__(self, dataset: Any, collate: Callable, batch_size: int | None, drop_last: bool) -> None:
        self.samples, self.collate, self.batch_size, self.drop_last = iter(dataset), collate, batch_size, drop_last
        self.ended = False

    def __call__(self, number: int, order: Any) -> Any:
        if self.ended:
            raise StopIteration
        if self.batch_size is None:
            return self.collate(next(self.samples))
        batch = list(itertools.islice(self.samples, len(order)))
        self.ended = len(batch) < len(order)
        if not batch or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate(batch)
