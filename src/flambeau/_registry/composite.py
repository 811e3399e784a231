"""Ops written in Python: `composite` registers a function under a signature, like ops of the core."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flambeau import _C

__all__ = ["alias", "composite"]

FUNCTION, METHOD, INPLACE, OUT = (_C.op_flags[name] for name in ("FUNCTION", "METHOD", "INPLACE", "OUT"))


def composite(
    signature: str, *, function: bool = True, method: bool = False, inplace: bool = False, out: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Registers an op written in Python under its signature; returns the op.

    Arguments arrive parsed and checked. From the signature come the function, the method, the in-place form (`inplace`)
    and `out=` (`out`), exactly as for ops of the core.
    """
    flags = FUNCTION * function | METHOD * method | INPLACE * inplace | OUT * out
    name = signature[: signature.index("(")]
    space, _, short = name.rpartition(".")

    def register(f: Callable[..., Any]) -> Any:
        _C.define(signature, flags, f, inspect.cleandoc(f.__doc__ or ""))
        if function:
            return _C.namespaces[space][short]
        return getattr(_C.Tensor, short) if method else getattr(_C.Tensor, short + "_")

    return register


def alias(name: str, target: str) -> None:
    """Gives an op another name."""
    _C.define_alias(name, target)
