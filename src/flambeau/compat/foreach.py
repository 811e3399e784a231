"""PyTorch's private `torch._foreach_*`: one op for every tensor of a list. Optimizers outside the library are written with them.

There is one mechanism: each operand becomes a column with one value per tensor (a number or a 0-d tensor is repeated,
a list is taken apart), and the op of that name runs on every row. Gradients, promotion and errors are those of the op
itself.

Example:
    >>> from flambeau.compat import foreach
    >>> foreach.find("_foreach_add")([fb.ones(2), fb.zeros(1)], 1)
    (tensor([2., 2.]), tensor([1.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["NAMES", "find"]


class _Family(NamedTuple):
    """The calling convention of the functions of one name."""

    params: tuple[str, ...] = ()  # operands after the list, each one value or a list with one per tensor
    lists: int = 0  # number of leading operands that must be lists of tensors
    tensor: bool = False  # whether the last operand may be one tensor for all
    keywords: tuple[str, ...] = ()  # options that are passed on unchanged
    forms: str = "new inplace"  # which of name and name_ exist
    # The op of this name, unless given here: (tensor, *operands, **options) -> result.
    call: Callable[..., Any] | None = None


# PyTorch names the same operand after its overload.
_SYNONYMS = {"scalar": "other", "scalars": "other", "weights": "weight"}
_PREFIX = "_foreach_"


def _norm(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    if tensor.numel() == 0 and ord in (float("inf"), float("-inf")):
        raise ArgumentError(
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an identity"
        )
    return fb.linalg.vector_norm(tensor, ord, dtype=dtype)


def _power_sum(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return tensor.abs().to(dtype or tensor.abs().dtype).pow(ord).sum()


def _max(tensor: Tensor) -> Tensor:
    if tensor.numel() == 0:
        raise ArgumentError("_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.")
    return tensor.max()


def _bound(op: str, inplace: bool) -> Callable[..., Any]:
    """maximum and minimum accept only tensors, clamp_min and clamp_max also numbers."""
    return getattr(Tensor, {"maximum": "clamp_min", "minimum": "clamp_max"}.get(op, op) + "_" * inplace)


_UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
    sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
_FAMILIES: dict[str, _Family] = dict.fromkeys(_UNARY, _Family())
_FAMILIES |= {
    "add": _Family(("other",), tensor=True, keywords=("alpha",)),
    "addcdiv": _Family(("tensor1", "tensor2", "value"), lists=2, tensor=True),
    "addcmul": _Family(("tensor1", "tensor2", "value"), lists=2, tensor=True),
    "clamp_max": _Family(("other",)),
    "clamp_min": _Family(("other",)),
    "clone": _Family(keywords=("memory_format",), forms="new"),
    "copy": _Family(("src", "non_blocking"), lists=1, forms="inplace"),
    "div": _Family(("other",), tensor=True),
    "lerp": _Family(("tensors1", "weight"), lists=1),
    "max": _Family(forms="new", call=_max),
    "maximum": _Family(("other",)),
    "minimum": _Family(("other",)),
    "mm": _Family(("mat2",), lists=1, forms="new"),
    "mul": _Family(("other",), tensor=True),
    "norm": _Family(keywords=("ord", "dtype"), forms="new", call=_norm),
    "pow": _Family(("exponent",)),
    "powsum": _Family(keywords=("ord", "dtype"), forms="new", call=_power_sum),
    "sub": _Family(("other",), keywords=("alpha",)),
    "zero": _Family(forms="inplace"),
}
_BOUNDS = ("clamp_max", "clamp_min", "maximum", "minimum")

#: Every function that find() knows.
NAMES = frozenset(
    _PREFIX + name + suffix
    for name, family in _FAMILIES.items()
    for form, suffix in (("new", ""), ("inplace", "_"))
    if form in family.forms.split()
)


def find(name: str) -> Callable[..., Any] | None:
    """The function for a name such as "_foreach_add_"; None if there is none.

    Functions return a tuple of results; those with a trailing underscore change the tensors and return the list.

    Example:
        >>> from flambeau.compat import foreach
        >>> foreach.find("_foreach_no_such_op") is None
        True
    """
    if name not in NAMES:
        return None
    op, inplace = name.removeprefix(_PREFIX).removesuffix("_"), name.endswith("_")
    family = _FAMILIES[op]

    def foreach(self: Any, *operands: Any, **options: Any) -> Any:
        given, options = _bind(name, family, operands, options)
        if op == "pow" and not inplace and isinstance(self, (bool, int, float, complex)) and isinstance(given[0], (list, tuple)):
            return tuple(fb.pow(self, exponent) for exponent in _tensors(name, given[0]))
        tensors = _tensors(name, self)
        results = [_call(op, inplace, family, row, options) for row in _rows(name, family, tensors, given)]
        return self if inplace else tuple(results)

    foreach.__name__ = foreach.__qualname__ = name
    return foreach


def _bind(name: str, family: _Family, operands: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Operands in order, and the options for the op."""
    given = list(operands)
    rest: dict[str, Any] = {}
    places = family.params
    if "value" in places:
        options = {"value" if key == "scalars" else key: value for key, value in options.items()}
    if not places:  # norm(tensors, ord, dtype)
        rest.update(zip(family.keywords, given, strict=False))
        given = given[len(family.keywords) :]
    for key, value in options.items():
        key = _SYNONYMS.get(key, key)
        if len(given) < len(places) and key == places[len(given)]:
            given.append(value)
        elif key in family.keywords and key not in rest:
            rest[key] = value
        else:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")
    if "alpha" in family.keywords and len(given) == 2:  # an older way to write alpha=
        rest["alpha"] = given.pop()
    least = len(places) - ("value" in places) - ("non_blocking" in places)
    if not least <= len(given) <= len(places):
        raise TypeError(f"{name}() takes a list of tensors and {', '.join(places) or 'nothing else'}; got {len(given)} operands")
    if "non_blocking" in places:
        del given[1:]
    return given, rest


