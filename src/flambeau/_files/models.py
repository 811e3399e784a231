"""Whole models in .pt files: modules as data, recreated without running any code.

A module is a class known to the program and a dict of attributes. Loading sets the attributes of an empty object; the
class must be registered by add_safe_globals(), or, with weights_only=False, be a module class that the program has
imported.
"""

from __future__ import annotations

from typing import Any

import flambeau as fb

# Functions a module may hold, as TransformerEncoderLayer holds its activation. They only compute on tensors.
_FUNCTIONS = "flambeau.nn.functional"


def function_name(value: Any) -> tuple[str, str] | None:
    """(module, name) for a function of nn.functional."""
    name = getattr(value, "__name__", "")
    return (_FUNCTIONS, name) if isinstance(name, str) and function(f"{_FUNCTIONS}.{name}") is value else None


def function(full: str) -> Any:
    """The function of nn.functional with this full name, else None."""
    module, _, name = full.rpartition(".")
    if not module.startswith(_FUNCTIONS) or not name or name.startswith("_"):
        return None
    found = vars(fb.nn.functional).get(name)
    return found if callable(found) and not isinstance(found, type) else None
