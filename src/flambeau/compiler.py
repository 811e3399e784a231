"""`compile` and related functions. There is no compiler yet: everything runs eagerly, with the same results.

Example:
    >>> fb.compiler.is_compiling()
    False
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
]  # fmt: skip
__dir__ = __all__.copy

T = TypeVar("T")


@functools.cache
def _notice() -> None:
    print("flambeau: compile() has no compiler yet and returns the model as it is; it runs eagerly", file=sys.stderr)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Returns its argument unchanged and prints one line to stderr; usable as a decorator.

    The options say how PyTorch would compile, which changes speed and not results; they have no effect.

    Example:
        >>> fb.compile(fb.nn.ReLU(), disable=True)
        ReLU()
    """
    if not disable:
        _notice()
    if model is None:
        return lambda function: function
    if not callable(model):
        raise TypeError(f"compile: expected a module or function, got {type(model).__name__}")
    return model


def is_compiling() -> bool:
    """False: code always runs eagerly.

    Example:
        >>> fb.compiler.is_compiling()
        False
    """
    return False


def is_dynamo_compiling() -> bool:
    """False: code always runs eagerly.

    Example:
        >>> fb.compiler.is_dynamo_compiling()
        False
    """
    return False


def is_exporting() -> bool:
    """False: nothing is being exported.

    Example:
        >>> fb.compiler.is_exporting()
        False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns a function unchanged: it is not compiled anyway. Usable as `@disable` and `@disable(...)`.

    Example:
        >>> fb.compiler.disable(fb.exp) is fb.exp
        True
    """
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: T) -> T:
    """Returns a function, or a list of them, unchanged.

    Example:
        >>> fb.compiler.allow_in_graph(fb.exp) is fb.exp
        True
    """
    return fn


def assume_constant_result(fn: T) -> T:
    """Returns a function unchanged.

    Example:
        >>> fb.compiler.assume_constant_result(fb.exp) is fb.exp
        True
    """
    return fn


def reset() -> None:
    """Forgets compiled code, of which there is none.

    Example:
        >>> fb.compiler.reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Marks where a step begins; only CUDA graphs would take note.

    Example:
        >>> fb.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers there are: none.

    Example:
        >>> fb.compiler.list_backends()
        []
    """
    return []


class set_stance:
    """How compiled functions behave, as a call, block or decorator; there are none, so it changes nothing.

    Example:
        >>> with fb.compiler.set_stance("force_eager"):
        ...     x = fb.ones(2)
    """

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, fn: T) -> T:
        return fn
