"""Classes and modes that handle calls themselves: the protocol of `__torch_function__`.

A class with a class method `__torch_function__(func, types, args, kwargs)` is asked before an op runs on one of its
objects, whether it derives from Tensor or not. Classes that derive from Tensor inherit one which computes as usual and
gives results the class. A TorchFunctionMode is asked about every op while it is open. What is asked about are ops,
their methods and operators, indexing, detach() and data, and every function of fb.nn.functional.

Example:
    >>> class Celsius(fb.Tensor): ...
    >>> type(fb.zeros(2).as_subclass(Celsius) + 1).__name__
    'Celsius'
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import flambeau as fb
from flambeau import _C, Tensor

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_default_nowrap_functions", "get_ignored_functions",
    "get_overridable_functions", "get_testing_overrides",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip
__dir__ = __all__.copy


# ---- dispatch
# ------------------------------------------------------------------------------------------------------------


def _items(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        if type(value) in (tuple, list):
            yield from value


def _askable(values: Iterable[Any]) -> list[Any]:
    """One object per class that handles calls, from the left, subclasses before the classes they derive from."""
    found: list[Any] = []
    for value in values:
        if _C._handles_calls(value) and type(value) not in map(type, found):
            at = next((i for i, other in enumerate(found) if issubclass(type(value), type(other))), len(found))
            found.insert(at, value)
    return found


def _ask(func: Callable[..., Any], askable: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kinds = tuple(type(one) for one in askable)
    modes = _open.modes
    if modes and _C._override_off() < 2:
        with _innermost_set_aside() as mode:
            result = mode.__torch_function__(func, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    if _C._override_off() == 0:
        for one in askable:
            result = one.__torch_function__(func, kinds, args, kwargs)
            if result is not NotImplemented:
                return result
    asked = ", ".join([type(mode).__name__ for mode in modes[-1:]] + [kind.__name__ for kind in kinds])
    raise TypeError(
        f"no implementation found for '{resolve_name(func) or func}' on types that implement __torch_function__: {asked} "
        "returned NotImplemented"
    )


@functools.cache
def _inner() -> frozenset[Any]:
    """Ops called by a function of fb.nn.functional with the same name; classes are asked about the function."""
    return frozenset(op for name, op in _C.namespaces["_nn"].items() if hasattr(fb.nn.functional, name))


def _dispatch(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Called by the core for an op that a class or mode may handle."""
    if func in _inner() and (len(args) == 1 and not kwargs or func.__name__ in ("linear", "batch_norm")):
        func = getattr(fb.nn.functional, func.__name__)
    return _ask(func, _askable(_items((*args, *kwargs.values()))), args, kwargs)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments is to be given to handle_torch_function().

    Args:
        relevant_args: the arguments whose classes may handle calls.

    Example:
        >>> fb.overrides.has_torch_function((fb.zeros(2), 3))
        False
    """
    return _C._is_overridden(*relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """has_torch_function() for one argument.

    Example:
        >>> fb.overrides.has_torch_function_unary(fb.zeros(2))
        False
    """
    return _C._is_overridden(tensor)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """has_torch_function() for arguments that are spelled out.

    Example:
        >>> fb.overrides.has_torch_function_variadic(fb.zeros(2), fb.zeros(2))
        False
    """
    return _C._is_overridden(*relevant_args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Hands a call to the active mode, or else to the classes of the relevant arguments, in order, until one handles it.

    Args:
        public_api: the function that was called; classes see this object as `func`.
        relevant_args: the arguments whose classes may handle calls.
        args: all positional arguments of the call.
        kwargs: all keyword arguments of the call.

    Example:
        >>> class Shouting:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return func.__name__.upper()
        >>> def scale(x, by):
        ...     if fb.overrides.has_torch_function((x,)):
        ...         return fb.overrides.handle_torch_function(scale, (x,), x, by)
        ...     return x * by
        >>> scale(Shouting(), 2)
        'SCALE'
    """
    return _ask(public_api, _askable(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that lets classes handle calls of a function written in Python.

    Args:
        dispatcher: takes the function's arguments and returns those whose classes may handle the call.

    Example:
        >>> @fb.overrides.wrap_torch_function(lambda x: (x,))
        ... def twice(x):
        ...     return x * 2
        >>> twice(fb.ones(1))
        tensor([2.])
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


# ---- Tensor's default behaviour
# ------------------------------------------------------------------------------------------


class DisableTorchFunctionSubclass:
    """A block that disables handling by classes, but not by modes.

    Example:
        >>> from flambeau.overrides import DisableTorchFunctionSubclass
        >>> class Mine(fb.Tensor): ...
        >>> with DisableTorchFunctionSubclass():
        ...     type(fb.zeros(2).as_subclass(Mine) + 1).__name__
        'Tensor'
    """

    _level = 1

    def __enter__(self) -> None:
        self._before = _C._set_override_off(max(self._level, _C._override_off()))

    def __exit__(self, *error: Any) -> None:
        _C._set_override_off(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block that disables handling by classes and modes.

    Example:
        >>> from flambeau.overrides import DisableTorchFunction
        >>> with DisableTorchFunction():
        ...     fb.overrides.has_torch_function_unary(fb.zeros(2))
        False
    """

    _level = 2


@functools.cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results keep their class when they are called on objects of a subclass of Tensor.

    Example:
        >>> fb.Tensor.grad.__get__ in fb.overrides.get_default_nowrap_functions()
        True
    """
    members: Any = Tensor
    return {members._base.__get__, members.grad.__get__}


def _as_class(value: Any, cls: type[Any]) -> Any:
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, (tuple, list)) and any(isinstance(item, (Tensor, tuple, list)) for item in value):
        items = [_as_class(item, cls) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _default(
    cls: type[Any], func: Callable[..., Any], kinds: Iterable[type[Any]], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Computes as usual and converts resulting tensors to the class; NotImplemented for objects of other classes."""
    if not all(issubclass(cls, kind) for kind in kinds):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else _as_class(result, cls)


# ---- modes ---------------------------------------------------------------------------------------------------------------


class _Open(threading.local):
    """The modes active on a thread, innermost last."""

    def __init__(self) -> None:
        self.modes: list[TorchFunctionMode] = []

    def change(self, modes: list[TorchFunctionMode]) -> None:
        self.modes = modes
        _C._set_override_modes(len(modes))


_open = _Open()


@contextlib.contextmanager
def _innermost_set_aside() -> Iterator[TorchFunctionMode]:
    """Disables a mode for the ops it calls itself."""
    before = _open.modes
    _open.change(before[:-1])
    try:
        yield before[-1]
    finally:
        _open.change(before)


@contextlib.contextmanager
def reopened(mode: TorchFunctionMode) -> Iterator[None]:
    """Enables a mode for the ops it calls itself: for one that looks inside a function."""
    before = _open.modes
    _open.change([*before, mode])
    try:
        yield
    finally:
        _open.change(before)


class TorchFunctionMode:
    """A block in which `__torch_function__` of this object handles every op on this thread.

    Example:
        >>> class Names(fb.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     _ = fb.zeros(2).add(1)
        zeros
        add
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Handles a call; a subclass defines what happens, this one just computes."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        _open.change([*_open.modes, self])
        return self

    def __exit__(self, *error: Any) -> None:
        _open.change(_open.modes[:-1])


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing.

    Example:
        >>> with fb.overrides.BaseTorchFunctionMode():
        ...     fb.ones(1) + 1
        tensor([2.])
    """


def _get_current_function_mode() -> TorchFunctionMode | None:
    return _open.modes[-1] if _open.modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(_open.modes)


# ---- about functions -----------------------------------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class that handles calls itself.

    Example:
        >>> fb.overrides.is_tensor_like(fb.zeros(2)), fb.overrides.is_tensor_like([1.0])
        (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


@functools.cache
def _overridable() -> tuple[dict[Any, list[Callable[..., Any]]], dict[Callable[..., Any], str]]:
    by_owner: dict[Any, list[Callable[..., Any]]] = {}
    names: dict[Callable[..., Any], str] = {}
    op_types = (type(fb.add), type(Tensor.add))
    owners: list[tuple[str, Any]] = [("torch", fb), ("torch.nn.functional", fb.nn.functional), ("torch.linalg", fb.linalg)]
    owners += [("torch.fft", fb.fft), ("torch.special", fb.special), ("torch.Tensor", Tensor)]
    for prefix, owner in owners:
        for short, value in vars(owner).items():
            if isinstance(value, op_types) or value in (Tensor.__getitem__, Tensor.__setitem__, Tensor.detach):
                by_owner.setdefault(owner, []).append(value)
                names.setdefault(value, f"{prefix}.{short}")
    return by_owner, names


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that classes and modes may handle, by the module or class that contains them.

    Example:
        >>> fb.add in fb.overrides.get_overridable_functions()[fb]
        True
    """
    return _overridable()[0]


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions that classes and modes never handle: they create tensors without tensor arguments, or take none.

    Example:
        >>> ignored = fb.overrides.get_ignored_functions()
        >>> fb.is_tensor in ignored, fb.add in ignored
        (True, False)
    """
    asked = {f for functions in get_overridable_functions().values() for f in functions}
    return {
        value
        for short, value in vars(fb).items()
        if callable(value) and not isinstance(value, type) and not short.startswith("_") and value not in asked
    }


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that classes are asked about one with its arguments, which returns -1: what tests of a class start from.

    Example:
        >>> import inspect
        >>> stand_in = fb.overrides.get_testing_overrides()[fb.mm]
        >>> inspect.signature(stand_in), stand_in(fb.ones(1), fb.ones(1))
        (<Signature (input, mat2)>, -1)
    """
    return {f: _minus_one(f) for functions in get_overridable_functions().values() for f in functions}


def _minus_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # several overloads
        parameters = inspect.signature(stand_in).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    stand_in.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]  # what inspect reads first
    return stand_in


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The full name, in PyTorch's spelling, of a function that classes may handle; None for others.

    Example:
        >>> fb.overrides.resolve_name(fb.Tensor.add)
        'torch.Tensor.add'
    """
    try:
        return _overridable()[1].get(f)
    except TypeError:  # not hashable, so not ours
        return None


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of Tensor, or gets or sets one of its properties.

    Example:
        >>> fb.overrides.is_tensor_method_or_property(fb.Tensor.add), fb.overrides.is_tensor_method_or_property(fb.add)
        (True, False)
    """
    return getattr(func, "__name__", None) == "__get__" or any(func == value for value in vars(Tensor).values() if callable(value))