def _tensors(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: expected a list of tensors first, got {type(tensors).__name__}"
        )
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(tensor).__name__} ({name})")
    if not tensors:
        raise ArgumentError(f"Tensor list must have at least one tensor. ({name})")
    return list(tensors)


def _rows(name: str, family: _Family, tensors: list[Tensor], operands: list[Any]) -> list[tuple[Any, ...]]:
    columns: list[list[Any]] = [tensors]
    for i, operand in enumerate(operands):
        columns.append(_column(name, family, len(tensors), i, operand))
    return list(zip(*columns, strict=True))


def _column(name: str, family: _Family, count: int, place: int, operand: Any) -> list[Any]:
    """The values of an operand for each of `count` tensors."""
    last = place == len(family.params) - 1
    if isinstance(operand, (list, tuple)):
        tensors = bool(operand) and all(isinstance(value, Tensor) for value in operand)
        if len(operand) != count:
            if tensors:
                raise ArgumentError(
                    f"Tensor lists must have the same number of tensors, got {count} and {len(operand)} ({name})"
                )
            raise ArgumentError(
                f"Tensor list must have same number of elements as scalar list. ({name}: got {count} and {len(operand)})"
            )
        if tensors or place >= family.lists:
            return list(operand)
    elif place >= family.lists:
        if not isinstance(operand, Tensor):
            return [operand] * count
        if last and family.lists:  # scalars=tensor([1., 2.]): one number for each
            if operand.ndim != 1:
                raise ArgumentError(f"Expected packed scalar Tensor to be of dimension 1. Got {operand.ndim} instead. ({name})")
            if operand.numel() != count:
                raise ArgumentError(
                    f"Expected length of scalars to match input of length {count} but got {operand.numel()} instead. ({name})"
                )
            return operand.tolist()
        if operand.ndim:
            raise ArgumentError(
                f"scalar tensor expected to be 0 dim but it has {operand.ndim} dimensions and {operand.numel()} elements. ({name})"
            )
        return [operand if family.tensor else operand.item()] * count
    raise TypeError(
        f"{name}() received an invalid combination of arguments: {family.params[place]} must be a list of tensors, "
        f"got {type(operand).__name__}"
    )


def _call(op: str, inplace: bool, family: _Family, row: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if family.call is not None:
        return family.call(*row, **options)
    if op in _BOUNDS:
        return _bound(op, inplace)(*row)
    if family.params[-1:] == ("value",):
        row, options = row[:3], {"value": row[3]} if len(row) == 4 else {}
    if op == "copy":
        return row[0].copy_(row[1])
    return getattr(row[0], op + "_" * inplace)(*row[1:], **options)
