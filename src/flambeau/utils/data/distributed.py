"""The share of a dataset that one of several processes trains on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import flambeau as fb
from flambeau.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]
__dir__ = __all__.copy


def _world(what: str) -> int:
    """get_world_size() or get_rank() of the process group."""
    try:
        ask = getattr(importlib.import_module("flambeau.distributed"), what)
    except (ImportError, AttributeError):
        raise RuntimeError(
            "DistributedSampler: Requires distributed package to be available; pass num_replicas and rank instead"
        ) from None
    return ask()


class DistributedSampler(Sampler[int]):
    """Indices of one process out of several: every num_replicas-th of a common order, all shares of the same length.

    Args:
        dataset: the dataset.
        num_replicas: number of processes; by default that of the process group.
        rank: number of this process; by default its rank in the group.
        shuffle: whether the order is random; call set_epoch() before each epoch for another one.
        seed: the common seed.
        drop_last: whether to drop samples that do not divide evenly; otherwise the first ones are repeated.

    Example:
        >>> list(fb.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = _world("get_world_size") if num_replicas is None else num_replicas
        self.rank = _world("get_rank") if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]"
            )
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = count // self.num_replicas if drop_last else -(-count // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = fb.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = fb.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        while indices and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, on which the random order depends.

        Args:
            epoch: its number.

        Example:
            >>> fb.utils.data.DistributedSampler(range(4), 2, 0).set_epoch(3)
        """
        self.epoch = epoch
