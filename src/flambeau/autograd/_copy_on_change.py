"""Intercepts in-place changes before they happen, for autograd.graph.allow_mutation_on_saved_tensors."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau import Tensor
from flambeau.overrides import TorchFunctionMode


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


class CopyOnChange(TorchFunctionMode):
    """Calls a function with the tensors that an op is about to change.

    Args:
        before_change: takes the list of tensors.

    Example:
        >>> from flambeau.autograd._copy_on_change import CopyOnChange
        >>> with CopyOnChange(lambda targets: print(len(targets))):
        ...     _ = fb.zeros(2).add_(1)
        1
    """

    def __init__(self, before_change: Callable[[list[Tensor]], None]) -> None:
        super().__init__()
        self._before_change = before_change

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Inspects a call before it runs."""
        kwargs = kwargs or {}
        targets = list(_tensors(self._changed(func, args, kwargs)))
        if targets:
            self._before_change(targets)
        return func(*args, **kwargs)

    @staticmethod
    def _changed(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[Any]:
        name = getattr(func, "__name__", "")
        if "out" in kwargs:
            return (kwargs["out"],)
        if name.startswith("_fused_"):  # an optimizer's step
            return (*args, *kwargs.values())
        in_place = name == "__setitem__" or name.endswith("_") and not name.endswith("__")
        # relu(x, True): an extra copy is cheap, a missing one is an error in backward.
        option = kwargs.get("inplace") or isinstance(func, types.FunctionType) and any(a is True for a in args[1:])
        return args[:1] or kwargs.values() if in_place or option else ()
