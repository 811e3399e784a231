"""Small helpers of the modules."""

from __future__ import annotations

import collections.abc
from collections import OrderedDict
from itertools import repeat
from typing import Any

from flambeau.errors import ArgumentError

__all__ = ["consume_prefix_in_state_dict_if_present"]
__dir__ = __all__.copy


def _ntuple(n: int):
    """A function that converts a value, or an iterable, to a tuple of n."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, collections.abc.Iterable) else tuple(repeat(x, n))

    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Elements from last to first, each n times: padding of each dimension in the form of F.pad()."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _check_sizes(module: object, **sizes: Any) -> None:
    """Rejects sizes of a layer that are not integers, or negative."""
    for name, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TypeError(f"{type(module).__name__}: {name} must be a whole number, got {size!r}")
        if size < 0:
            raise ArgumentError(
                f"{type(module).__name__}: {name} must not be negative (Trying to create tensor with negative dimension {size})"
            )


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Removes a prefix from the keys of a state_dict, in place.

    Example:
        >>> state = {"module.weight": 1}
        >>> fb.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        >>> state
        {'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if isinstance(metadata, (dict, OrderedDict)):
        for key in list(metadata):
            if key and key.startswith(prefix.rstrip(".")):
                metadata[key[len(prefix) :]] = metadata.pop(key)
