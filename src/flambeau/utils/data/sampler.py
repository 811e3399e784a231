"""Samplers: the order of a dataset's indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import flambeau as fb

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip
__dir__ = __all__.copy

T_co = TypeVar("T_co", covariant=True)


def draw_seed(generator: fb.Generator | None = None) -> int:
    """A seed from a generator, the default one if None."""
    return int(fb.randint(0, 2**63 - 1, (), generator=generator, dtype=fb.int64))


def _seeded(seed: int):
    generator = fb.Generator()
    generator.manual_seed(seed)
    return generator


class Sampler(Generic[T_co]):
    """The order of indices. Subclasses define __iter__, and __len__ if the number of indices is known.

    Args:
        data_source: not used; PyTorch's older samplers pass it.

    Example:
        >>> class Even(fb.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter(range(0, 6, 2))
        >>> list(Even())
        [0, 2, 4]
    """

    def __init__(self, data_source: Any = None) -> None:
        super().__init__()

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a subclass of Sampler must define __iter__(self)")


class SequentialSampler(Sampler[int]):
    """Indices in order.

    Args:
        data_source: the dataset.

    Example:
        >>> list(fb.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order. One number is drawn per epoch, and the whole order follows from it.

    Args:
        data_source: the dataset.
        replacement: whether an index may be drawn more than once.
        num_samples: how many; the length of the dataset if None.
        generator: source of the random numbers; the default generator if None.

    Example:
        >>> sorted(fb.utils.data.RandomSampler("abc"))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: fb.Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self._num_samples, self.generator = (
            data_source,
            replacement,
            num_samples,
            generator,
        )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"RandomSampler: num_samples should be a positive integer, got num_samples={self.num_samples}; "
                "an empty dataset cannot be shuffled"
            )

    @property
    def num_samples(self) -> int:
        """The number of indices per epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        return self._order(_seeded(draw_seed(self.generator)))

    def _order(self, generator) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        if n == 0 and left:
            raise ValueError(f"RandomSampler: {left} samples wanted of an empty dataset")
        while left > 0:
            if self.replacement:
                part = fb.randint(0, n, (min(left, 1024),), generator=generator, dtype=fb.int64)
            else:
                part = fb.randperm(n, generator=generator)[:left]
            left -= part.numel()
            yield from part.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    Args:
        indices: the indices.
        generator: source of the random numbers; the default generator if None.

    Example:
        >>> sorted(fb.utils.data.SubsetRandomSampler([7, 3, 5]))
        [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: fb.Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in fb.randperm(len(self.indices), generator=self.generator).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices sampled with given weights.

    Args:
        weights: one per index; they need not sum to one.
        num_samples: how many to draw.
        replacement: whether an index may be drawn more than once.
        generator: source of the random numbers; the default generator if None.

    Example:
        >>> list(fb.utils.data.WeightedRandomSampler([0, 0, 1], 4))
        [2, 2, 2, 2]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: fb.Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"WeightedRandomSampler: num_samples should be a positive integer, got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement should be a boolean value, got replacement={replacement}"
            )
        self.weights = fb.as_tensor(weights, dtype=fb.float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(
                f"WeightedRandomSampler: weights should be a 1d sequence but given weights have shape {shape}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        chosen = fb.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(chosen.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of another sampler's indices.

    Args:
        sampler: the sampler, or any iterable.
        batch_size: indices per batch.
        drop_last: whether to drop the last batch if it is not full.

    Example:
        >>> list(fb.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"BatchSampler: batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # TypeError if it has none
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
