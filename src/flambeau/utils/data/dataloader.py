"""DataLoader: batches of a dataset, loaded ahead by processes or threads."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import multiprocessing.context
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import flambeau as fb
from flambeau.utils.data._utils.collate import default_collate, default_convert
from flambeau.utils.data._utils.iterator import LocalEpoch, PooledEpoch, Progress, Recipe
from flambeau.utils.data._utils.pool import ProcessPool, ThreadPool
from flambeau.utils.data._utils.worker import get_worker_info
from flambeau.utils.data.dataset import IterableDataset, Samples
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
__dir__ = __all__.copy

T_co = TypeVar("T_co", covariant=True)


class _Endless(Sampler[None]):
    """Orders for an iterable dataset, which decides its own order."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a dataset: sampling, collation, and workers that load batches ahead of time.

    The order of samples and the random state in which each is loaded depend on the seed, the epoch and the sample's
    index, not on the number of workers. state_dict() resumes in the middle of an epoch.

    Args:
        dataset: with __getitem__ and __len__, or an IterableDataset.
        batch_size: samples per batch; None yields single samples.
        shuffle: whether to use a new random order in every epoch.
        sampler: a custom order of indices, instead of shuffle.
        batch_sampler: custom batches of indices, instead of batch_size, shuffle, sampler and drop_last.
        num_workers: number of processes (or threads) that load; with 0, batches are loaded on demand in the main
            process.
        collate_fn: makes a batch of a list of samples; default_collate if None.
        pin_memory: whether batches are in pinned memory. Without an accelerator it has no effect, and warns.
        drop_last: whether to drop the last batch if it is not full.
        timeout: seconds to wait for a batch from the workers; 0 waits indefinitely.
        worker_init_fn: called with its number in every worker before it loads.
        multiprocessing_context: "fork", "spawn", "forkserver" or a context; the system's default if None.
        generator: source of the epochs' seeds; the default generator if None.
        prefetch_factor: batches that each worker loads ahead; 2 if None.
        persistent_workers: whether to keep the workers for the next epoch.
        pin_memory_device: device for which memory is pinned.
        in_order: False yields batches as soon as they are ready.
        worker_type: "process" or "thread".
        progress: whether to show a progress bar (needs the package tqdm).

    Example:
        >>> loader = fb.utils.data.DataLoader(fb.utils.data.TensorDataset(fb.arange(5)), batch_size=2)
        >>> [batch.tolist() for batch, in loader]
        [[0, 1], [2, 3], [4]]
    """

    _fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")

    def __init__(
        self,
        dataset: Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: fb.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: str = "process",
        progress: bool = False,
    ) -> None:
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type)
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset: Any = dataset
        sized: Any = dataset
        self.num_workers, self.timeout = num_workers, timeout
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.worker_init_fn = pin_memory, pin_memory_device, worker_init_fn
        self.worker_type, self.progress, self.generator, self.in_order = worker_type, progress, generator, in_order
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
            else:
                sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            order: Any = sampler
            batch_sampler = BatchSampler(order, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
        )
        self.persistent_workers = persistent_workers
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.multiprocessing_context = multiprocessing_context
        self._pool: Any = None
        self._iterator: Any = None
        self._length_given: int | None = None
        self._progress: Progress | None = None
        self._resume: dict[Any, Any] | None = None
        self._epochs = 0
        self._ready = True

    @staticmethod
    def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type) -> None:
        if num_workers < 0:
            raise ValueError(
                "DataLoader: num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
            )
        if timeout < 0:
            raise ValueError("DataLoader: timeout option should be non-negative")
        if worker_type not in ("process", "thread"):
            raise ValueError(f"DataLoader: worker_type is {worker_type!r}, expected 'process' or 'thread'")
        if num_workers == 0:
            if prefetch_factor is not None:
                raise ValueError(
                    "DataLoader: prefetch_factor option could only be specified in multiprocessing. "
                    "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
                )
            if persistent_workers:
                raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")
            if timeout:
                raise ValueError("DataLoader: timeout option needs num_workers > 0")
        elif prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor option should be positive, got {prefetch_factor}")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if num_workers > cores and worker_type == "process":
            warnings.warn(
                f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker in "
                f"current system is {cores}, which is smaller than what this DataLoader is going to create. Please be aware that "
                "excessive worker creation might get DataLoader running slow or even freeze; lower the worker number to avoid it.",
                stacklevel=3,
            )

    def _check_sampling(self, batch_size, shuffle, sampler, batch_sampler, drop_last) -> None:
        if self._iterable:
            for name, value in {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError(
                "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._fixed and getattr(self, "_ready", False):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context in which workers are started, or None for the system's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                    f"but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        f"DataLoader: multiprocessing_context option should specify a valid start method in {known}, but got "
                        f"multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "DataLoader: multiprocessing_context option should be a valid context object or a string specifying the "
                    f"start method, but got multiprocessing_context={context}"
                )
        self._context = context

    @property
    def _dataset_kind(self) -> int:
        return int(self._iterable)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _recipe(self) -> Recipe:
        return Recipe(
            self.dataset, self.collate_fn, self._iterable, self.batch_size, self._auto_collation, self.drop_last,
            self.worker_init_fn, self.num_workers, self.worker_type == "thread",
        )  # fmt: skip

    # ---- iteration -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory and not self._pins():
            warnings.warn(
                "DataLoader: pin_memory is set, but there is no accelerator; memory is not pinned", stacklevel=2
            )
        epoch = self._get_iterator()
        if self.persistent_workers:
            self._iterator = epoch
        return epoch

    def _pins(self) -> bool:
        return self.pin_memory and (bool(self.pin_memory_device) or fb.accelerator.is_available())

    def _get_iterator(self) -> Any:
        """An iterator over the next epoch."""
        resume, self._resume = self._resume, None
        self._epochs += 1
        return LocalEpoch(self, resume) if self.num_workers == 0 else PooledEpoch(self, resume, self._workers())

    def _workers(self):
        if self._pool is not None and not self._pool.closed:
            return self._pool
        recipe = self._recipe()
        make = functools.partial(functools.partial, recipe.loop)
        pool: Any
        if self.worker_type == "thread":
            pool = ThreadPool(make, self.num_workers)
        else:
            pool = ProcessPool(make, self.num_workers, self._context)
        if self.persistent_workers:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool

    def _expected_length(self) -> int | None:
        return self._length_given

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        count = len(self.dataset)
        if self.batch_size is not None:
            count = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        # The program relies on the length from now on: a longer epoch warns.
        self._length_given = count
        return count

    def _progress_bar(self, done: int):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("DataLoader: progress=True needs the package tqdm: pip install tqdm") from None
        try:
            total = len(self)
        except TypeError:
            total = None
        return tqdm(total=total, initial=done, desc=f"epoch {self._epochs}", unit="batch")

    def check_worker_number_rationality(self) -> None:
        """Warns when there are more worker processes than CPUs.

        Example:
            >>> fb.utils.data.DataLoader([1, 2]).check_worker_number_rationality()
        """
        self._check_workers(self.num_workers, 0, None, False, self.worker_type)

    # ---- resuming ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position of the loader: after load_state_dict(), the next iteration continues after the last batch that was returned.

        The default generator belongs to the program and is not part of it; save it too (fb.get_rng_state()), or pass
        a generator.

        Example:
            >>> loader = fb.utils.data.DataLoader(range(4), generator=fb.Generator().manual_seed(0), shuffle=True)
            >>> batches = iter(loader)
            >>> first, state = next(batches), loader.state_dict()
            >>> again = fb.utils.data.DataLoader(range(4), generator=fb.Generator(), shuffle=True)
            >>> again.load_state_dict(state)
            >>> list(again) == list(batches)
            True
        """
        state: dict[str, Any] = {"epochs": self._epochs, "epoch": None}
        if isinstance(self.generator, fb.Generator):
            state["generator"] = self.generator.get_state()
        if self._resume is not None:
            state["epoch"] = self._resume
        elif self._progress is not None and not self._progress.ended:
            state["epoch"] = self._progress.state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the position of a loader; the next iteration continues its epoch.

        Args:
            state_dict: the state_dict() of a loader with the same dataset and arguments; num_workers may differ.

        Example:
            >>> loader = fb.utils.data.DataLoader(range(4))
            >>> loader.load_state_dict(loader.state_dict())
        """
        missing = {"epochs", "epoch"} - set(state_dict)
        if missing:
            raise ValueError(f"load_state_dict: this is not the state of a DataLoader; {sorted(missing)} are missing")
        if "generator" in state_dict and isinstance(self.generator, fb.Generator):
            self.generator.set_state(state_dict["generator"])
        self._resume, self._progress = state_dict["epoch"], None
        self._epochs = state_dict["epochs"] - (self._resume is not None)
