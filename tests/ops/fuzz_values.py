"""Plausible and hostile arguments for every argument type of a signature. A pool entry makes its value when called."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as fb

from .spec import ALL, D, T, dtype_of

Make = Callable[[], Any]
SHAPES = ((2, 3), (3,), (), (3, 3), (0,), (2, 3, 4), (3, 0), (2, 3, 3), (1,), (1, 1, 1, 1, 1, 1))
COMMON = ("float32", "int64", "bool", "float64", "complex64", "bfloat16", "float8_e4m3fn", "complex32")
BIG = 2**62


def named(name: str, make: Make) -> Make:
    """A maker that shows what it makes."""
    make.__name__ = name
    return make


def tensor(shape: tuple[int, ...], dtype: str, layout: str = "contiguous") -> Make:
    """A small tensor with values that are neither all equal nor too large for an index."""

    def make() -> Any:
        count = int(np.prod(shape))
        values = np.arange(count).reshape(shape) % 3
        described = T(values.astype(np.float64), dtype)
        return (described.repeated() if layout == "expanded" else described).tensor(layout)

    make.__name__ = f"{dtype}{list(shape)} {layout}"
    return make


def value(thing: Any) -> Make:
    def make() -> Any:
        return list(thing) if isinstance(thing, list) else thing

    make.__name__ = repr(thing)[:60]
    return make


def index(values: Any) -> Make:
    return named(f"int64 {values}", lambda: T(np.array(values), "int64").tensor())


def tampered(t: T, how: str) -> Make:
    """A sample's tensor with one thing wrong."""
    v = t.values
    big = np.iinfo(v.dtype).max if v.dtype.kind in "iu" else 1
    changes: dict[str, Callable[[], T]] = {
        "same": lambda: t,
        "other dtype": lambda: T(np.real(v), "float64" if t.dtype != "float64" else "int32"),
        "integers": lambda: T(np.nan_to_num(np.real(v)), "int64"),
        "flat": lambda: T(v.reshape(-1), t.dtype),
        "extra dimension": lambda: T(v[None], t.dtype),
        "shorter": lambda: T(v[..., :-1] if v.ndim else v, t.dtype),
        "longer": lambda: T(np.concatenate([v, v], axis=0) if v.ndim else v, t.dtype),
        "empty": lambda: T(v[:0] if v.ndim else v.reshape(1)[:0], t.dtype),
        "empty inside": lambda: T(v[..., :0] if v.ndim else v, t.dtype),
        "one element": lambda: T(v.reshape(-1)[:1].reshape(()) if v.size else v, t.dtype),
        "huge": lambda: T(np.full(v.shape, big), t.dtype),
        "below": lambda: T(np.full(v.shape, -big - 1 if v.dtype.kind == "i" else 0), t.dtype),
        "nan": lambda: T(np.full(v.shape, np.nan), t.dtype) if v.dtype.kind in "fc" else t,
        "zeros": lambda: T(np.zeros(v.shape), t.dtype),
    }
    made = changes[how]

    def make() -> Any:
        return made().tensor()

    make.__name__ = f"{t.dtype}{list(t.shape)} {how}"
    return make


TAMPERINGS = (
    "other dtype", "integers", "flat", "extra dimension", "shorter", "longer", "empty", "empty inside", "one element",
    "huge",
    "below", "nan", "zeros",
)


def special(dtype: str) -> Make:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e30])
    return named(f"{dtype} special values", lambda: T(values, dtype).tensor())


PLAIN_TENSORS = [tensor(s, d) for d, s in itertools.product(COMMON, SHAPES)]
ODD_TENSORS = (
    [tensor(s, d, how) for s in ((2, 3), (3, 3), (2, 3, 4)) for d in ("float32", "int64") for how in (
        "transposed", "strided", "negative", "expanded")]
    + [tensor((2, 3), d) for d in ALL]
    + [index([0, 1]), index([2, 99]), index([-1, -100]), index([BIG, 0]), index([[0, 1, 2], [2, 1, 0]]), index(-5),
    index([])]
    + [special("float32"), special("float64"), tensor((1,) * 20, "float32"), tensor((40, 30), "float32")]
)
INTS = [value(v) for v in (0, 1, 2, -1, 3, -2, 5)]
HOSTILE_INTS = [value(v) for v in (
    -3, 17, 1000, 2**31, -(2**31), 2**40, BIG, 2**63 - 1, -(2**63), 2**63, 2**70, 1.5, float("nan"), "x", None, True,
    [1], b"0")]
LISTS = [value(v) for v in ([0], [1], [0, 1], [-1], [2, 3], [], [3, 3], [6], [-1, 2], [1, 0], [2, 3, 4], [0, 1, 2])]
HOSTILE_LISTS = [value(v) for v in (
    [0, 0], [5], [-7], [2**31, 2**31], [2**40, 2**40], [BIG], [-BIG], [2**63], [-2, 3], [1] * 40, [1] * 70,
    [1000, 1000, 1000],
    [1.5], ["x"], [None], [[1, 2]], "ab", 3, -1, BIG, None, {}, [True, False], [2**20, 0, 2**50])]
