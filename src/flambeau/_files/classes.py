"""Classes a file may name besides the built-in ones, and how their objects are made without running any of their code."""

from __future__ import annotations

import argparse
import collections
import enum
import sys
import types
from typing import Any

from flambeau._files.problems import ForbiddenError, short
from flambeau.errors import ArgumentError

# {full name: class or function}, filled by add_safe_globals().
registered: dict[str, Any] = {}


def full_name(value: Any) -> str:
    """module.qualified_name, as pickles spell it."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def is_namedtuple(cls: type) -> bool:
    """Whether the class is a named tuple without further state."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


# Never callable from a file, even if registered: these start programs, change the interpreter or run text.
BLOCKED = ("os", "posix", "nt", "sys", "subprocess", "shutil", "socket", "importlib", "runpy", "pty", "ctypes", "_ctypes")
_BLOCKED_BUILTINS = (eval, exec, compile, open, __import__, input, breakpoint, setattr, delattr, vars, globals)

# Classes whose own __new__ only stores what it gets; a class that derives from one can be made without its code.
_DATA_BASES: tuple[type, ...] = (
    object, dict, collections.OrderedDict, list, set, frozenset, tuple, str, bytes, int, float, complex, BaseException,
    types.SimpleNamespace, collections.deque,
)  # fmt: skip


def checked(item: Any) -> tuple[str, Any]:
    """(name, class or function) for add_safe_globals(); rejects what is unsafe to call with a file's arguments."""
    value, name = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
    if not callable(value):
        raise ArgumentError(f"add_safe_globals: expected classes and functions, got {short(value)}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"add_safe_globals: expected (class, 'module.name'), got a {type(name).__name__} as the name")
    full = full_name(value)
    if full.partition(".")[0] in BLOCKED or any(value is builtin for builtin in _BLOCKED_BUILTINS):
        raise ArgumentError(
            f"add_safe_globals: {full} is not a class for data: a file that may call it can do anything to this machine; save "
            "plain containers and tensors instead"
        )
    return name or full, value


def data_base(cls: type) -> type | None:
    """The class that creates an object of this one without its code: the first base not written in Python."""
    base = next(base for base in cls.__mro__ if not base.__flags__ & (1 << 9))
    return base if base in _DATA_BASES or issubclass(base, BaseException) else None


def is_plain(cls: type) -> bool:
    """Whether objects can be created without running code of the class."""
    return data_base(cls) is not None


def _is_ours(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "flambeau"


def restores_itself(cls: type) -> bool:
    """Whether the class has a __setstate__ other than flambeau's own, which alone can interpret a state."""
    found = next((base for base in cls.__mro__ if vars(base).get("__setstate__") is not None), None)
    return found is not None and not _is_ours(found) and data_base(found) is object


def complete(target: Any) -> None:
    """Lets the __setstate__ of flambeau's own base, such as Optimizer, add what a file may omit."""
    for base in type(target).__mro__:
        if _is_ours(base) and "__setstate__" in vars(base):
            vars(base)["__setstate__"](target, dict(vars(target)))
            return


def plain(cls: type) -> type:
    """The class itself; raises an error if its objects cannot be created without running its code."""
    if not is_plain(cls):
        raise ForbiddenError(
            f"uses {full_name(cls)}, which is not a plain Python class, a named tuple or an enumeration; its objects cannot be "
            "made without running code of their own"
        )
    return cls


def blank(cls: type, *arguments: Any) -> Any:
    """An object without attributes: neither __new__ nor __init__ of the class run, only those of a built-in base."""
    base = data_base(cls)
    if base is None or (base is object and arguments):
        raise ForbiddenError(f"an object of {full_name(cls)} that only its own code can make")
    if is_namedtuple(cls):
        # PyTorch's pickles pass these as separate arguments, others as one tuple.
        return filled_tuple(cls, arguments)
    if any(type(a) not in (str, bytes, int, float, bool, complex, tuple, type(None)) for a in arguments):
        raise ForbiddenError(f"an object of {full_name(cls)} made from {short(arguments)}")
    return base.__new__(cls, *arguments)


def called(cls: type, keys: Any, *arguments: Any) -> Any:
    """The result of calling the class, without its code: enumerations, tuples, sets, exceptions, empty dicts."""
    base: Any = data_base(cls)
    if issubclass(cls, enum.Enum):
        return member(cls, *arguments)
    if is_namedtuple(cls):
        return filled_tuple(cls, arguments)
    if base in (set, frozenset) and len(arguments) == 1 and type(arguments[0]) in (list, tuple):
        items = list(map(keys.check, arguments[0]))
        made = base.__new__(cls, items)
        if base is set:
            set.update(made, items)
        return made
    if base in (collections.OrderedDict, types.SimpleNamespace, collections.deque) and not arguments:
        return base.__new__(cls)
    if base is collections.deque and len(arguments) == 2 and arguments[0] == () and type(arguments[1]) is int:
        row: Any = base.__new__(cls)
        collections.deque.__init__(row, (), arguments[1])
        return row
    if base is not None and issubclass(base, BaseException):
        return base.__new__(cls, *arguments)
    raise ForbiddenError(f"a call of {full_name(cls)}, which would run its code")


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
    """Sets attributes of an object: its own names, never those its class defines."""
    slots: Any = {}
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for name, value in {**(state or {}), **(slots or {})}.items():
        if not isinstance(name, str) or name.startswith("__"):
            raise ValueError(f"{short(name)} as an attribute")
        defined = next((vars(cls)[name] for cls in type(target).__mro__ if name in vars(cls)), None)
        if isinstance(defined, types.MemberDescriptorType):
            object.__setattr__(target, name, value)
        # Data under the name of a module's method cannot be called in its place; some libraries store such attributes.
        elif (callable(defined) and (callable(value) or not is_module(target))) or isinstance(
            defined, (property, types.GetSetDescriptorType)
        ):
            raise ValueError(f"{name!r} would hide what {type(target).__name__} defines")
        else:
            target.__dict__[name] = value


def attributes_of(value: Any) -> dict[str, Any]:
    """The arguments fill() needs to recreate the object."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, defined in vars(cls).items():
            if isinstance(defined, types.MemberDescriptorType) and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def registered_name(cls: type) -> str | None:
    """The name under which add_safe_globals() registered the class, if its objects can be recreated as data."""
    return next((name for name, known in registered.items() if known is cls and is_plain(cls)), None)


def imported_class(module: str, name: str) -> type | None:
    """The class with this name, if the program has imported it; never imports anything."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    # torch.nn's classes have other attributes than ours of the same name. A __del__ would run with attributes of the
    # file.
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, name) or hasattr(found, "__del__"):
        return None
    return found if is_plain(found) and module.split(".")[0] not in ("torch", "builtins", *BLOCKED) else None


def is_module(value: Any) -> bool:
    """Whether the value is an nn.Module, without importing flambeau.nn."""
    nn: Any = sys.modules.get("flambeau.nn")
    return nn is not None and isinstance(value, nn.Module)


def can_fill(target: Any) -> bool:
    """Whether fill() may set attributes of the object: namespaces, modules and objects of registered classes."""
    spaces = (argparse.Namespace, types.SimpleNamespace)
    return type(target) in spaces or is_module(target) or registered_name(type(target)) is not None
