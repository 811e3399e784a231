"""The vocabulary of users' formulas: operators and functions with ops, names in kernels, and derivatives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import _C
from flambeau.errors import ArgumentError, StateError

# A number, the name of an argument, or a call: its name and its arguments.
Tree = float | str | tuple[Any, ...]


class Word(NamedTuple):
    """A function: the op that computes it, its name in kernels, and the derivative for each argument (a, b) as a formula."""

    op: str
    kernel: str
    derivatives: tuple[str, ...] | None
    floats: bool = True  # integers are converted first


def _row(name: str, *derivatives: str, op: str = "", kernel: str = "", floats: bool = True) -> tuple[str, Word]:
    return name, Word(op or name, kernel or name, derivatives or None, floats)


WORDS = dict([
    _row("abs", "sign(a)", floats=False),
    _row("acos", "-1 / sqrt(1 - a * a)"),
    _row("acosh", "1 / sqrt(a * a - 1)"),
    _row("asin", "1 / sqrt(1 - a * a)"),
    _row("asinh", "1 / sqrt(a * a + 1)"),
    _row("atan", "1 / (1 + a * a)"),
    _row("atan2", "b / (a * a + b * b)", "-a / (a * a + b * b)"),
    _row("atanh", "1 / (1 - a * a)"),
    _row("ceil", "0", kernel="ceil_any"),
    _row("cos", "-sin(a)"),
    _row("cosh", "sinh(a)"),
    _row("erf", "1.1283791670955126 * exp(-a * a)"),
    _row("erfc", "-1.1283791670955126 * exp(-a * a)"),
    _row("exp", "exp(a)"),
    _row("exp2", "0.6931471805599453 * exp2(a)"),
    _row("expm1", "exp(a)"),
    _row("floor", "0", kernel="floor_any"),
    _row("hypot", "a / hypot(a, b)", "b / hypot(a, b)"),
    _row("isfinite", "0"),
    _row("isinf", "0"),
    _row("isnan", "0"),
    _row("lgamma"),
    _row("log", "1 / a"),
    _row("log10", "0.4342944819032518 / a"),
    _row("log1p", "1 / (1 + a)"),
    _row("log2", "1.4426950408889634 / a"),
    _row("max", "(a > b) + 0.5 * (a == b)", "(a < b) + 0.5 * (a == b)", op="maximum", floats=False),
    _row("min", "(a < b) + 0.5 * (a == b)", "(a > b) + 0.5 * (a == b)", op="minimum", floats=False),
    _row("pow", "b * pow(a, b - 1)", "where(a == 0 && b >= 0, 0, pow(a, b) * log(a))"),
    _row("round", "0", kernel="rint_any"),
    _row("sigmoid", "sigmoid(a) * (1 - sigmoid(a))"),
    _row("sign", "0", floats=False),
    _row("sin", "cos(a)"),
    _row("sinh", "cosh(a)"),
    _row("sqrt", "0.5 / sqrt(a)"),
    _row("tan", "1 + tan(a) * tan(a)"),
    _row("tanh", "1 - tanh(a) * tanh(a)"),
    _row("trunc", "0", kernel="trunc_any"),
])  # fmt: skip
_TWO = {"atan2", "hypot", "max", "min", "pow"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_ARITHMETIC = {"+", "-", "*", "/"}
_LOGIC = {"&&": "logical_and", "||": "logical_or"}


def parse(op: str, text: str, names: tuple[str, ...]) -> Tree:
    """The tree of a formula; raises an error for unknown names."""
    try:
        tree = _C.parse_formula(text)
    except ValueError as error:
        raise ArgumentError(f"{op}: {error}") from None
    _check(op, tree, names)
    return tree


def _check(op: str, tree: Tree, names: tuple[str, ...]) -> None:
    if isinstance(tree, str) and tree not in names:
        known = f"expected {', '.join(names)}" if names else "the formula has no arguments"
        raise ArgumentError(f"{op}: the formula mentions '{tree}', which is not an argument; {known}")
    if not isinstance(tree, tuple):
        return
    name, count = tree[0], len(tree) - 1
    if name in _ARITHMETIC or name in COMPARISONS or name in _LOGIC or name == "!":
        pass
    elif name != "where" and name not in WORDS:
        hint = "; for a power write pow(x, y)" if name == "^" else ""
        raise ArgumentError(
            f"{op}: formulas do not have '{name}'{hint}; they have + - * / < <= > >= == != && || !, where, {', '.join(WORDS)}"
        )
    elif count != (expected := 3 if name == "where" else 2 if name in _TWO else 1):
        raise ArgumentError(f"{op}: '{name}' takes {expected} argument{'s' * (expected > 1)}, got {count}")
    for part in tree[1:]:
        _check(op, part, names)


def needs_floats(tree: Tree) -> bool:
    """Whether integers are converted to the default dtype before."""
    if isinstance(tree, tuple):
        own = tree[0] == "/" or tree[0] in WORDS and WORDS[tree[0]].floats
        return own or any(needs_floats(part) for part in tree[1:])
    return isinstance(tree, float) and not tree.is_integer()


def mentions(tree: Tree, name: str) -> bool:
    """Whether an argument occurs."""
    return any(mentions(part, name) for part in tree[1:]) if isinstance(tree, tuple) else tree == name


# ---- as text, for kernels --------------------------------------------------------------------------------------------


def text_of(tree: Tree) -> str:
    """The formula in the vocabulary of kernels."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, float):
        if not math.isfinite(tree):
            raise ArgumentError(f"formula: a number of it is {tree}")
        return repr(int(tree)) if tree.is_integer() and abs(tree) < 1e15 else repr(tree)
    name, parts = tree[0], [text_of(part) for part in tree[1:]]
    if name == "where" or name in WORDS:
        return f"{WORDS[name].kernel if name in WORDS else name}({', '.join(parts)})"
    return f"({name}{parts[0]})" if len(parts) == 1 else f"({parts[0]} {name} {parts[1]})"


