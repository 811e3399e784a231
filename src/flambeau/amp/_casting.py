"""Autocast for functions written in Python; ops of the core cast their arguments themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau.amp import _lists, _state
from flambeau.amp.autocast_mode import _cast, autocast


def with_autocast(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run under autocast as the lists say for its name; the function itself if they say nothing."""
    if name not in _lists.LOW and name not in _lists.FLOAT32:
        return function

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _state.is_autocast_enabled("cpu"):
            return function(*args, **kwargs)
        dtype = _state.get_autocast_dtype("cpu") if name in _lists.LOW else fb.float32
        with autocast("cpu", enabled=False):
            return function(*_cast(args, "cpu", dtype), **_cast(kwargs, "cpu", dtype))

    return run
