"""What dir() shows of a module, and the names that the package takes from lazily loaded modules."""

from __future__ import annotations

import importlib
import os.path
import sys
from collections.abc import Callable, Iterable
from types import ModuleType


def package_dir(package: str, lazy: Iterable[str] = ()) -> Callable[[], list[str]]:
    """The `__dir__` of a package: its `__all__` and its public submodules, those in `lazy` also before they are loaded.

    A module without submodules has `__dir__ = __all__.copy`.

    Example:
        >>> "lr_scheduler" in dir(fb.optim), "_update" in dir(fb.optim)
        (True, False)
    """

    def names() -> list[str]:
        members = vars(sys.modules[package])
        below = {
            name for name, value in members.items()
            if isinstance(value, ModuleType) and not name.startswith("_") and value.__name__ == f"{package}.{name}"
        }  # fmt: skip
        return sorted({*members["__all__"], *below, *lazy})

    return names


def listed(module: str) -> list[str]:
    """The `__all__` of a module, read from its source as long as the module is not loaded.

    Example:
        >>> from flambeau._registry.names import listed
        >>> "conv_tbc" in listed("flambeau.nn._native_layers")
        True
    """
    if (loaded := sys.modules.get(module)) is not None and hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    import ast  # importing these two and pathlib at the top would cost ten milliseconds
    import re

    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), *module.split(".")[1:]) + ".py"
    source = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            source = file.read()
    found = re.search(r"^__all__ = (\[[^]]*\])", source, re.MULTILINE)
    if found is None:  # no source, or a computed list
        return list(importlib.import_module(module).__all__)
    return list(ast.literal_eval(found[1]))
