"""Python objects that all processes read from shared memory.

A list of a million small objects costs memory in every worker, even after a fork: reading an object writes to its
reference count, which copies its page. Here the objects are pickled bytes in one shared tensor, unpickled on demand.
"""

from __future__ import annotations

import collections.abc
import marshal
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flambeau as fb

__all__ = ["SharedDict", "SharedList"]
__dir__ = __all__.copy


def _store(parts: Iterable[bytes]):
    """The concatenated parts in a shared tensor, and their offsets."""
    from flambeau.multiprocessing.reductions import empty_shared

    parts = list(parts)
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    data = empty_shared((max(starts[-1], 1),), fb.uint8)
    view = memoryview(data)
    for start, part in zip(starts, parts, strict=False):
        view[start : start + len(part)] = part
    offsets = empty_shared((len(starts),), fb.int64).copy_(fb.tensor(starts))
    return data, offsets


class SharedList(collections.abc.Sequence[Any]):
    """A read-only list in shared memory; each item is unpickled when it is read.

    Args:
        items: objects that can be pickled.

    Example:
        >>> items = fb.utils.data.SharedList([{"name": "a"}, {"name": "b"}])
        >>> len(items), items[-1]
        (2, {'name': 'b'})
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._data, self._offsets = _store(pickle.dumps(item, pickle.HIGHEST_PROTOCOL) for item in items)

    def __len__(self) -> int:
        return self._offsets.numel() - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"SharedList: index {index} is out of range for length {len(self)}")
        start, end = self._offsets[position : position + 2].tolist()
        return pickle.loads(memoryview(self._data)[start:end])

    def __repr__(self) -> str:
        return f"SharedList({len(self)} items, {self._data.numel()} bytes)"


def _key_bytes(key: Any) -> bytes:
    """The same bytes for equal keys in every process; hash() of a string differs between processes."""
    if isinstance(key, (bool, float)) and key == int(key):
        key = int(key)
    try:
        return marshal.dumps(key, 2)  # later versions encode a repeated string differently
    except ValueError:
        raise TypeError(
            f"SharedDict: keys are texts, bytes, numbers or tuples of them, got {type(key).__name__}"
        ) from None


def _hash(data: bytes) -> int:
    import hashlib

    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


class SharedDict(collections.abc.Mapping[Any, Any]):
    """A read-only dict in shared memory; each value is unpickled when it is read. Iterates in the order of insertion.

    Args:
        items: a mapping, or pairs; keys are texts, bytes, numbers or tuples of them.

    Example:
        >>> ages = fb.utils.data.SharedDict({"Ada": 36, "Alan": 41})
        >>> ages["Alan"], "Kurt" in ages
        (41, False)
    """

    def __init__(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        from flambeau.multiprocessing.reductions import empty_shared

        pairs = dict(items)
        keys = [_key_bytes(key) for key in pairs]
        self._keys = SharedList(zip(keys, pairs, strict=True))
        self._values = SharedList(pairs.values())
        hashes = sorted((_hash(key), place) for place, key in enumerate(keys))
        self._hashes = empty_shared((len(hashes), 2), fb.int64)
        if hashes:
            self._hashes.copy_(fb.tensor(hashes))

    def __getitem__(self, key: Any) -> Any:
        wanted = _key_bytes(key)
        code = _hash(wanted)
        row = int(fb.searchsorted(self._hashes[:, 0].contiguous(), code)) if len(self) else 0
        while row < len(self):
            found, place = self._hashes[row].tolist()
            if found != code:
                break
            if self._keys[place][0] == wanted:
                return self._values[place]
            row += 1
        raise KeyError(key)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return (key for _, key in self._keys)

    def __repr__(self) -> str:
        return f"SharedDict({len(self)} items)"
