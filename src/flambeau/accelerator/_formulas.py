"""Elementwise ops from users' formulas, on every device, with gradients."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau.accelerator._calls import bind, common_device, gradients_of, records
from flambeau.accelerator._words import Tree, differentiate, evaluate, mentions, needs_floats, parse, product, text_of
from flambeau.autograd.function import Function
from flambeau.errors import ArgumentError, DTypeError

_HEAD = re.compile(r"\s*([A-Za-z]\w*)\s*\(([^()]*)\)\s*=(?!=)(.*)", re.DOTALL)
_MOST_TENSORS = 7  # per kernel


class Formula:
    """An elementwise op that :func:`formula` made. Call it with tensors and numbers.

    Attributes:
        name: its name, which errors, profiles and coverage() show.
        arguments: the names of its arguments.
        text: the formula.

    Example:
        >>> twice = fb.accelerator.formula("twice(x) = x + x")
        >>> twice.name, twice.arguments, twice.text
        ('twice', ('x',), 'x + x')
    """

    def __init__(self, text: str, gradient: Mapping[str, str] | Callable[..., Any] | None = None) -> None:
        if not isinstance(text, str) or not (found := _HEAD.fullmatch(text)):
            raise ArgumentError(f"formula: got {text!r}; expected a text like 'scaled(x, y, a=2) = a * x * y'")
        self.name, self.text = found.group(1), found.group(3).strip()
        parameters = []
        for part in filter(None, map(str.strip, found.group(2).split(","))):
            argument, _, default = map(str.strip, part.partition("="))
            if not argument.isidentifier() or argument.rstrip("_") in ("grad", "out"):
                raise ArgumentError(f"{self.name}: '{argument}' cannot be the name of an argument")
            parameters.append(_parameter(self.name, argument, default))
        self.arguments: tuple[str, ...] = tuple(p.name for p in parameters)
        self.__signature__ = inspect.Signature(parameters)
        self.__name__ = self.__qualname__ = self.name
        self._setup(parse(self.name, self.text, self.arguments), gradient)

    def _setup(self, tree: Tree, gradient: Any) -> None:
        self._tree, self._text, self._floats = tree, text_of(tree), needs_floats(tree)
        self._grad, self._out = "grad", "out"  # the names in gradient formulas
        self._gradient: Any = None
        self._own: dict[str, Tree] = {}
        self._slopes: dict[str, Formula | None] = {}
        if callable(gradient):
            self._gradient = gradient
        elif gradient is not None:
            if unknown := [name for name in gradient if name not in self.arguments]:
                raise ArgumentError(f"{self.name}: gradient names {unknown}; expected some of {', '.join(self.arguments)}")
            names = (*self.arguments, "out", "grad")
            self._own = {name: parse(self.name, text, names) for name, text in gradient.items()}

    @classmethod
    def _of_tree(cls, name: str, arguments: tuple[str, ...], tree: Tree, of: Formula) -> Formula:
        self = cls.__new__(cls)
        self.name, self.arguments, self.text = name, arguments, text_of(tree)
        self._setup(tree, None)
        self._grad, self._out = f"{of._grad}_", f"{of._out}_"  # the others are arguments here
        return self

    def _slope(self, argument: str) -> Formula | None:
        """The gradient for an argument as a formula of arguments, `out` and `grad`; None if it is 0."""
        if argument not in self._slopes:
            tree = self._own.get(argument)
            if tree is None:
                tree = product(self._grad, differentiate(self._tree, argument))
            names = tuple(name for name in (*self.arguments, self._out, self._grad) if mentions(tree, name))
            self._slopes[argument] = None if tree == 0.0 else Formula._of_tree(f"{self.name}_gradient", names, tree, self)
        return self._slopes[argument]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(bind(self.name, self.__signature__, args, kwargs))

    def _run(self, values: tuple[Any, ...]) -> Any:
        return _Formula.apply(self, *values) if records(values) else self._compute(values)

    def _compute(self, values: tuple[Any, ...]) -> Any:
        given = dict(zip(self.arguments, values, strict=True))
        tensors = {name: value for name, value in given.items() if isinstance(value, _C.Tensor)}
        for name, value in given.items():
            if name not in tensors and not isinstance(value, int | float):
                raise TypeError(f"{self.name}: argument '{name}' must be a tensor or a number, got {type(value).__name__}")
            if name in tensors and not (value.dtype.is_floating_point or value.dtype in _whole()):
                raise DTypeError(f"{self.name}: argument '{name}' has dtype {value.dtype}; formulas take real numbers")
        if not tensors:
            raise TypeError(f"{self.name}: expected a tensor among the arguments, got numbers only")
        device = common_device(self.name, tensors)
        dtype = _result_dtype(given.values(), self._floats)
        try:
            shape = fb.broadcast_shapes(*(value.shape for value in tensors.values()))
        except (ValueError, RuntimeError):
            shapes = ", ".join(f"'{name}' {tuple(value.shape)}" for name, value in tensors.items())
            raise ArgumentError(f"{self.name}: the shapes of the arguments do not broadcast together: {shapes}") from None
        plain = not any(hasattr(type(value), "__flambeau_function__") for value in tensors.values())
        if plain and device.type not in ("cpu", "meta") and len(tensors) <= _MOST_TENSORS:
            out = fb.empty(shape, dtype=dtype, device=device)
            numbers = [(name, float(value)) for name, value in given.items() if name not in tensors]
            if _C.accelerator_formula(self.name, self._text, list(tensors), list(tensors.values()), numbers, out):
                return out
        compute = fb.float32 if dtype in (fb.float16, fb.bfloat16) else dtype
        value = evaluate(self._tree, {n: v.to(compute) if n in tensors else v for n, v in given.items()}, compute)
        if not isinstance(value, _C.Tensor):
            return fb.full(shape, value, dtype=dtype, device=device)
        value = value.to(dtype)
        if value.shape != shape or value.device != device:
            value = value.to(device).expand(shape).clone()
        return value.clone() if any(value is tensor for tensor in tensors.values()) else value

    def __repr__(self) -> str:
        return f"<formula {self.name}({', '.join(self.arguments)}) = {self.text}>"


def _parameter(op: str, name: str, default: str) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if not default:
        return inspect.Parameter(name, kind)
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, int | float):
        raise ArgumentError(f"{op}: the default of '{name}' is {default}; expected a number")
    return inspect.Parameter(name, kind, default=value)


@functools.cache
def _whole() -> frozenset[Any]:
    return frozenset([fb.bool, fb.uint8, fb.int8, fb.int16, fb.int32, fb.int64, fb.uint16, fb.uint32, fb.uint64])


def _result_dtype(values: Iterable[Any], floats: bool) -> Any:
    """The dtype the values promote to: tensors with dimensions first, then 0-d ones, then numbers, as in every op."""
    found: list[Any] = [None, None, None]
    for value in values:
        if isinstance(value, _C.Tensor):
            rank, dtype = int(value.dim() == 0), value.dtype
        else:
            rank, dtype = 2, fb.get_default_dtype() if isinstance(value, float) else fb.int64
        found[rank] = dtype if found[rank] is None else fb.promote_types(found[rank], dtype)

    def kind(dtype: Any) -> int:
        return 2 if dtype.is_floating_point else int(dtype != fb.bool)

    result = None
    for dtype in filter(None, found):
        if result is None or kind(dtype) > kind(result):
            result = dtype
    if kind(result) < 2 and floats:
        return fb.get_default_dtype()
    return fb.int64 if result == fb.bool else result


class _Formula(Function):
    """A formula in the graph: its backward consists of formulas, so it can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(formula: Formula, *values: Any) -> Any:
        return formula._compute(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.formula, *values = inputs
        ctx.numbers = [None if isinstance(value, _C.Tensor) else value for value in values]
        ctx.save_for_backward(output, *(value if isinstance(value, _C.Tensor) else None for value in values))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        formula = ctx.formula
        out, *saved = ctx.saved_tensors
        values = [number if value is None else value for number, value in zip(ctx.numbers, saved, strict=True)]
        known = {**dict(zip(formula.arguments, values, strict=True)), formula._out: out, formula._grad: grad}
        needed = ctx.needs_input_grad[1:]
        if formula._gradient is not None:
            return None, *gradients_of(formula.name, formula._gradient, known, values, needed)
        grads: list[Any] = []
        for argument, value, needs in zip(formula.arguments, values, needed, strict=True):
            slope = formula._slope(argument) if needs else None
            if slope is None:
                grads.append(None)
                continue
            made = slope._run(tuple(known[name] for name in slope.arguments))
            grads.append(made.expand(grad.shape).sum_to_size(value.shape).to(value.dtype))
        return None, *grads


def formula(text: str, *, gradient: Mapping[str, str] | Callable[..., Any] | None = None) -> Formula:
    """Makes an elementwise op from one line, for every device, with a gradient.

    On accelerators the whole formula is one kernel; on the CPU it runs as one op per word. Shapes broadcast and dtypes
    promote as in every op. Formulas know ``+ - * /``, comparisons (1 or 0), ``&& || !``, ``where(c, a, b)`` and
    functions such as exp, log, sqrt, tanh, sigmoid, erf, abs, min, max and pow; an error lists all of them.

    Args:
        text: name, arguments (numbers may have a default), and the formula.
        gradient: by default the derivative is found. Else a formula for each argument, of the arguments, the result
            ``out`` and its gradient ``grad``; or a function that takes those it needs by these names and returns a
            gradient (or None) for each argument, alone where there is one.

    Returns:
        The op, to call with tensors and numbers.

    Example:
        >>> swish = fb.accelerator.formula("swish(x, beta=1) = x / (1 + exp(-beta * x))")
        >>> x = fb.tensor([-1.0, 0.0, 1.0], device="sim", requires_grad=True)
        >>> swish(x, beta=2).sum().backward()
        >>> x.grad.cpu()
        tensor([-0.0908,  0.5000,  1.0908])
        >>> step = fb.accelerator.formula("step(x) = x > 0", gradient={"x": "grad"})  # straight through
        >>> y = fb.tensor([-2.0, 3.0], requires_grad=True)
        >>> step(y).sum().backward()
        >>> y.grad
        tensor([1., 1.])
    """
    return Formula(text, gradient)
