"""What can be wrong with a file, and limits on what a file may request."""

from __future__ import annotations

import collections
import contextlib
import enum
import pickle
import reprlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError

MAX_DEPTH = 100  # containers within containers
MAX_OBJECT_DEPTH = 1000  # the same for files with objects, which refer to each other
MAX_EXPANDED = 10_000_000  # elements, counting a shared container each time it is used
MAX_PICKLE = 1 << 26  # bytes of a pickle: a million tensors
MAX_CONTAINERS = 1 << 22  # containers made by one pickle
MAX_HEADER = 100_000_000  # bytes of a safetensors header, the limit of the safetensors package too
MAX_KEY = 1000  # elements of a tuple that is a dict key
MAX_SAME_HASH = 64  # different dict keys with one hash: with many, a dict degrades to a list


class FileError(ArgumentError):
    """A file that cannot be read: cut short, damaged, of an unknown format, or made to do harm.

    Example:
        >>> import io
        >>> fb.serialization.load(io.BytesIO(b"hello, world"))
        Traceback (most recent call last):
            ...
        flambeau.serialization.FileError: load: a file object: not a safetensors or GGUF file, nor one of PyTorch's formats
    """


class ForbiddenError(FileError, pickle.UnpicklingError):
    """A file that asks for a class or function that loading must not use.

    Example:
        >>> issubclass(fb.serialization.ForbiddenError, fb.serialization.FileError)
        True
    """


# The names known to users.
FileError.__module__ = ForbiddenError.__module__ = "flambeau.serialization"


class Passing(Exception):
    """Carries an exception of the caller's own function (map_location) through translated()."""


def cut_short(what: str, missing: int) -> FileError:
    """The error for a file that ends too early."""
    return FileError(f"{what}: cut short by {missing} bytes; copy or download the file again")


def short(value: Any) -> str:
    """A value as text for an error, truncated."""
    return reprlib.repr(value)[:120]


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Converts errors provoked by a damaged file to FileError; others pass."""
    try:
        yield
    except Passing as carried:
        raise carried.args[0] from None
    except FileError as error:
        text = str(error)
        if text.startswith("load: "):
            raise
        raise type(error)(f"load: {what}: {text}") from error.__cause__
    except RecursionError:
        raise FileError(f"load: {what}: containers are nested too deeply, at most {MAX_DEPTH} levels are read") from None
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"load: {what}: damaged: {type(error).__name__}: {str(error)[:300]}") from error


_LEAVES = (str, bytes, int, float, bool, type(None), complex, bytearray)


def _children(node: Any) -> list[Any]:
    kind = type(node)
    if kind in _LEAVES:
        return []
    found: list[Any] = []
    # The methods of the built-in classes themselves, because a derived class's would run.
    if isinstance(node, dict):
        found += dict.keys(node)
        found += dict.values(node)
    else:
        base = next((base for base in (list, tuple, set, frozenset, collections.deque) if isinstance(node, base)), None)
        found += base.__iter__(node) if base is not None else ()
    try:
        attributes = object.__getattribute__(node, "__dict__")
    except AttributeError:
        return found
    if isinstance(attributes, dict):
        found += attributes.values()
    return found


def check_tree(root: Any, allowed: Callable[[Any], None], largest: int = MAX_EXPANDED, objects: bool = False) -> None:
    """Refuses cycles, deep nesting and containers that grow beyond measure when written out.

    A pickle can use a container many times at the price of two bytes each; a walk over the result would never end.

    Args:
        root: the object.
        allowed: called with everything in it that is not a plain value; raises for what must not be there.
        largest: how many elements there may be, counting a shared container each time it is used.
        objects: whether there are objects that may refer to each other in circles and long chains.
    """
    deepest = MAX_OBJECT_DEPTH if objects else MAX_DEPTH
    allowed(root)
    done: dict[int, tuple[int, int]] = {}  # id: (depth, expanded size)
    path: list[list[Any]] = [[root, iter(_children(root)), 1, 1]]
    open_ids = {id(root)}
    while path:
        frame = path[-1]
        child = next(frame[1], done)
        if child is not done:
            if type(child) in _LEAVES:
                frame[3] += 1
                continue
            if id(child) in open_ids:
                if not objects:
                    raise FileError("a container that contains itself")
                frame[3] += 1
                continue
            if id(child) not in done:
                allowed(child)
                if len(path) >= deepest:
                    raise FileError(f"containers nested deeper than {deepest} levels")
                open_ids.add(id(child))
                path.append([child, iter(_children(child)), 1, 1])
                continue
            depth, size = done[id(child)]
        else:
            node, _, depth, size = path.pop()
            done[id(node)] = (depth, size)
            open_ids.discard(id(node))
            if not path:
                return
            frame = path[-1]
        frame[2] = max(frame[2], depth + 1)
        frame[3] += size
        if frame[2] > deepest:
            raise FileError(f"containers nested deeper than {deepest} levels")
        if frame[3] > largest:
            raise FileError(f"shared containers that stand for more than {largest} elements when written out")


_HASHES = (tuple.__hash__, enum.Enum.__hash__, str.__hash__, int.__hash__, object.__hash__, fb.Tensor.__hash__)
_STANDARD = ("numpy", "datetime", "pathlib", "decimal", "fractions", "uuid")


def _can_be_key(value: Any) -> None:
    """Rejects objects whose class has its own hash function, which would run."""
    kind = type(value)
    plain = kind in (*_LEAVES, frozenset, fb.dtype, fb.device, fb.Size, type) or kind.__module__ in _STANDARD
    own_eq = not issubclass(kind, fb.Tensor) and all(kind.__eq__ is not base.__eq__ for base in (tuple, str, int, object))
    if not plain and (kind.__hash__ not in _HASHES or own_eq):
        raise FileError(f"a {kind.__name__} as a dict key or an element of a set")


class Keys:
    """Checks dict keys and set elements: plain values, whose hashes are fast and distinct."""

    def __init__(self) -> None:
        self._seen: dict[int, list[Any]] = {}

    def check(self, key: Any) -> Any:
        """The key itself, or an error."""
        kind = type(key)
        if kind is str or kind is bytes or kind is bool or kind is float or key is None:
            return key
        if kind is int and -(1 << 60) < key < 1 << 60:
            return key
        # Python recomputes a tuple's hash each time, recursively: deep ones overflow the stack.
        check_tree(key, _can_be_key, MAX_KEY)
        same = self._seen.setdefault(hash(key), [])
        if key not in same:
            same.append(key)
            if len(same) > MAX_SAME_HASH:
                raise FileError(f"more than {MAX_SAME_HASH} dict keys or set elements made to have the same hash")
        return key
