"""How a benchmark row is written down: one statement for every library, so the work is the same by construction."""

from __future__ import annotations

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

    `stmt` is timed with `lib` (the library's module) and the inputs as local names; `setup` runs once before it.
    `numpy` is None (no NumPy column), SAME, a statement, or a pair (setup, statement). The first result is compared
    between libraries; `check=False` says that its values may differ (random numbers, uninitialised memory).
    `kind` is "time" or "peak": how far one run of `setup` and `stmt` raises the memory of a fresh process.
    """

    group: str
    name: str
    stmt: str
    setup: str = ""
    numpy: str | tuple[str, str] | None = None
    check: bool = True
    kind: str = "time"
    inputs: Mapping[str, Input] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name}"

    def source(self, seat: str) -> tuple[str, str] | None:
        """The (setup, statement) that the library in `seat` runs, or None when it has no such row."""
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
    once all rows are done, and its text is shown.
    """

    name: str
    path: str
    title: str
    rows: list[Row] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    extra: Callable[[Any, list], tuple[list, list[str]]] | None = None
    after: str | None = None
    target_seconds: float = 0.002

    def group(self, group: str, kind: str = "time") -> Callable[..., None]:
        """A function that adds rows to `group`; keyword arguments that are inputs become the statement's names."""

        def add(name, stmt, numpy=None, *, setup="", check=True, **inputs):
            row = Row(group, name, stmt, setup, numpy, check, kind, inputs)
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
