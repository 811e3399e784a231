"""Containers of modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from types import NoneType
from typing import Any, Self, SupportsIndex, overload

from flambeau import Tensor
from flambeau.nn.modules._calling import unobserved
from flambeau.nn.modules._parameters import ParameterDict, ParameterList, _pairs, _position
from flambeau.nn.modules.activation import ReLU
from flambeau.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.overrides import _open

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
__dir__ = __all__.copy


class Container(Module):
    """A module of named modules; a legacy container.

    Args:
        kwargs: the modules by name.

    Example:
        >>> fb.nn.Container(act=fb.nn.ReLU()).act
        ReLU()
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Shared by Sequential and ModuleList: children named "0", "1" and so on."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        """Sets these modules as the only children, renumbered."""
        kept = list(modules)
        self._modules.clear()
        for i, module in enumerate(kept):
            self._modules[str(i)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def _key(self, index: Any) -> str:
        """The name of the child at an index."""
        place = _position(type(self).__name__, index, len(self))
        return next(islice(self._modules, place, None))


_NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)


def _work_together(norm: Any, module: Module, input: Any) -> bool:
    """Whether batch norm may apply the relu after it, because the intermediate result cannot be observed."""
    return (
        type(module) is ReLU and type(input) is Tensor and input.is_cpu and not _open.modes
        and unobserved(norm) and unobserved(module)
        and all(type(t) in (Parameter, Tensor, NoneType) for t in (norm.weight, norm.bias, norm.running_mean))
    )  # fmt: skip


class Sequential(_Numbered):
    """A sequence of modules; each is called with the output of the previous one.

    Args:
        args: the modules, or one OrderedDict of named modules.

    Example:
        >>> fb.nn.Sequential(fb.nn.ReLU(), fb.nn.Flatten())
        Sequential(
          (0): ReLU()
          (1): Flatten(start_dim=1, end_dim=-1)
        )
    """

    def __init__(self, *args: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, given in enumerate(args):
                self.add_module(str(i), given)  # type: ignore[arg-type]  # TypeError if it is no module

    def forward(self, input: Any) -> Tensor:
        norm: Any = None  # a batch norm that is deferred until the next module is known
        for module in self._modules.values():
            if norm is not None:
                waiting, norm = norm, None
                if _work_together(waiting, module, input):
                    input = waiting._rectified(input)
                    continue
                input = waiting(input)
            if type(module) in _NORMS:
                norm = module
            else:
                input = module(input)
        return input if norm is None else norm(input)

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: slice | SupportsIndex) -> None:
        if isinstance(index, slice):
            for key in list(self._modules)[index]:
                delattr(self, key)
        else:
            delattr(self, self._key(index))
        self._renumber(self._modules.values())

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: only another Sequential can be added, got {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: only another Sequential can be added, got {type(other).__name__}")
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        _check_times(times)
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        _check_times(times)
        return self.extend(list(self) * (times - 1))

    def append(self, module: Module) -> Self:
        """Adds a module at the end.

        Example:
            >>> len(fb.nn.Sequential().append(fb.nn.ReLU()))
            1
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before the one at an index.

        Example:
            >>> fb.nn.Sequential(fb.nn.ReLU()).insert(0, fb.nn.Tanh())[0]
            Tanh()
        """
        if not isinstance(module, Module):
            raise AssertionError(f"insert: expected a Module, got {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"insert: index {index} is out of range for length {n}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end.

        Example:
            >>> len(fb.nn.Sequential().extend([fb.nn.ReLU(), fb.nn.Tanh()]))
            2
        """
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: SupportsIndex) -> Module:
        """Removes the module at an index and returns it.

        Example:
            >>> fb.nn.Sequential(fb.nn.ReLU()).pop(0)
            ReLU()
        """
        module = self[key]
        del self[key]
        return module


def _check_times(times: Any) -> None:
    if not isinstance(times, int):
        raise TypeError(f"Sequential: can be repeated a whole number of times, got {type(times).__name__}")
    if times <= 0:
        raise ValueError(f"Sequential: can be repeated a positive number of times, got {times}")


class ModuleList(_Numbered):
    """A list of modules, registered as submodules of the module that holds it.

    Args:
        modules: the initial modules.

    Example:
        >>> fb.nn.ModuleList([fb.nn.ReLU(), fb.nn.ReLU()])
        ModuleList(
          (0-1): 2 x ReLU()
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[str(_position("ModuleList", index, len(self)))]

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, str(_position("ModuleList", index, len(self))), module)

    def __delitem__(self, index: slice | SupportsIndex) -> None:
        modules = list(self)
        del modules[index]
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def append(self, module: Module) -> Self:
        """Adds a module at the end.

        Example:
            >>> len(fb.nn.ModuleList().append(fb.nn.ReLU()))
            1
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end.

        Example:
            >>> len(fb.nn.ModuleList().extend([fb.nn.ReLU(), fb.nn.Tanh()]))
            2
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList: expected an iterable of modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before the one at an index.

        Example:
            >>> m = fb.nn.ModuleList([fb.nn.ReLU()])
            >>> m.insert(0, fb.nn.Tanh())
            >>> m[0]
            Tanh()
        """
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: SupportsIndex) -> Module:
        """Removes the module at an index and returns it.

        Example:
            >>> fb.nn.ModuleList([fb.nn.ReLU()]).pop(0)
            ReLU()
        """
        module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """Equal neighbors share a line: (0-3): 4 x ReLU()."""
        runs: list[list[Any]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(f"  {head}: {times}{text}".replace("\n", "\n  "))
        return f"{self._get_name()}(\n" + "\n".join(lines) + "\n)"


class ModuleDict(Module):
    """An ordered dictionary of modules, registered as submodules of the module that holds it.

    Args:
        modules: the initial modules, as a mapping or as pairs of names and modules.

    Example:
        >>> fb.nn.ModuleDict({"act": fb.nn.ReLU()})["act"]
        ReLU()
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules.

        Example:
            >>> m = fb.nn.ModuleDict({"act": fb.nn.ReLU()})
            >>> m.clear()
            >>> len(m)
            0
        """
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes a module and returns it.

        Example:
            >>> fb.nn.ModuleDict({"act": fb.nn.ReLU()}).pop("act")
            ReLU()
        """
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names.

        Example:
            >>> list(fb.nn.ModuleDict({"act": fb.nn.ReLU()}).keys())
            ['act']
        """
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Pairs of names and modules.

        Example:
            >>> list(fb.nn.ModuleDict({"act": fb.nn.ReLU()}).items())
            [('act', ReLU())]
        """
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules.

        Example:
            >>> list(fb.nn.ModuleDict({"act": fb.nn.ReLU()}).values())
            [ReLU()]
        """
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds or replaces modules.

        Args:
            modules: a mapping, or pairs of names and modules.

        Example:
            >>> m = fb.nn.ModuleDict()
            >>> m.update([("act", fb.nn.ReLU())])
            >>> "act" in m
            True
        """
        for name, module in _pairs("ModuleDict.update", modules):
            self[name] = module
