"""One epoch of a DataLoader: schedules the loading of batches, and the order in which they are returned."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import flambeau as fb
from flambeau._tensor.pinning import pin_all
from flambeau.utils.data import sampler as samplers
from flambeau.utils.data._utils import seeding
from flambeau.utils.data._utils.fetch import IterableFetcher, MapFetcher
from flambeau.utils.data._utils.pool import ProcessPool
from flambeau.utils.data._utils.worker import Loop
from flambeau.utils.data.distributed import DistributedSampler

_END = object()
# These use flambeau's generators only, so that no other state belongs to an epoch.
_OURS = (
    samplers.SequentialSampler, samplers.RandomSampler, samplers.SubsetRandomSampler, samplers.WeightedRandomSampler,
    DistributedSampler,
)  # fmt: skip


@dataclass
class Recipe:
    """The settings that a worker needs from a DataLoader; sent to worker processes."""

    dataset: Any
    collate: Callable[..., Any]
    iterable: bool
    batch_size: int | None
    batched: bool
    drop_last: bool
    init: Callable[..., Any] | None
    workers: int
    threads: bool

    def fetcher(self, seed: int, everywhere: bool = True) -> Any:
        """The source of an epoch's batches; `everywhere`: seeds the default generators for each sample."""
        if self.iterable:
            return IterableFetcher(self.dataset, self.collate, self.batch_size, self.drop_last)
        return MapFetcher(self.dataset, self.collate, self.batched, seeding.Samples(seed, everywhere))

    def start_epoch(self, seed: int, own_seed: int) -> Any:
        """Seeds the worker; returns the function that creates its fetcher, to be called after worker_init_fn."""
        if not self.threads:
            seeding.seed_process(own_seed)
        return functools.partial(self.fetcher, seed, not self.threads)

    def loop(self, number: int) -> Loop:
        """The work of one worker."""
        kind = "thread" if self.threads else "process"
        return Loop(self.start_epoch, self.init, number, self.workers, self.dataset, kind)


class Borrowed:
    """What an epoch needs of an object that is not a DataLoader but has the attributes of PyTorch's.

    Libraries with a loader of their own hand such objects to the iterators of torch.utils.data.dataloader.

    Args:
        loader: the object, with dataset, num_workers, collate_fn, _dataset_kind, _index_sampler and so on.
    """

    def __init__(self, loader: Any) -> None:
        self.dataset, self.num_workers = loader.dataset, loader.num_workers
        self.generator, self.sampler = getattr(loader, "generator", None), None
        self.batch_sampler = loader._index_sampler if loader._auto_collation else None
        self._index_sampler, self._iterable = loader._index_sampler, bool(loader._dataset_kind)
        self.timeout, self.in_order = getattr(loader, "timeout", 0), getattr(loader, "in_order", True)
        self.prefetch_factor = getattr(loader, "prefetch_factor", None) or 2
        # Its workers belong to the iterator and cannot be kept.
        self.persistent_workers, self.progress, self._progress = False, False, None
        self._context = getattr(loader, "multiprocessing_context", None)
        self._collate, self._drop_last = loader.collate_fn, getattr(loader, "drop_last", False)
        self._init, self._batched = getattr(loader, "worker_init_fn", None), loader._auto_collation
        self._batch_size = getattr(loader, "batch_size", None) if loader._auto_collation else None

    def _recipe(self) -> Recipe:
        return Recipe(
            self.dataset, self._collate, self._iterable, self._batch_size, self._batched, self._drop_last, self._init,
            self.num_workers, False,
        )  # fmt: skip

    def _workers(self) -> Any:
        return ProcessPool(functools.partial(functools.partial, self._recipe().loop), self.num_workers, self._context)

    def _expected_length(self) -> int | None:
        return None


def _orders(order: Any, following: Iterator[Any]) -> Iterator[Any]:
    """An order and those that follow it; iter() is not called again, since some samplers then restart."""
    while order is not _END:
        yield order
        order = next(following, _END)


