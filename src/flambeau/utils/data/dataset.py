"""Datasets: samples by index, iterable samples, and datasets composed of others."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import flambeau as fb

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "DatasetError", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]  # fmt: skip
__dir__ = __all__.copy

T_co = TypeVar("T_co", covariant=True)


class Samples(Protocol[T_co]):
    """Anything that can serve as a dataset: a Dataset, a list, any object with samples by index."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class DatasetError(ValueError, AssertionError):
    """Datasets that do not go together; PyTorch asserts that they do.

    Example:
        >>> fb.utils.data.ConcatDataset([])
        Traceback (most recent call last):
            ...
        flambeau.utils.data.dataset.DatasetError: ConcatDataset: datasets should not be an empty iterable
    """


class Dataset(Generic[T_co]):
    """Samples by index. Subclasses define __getitem__, usually __len__, and where a whole batch is cheaper __getitems__.

    Example:
        >>> class Squares(fb.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, index):
        ...         return index ** 2
        >>> Squares()[2]
        4
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__}: a subclass of Dataset must define __getitem__(self, index)")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples one after the other. Subclasses define __iter__; in workers it should yield a share, see get_worker_info().

    Example:
        >>> class Count(fb.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count())
        [0, 1, 2]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a subclass of IterableDataset must define __iter__(self)")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[fb.Tensor, ...]]):
    """A dataset whose samples are tuples of the tensors' rows.

    Args:
        *tensors: tensors of the same first size.

    Example:
        >>> fb.utils.data.TensorDataset(fb.arange(3), fb.zeros(3))[1]
        (tensor(1), tensor(0.))
    """

    def __init__(self, *tensors: fb.Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            sizes = [tuple(t.shape) for t in tensors]
            raise DatasetError(
                f"TensorDataset: Size mismatch between tensors: expected the same first size, got shapes {sizes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[fb.Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Stacks datasets: a sample has one part from each.

    Args:
        *args: datasets; samples are tuples.
        **kwargs: datasets by name instead; samples are dicts.

    Example:
        >>> fb.utils.data.StackDataset(x=[1, 2], y="ab")[0]
        {'x': 1, 'y': 'a'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: Supported either tuple-like (by position) or dict-like (by name) datasets, but both types are given"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed, by position or by name")
        self.datasets: Any = args or kwargs
        lengths = [len(d) for d in (args or kwargs.values())]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets: {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_items(d, indices) for d in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(_items(d, indices) for d in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: Sequence[int]) -> list[Any]:
    batch = getattr(dataset, "__getitems__", None)
    if not callable(batch):
        return [dataset[i] for i in indices]
    items = batch(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}: __getitems__ of {type(dataset).__name__}"
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """Concatenates datasets.

    Args:
        datasets: datasets with a length.

    Example:
        >>> both = fb.utils.data.ConcatDataset(["ab", "cde"])
        >>> len(both), both[2], both[-1]
        (5, 'c', 'e')
    """

    def __init__(self, datasets: Iterable[Samples[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise DatasetError("ConcatDataset: datasets should not be an empty iterable")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise DatasetError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Running totals of the lengths of datasets.

        Example:
            >>> fb.utils.data.ConcatDataset.cumsum(["ab", "cde"])
            [2, 5]
        """
        return list(itertools.accumulate(map(len, sequence)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"ConcatDataset: absolute value of index {idx} exceeds the dataset length {len(self)}")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        if which == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {idx} is out of range for length {len(self)}")
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """PyTorch's older spelling of cumulative_sizes."""
        warnings.warn("cummulative_sizes is now cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Chains iterable datasets.

    Args:
        datasets: iterable datasets.

    Example:
        >>> class Count(fb.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(fb.utils.data.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DatasetError(f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(map(len, self._checked()))  # type: ignore[arg-type]  # TypeError if one has none


class Subset(Dataset[T_co]):
    """The samples of a dataset at given indices.

    Args:
        dataset: the dataset.
        indices: which samples, in which order.

    Example:
        >>> list(fb.utils.data.Subset("abcd", [3, 1]))
        ['d', 'b']
    """

    def __init__(self, dataset: Samples[T_co], indices: Sequence[int]) -> None:
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"Subset: {kind.__name__} overrides __getitem__ but not __getitems__, which DataLoader calls; define it too: "
                "return [self[i] for i in indices]"
            )
        self.dataset: Any = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Samples[T_co], lengths: Sequence[int | float], generator: fb.Generator | None = None
) -> list[Subset[T_co]]:
    """Splits a dataset at random into parts that do not overlap.

    Args:
        dataset: the dataset.
        lengths: sizes of the parts, or fractions that sum to 1; the remainder of rounding is distributed over the
            first parts.
        generator: source of the permutation; the default generator if None.

    Returns:
        One Subset per length.

    Example:
        >>> [len(part) for part in fb.utils.data.random_split(range(10), [0.75, 0.25])]
        [8, 2]
    """
    total = len(dataset)  # type: ignore[arg-type]  # TypeError if it has none
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes: list[int] = []
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"random_split: Fraction at index {i} is not between 0 and 1: {fraction}")
            sizes.append(math.floor(total * fraction))
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
        lengths = sizes
    if sum(lengths) != total:
        raise ValueError(
            f"random_split: Sum of input lengths {sum(lengths)} does not equal the length of the input dataset, {total}"
        )
    indices = fb.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - size : end]) for size, end in zip(lengths, ends, strict=True)]
