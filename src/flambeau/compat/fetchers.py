"""The fetchers of torch.utils.data._utils.fetch, used by libraries with their own loops: from indices to a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["_BaseDatasetFetcher", "_DatasetKind", "_IterableDatasetFetcher", "_MapDatasetFetcher"]


class _BaseDatasetFetcher:
    """What both kinds know.

    Args:
        dataset: the dataset.
        auto_collation: whether an index is a list of indices.
        collate_fn: what makes a batch of samples.
        drop_last: whether to drop the last batch if it is not full.
    """

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = dataset, auto_collation, collate_fn, drop_last


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Batches of a dataset with __getitem__."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch, or the sample, of an index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        whole = getattr(self.dataset, "__getitems__", None)
        if whole:
            return self.collate_fn(whole(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Batches of a dataset that decides its own order."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next batch, of the index's length, or the next sample."""
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples: list[Any] = []
        for _ in possibly_batched_index:
            if self.ended:
                break
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)


class _DatasetKind:
    """How samples are fetched: by index, or one after the other."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool) -> Any:
        """The fetcher of a kind."""
        return (_IterableDatasetFetcher if kind else _MapDatasetFetcher)(dataset, auto_collation, collate_fn, drop_last)
