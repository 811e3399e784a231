"""Writes the lists at the end of docs/differences.md: names and arguments of PyTorch that flambeau does not have.

    python docs/gen_differences.py LEDGER    writes them anew
    python docs/gen_differences.py           takes those off that flambeau has by now

LEDGER is a table of PyTorch's public names, tab-separated with the columns name, kind and signature: "nn.Linear", "class",
"(in_features, out_features, bias=True, …)". The page is all that the project keeps of it.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import flambeau as fb

PAGE = Path(__file__).with_name("differences.md")
BEGIN, END = "<!-- names: begin, written by docs/gen_differences.py -->", "<!-- names: end -->"
MISSING = object()
# Where signatures come from Python code; those of tensor ops in such tables come from documentation and are often wrong.
WRITTEN_IN_PYTHON = ("amp", "autograd", "distributions", "func", "hub", "multiprocessing", "nn", "optim", "serialization", "utils")
INTERNAL = {"foreach", "fused", "capturable", "self", "args", "kwargs"}  # or switches of PyTorch's own kernels


def instances() -> dict[Any, Any]:
    """Examples of classes whose attributes only their instances have."""
    return {
        fb.finfo: fb.finfo(fb.float32),
        fb.iinfo: fb.iinfo(fb.int32),
        fb.nn.Module: fb.nn.Module(),
        fb.optim.Optimizer: fb.optim.SGD([fb.zeros(1)]),
    }


def find(name: str) -> Any:
    """The object of a dotted name such as "nn.functional.relu", MISSING if there is none."""
    value: Any = fb
    for part in name.split("."):
        if inspect.isclass(value) and value in instances() and not hasattr(value, part):
            value = instances()[value]
        owner, value = value, inspect.getattr_static(value, part, MISSING) if inspect.isclass(value) else getattr(value, part, MISSING)
        if value is MISSING and isinstance(owner, types.ModuleType):
            try:
                value = importlib.import_module(f"{owner.__name__}.{part}")
            except ImportError:
                return MISSING
        if value is MISSING:
            return MISSING
    return value


def arguments(value: Any) -> set[str] | None:
    """Names that a function or class can be called with; None when that cannot be seen, or it takes any."""
    value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    texts = getattr(inspect.unwrap(value) if callable(value) else value, "signatures", None)
    if texts:
        return {name for text in texts for name in named(text.partition("(")[2].rpartition(") ->")[0])}
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return None
    return {p.name for p in parameters}


def named(text: str) -> set[str]:
    """The arguments in "Tensor input, int dim=0, *, bool keepdim=False" or "input, dim=0, *"."""
    flat = re.sub(r"\[[^\[\]]*\]|\([^()]*\)|'[^']*'", "", text)
    words = (part.split("=")[0].split() for part in flat.split(","))
    return {word[-1].lstrip("*") for word in words if word} - {"", "/"}


def compared(ledger: Path) -> tuple[list[str], dict[str, set[str]]]:
    """(names that are not there, {name: arguments that are not there})."""
    absent: list[str] = []
    without: dict[str, set[str]] = {}
    with open(ledger, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            value = find(row["name"])
            if value is MISSING:
                absent.append(row["name"])
            elif row["signature"] and row["name"].partition(".")[0] in WRITTEN_IN_PYTHON:
                ours = arguments(value)
                theirs = named(", ".join(text.strip().partition("(")[2].rpartition(")")[0] for text in row["signature"].split(" ; ")))
                if ours is not None and (lacking := theirs - ours - INTERNAL):
                    without[row["name"]] = lacking
    parents = set(absent)
    return [name for name in absent if name.rpartition(".")[0] not in parents], without


def lists(absent: list[str], without: dict[str, set[str]]) -> str:
    """The generated part of the page."""
    areas: dict[str, list[str]] = {}
    for name in sorted(absent, key=str.lower):
        area, _, last = name.rpartition(".")
        areas.setdefault(area, []).append(last)
    lines = [BEGIN, "## Names that are not there", ""]
    lines += [f"- {f'`{area}`' if area else 'top level'}: {', '.join(f'`{n}`' for n in found)}" for area, found in sorted(areas.items())]
    lines += ["", "## Arguments that are not there", ""]
    lines += [f"- `{name}`: {', '.join(f'`{a}`' for a in sorted(found))}" for name, found in sorted(without.items())]
    return "\n".join([*lines, END])


def listed(page: Path = PAGE) -> tuple[list[str], dict[str, set[str]]]:
    """What the page says is not there, as compared() gives it."""
    part = page.read_text().partition(BEGIN)[2].partition(END)[0]
    first, _, second = part.partition("## Arguments")
    absent, without = [], {}
    for line in first.splitlines():
        area, _, rest = line.removeprefix("- ").partition(": ")
        prefix = "" if area == "top level" else area.strip("`") + "."
        absent += [prefix + name for name in re.findall(r"`([^`]+)`", rest)]
    for line in second.splitlines():
        name, *found = re.findall(r"`([^`]+)`", line) or [""]
        if name:
            without[name] = set(found)
    return absent, without


def remaining(absent: list[str], without: dict[str, set[str]]) -> tuple[list[str], dict[str, set[str]]]:
    """The part of these lists that still holds."""
    left = {}
    for name, lacking in without.items():
        ours = arguments(find(name))
        if ours is not None and lacking - ours:
            left[name] = lacking - ours
    return [name for name in absent if find(name) is MISSING], left


def write(absent: list[str], without: dict[str, set[str]], page: Path = PAGE) -> None:
    """Replaces the generated part of the page."""
    head, _, rest = page.read_text().partition(BEGIN)
    tail = rest.partition(END)[2].strip()
    page.write_text(head.rstrip() + "\n\n" + lists(absent, without) + "\n" + (f"\n{tail}\n" if tail else ""))


if __name__ == "__main__":
    found = compared(Path(sys.argv[1])) if len(sys.argv) > 1 else remaining(*listed())
    write(*found)
    print(f"{len(found[0])} names, arguments of {len(found[1])}")
