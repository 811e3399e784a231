"""Sparse tensors in files: stored as their dense parts, which are checked on loading."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._files.problems import FileError

LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def is_sparse(t: fb.Tensor) -> bool:
    """Whether the tensor has a sparse layout."""
    return t.layout is not fb.strided


def parts(t: Any) -> tuple[str, tuple[Any, ...]]:
    """The name of its layout and its parts, in the order of PyTorch's files."""
    if t.layout is fb.sparse_coo:
        return "sparse_coo", (t._indices(), t._values().detach(), fb.Size(t.shape), t.is_coalesced())
    name = str(t.layout).rpartition(".")[2]
    starts, plain = (t.crow_indices, t.col_indices) if name in ("sparse_csr", "sparse_bsr") else (t.ccol_indices, t.row_indices)
    return name, (starts(), plain(), t.values().detach(), fb.Size(t.shape))


def rebuilt(layout: Any, data: Any) -> fb.Tensor:
    """The tensor with these parts; raises an error if they are inconsistent."""
    known = next((name for name in LAYOUTS if layout in (name, getattr(fb, name))), None)
    if known is None:
        raise FileError(f"a sparse tensor of the layout {layout}; {', '.join(LAYOUTS)} are read")
    dense = [t for t in data if isinstance(t, fb.Tensor)] if isinstance(data, (tuple, list)) else []
    if any(is_sparse(t) for t in dense) or len(dense) != (2 if known == "sparse_coo" else 3) or len(data) not in (3, 4):
        raise FileError("a sparse tensor that is not made of its indices, values and size")
    if any(t.dtype not in (fb.int32, fb.int64) for t in dense[:-1]):
        raise FileError(f"a sparse tensor with indices of {', '.join(str(t.dtype) for t in dense[:-1])}")
    if any(t.numel() * t.itemsize > t.untyped_storage().nbytes() for t in dense):
        raise FileError("a sparse tensor with more indices or values than the file has bytes for")
    size = data[len(dense)]
    if type(size) not in (fb.Size, tuple, list) or len(size) > 64 or any(type(n) is not int or not 0 <= n < 1 << 62 for n in size):
        raise FileError(f"a sparse tensor of size {size}")
    try:
        if known != "sparse_coo":
            return fb.sparse_compressed_tensor(dense[0], dense[1], dense[2], size=tuple(size), layout=getattr(fb, known))
        coalesced = data[3] is True if len(data) == 4 else None
        made: Any = fb.sparse_coo_tensor(dense[0], dense[1], size=tuple(size), is_coalesced=coalesced)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        raise FileError(f"a sparse tensor whose parts do not fit: {error}") from None
    if coalesced and not fb.equal(made._indices(), fb.unique(made._indices(), dim=1)):
        raise FileError("a sparse tensor that is said to be coalesced, and is not")
    return made
