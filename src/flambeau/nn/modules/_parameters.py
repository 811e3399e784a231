"""Modules that hold parameters in a list or a dictionary."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _position(op: str, index: Any, length: int) -> int:
    """An integer index, counted from the front."""
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"{op}: index {i} is out of range for length {length}")
    return i % length


def _pairs(op: str, source: Any) -> list[tuple[str, Any]]:
    """Names and values of a mapping, or of an iterable of pairs."""
    if isinstance(source, Mapping) or (isinstance(source, Module) and hasattr(source, "items")):
        mapping: Any = source
        return list(mapping.items())
    if not isinstance(source, Iterable):
        raise TypeError(f"{op}: expected a mapping or an iterable of pairs, got {type(source).__name__}")
    pairs = []
    for i, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{op}: element {i} should be a pair, got {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{op}: element {i} has length {len(pair)}, expected 2")
        pairs.append(pair)
    return pairs


def _as_parameter(value: Any) -> Any:
    """Tensors become parameters; anything else stays."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value: Any, of: Any) -> str:
    """A tensor by its size, and the additions of `of`; another object by its type."""
    if isinstance(value, Tensor):
        size = "x".join(str(n) for n in value.shape)
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{of(value)} of size {size}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters, registered with the module that holds it; tensors become parameters.

    Args:
        values: the initial values.

    Example:
        >>> p = fb.nn.ParameterList([fb.zeros(2)])
        >>> [name for name, _ in p.named_parameters()]
        ['0']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_position("ParameterList", index, len(self))))

    def __setitem__(self, index: int, param: Any) -> None:
        setattr(self, str(_position("ParameterList", index, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, value: Any) -> Self:
        """Adds a value at the end.

        Example:
            >>> len(fb.nn.ParameterList().append(fb.zeros(2)))
            1
        """
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end.

        Example:
            >>> len(fb.nn.ParameterList().extend([fb.zeros(2), fb.zeros(3)]))
            2
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList: expected an iterable of values, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value, lambda t: t.dtype)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters, registered with the module that holds it; tensors become parameters.

    Args:
        parameters: a mapping, pairs of names and values, or another ParameterDict.

    Example:
        >>> p = fb.nn.ParameterDict({"left": fb.zeros(2)})
        >>> [name for name, _ in p.named_parameters()]
        ['left']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _attribute(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: names must be strings, got {type(key).__name__}")
        return key if not hasattr(ParameterDict, key) else f"_{key}_value"

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._attribute(key)
        self._keys[key] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """A new dictionary of the same values.

        Example:
            >>> len(fb.nn.ParameterDict({"left": fb.zeros(2)}).copy())
            1
        """
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which is added if it is missing.

        Example:
            >>> fb.nn.ParameterDict().setdefault("left", 1)
            1
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all values.

        Example:
            >>> p = fb.nn.ParameterDict({"left": fb.zeros(2)})
            >>> p.clear()
            >>> len(p)
            0
        """
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Removes a value and returns it.

        Example:
            >>> fb.nn.ParameterDict({"left": 1}).pop("left")
            1
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes the last pair and returns it.

        Example:
            >>> fb.nn.ParameterDict({"left": 1}).popitem()
            ('left', 1)
        """
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or a default.

        Example:
            >>> fb.nn.ParameterDict().get("left", 3)
            3
        """
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with one value under several names.

        Example:
            >>> list(fb.nn.ParameterDict().fromkeys(["a", "b"], 1))
            ['a', 'b']
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The names.

        Example:
            >>> list(fb.nn.ParameterDict({"left": 1}).keys())
            ['left']
        """
        return self._keys.keys()

    def items(self) -> Any:
        """Pairs of names and values.

        Example:
            >>> list(fb.nn.ParameterDict({"left": 1}).items())
            [('left', 1)]
        """
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Any:
        """The values.

        Example:
            >>> list(fb.nn.ParameterDict({"left": 1}).values())
            [1]
        """
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds or replaces values.

        Args:
            parameters: a mapping, or pairs of names and values; those of a mapping other than OrderedDict or
                ParameterDict are
                added in the order of their names.

        Example:
            >>> p = fb.nn.ParameterDict()
            >>> p.update({"left": 1})
            >>> p["left"]
            1
        """
        pairs = _pairs("ParameterDict.update", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            # so that the order seen by optimizers and files does not depend on how the mapping was filled
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value, lambda t: t.type())}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
