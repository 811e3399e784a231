"""Lets classes and modes handle calls of functions written in Python, by `__torch_function__`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau import _C

_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def _handle(public: Callable[..., Any], relevant: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
    from flambeau.overrides import handle_torch_function

    return handle_torch_function(public, relevant, *args, **kwargs)


def overridable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, asked about before it runs: classes of its tensor arguments, and open modes, may handle the call.

    Classes see the function itself as `func`, arguments without a default as positional ones and the rest by name. The
    wrapper is generated with the function's own parameters: a call costs one more frame and one look at the tensors'
    classes.

    Args:
        function: the function; arguments whose annotation mentions Tensor are looked at.
    """
    parameters = inspect.signature(function).parameters.values()
    tensors = [p.name for p in parameters if "Tensor" in str(p.annotation)]
    if not tensors:
        return function
    name = getattr(function, "__name__", "function")
    head, call, handed = [], [], []
    for p in parameters:
        if p.kind is _KEYWORD_ONLY and "*" not in head:
            head.append("*")
        optional = p.default is not inspect.Parameter.empty
        head.append(f"{p.name}=None" if optional else p.name)
        call.append(f"{p.name}={p.name}" if p.kind is _KEYWORD_ONLY else p.name)
        handed.append(f"{p.name}={p.name}" if optional or p.kind is _KEYWORD_ONLY else p.name)
    looked_at = ", ".join(tensors)
    source = (
        f"def {name}({', '.join(head)}):\n"
        f"    if _is_overridden({looked_at}):\n"
        f"        return _handle(_public, ({looked_at},), {', '.join(handed)})\n"
        f"    return _function({', '.join(call)})\n"
    )
    names: dict[str, Any] = {"_is_overridden": _C._is_overridden, "_handle": _handle, "_function": function}
    names["__name__"] = "flambeau.nn.functional"  # used by warnings to skip frames of the library
    exec(compile(source, f"<flambeau.nn.functional.{name}>", "exec"), names)
    made = names["_public"] = names[name]
    given = [p for p in parameters if p.default is not inspect.Parameter.empty]
    made.__defaults__ = tuple(p.default for p in given if p.kind is not _KEYWORD_ONLY) or None
    made.__kwdefaults__ = {p.name: p.default for p in given if p.kind is _KEYWORD_ONLY} or None
    made = functools.update_wrapper(made, function)
    made.__module__ = "flambeau.nn.functional"  # its public location, also for pickle
    return made
