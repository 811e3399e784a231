"""PyTorch's private `torch._foreach_*`: one op for every tensor of a list. Optimisers outside the library are written with them.

Example:
    >>> from flambeau.compat import foreach
    >>> foreach.find("_foreach_add")([fb.ones(2), fb.zeros(1)], 1)
    (tensor([2., 2.]), tensor([1.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor

__all__ = ["find"]

_UNARY = frozenset(
    """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
    sigmoid sign sin sinh sqrt tan tanh trunc zero
    """.split()
)
# Other operands come as one value for all tensors or as a list with one each.
_OTHERS = frozenset("add sub mul div pow lerp addcmul addcdiv".split())
_BOUNDS = {"maximum": "maximum", "minimum": "minimum", "clamp_min": "maximum", "clamp_max": "minimum"}
_PREFIX = "_foreach_"


def find(name: str) -> Callable[..., Any] | None:
    """The function for a name such as "_foreach_add_"; None if there is none.

    Example:
        >>> from flambeau.compat import foreach
        >>> foreach.find("_foreach_no_such_op") is None
        True
    """
    if not name.startswith(_PREFIX):
        return None
    op = name[len(_PREFIX) :]
    if op in ("norm", "copy_"):
        return _norm if op == "norm" else _copy_
    inplace = op.endswith("_")
    op = op.removesuffix("_")
    if op not in _UNARY | _OTHERS | set(_BOUNDS) or (op == "zero" and not inplace):
        return None

    def foreach(self: Any, *operands: Any, **options: Any) -> Any:
        results = [_apply(op, inplace, *each, **options) for each in _rows(name, self, operands)]
        return None if inplace else tuple(results)

    foreach.__name__ = foreach.__qualname__ = name
    return foreach


def _rows(name: str, tensors: Any, operands: tuple[Any, ...]) -> list[list[Any]]:
    if isinstance(tensors, Tensor) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(f"{name}: expected a list of tensors first, got {type(tensors).__name__}")
    columns: list[Any] = [list(tensors)]
    count = len(columns[0])
    for operand in operands:
        if isinstance(operand, (list, tuple)):
            if len(operand) != count:
                raise fb.errors.ArgumentError(f"{name}: lists must be of one length, got {count} and {len(operand)}")
            columns.append(operand)
        else:
            columns.append([operand] * count)
    return [list(row) for row in zip(*columns, strict=True)]


def _apply(op: str, inplace: bool, tensor: Tensor, *rest: Any, **options: Any) -> Any:
    operands = list(rest)
    if op in _BOUNDS:
        # A bound may be a number, which maximum and minimum do not take.
        bound = fb.as_tensor(operands[0], dtype=tensor.dtype)
        result = getattr(fb, _BOUNDS[op])(tensor, bound)
        return tensor.copy_(result) if inplace else result
    if op in ("addcmul", "addcdiv") and len(operands) == 3:
        operands, options = operands[:2], {"value": operands[2]}
    if op in ("add", "sub") and len(operands) == 2:
        operands, options = operands[:1], {"alpha": operands[1]}
    return getattr(tensor, op + "_" if inplace else op)(*operands, **options)


def _norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor of a list."""
    return tuple(fb.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self)


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> None:
    """Copies each tensor of a list into its partner."""
    for target, source in zip(self, src, strict=True):
        target.copy_(source)
