"""The op table as the tests see it: names, parsed signatures, forms, other names."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau import _C
from flambeau._registry.signatures import parse_signature

FUNCTION, METHOD, INPLACE, OUT = (_C.op_flags[name] for name in ("FUNCTION", "METHOD", "INPLACE", "OUT"))


@dataclass(frozen=True)
class Param:
    name: str
    kind: str  # the type without its question mark
    optional: bool
    default: str | None
    keyword_only: bool
    spread: bool


@dataclass(frozen=True)
class Overload:
    name: str
    params: tuple[Param, ...]
    result: str
    flags: int
    text: str


def parse(text: str, flags: int) -> Overload:
    """Read `name(Tensor input, int[]? dim=None, *, dtype? dtype=None) -> Tensor`."""
    signature = parse_signature(text)
    params = tuple(
        Param(p.name, p.type.rstrip("?"), p.type.endswith("?"), p.default, p.keyword_only, p.spelled_out)
        for p in signature.parameters
    )
    return Overload(signature.name, params, text.rpartition(" -> ")[2], flags, text)


def overloads() -> dict[str, list[Overload]]:
    """Every registered op with its overloads."""
    return {name: [parse(text, flags) for text, flags, *_ in rows] for name, (rows, *_) in _C.registry().items()}


def public_names() -> set[str]:
    """Every name under which an op can be called as a function, and the ops that are methods only."""
    names = {name for name, rows in overloads().items() if not any(o.flags & FUNCTION for o in rows)}
    for space, functions in _C.namespaces.items():
        names |= {f"{space}.{name}" if space else name for name in functions}
    return {name for name in names if not name.rpartition(".")[2].startswith("_")}
