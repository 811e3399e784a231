"""Autocast for functions written in Python; ops of the core cast their arguments themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau.amp import _lists, _state
from flambeau.amp.autocast_mode import _cast, autocast


def with_autocast(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with autocast as listed for its name; the function itself if it is not listed."""
    if name not in _lists.LOW and name not in _lists.FLOAT32:
        return function
    here = _state._state

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if here.enabled:  # asked at every call
            for kind in _state.enabled_kinds():
                dtype = _state.get_autocast_dtype(kind) if name in _lists.LOW else fb.float32
                with autocast(kind, enabled=False):
                    return run(*_cast(args, kind, dtype), **_cast(kwargs, kind, dtype))
        return function(*args, **kwargs)

    return run