FLOATS = [value(v) for v in (0.0, 1.0, 0.5, 2.0, -1.0, 1e-5)]
HOSTILE_FLOATS = [value(v) for v in (float("nan"), float("inf"), -float("inf"), 1e308, 2**70, 1 + 2j, "x", None, True,
[1.0])]
SCALARS = [value(v) for v in (1, 0, 2.5, -1, True, 1 + 2j)]
HOSTILE_SCALARS = [value(v) for v in (2**63, -(2**70), float("nan"), float("inf"), 1e308, "x", None, [1], 300, -300)]
BOOLS = [value(True), value(False)]
HOSTILE_BOOLS = [value(v) for v in (None, 2, "yes", 0.5, [])]
TEXTS = [value(v) for v in (
    "sum", "mean", "amax", "fro", "linear", "ij,jk->ik", "ii", "left", "right", "ij", "reduced", "L", "ortho",
    "constant", "floor",
    "nuc", "prod", "reflect")]
HOSTILE_TEXTS = [value(v) for v in ("", "no such thing", "…", "a" * 3000, "ij->", "->", "i,i,i,i", "\0", None, 3,
b"sum", "...", "i.")]
DTYPES = [value(None)] + [(lambda d=d: dtype_of(d)) for d in ALL]
HOSTILE_DTYPES = [value(v) for v in ("float32", 3, float, int, "x", [])]
DEVICES = [value(v) for v in (None, "cpu")]
HOSTILE_DEVICES = [value(v) for v in ("no such device", "cpu:-1", "cpu:99999999999999999999", 3, -1, [], "")]


def generator() -> Any:
    made = fb.Generator()
    made.manual_seed(1)
    return made


def tensor_list(*makers: Make, how: type = list) -> Make:
    return named(f"{how.__name__} of " + ", ".join(m.__name__ for m in makers), lambda: how(m() for m in makers))


A, B, C = tensor((2, 3), "float32"), tensor((3, 3), "float32"), tensor((3,), "int64")
TENSOR_LISTS = [
    tensor_list(A, A), tensor_list(B), tensor_list(C, C, C), tensor_list(A, B), tensor_list(C, how=tuple),
                tensor_list(),
    tensor_list(index([0, 1])), tensor_list(index([0, 1]), index([1, 2])), tensor_list(tensor((2, 3), "bool")),
]
HOSTILE_TENSOR_LISTS = [value(v) for v in (None, "ab", 3, [None], [1, 2], ["x"], [[]], {})] + [
    A, tensor_list(A, value(None)), tensor_list(A, value("x")), tensor_list(*[A] * 70), tensor_list(index([99])),
    tensor_list(A, special("complex64")), tensor_list(tensor((0,), "float32"), A), tensor_list(tensor((), "float32"))]
ANYTHING = [value(v) for v in (None, 1, 2.5, True, "sum", [1, 2], (0, 1), [[1, 2], [3, 4]], slice(None), ...)] + [A, C]
HOSTILE_ANYTHING = [value(v) for v in (
    BIG, 2**70, [2**63], [[1], [1, 2]], {}, {"a": 1}, object, float("nan"), [None], "…", b"x", [[[]]],
    [BIG, BIG])] + ODD_TENSORS
HOSTILE_TENSORS = [value(v) for v in (None, "x", 3, [1, 2], {}, 2.5, object)]



def hostile_for(thing: Any) -> list[Make]:
    """Bad replacements for an argument of a sample."""
    if isinstance(thing, T):
        return [tampered(thing, how) for how in TAMPERINGS] * 3 + ODD_TENSORS + HOSTILE_TENSORS
    if isinstance(thing, bool):
        return HOSTILE_BOOLS
    if isinstance(thing, int):
        return INTS + HOSTILE_INTS
    if isinstance(thing, float):
        return FLOATS + HOSTILE_FLOATS
    if isinstance(thing, str):
        return TEXTS + HOSTILE_TEXTS
    if isinstance(thing, D):
        return DTYPES + HOSTILE_DTYPES
    if isinstance(thing, (list, tuple)) and any(isinstance(v, T) for v in thing):
        return TENSOR_LISTS + HOSTILE_TENSOR_LISTS
    if isinstance(thing, (list, tuple)):
        return LISTS + HOSTILE_LISTS
    return HOSTILE_ANYTHING


def as_is(thing: Any) -> Make:
    """An argument of a sample, unchanged."""
    if isinstance(thing, T):
        return tampered(thing, "same")
    if isinstance(thing, D):
        return value(dtype_of(thing.name))
    if isinstance(thing, (list, tuple)) and any(isinstance(v, T) for v in thing):
        return tensor_list(*(as_is(v) for v in thing), how=type(thing))
    return value(thing)


# type → (plausible, hostile)
POOLS: dict[str, tuple[list[Make], list[Make]]] = {
    "Tensor": (PLAIN_TENSORS, ODD_TENSORS + HOSTILE_TENSORS),
    "Operand": (PLAIN_TENSORS + SCALARS, ODD_TENSORS + HOSTILE_TENSORS + HOSTILE_SCALARS),
    "Tensor[]": (TENSOR_LISTS, HOSTILE_TENSOR_LISTS),
    "Scalar": (SCALARS, HOSTILE_SCALARS),
    "int": (INTS, HOSTILE_INTS),
    "int[]": (LISTS, HOSTILE_LISTS),
    "float": (FLOATS, HOSTILE_FLOATS),
    "bool": (BOOLS, HOSTILE_BOOLS),
    "str": (TEXTS, HOSTILE_TEXTS),
    "dtype": (DTYPES, HOSTILE_DTYPES),
    "device": (DEVICES, HOSTILE_DEVICES),
    "layout": ([value(None)], HOSTILE_DTYPES),
    "memory_format": ([value(None)], HOSTILE_DTYPES),
    "Generator": ([value(None), generator], [value(3), value("x")]),
    "any": (ANYTHING, HOSTILE_ANYTHING),
}
