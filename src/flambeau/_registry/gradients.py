"""Gradient formulas written in Python for ops of the core: decompositions and other ops where speed is elsewhere.

    @gradient("linalg.inv", uses={"input": "result"})
    def inv(c, g):
        return {"input": -(c.result.mH @ g @ c.result.mH)}

`uses` says, for each tensor argument, what its gradient needs to be kept: argument names, "result" (or "result0",
"result1" … of several). The formula gets a Call and the gradients of the results (None where none arrived), and returns
the gradients by argument name; what is missing is zero. Gradients are summed over broadcast dimensions and converted to
the argument's dtype afterwards. Everything in it is differentiable ops, so it can be differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import _C


class Call:
    """The context of a formula: saved tensors and other arguments as attributes."""

    def __init__(self, args: dict, results: list, needs: dict, shapes: dict, dtypes: dict) -> None:
        self.args, self.results, self._needs, self.shapes, self.dtypes = args, results, needs, shapes, dtypes

    def __getattr__(self, name: str) -> Any:
        try:
            return self.args[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def result(self) -> Any:
        """The op's only, or first, result."""
        return self.results[0]

    def needs(self, name: str) -> bool:
        """Whether the gradient of this argument is wanted."""
        return self._needs[name]


def run(formula: Callable, args: dict, results: list, grads: tuple, needs: dict, shapes: dict, dtypes: dict) -> dict:
    """Called by the engine."""
    return formula(Call(args, results, needs, shapes, dtypes), *grads)


def gradient(
    key: str, uses: dict[str, str] | None = None, constants: tuple[int, ...] = ()
) -> Callable[[Callable], Callable]:
    """Registers a formula for the op `key` (a name, or the beginning of one signature).

    `constants` are the numbers of results that get no history, such as the permutation of an LU decomposition.
    """
    constant_bits = sum(1 << k for k in constants)
    name = key.split("(")[0]
    signatures = [s for s, _, python in _registry()[name][0] if s.startswith(key) and not python]
    if not signatures:
        raise ValueError(f"gradient: no op of the core matches {key!r}")

    def register(formula: Callable) -> Callable:
        for text in signatures:
            _, parameters, _ = _C.parse_signature(text)
            names = [name for _, name, *_ in parameters]
            tensors = [name for kind, name, *_ in parameters if kind.rstrip("?") in ("Tensor", "Operand", "Tensor[]")]
            _C.define_gradient(
                text, tuple(_mask((uses or {}).get(t, ""), names) for t in tensors), formula, constant_bits
            )
        return formula

    return register


# Building it takes a while, and the ops of the core do not change.
_registry = functools.cache(_C.registry)


def _mask(kept: str, names: list[str]) -> int:
    mask = 0
    for word in kept.replace(",", " ").split():
        if word.startswith("result"):
            mask |= 1 << (24 + int(word[6:] or 0))
        else:
            mask |= 1 << names.index(word)
    return mask