class Plan:
    """The orders of an epoch and the state to make them again.

    Args:
        loader: the DataLoader.
        resume: state of an epoch that was left in the middle, or None.
    """

    def __init__(self, loader: Any, resume: dict[Any, Any] | None) -> None:
        sources = {"default": fb.default_generator, "loader": loader.generator}
        sources["sampler"] = getattr(loader.sampler, "generator", None)
        self.sources = {name: g for name, g in sources.items() if isinstance(g, fb.Generator)}
        self.foreign = loader.batch_sampler is not None and type(loader.batch_sampler) is not samplers.BatchSampler
        self.foreign |= type(loader.sampler) not in _OURS
        now = self._state()
        if resume is not None:
            self._restore(resume["random"])
        self.start = self._state()
        self.seed = samplers.draw_seed(loader.generator)
        orders: Iterator[Any] = iter(loader._index_sampler)
        # The first order is made now: samplers draw their numbers then, and the current state is known.
        self.numbered: Iterator[tuple[int, Any]] = enumerate(_orders(next(orders, _END), orders))
        if resume is not None:
            done = set(resume["ahead"])
            self.skip = resume["batches"]
            if not loader._iterable:
                self.numbered = itertools.islice(self.numbered, self.skip, None)
                self.numbered = ((n, order) for n, order in self.numbered if n not in done)
            # The default generator is the program's, which has advanced since the epoch began.
            fb.default_generator.set_state(now["default"])
            self._set_foreign(now)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: g.get_state() for name, g in self.sources.items()}
        if self.foreign:
            import numpy as np

            version, words, gauss = random.getstate()
            state["python"] = [version, list(words), gauss]
            name, keys, position, has_gauss, cached = cast(Any, np.random.get_state())
            state["numpy"] = [name, keys.tolist(), position, has_gauss, cached]
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        for name, generator in self.sources.items():
            if name in state:
                generator.set_state(state[name])
        self._set_foreign(state)

    def _set_foreign(self, state: dict[str, Any]) -> None:
        if "python" in state:
            import numpy as np

            version, words, gauss = state["python"]
            random.setstate((version, tuple(words), gauss))
            name, keys, position, has_gauss, cached = state["numpy"]
            np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))


class Progress:
    """How far an epoch is; outlives its iterator, so that a loop that was left can be resumed.

    Args:
        start: random state at the beginning of the epoch.
        resume: state of an epoch that was left in the middle, or None.
    """

    def __init__(self, start: dict[str, Any], resume: dict[Any, Any] | None) -> None:
        self.start, self.ended = start, False
        self.delivered: int = resume["batches"] if resume else 0  # all batches below this number have been returned
        self.ahead: set[int] = set(resume["ahead"] if resume else ())  # and these above it

    def deliver(self, number: int) -> None:
        """Notes that a batch was given out."""
        self.ahead.add(number)
        while self.delivered in self.ahead:
            self.ahead.discard(self.delivered)
            self.delivered += 1

    def state(self) -> dict[str, Any]:
        """The state for a later run to continue after the last returned batch."""
        return {"batches": self.delivered, "ahead": sorted(self.ahead), "random": self.start}


class Epoch:
    """An iterator over the batches of one epoch.

    Args:
        loader: the DataLoader, or an object with the attributes of PyTorch's.
        resume: state of an epoch that was left in the middle, or None.
    """

    def __init__(self, loader: Any, resume: dict[Any, Any] | None = None) -> None:
        self.plan = Plan(loader, resume)
        loader._progress = self.progress = Progress(self.plan.start, resume)
        self.counted = loader._iterable  # numbers have gaps where a worker had nothing left
        self.length = functools.partial(len, loader._index_sampler)
        self.bar = loader._progress_bar(self.progress.delivered + len(self.progress.ahead)) if loader.progress else None
        # An iterable dataset may return more than it promised, as happens if workers do not split it.
        self.expected, self.given = loader._expected_length(), 0
        self._dataset, self._num_workers = loader.dataset, loader.num_workers
        self._pin = functools.partial(pin_all, device=loader.pin_memory_device or None) if getattr(loader, "_pins", bool)() else None
        self._persistent_workers = loader.persistent_workers

    @staticmethod
    def known(loader: Any) -> Any:
        """The loader itself, or a substitute for an object of another class."""
        return loader if hasattr(loader, "_recipe") else Borrowed(loader)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return self.length()

    def __next__(self) -> Any:
        try:
            number, batch = self._next()
        except StopIteration:
            self.progress.ended = True
            if self.bar is not None:
                self.bar.close()
            raise
        self.progress.deliver(self.progress.delivered if self.counted else number)
        if self.bar is not None:
            self.bar.update()
        self.given += 1
        if self.expected is not None and self.given > self.expected:
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {self.expected} (by len(dataloader)), but "
                f"{self.given} samples have been fetched. For multiprocessing data-loading, this could be because __iter__ yields "
                "everything in each worker instead of a share (see get_worker_info)",
                stacklevel=2,
            )
        return batch if self._pin is None else self._pin(batch)

    @property
    def _num_yielded(self) -> int:
        return self.given

    @property
    def _workers(self) -> Any:
        """The worker processes, as long as they run."""
        return ()

    def _shutdown_workers(self) -> None:
        """Ends the workers, if there are any; the iterator cannot be used after it."""

    def _next(self) -> tuple[int, Any]:
        raise NotImplementedError


