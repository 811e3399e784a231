"""Signatures of ops in the form expected by `inspect.signature` and by the help of editors and notebooks."""

from __future__ import annotations

import ast
import dataclasses
import inspect

from flambeau import _C

_PYTHON = {"Operand": "Tensor | Number", "Scalar": "Number", "any": "Any", "Tensor[]": "Sequence[Tensor]"}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One argument of an op: `int[]? dim=None` has type "int[]?", name "dim" and default "None"."""

    type: str
    name: str
    default: str | None = None
    keyword_only: bool = False
    spelled_out: bool = False  # may be given as separate arguments: zeros(2, 3)


@dataclasses.dataclass(frozen=True)
class Signature:
    """A parsed signature string; `returns` is a type or a tuple of (type, field name)."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str | tuple[tuple[str, str], ...]


def parse_signature(text: str) -> Signature:
    """One signature string of the op table, parsed by the core.

    Example:
        >>> from flambeau._registry.signatures import parse_signature
        >>> parse_signature("amax(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor").parameters[1]
        Parameter(type='int[]', name='dim', default='[]', keyword_only=False, spelled_out=False)
    """
    name, parameters, returns = _C.parse_signature(text)
    return Signature(name, tuple(Parameter(*p) for p in parameters), returns)


def of(texts: tuple[str, ...], method: bool) -> inspect.Signature:
    """The signature of an op that has these signature strings.

    Overloads of one op are one signature as long as they name the same arguments; otherwise there is none to give.

    Args:
        texts: the op's signature strings.
        method: whether the first argument is the tensor the method is called on.

    Example:
        >>> import inspect
        >>> inspect.signature(fb.kron)
        <Signature (input: 'Tensor', other: 'Tensor') -> 'Tensor'>
        >>> inspect.signature(fb.Tensor.argsort)
        <Signature (self: 'Tensor', /, dim: 'int' = -1, descending: 'bool' = False, stable: 'bool' = False) -> 'Tensor'>
    """
    parsed = [parse_signature(text) for text in texts]
    first = parsed[0]
    names = [p.name for p in first.parameters]
    orders = [[p.name for p in other.parameters] for other in parsed]
    # A deprecated order of the same arguments, add(input, alpha, other), is not shown.
    if any(order != names and not set(order) <= set(names) for order in orders):
        raise AttributeError("the op has overloads with different arguments; its docstring lists them")
    parameters = [_parameter(p) for p in first.parameters]
    last = sum(not p.keyword_only for p in first.parameters) - 1
    if last >= 0 and first.parameters[last].spelled_out:  # zeros(2, 3)
        kind, item = inspect.Parameter.VAR_POSITIONAL, first.parameters[last].type.rstrip("[]?")
        parameters[last] = inspect.Parameter(parameters[last].name, kind, annotation=_type(item))
    if method:
        parameters[0] = parameters[0].replace(name="self", kind=inspect.Parameter.POSITIONAL_ONLY)
    returns = first.returns if isinstance(first.returns, str) else f"({', '.join(' '.join(f) for f in first.returns)})"
    return inspect.Signature(parameters, return_annotation=_type(returns))


def _parameter(p: Parameter) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if p.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = inspect.Parameter.empty if p.default is None else _value(p.default)
    return inspect.Parameter(p.name, kind, default=default, annotation=_type(p.type))


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text  # the name of a constant, such as float32


def _type(kind: str) -> str:
    if kind.endswith("?"):
        return f"{_type(kind[:-1])} | None"
    if kind.endswith("[]") and kind != "Tensor[]":
        return f"{_type(kind[:-2])} | Sequence[{_type(kind[:-2])}]"
    return _PYTHON.get(kind, kind)
