"""From indices to a batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau.utils.data._utils import worker
from flambeau.utils.data._utils.collate import default_collate
from flambeau.utils.data._utils.seeding import Samples
from flambeau.utils.data.dataset import StackDataset, Subset, TensorDataset


def _rows_of(dataset: Any) -> tuple[Any, list[Any]] | None:
    """(tensors, maps from an index to the next) if samples are unprocessed rows of tensors."""
    maps: list[Any] = []
    while type(dataset) is Subset:
        maps.append(dataset.indices)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or any(t.requires_grad for t in dataset.tensors):
        return None
    return dataset.tensors, maps


def _loads_at_once(dataset: Any) -> bool:
    """Whether a user's class loads a whole batch; ours only delegate."""
    if type(dataset) is Subset:
        return _loads_at_once(dataset.dataset)
    if type(dataset) is StackDataset:
        parts = dataset.datasets
        return any(map(_loads_at_once, parts.values() if isinstance(parts, dict) else parts))
    return callable(getattr(dataset, "__getitems__", None))


class MapFetcher:
    """Batches of a dataset with __getitem__; every sample with its own random state.

    Args:
        dataset: the dataset.
        collate: what makes a batch of samples.
        batched: whether an order is a list of indices rather than one.
        samples: the random states.
    """

    def __init__(self, dataset: Any, collate: Callable[..., Any], batched: bool, samples: Samples) -> None:
        self.dataset, self.collate, self.batched, self.samples = dataset, collate, batched, samples
        self.whole = _loads_at_once(dataset)
        self.rows = _rows_of(dataset) if batched and collate is default_collate else None

    def __call__(self, number: int, order: Any) -> Any:
        if self.rows is not None and (index := self._positions(order)) is not None:
            return self._rows(index)
        # Rows draw no random numbers, so that the generators need not be saved.
        dataset, begin = self.dataset, self.samples.begin if self.rows is None else self.samples.remember
        self.samples.enter()
        if not self.batched:
            begin(order, number)
            return self.collate(dataset[order])
        if self.whole:
            # A batch fetched at once has one random state, that of its first sample.
            begin(order[0] if len(order) else 0, number)
            return self.collate(dataset.__getitems__(order))
        loaded = []
        for position, index in enumerate(order, number << 32):
            begin(index, position)
            loaded.append(dataset[index])
        return self.collate(loaded)

    def _positions(self, order: Any) -> fb.Tensor | None:
        """The rows of an order as a tensor; None if they are not plain numbers, which __getitem__ handles."""
        assert self.rows is not None
        for known in self.rows[1]:
            order = [known[i] for i in order]
        plain = len(order) > 0 and all(type(i) is int for i in order) and min(order) >= 0
        return fb.tensor(order) if plain and max(order) < len(self.rows[0][0]) else None

    def _rows(self, index: fb.Tensor) -> list[Any]:
        """The result of stacking the rows one by one."""
        assert self.rows is not None
        tensors = self.rows[0]
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
        drop_last: whether to drop the last batch if it is not full.
    """

    ends = True

    def __init__(self, dataset: Any, collate: Callable[..., Any], batch_size: int | None, drop_last: bool) -> None:
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
