"""What can be wrong with a file, and how much of anything a file may ask for."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.errors import ArgumentError

MAX_DEPTH = 100  # containers within containers
MAX_EXPANDED = 10_000_000  # elements, counting a shared container each time it is used
MAX_PICKLE = 1 << 26  # bytes of a pickle: a million tensors
MAX_CONTAINERS = 1 << 22  # containers made by one pickle
MAX_HEADER = 100_000_000  # bytes of a safetensors header, the limit of the safetensors package too
MAX_COMPOUND_KEYS = 4096  # tuples and the like as dict keys: their hashes can be made to collide


class FileError(ArgumentError):
    """A file that cannot be read: cut short, damaged, of an unknown format, or made to do harm.

    Example:
        >>> import io
        >>> fb.serialization.load(io.BytesIO(b"hello, world"))
        Traceback (most recent call last):
            ...
        flambeau._files.problems.FileError: load: a file object: not a safetensors file, nor one of PyTorch's formats
    """


class ForbiddenError(FileError, pickle.UnpicklingError):
    """A file that asks for a class or function which loading must not touch.

    Example:
        >>> issubclass(fb.serialization.ForbiddenError, fb.serialization.FileError)
        True
    """


class Passing(Exception):
    """Carries an exception of the caller's own function (map_location) through translated()."""


def cut_short(what: str, missing: int) -> FileError:
    """The error for a file that ends too early."""
    return FileError(f"{what}: cut short by {missing} bytes; copy or download the file again")


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Whatever a damaged file provokes becomes a FileError; what is not the file's fault passes."""
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
    except MemoryError as error:
        raise FileError(f"load: {what}: asks for more memory than there is: {error}") from error
    except Exception as error:
        raise FileError(f"load: {what}: damaged: {type(error).__name__}: {error}") from error


class Keys:
    """Watches what becomes a dict key or a set's element: plain values, whose hashes cannot be made to collide."""

    def __init__(self) -> None:
        self.compound = 0

    def check(self, key: Any) -> Any:
        """The key itself, or an error."""
        kind = type(key)
        if kind is str or kind is bytes or kind is bool or kind is float or key is None:
            return key
        if kind is int and -(1 << 60) < key < 1 << 60:
            return key
        hash(key)  # a TypeError for what cannot be a key
        self.compound += 1
        if self.compound > MAX_COMPOUND_KEYS:
            raise FileError(
                f"more than {MAX_COMPOUND_KEYS} dict keys or set elements that are neither text nor plain numbers"
            )
        return key


_LEAVES = (str, bytes, int, float, bool, type(None), complex, bytearray)


def _children(node: Any) -> list[Any]:
    kind = type(node)
    if kind in _LEAVES:
        return []
    found: list[Any] = []
    if isinstance(node, dict):
        found += node
        found += node.values()
    elif isinstance(node, (list, tuple, set, frozenset)) or kind.__name__ == "deque":
        found += node
    attributes = getattr(node, "__dict__", None)
    if isinstance(attributes, dict):
        found += attributes.values()
    return found


def check_tree(root: Any, allowed: Callable[[Any], None]) -> None:
    """Refuses cycles, deep nesting and containers that grow beyond measure when written out.

    A pickle can use a container many times at the price of two bytes each; a walk over the result would never end.

    Args:
        root: the object.
        allowed: called with everything in it that is not a plain value; raises for what must not be there.
    """
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
                raise FileError("a container that contains itself")
            if id(child) not in done:
                allowed(child)
                if len(path) >= MAX_DEPTH:
                    raise FileError(f"containers nested deeper than {MAX_DEPTH} levels")
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
        if frame[2] > MAX_DEPTH:
            raise FileError(f"containers nested deeper than {MAX_DEPTH} levels")
        if frame[3] > MAX_EXPANDED:
            raise FileError(f"shared containers that stand for more than {MAX_EXPANDED} elements when written out")
