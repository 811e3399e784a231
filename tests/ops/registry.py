"""The op table as the tests see it: names, parsed signatures, forms, other names."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau import _C

FUNCTION, METHOD, INPLACE, OUT = 1, 2, 4, 8


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


def split_commas(text: str) -> list[str]:
    """Parts between commas that are outside brackets and quotes."""
    parts, depth, quoted, part = [], 0, False, ""
    for c in text:
        quoted ^= c == "'"
        depth += (not quoted) * ((c in "([") - (c in ")]"))
        if c == "," and not depth and not quoted:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts


def parse(text: str, flags: int) -> Overload:
    """Read `name(Tensor input, int[]? dim=None, *, dtype? dtype=None) -> Tensor`."""
    head, _, result = text.rpartition(" -> ")
    name, _, inside = head.partition("(")
    params, keyword_only = [], False
    for part in split_commas(inside.rstrip()[:-1]):
        if part == "*":
            keyword_only = True
            continue
        spread = part.startswith("*")
        declared, _, default = part.lstrip("*").partition("=")
        kind, _, label = declared.strip().rpartition(" ")
        params.append(
            Param(label, kind.rstrip("?").strip(), kind.endswith("?"), default.strip() or None, keyword_only, spread)
        )
    return Overload(name, tuple(params), result.strip(), flags, text)


def overloads() -> dict[str, list[Overload]]:
    """Every registered op with its overloads."""
    return {name: [parse(text, flags) for text, flags, *_ in rows] for name, (rows, *_) in _C.registry().items()}


def public_names() -> set[str]:
    """Every name under which an op can be called as a function, and the ops that are methods only."""
    names = {name for name, rows in overloads().items() if not any(o.flags & FUNCTION for o in rows)}
    for space, functions in _C.namespaces.items():
        names |= {f"{space}.{name}" if space else name for name in functions}
    return {name for name in names if not name.rpartition(".")[2].startswith("_")}
