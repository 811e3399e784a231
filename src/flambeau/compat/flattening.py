"""Helpers of `torch._utils` for mixed precision and communication: several tensors flattened into one, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["_flatten_dense_tensors", "_take_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in one vector, a copy.

    Example:
        >>> from flambeau.compat.flattening import _flatten_dense_tensors
        >>> _flatten_dense_tensors([fb.zeros(2), fb.ones(1, 2)])
        tensor([0., 0., 1., 1.])
    """
    if not tensors:
        raise ArgumentError("_flatten_dense_tensors: expected at least one tensor, got none")
    return fb.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a vector with the shapes of the tensors; views.

    Example:
        >>> from flambeau.compat.flattening import _unflatten_dense_tensors
        >>> _unflatten_dense_tensors(fb.arange(4), [fb.zeros(2), fb.ones(1, 2)])
        (tensor([0, 1]), tensor([[2, 3]]))
    """
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Groups of tensors of one dtype, each of about size_limit bytes at most.

    Example:
        >>> from flambeau.compat.flattening import _take_tensors
        >>> [len(group) for group in _take_tensors([fb.zeros(2), fb.zeros(2), fb.zeros(2)], 16)]
        [2, 1]
    """
    open_groups: dict[fb.dtype, tuple[list[Tensor], int]] = {}
    for t in tensors:
        size = t.numel() * t.element_size()
        group, used = open_groups.get(t.dtype, ([], 0))
        if group and used + size > size_limit:
            yield group
            group, used = [], 0
        open_groups[t.dtype] = ([*group, t], used + size)
    yield from (group for group, _ in open_groups.values())
