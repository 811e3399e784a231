"""The compiled core's Python side: classes it needs to know, and the door for ops written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from flambeau import _C, errors
from flambeau._C import Size

if TYPE_CHECKING:
    import flambeau as fb

__all__ = ["Size", "alias", "composite", "layout", "memory_format"]

FUNCTION, METHOD, INPLACE, OUT = 1, 2, 4, 8

Device: TypeAlias = "fb.device | str | int | None"  # what device= takes


class _Named:
    """A constant with a name in the package and a code in the core."""

    _all: dict[str, _Named]

    def __init__(self, name: str, code: int) -> None:
        self.name, self.code = name, code

    def __repr__(self) -> str:
        package = str(_C.float32).partition(".")[0]  # as dtypes say it
        return f"{package}.{self.name}"

    def __reduce__(self):
        return self.name

    __module__ = "flambeau"


class layout(_Named):
    """How elements are stored: fb.strided, fb.sparse_coo, or compressed: fb.sparse_csr, sparse_csc, sparse_bsr, sparse_bsc.

    Example:
        >>> fb.zeros(2).layout
        flambeau.strided
    """


class memory_format(_Named):
    """Order of the dimensions in memory.

    Example:
        >>> fb.channels_last
        flambeau.channels_last
    """


strided = layout("strided", 0)
sparse_coo = layout("sparse_coo", 1)
sparse_csr = layout("sparse_csr", 2)
sparse_csc = layout("sparse_csc", 4)
sparse_bsr = layout("sparse_bsr", 5)
sparse_bsc = layout("sparse_bsc", 6)
contiguous_format = memory_format("contiguous_format", 0)
preserve_format = memory_format("preserve_format", 1)
channels_last = memory_format("channels_last", 2)
channels_last_3d = memory_format("channels_last_3d", 3)

_C.set_errors(errors.BY_KIND)


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
        _C.define(signature, flags, f, _dedent(f.__doc__ or ""))
        if function:
            return _C.namespaces[space][short]
        return getattr(_C.Tensor, short) if method else getattr(_C.Tensor, short + "_")

    return register


def alias(name: str, target: str) -> None:
    """Gives an op another name."""
    _C.define_alias(name, target)


def _dedent(doc: str) -> str:
    import inspect

    return inspect.cleandoc(doc)