class LocalEpoch(Epoch):
    """Batches loaded in the main process, on demand."""

    def __init__(self, loader: Any, resume: dict[Any, Any] | None = None) -> None:
        loader = self.known(loader)
        super().__init__(loader, resume)
        self.isolated = not loader._iterable
        self.fetch = loader._recipe().fetcher(self.plan.seed)
        # Rows of tensors need no random numbers: no state to separate.
        self.isolated &= getattr(self.fetch, "rows", None) is None
        if resume is not None and loader._iterable:
            for number, order in itertools.islice(self.plan.numbered, resume["batches"]):
                self.fetch(number, order)

    def _next(self) -> tuple[int, Any]:
        number, order = next(self.plan.numbered)
        if not self.isolated:
            return number, self.fetch(number, order)
        with seeding.preserved():
            return number, self.fetch(number, order)


class PooledEpoch(Epoch):
    """Batches loaded ahead by workers.

    Args:
        loader: the DataLoader.
        resume: state of an epoch that was left in the middle, or None.
        pool: its workers; None starts them.
    """

    def __init__(self, loader: Any, resume: dict[Any, Any] | None = None, pool: Any = None) -> None:
        loader = self.known(loader)
        if pool is None:
            pool = loader._workers()
        super().__init__(loader, resume)
        self.pool, self.workers, self.timeout, self.in_order = pool, loader.num_workers, loader.timeout, loader.in_order
        self.persistent, self.iterable = loader.persistent_workers, loader._iterable
        self.finalizer = None if self.persistent else weakref.finalize(self, pool.close)
        pool.epoch = self.epoch = getattr(pool, "epoch", 0) + 1
        self.active = list(range(self.workers))
        self.turn = 0
        self.load = [0] * self.workers
        self.prefetch = loader.prefetch_factor
        self.outstanding: dict[int, int] = {}  # number of a batch -> worker, in the order they were sent
        self.arrived: dict[int, Any] = {}
        try:
            for worker in self.active:
                pool.submit(worker, ("epoch", self.epoch, self.plan.seed))
            self._fill()
            if resume is not None and self.iterable:
                for _ in range(resume["batches"]):
                    self._next()
        except BaseException:
            pool.close()
            raise

    @property
    def _workers(self) -> Any:
        return () if self.pool.closed else getattr(self.pool, "processes", ())

    def _shutdown_workers(self) -> None:
        self.pool.close()

    def _fill(self) -> None:
        """Keeps prefetch_factor batches per worker ordered."""
        while self.active and len(self.outstanding) < self.prefetch * len(self.active):
            task = next(self.plan.numbered, None)
            if task is None:
                return
            worker = self._choose()
            self.outstanding[task[0]] = worker
            self.load[worker] += 1
            self.pool.submit(worker, ("batch", *task))

    def _choose(self) -> int:
        """In turn; without an order to keep, the worker with the fewest orders."""
        if not self.in_order:
            return min(self.active, key=self.load.__getitem__)
        self.turn += 1
        return self.active[(self.turn - 1) % len(self.active)]

    def _next(self) -> tuple[int, Any]:
        if self.pool.closed or self.pool.epoch != self.epoch:
            if self.progress.ended or self.persistent:
                raise StopIteration
            raise RuntimeError("DataLoader: the workers of this iterator have ended; make a new one with iter(loader)")
        while self.outstanding:
            number = next(iter(self.outstanding)) if self.in_order else next(iter(self.arrived), None)
            if number not in self.arrived:
                self._await()
                continue
            kind, value = self.arrived.pop(number)
            del self.outstanding[number]
            if kind == "end":
                continue
            self._fill()
            if kind == "error":
                value.reraise()
            return number, value
        self.progress.ended = True
        if not self.persistent:
            self.pool.close()
        raise StopIteration

    def _await(self) -> None:
        try:
            answer = self.pool.receive(self.timeout or None)
        except BaseException:
            self.pool.close()  # interrupted, or a worker has died: later batches could not be trusted
            raise
        if answer is None:
            self.pool.close()
            raise RuntimeError(
                f"DataLoader timed out after {self.timeout} seconds; the sample takes longer, or a worker waits for something: "
                "raise timeout, or try num_workers=0"
            )
        worker, (epoch, number, kind, value) = answer
        if epoch != self.epoch:
            return  # from an aborted epoch
        self.load[worker] -= 1
        self.arrived[number] = (kind, value)
        if kind == "end" and worker in self.active:
            self.active.remove(worker)
            self._fill()
