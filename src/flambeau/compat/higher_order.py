"""Parts of `torch._higher_order_ops` that need no compiler: scans along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Running combinations: element i of the result is x0 ∘ x1 ∘ … ∘ xi, for any associative ∘.

    Neighbors are combined in pairs, the scan of the pairs gives every second result, and one more combination the
    others: the
    number of calls grows with the logarithm of the length.

    Args:
        combine_fn: combines two containers of tensors like xs into one; elementwise.
        xs: a tensor, or a container of tensors of one size along dim.
        dim: the dimension.
        reverse: whether to begin at the end.
        combine_mode: "pointwise" or "generic", the same here.

    Example:
        >>> from flambeau.compat.higher_order import associative_scan
        >>> associative_scan(lambda a, b: a + b, fb.tensor([1, 2, 3, 4]), dim=0)
        tensor([ 1,  3,  6, 10])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ArgumentError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ArgumentError("associative_scan: expected at least one tensor, got an empty container")
    # combine_fn sees the caller's order of dimensions; the scan itself works on the first.
    moved = [x.movedim(dim, 0) for x in leaves]
    if len({x.shape[0] for x in moved}) != 1:
        raise ArgumentError(f"associative_scan: sizes along dim {dim} differ: {[x.shape[0] for x in moved]}")

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        left, right = ([x.movedim(0, dim) for x in side] for side in (a, b))
        return [x.movedim(dim, 0) for x in tree_flatten(combine_fn(tree_unflatten(left, spec), tree_unflatten(right, spec)))[0]]

    def scan(parts: list[Any]) -> list[Any]:
        count = parts[0].shape[0]
        if count < 2:
            return parts
        even = count // 2 * 2
        pairs = scan(combine([x[0:even:2] for x in parts], [x[1:even:2] for x in parts]))
        first = [x[:1] for x in parts]
        if count > 2:
            later = combine([x[: (count - 1) // 2] for x in pairs], [x[2::2] for x in parts])
            first = [fb.cat([a, b]) for a, b in zip(first, later, strict=True)]
        return [_interleaved(a, b) for a, b in zip(first, pairs, strict=True)]

    results = scan([x.flip(0) for x in moved] if reverse else moved)
    results = [x.flip(0) for x in results] if reverse else results
    return tree_unflatten([x.movedim(0, dim) for x in results], spec)


def _interleaved(a: Any, b: Any) -> Any:
    """a[0], b[0], a[1], b[1], …; a may be one longer."""
    count = b.shape[0]
    mixed = fb.stack([a[:count], b], 1).flatten(0, 1)
    return mixed if a.shape[0] == count else fb.cat([mixed, a[count:]])
