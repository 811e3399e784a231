"""Collates samples into batches: by type of the sample, with a table that users can extend."""

from __future__ import annotations

import collections.abc
import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import flambeau as fb
from flambeau.utils.data._utils import worker

_EXPECTED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ not in ("str_", "bytes_", "void")


def default_convert(data: Any) -> Any:
    """Turns NumPy arrays into tensors, also those in lists, tuples and mappings; other values are unchanged.

    Args:
        data: a sample.

    Example:
        >>> fb.utils.data.default_convert({"x": np.ones(2), "name": "a"})
        {'x': tensor([1., 1.], dtype=flambeau.float64), 'name': 'a'}
    """
    if isinstance(data, fb.Tensor):
        return data
    if _is_array(data):
        is_text = getattr(data, "dtype", None) is not None and data.dtype.kind in "SUO"
        return data if is_text else fb.as_tensor(data)
    if isinstance(data, Mapping):
        converted = {key: default_convert(value) for key, value in data.items()}
        return _like_mapping(data, converted)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def _like_mapping(example: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """A mapping of the example's class, which may have more state than items; a dict if that is impossible."""
    try:
        if isinstance(example, MutableMapping):
            clone = copy.copy(example)
            clone.update(values)
            return clone
        return type(example)(values)  # type: ignore[call-arg]  # made of one sequence
    except TypeError:
        return values


def _like_sequence(example: Sequence[Any], values: list[Any]) -> Any:
    try:
        if isinstance(example, MutableSequence):
            clone = copy.copy(example)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(example)(values)  # type: ignore[call-arg]  # made of one sequence
    except TypeError:
        return values


def collate(
    batch: Any, *, collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None
) -> Any:
    """A batch from samples, with functions by type of the sample.

    Args:
        batch: the samples.
        collate_fn_map: for a type (or tuple of types) a function f(batch, *, collate_fn_map); exact types win over base
            classes. Containers are taken apart.

    Example:
        >>> from flambeau.utils.data._utils.collate import collate
        >>> collate([{"x": "a"}, {"x": "b"}], collate_fn_map={str: lambda batch, *, collate_fn_map: "".join(batch)})
        {'x': 'ab'}
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        if kind is tuple:  # the usual sample: skips the checks below
            return [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)]
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)
        if _is_array(first):
            return _collate_arrays(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        missing = [key for d in batch for key in first if key not in d]
        if missing:
            raise KeyError(
                f"default_collate: every sample must have the keys of the first, {list(first)}; {missing[0]!r} is missing "
                "from one; or pass a collate_fn"
            )
        columns = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like_mapping(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)))
    if isinstance(first, tuple):
        return [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)]
    if isinstance(first, collections.abc.Sequence):
        return _like_sequence(first, [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)])
    raise TypeError(_EXPECTED.format(kind))


def _columns(batch) -> list[Any]:
    try:
        return list(zip(*batch, strict=True))
    except ValueError:
        sizes = sorted({len(sample) for sample in batch})
        raise RuntimeError(
            f"default_collate: each element in list of batch should be of equal size, got {sizes}"
        ) from None


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stacks tensors; in a worker process directly into shared memory."""
    try:
        if worker.in_process() and (room := _shared_room(batch)) is not None:
            return fb.stack(batch, 0, out=room)
        return fb.stack(batch, 0)
    except RuntimeError:
        shapes = list(dict.fromkeys(tuple(t.shape) for t in batch))
        if len(shapes) == 1:
            raise
        raise RuntimeError(
            f"stack: default_collate expects each tensor to be equal size, got {shapes[0]} and {shapes[1]}; "
            "pad the samples or pass a collate_fn"
        ) from None


def _shared_room(batch):
    """The destination of the stacked batch; None if it requires gradients, has several dtypes, or is empty."""
    first = batch[0]
    dtype = first.dtype
    if not first.numel() or any(t.requires_grad or t.dtype is not dtype for t in batch):
        return None
    from flambeau.multiprocessing.reductions import empty_shared

    return empty_shared((len(batch), *first.shape), dtype)


def _collate_arrays(batch, *, collate_fn_map=None):
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(_EXPECTED.format(first.dtype))
    if first.shape == () and type(first).__name__ != "ndarray":
        import numpy as np

        return fb.as_tensor(np.array(batch))
    return collate([fb.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python floats as float64."""
    return fb.tensor(batch, dtype=fb.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python integers and bools."""
    return fb.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Text stays a list."""
    return batch


default_collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] = {
    fb.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A batch from samples: tensors and arrays are stacked, numbers become a tensor, containers keep their structure.

    Args:
        batch: a list of samples of the same structure.

    Example:
        >>> fb.utils.data.default_collate([{"x": fb.ones(2), "y": 1}, {"x": fb.zeros(2), "y": 2}])
        {'x': tensor([[1., 1.],
                [0., 0.]]), 'y': tensor([1, 2])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
