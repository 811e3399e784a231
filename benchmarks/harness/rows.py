"""How a benchmark row is written down: one statement for every library, so the work is the same by construction."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SAME = "same"  # the NumPy column runs the row's own statement


@dataclass(frozen=True)
class Input:
    """A named operand: `make` draws it as a NumPy array, the worker converts it to its library and to `dtype`."""

    make: Callable[[Any], Any]
    dtype: str


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `stmt` is timed with `lib` (the library's module), `seat` (the column's name) and the inputs as local names; `setup`
    runs once before it. `numpy` is None (no NumPy column), SAME, a statement, or a pair (setup, statement). The first
    result is compared between libraries; `check=False` says that its values may differ (random numbers, uninitialised
    memory). `kind` is "time"; "peak": how far one run of `setup` and `stmt` raises the memory of a fresh process; or
    "value": the number that one run gives. Columns named in `skip` have no such row; a `small` row runs only with
    --small.
    """

    group: str
    name: str
    stmt: str
    setup: str = ""
    numpy: str | tuple[str, str] | None = None
    check: bool = True
    kind: str = "time"
    inputs: Mapping[str, Input] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    small: bool = False

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name}"

    def source(self, seat: str) -> tuple[str, str] | None:
        """The (setup, statement) that the library in `seat` runs, or None when it has no such row."""
        if seat in self.skip:
            return None
        if seat != "numpy" or self.numpy == SAME:
            return self.setup, self.stmt
        if isinstance(self.numpy, tuple):
            return self.numpy
        return None if self.numpy is None else (self.setup, self.numpy)

    def seed(self, name: str) -> int:
        """Every library gets the same numbers, whatever other rows ran before."""
        return zlib.crc32(f"{self.key}/{name}".encode())


@dataclass(frozen=True)
class Budget:
    """A promise: `value(results)` stays at least or at most at the limit. A value of None means not measured."""

    text: str
    value: Callable[[list], float | None]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "×"

    def met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def limit(self) -> str:
        sign, number = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {number:g} {self.unit}"


@dataclass
class Suite:
    """A benchmark script: its rows, its budgets, and what it measures outside the worker processes.

    `extra(options, seats)` may add finished results and notes; `after` is a statement evaluated in the flambeau worker
    once all rows are done, and its text is shown. `libs` are the columns, `rounds` how often each is asked,
    `patience` how many seconds an answer may take; calls longer than `slow` seconds are not repeated within a round.
    `tables(results)` gives lines for the end of the section, and `chart(results)` draws a picture when the section is
    written and returns the line that shows it.
    """

    name: str
    path: str
    title: str
    rows: list[Row] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    extra: Callable[[Any, list], tuple[list, list[str]]] | None = None
    after: str | None = None
    target_seconds: float = 0.002
    libs: tuple[str, ...] = ("flambeau", "torch", "numpy")
    rounds: int = 5
    patience: float = 120
    slow: float = math.inf
    tables: Callable[[list], list[str]] | None = None
    chart: Callable[[list], str | None] | None = None

    def group(self, group: str, kind: str = "time") -> Callable[..., None]:
        """A function that adds rows to `group`; keyword arguments that are inputs become the statement's names."""

        def add(name, stmt, numpy=None, *, setup="", check=True, skip=(), small=False, **inputs):
            row = Row(group, name, stmt, setup, numpy, check, kind, inputs, tuple(skip), small)
            if self.find(row.key) is not None:
                raise ValueError(f"benchmark row {row.key!r} is there twice")
            self.rows.append(row)

        return add

    def find(self, key: str) -> Row | None:
        return next((row for row in self.rows if row.key == key), None)


def normal(*shape: int, dtype: str = "float32") -> Input:
    """Standard normal numbers."""
    return Input(lambda rng: rng.standard_normal(shape), dtype)


def uniform(low: float, high: float, *shape: int, dtype: str = "float32") -> Input:
    """Uniform numbers in [low, high)."""
    return Input(lambda rng: rng.uniform(low, high, shape), dtype)


def integers(low: int, high: int, *shape: int, dtype: str = "int64") -> Input:
    """Whole numbers in [low, high)."""
    return Input(lambda rng: rng.integers(low, high, shape), dtype)


def mask(share: float, *shape: int) -> Input:
    """Booleans, true with probability `share`."""
    return Input(lambda rng: rng.random(shape) < share, "bool")


def permutation(n: int) -> Input:
    """The numbers 0..n-1 in random order, as int64."""
    return Input(lambda rng: rng.permutation(n), "int64")


def positive_definite(*shape: int, dtype: str = "float32") -> Input:
    """Well conditioned symmetric matrices for Cholesky and solve."""

    def make(rng):
        import numpy as np

        a = rng.standard_normal(shape)
        return a @ np.swapaxes(a, -1, -2) / shape[-1] + 2 * np.eye(shape[-1])

    return Input(make, dtype)
