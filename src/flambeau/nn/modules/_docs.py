"""Docstrings of families of modules: arguments are described once, at the base class."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def inherit_args(cls: _Class) -> _Class:
    """Inserts a base class's description of arguments into a class's docstring, before the example.

    Arguments that the class does not have are omitted: a lazy module has no in_channels.
    """
    if cls.__doc__ is None:  # as under python -OO
        return cls
    described = next(base.__doc__ for base in cls.__mro__[1:] if base.__doc__ and "Args:\n" in base.__doc__)
    entries = inspect.cleandoc(described).partition("Args:\n")[2].partition("\n\n")[0].splitlines()
    made: Any = cls
    taken = made.__init__.__code__.co_varnames
    lines = [line for line in entries if line.strip().partition(":")[0] in taken]
    summary, _, example = inspect.cleandoc(cls.__doc__).partition("Example:\n")
    cls.__doc__ = "\n".join([f"{summary}Args:", *lines, "", "Example:", example])
    return cls
