"""Rules for ops that take a list of tensors."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError
from flambeau.func._batching import Frame, decomposition, rule


@rule("cat")
def cat(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Tensors one after the other."""
    tensors, dim = arguments.values()
    rank = max(t.ndim for t in tensors)
    # An empty 1-d tensor may be joined with any other and adds nothing.
    parts = [frame.physical(t) for t in tensors if tuple(t.shape) != (0,) or rank == 1]
    if rank == 0:
        raise ArgumentError("cat: 0-d tensors cannot be joined; use stack")
    return fb.cat(parts, frame.dim(dim, rank))


@rule("stack")
def stack(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Tensors along a new dimension."""
    tensors, dim = arguments.values()
    return fb.stack([frame.physical(t) for t in tensors], frame.dim(dim, tensors[0].ndim + 1))


@decomposition("hstack")
def hstack(tensors):
    """Along the second dimension, the first for vectors."""
    parts = fb.atleast_1d(*tensors)
    return fb.cat(list(parts), 0 if parts[0].ndim == 1 else 1)


@decomposition("vstack")
def vstack(tensors):
    """Along the first dimension."""
    return fb.cat(list(fb.atleast_2d(*tensors)), 0)


@decomposition("dstack")
def dstack(tensors):
    """Along the third dimension."""
    return fb.cat(list(fb.atleast_3d(*tensors)), 2)


@decomposition("column_stack")
def column_stack(tensors):
    """Vectors as columns."""
    return fb.cat([t.reshape((t.numel(), 1)) if t.ndim <= 1 else t for t in tensors], 1)


@decomposition("broadcast_tensors")
def broadcast_tensors(tensors):
    """All in the common shape."""
    shape = fb.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


@decomposition("meshgrid")
def meshgrid(tensors, indexing=None):
    """Coordinates of a grid."""
    xy = indexing == "xy" and len(tensors) >= 2
    vectors = [t.reshape((t.numel(),)) for t in tensors]
    if xy:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape, rank = tuple(v.shape[0] for v in vectors), len(vectors)
    grids = [v.reshape((*(1,) * i, -1, *(1,) * (rank - i - 1))).expand(shape) for i, v in enumerate(vectors)]
    if xy:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@decomposition("cartesian_prod")
def cartesian_prod(tensors):
    """All tuples of elements."""
    if len(tensors) == 1:
        return tensors[0]
    return fb.stack([g.reshape((g.numel(),)) for g in fb.meshgrid(*tensors, indexing="ij")], 1)


@decomposition("block_diag")
def block_diag(tensors):
    """Matrices along a diagonal."""
    blocks = list(fb.atleast_2d(*tensors))
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        n = block.shape[1]
        rows.append(fb.constant_pad_nd(block, (left, width - left - n)))
        left += n
    return fb.cat(rows, 0)