# ---- by ops, if there is no kernel -----------------------------------------------------------------------------------


def evaluate(tree: Tree, values: dict[str, Any], dtype: Any) -> Any:
    """The value of a formula, computed by one op per function: a tensor, or a number if there are only numbers."""

    def number(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, _C.Tensor) and value.dtype == fb.bool else value

    def tensor(value: Any) -> Any:
        return value if isinstance(value, _C.Tensor) else fb.full((), value, dtype=dtype)

    def go(tree: Tree) -> Any:
        if isinstance(tree, str):
            return values[tree]
        if isinstance(tree, float):
            return int(tree) if tree.is_integer() and abs(tree) < 1e15 else tree
        name, parts = tree[0], [go(part) for part in tree[1:]]
        if name == "where":
            condition = tensor(parts[0])
            chosen = condition if condition.dtype == fb.bool else condition != 0
            return fb.where(chosen, tensor(number(parts[1])), tensor(number(parts[2])))
        if name == "!":
            return tensor(parts[0]) == 0
        if name in _LOGIC:
            return getattr(fb, _LOGIC[name])(tensor(parts[0]), tensor(parts[1]))
        if name in COMPARISONS:
            return getattr(fb, COMPARISONS[name])(tensor(number(parts[0])), number(parts[1]))
        parts = [number(part) for part in parts]
        if name not in _ARITHMETIC:
            return getattr(fb, WORDS[name].op)(*map(tensor, parts))
        if len(parts) == 1:
            return -parts[0] if name == "-" else parts[0]
        if not any(isinstance(part, _C.Tensor) for part in parts):
            parts[0] = tensor(parts[0])  # numbers divide like tensors
        a, b = parts
        return a + b if name == "+" else a - b if name == "-" else a * b if name == "*" else a / b

    return number(go(tree))


# ---- derivatives -----------------------------------------------------------------------------------------------------


@lru_cache(128)
def _derivative(name: str, index: int) -> Tree:
    derivatives = WORDS[name].derivatives
    if derivatives is None:
        raise StateError(f"'{name}' has no derivative among the words of formulas; give the formula gradient=")
    return parse(name, derivatives[index], ("a", "b"))


def _put(tree: Tree, parts: dict[str, Tree]) -> Tree:
    if isinstance(tree, tuple):
        return (tree[0], *(_put(part, parts) for part in tree[1:]))
    return parts[tree] if isinstance(tree, str) else tree


def _sum(a: Tree, b: Tree, sign: str = "+") -> Tree:
    if b == 0.0:
        return a
    if a == 0.0:
        return b if sign == "+" else ("-", b)
    return (sign, a, b)


def product(a: Tree, b: Tree) -> Tree:
    """a * b, simplified if one of them is 1."""
    if a == 0.0 or b == 0.0:
        return 0.0
    return b if a == 1.0 else a if b == 1.0 else ("*", a, b)


def differentiate(tree: Tree, name: str) -> Tree:
    """The derivative of a formula with respect to an argument; 0.0 where it does not depend on it."""
    if not isinstance(tree, tuple):
        return 1.0 if tree == name else 0.0
    if not mentions(tree, name):
        return 0.0
    word, parts = tree[0], tree[1:]
    slopes = [differentiate(part, name) for part in parts]
    if word == "where":
        return 0.0 if slopes[1] == slopes[2] == 0.0 else ("where", parts[0], slopes[1], slopes[2])
    if word in ("+", "-"):
        if len(parts) == 1:
            return (word, slopes[0]) if slopes[0] != 0.0 else 0.0
        return _sum(slopes[0], slopes[1], word)
    if word == "*":
        return _sum(product(slopes[0], parts[1]), product(parts[0], slopes[1]))
    if word == "/":
        first = 0.0 if slopes[0] == 0.0 else ("/", slopes[0], parts[1])
        second = 0.0 if slopes[1] == 0.0 else ("/", product(tree, slopes[1]), parts[1])
        return _sum(first, second, "-")
    if word == "pow" and isinstance(parts[1], float):
        power: Tree = parts[0] if parts[1] == 2.0 else ("pow", parts[0], parts[1] - 1)
        return product(product(parts[1], power), slopes[0])
    total: Tree = 0.0
    if word in WORDS:
        for i, slope in enumerate(slopes):
            if slope != 0.0:
                own = _put(_derivative(word, i), dict(zip("ab", parts, strict=False)))
                total = _sum(total, product(own, slope))
    return total
