"""Sizes, layouts and memory formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from flambeau import _C
from flambeau._C import Size

if TYPE_CHECKING:
    import flambeau as fb

__all__ = [
    "Size", "channels_last", "channels_last_3d", "contiguous_format", "layout", "memory_format", "preserve_format",
    "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip

Device: TypeAlias = "fb.device | str | int | None"  # what device= takes


class _Named:
    """A constant with a name in the package and a code in the core."""

    _all: dict[str, _Named]

    def __init__(self, name: str, code: int) -> None:
        self.name, self.code = name, code

    def __repr__(self) -> str:
        package = str(_C.float32).partition(".")[0]  # the name that dtypes show
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
