"""Classes a file may name besides the built-in ones, and how their objects are made without running any of their code."""

from __future__ import annotations

import argparse
import enum
import sys
import types
from typing import Any

from flambeau._files.problems import ForbiddenError, short
from flambeau.errors import ArgumentError

# {full name: class}, filled by add_safe_globals().
registered: dict[str, type] = {}


def full_name(cls: type) -> str:
    """module.qualified_name, as pickles spell it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def is_namedtuple(cls: type) -> bool:
    """Whether the class is a tuple with names and nothing else in the object."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def checked(item: Any) -> tuple[str, type]:
    """(name, class) of what add_safe_globals() got; refuses functions, which could only be used by running them."""
    cls, name = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
    if not isinstance(cls, type):
        raise ArgumentError(
            f"add_safe_globals: {getattr(cls, '__name__', cls)!r} is not a class: functions would run when the file is "
            "loaded, and loading never runs code; save plain containers and tensors instead"
        )
    if name is not None and not isinstance(name, str):
        raise TypeError(f"add_safe_globals: expected (class, 'module.name'), got a {type(name).__name__} as the name")
    return name or full_name(cls), cls


def is_plain(cls: type) -> bool:
    """Whether objects can be made without running code of the class: it is plain Python, a named tuple or an enumeration."""
    return is_namedtuple(cls) or issubclass(cls, enum.Enum) or all(base.__flags__ & (1 << 9) for base in cls.__mro__[:-1])


def plain(cls: type) -> type:
    """The class itself; an error if its objects cannot be made without running its code."""
    if not is_plain(cls):
        raise ForbiddenError(
            f"uses {full_name(cls)}, which is not a plain Python class, a named tuple or an enumeration; its objects cannot be "
            "made without running code of their own"
        )
    return cls


def blank(cls: type) -> Any:
    """An empty object: neither __new__ nor __init__ of the class run."""
    return object.__new__(cls)


def filled_tuple(cls: type, values: Any) -> Any:
    """A named tuple, made by tuple itself."""
    items = tuple(values)
    fields = cls._fields  # type: ignore[attr-defined]  # is_namedtuple() was asked
    if len(items) != len(fields):
        raise ValueError(f"{full_name(cls)} has {len(fields)} fields, the file {len(items)}")
    return tuple.__new__(cls, items)


def member(cls: type[enum.Enum], value: Any) -> Any:
    """The member of an enumeration with this value; found by comparing, since looking up may run code."""
    for candidate in cls.__members__.values():
        if type(candidate._value_) is type(value) and candidate._value_ == value:
            return candidate
    raise ValueError(f"{full_name(cls)} has no member with the value {short(value)}")


def fill(target: Any, state: Any) -> None:
    """Puts attributes into an object: names that are its own, never what its class defines."""
    slots: Any = {}
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for name, value in {**(state or {}), **(slots or {})}.items():
        if not isinstance(name, str) or name.startswith("__"):
            raise ValueError(f"{short(name)} as an attribute")
        defined = next((vars(cls)[name] for cls in type(target).__mro__ if name in vars(cls)), None)
        if isinstance(defined, types.MemberDescriptorType):
            object.__setattr__(target, name, value)
        elif callable(defined) or isinstance(defined, (property, types.GetSetDescriptorType)):
            raise ValueError(f"{name!r} would hide what {type(target).__name__} defines")
        else:
            target.__dict__[name] = value


def attributes_of(value: Any) -> dict[str, Any]:
    """What fill() needs to make the object again."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, defined in vars(cls).items():
            if isinstance(defined, types.MemberDescriptorType) and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def registered_name(cls: type) -> str | None:
    """The name under which add_safe_globals() knows the class, if objects of it can be made again."""
    return next((name for name, known in registered.items() if known is cls and is_plain(cls)), None)


def is_module(value: Any) -> bool:
    """Whether the value is an nn.Module; flambeau.nn is not loaded to find out."""
    nn: Any = sys.modules.get("flambeau.nn")
    return nn is not None and isinstance(value, nn.Module)


def can_fill(target: Any) -> bool:
    """Whether fill() may give the object attributes: name spaces, modules and objects of registered classes."""
    spaces = (argparse.Namespace, types.SimpleNamespace)
    return type(target) in spaces or is_module(target) or registered_name(type(target)) is not None
