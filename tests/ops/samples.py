"""Makers of sample arguments: deterministic, aware of the dtype, with the awkward values and shapes."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from .spec import BOOL, COMPLEX, FLOATS, S, T

SHAPES = ((3, 4), (7,))
EDGE_SHAPES = ((), (0,), (2, 0, 3), (1,), (1, 1))
LARGE = 1 << 18


def rng_for(*key: object) -> np.random.Generator:
    """A generator that depends only on what is being made."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def make(dtype: str, shape: tuple[int, ...], lo: float = -3, hi: float = 3, salt: object = 0) -> T:
    """Values between `lo` and `hi` that `dtype` can hold."""
    rng = rng_for(dtype, shape, lo, hi, salt)
    if dtype in BOOL:
        return T(rng.random(shape) < 0.5, dtype)
    if dtype in FLOATS:
        return T(rng.uniform(lo, hi, shape), dtype)
    if dtype in COMPLEX:
        return T(rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape), dtype)
    low = int(np.ceil(lo))
    if dtype.startswith("uint"):
        low = max(low, 0)
    return T(rng.integers(low, max(int(np.floor(hi)), low) + 1, shape), dtype)


def distinct(dtype: str, shape: tuple[int, ...], salt: object = 0) -> T:
    """A shuffled run of different small values, so that an order is unique (bool repeats, of necessity)."""
    count = int(np.prod(shape))
    values = rng_for(dtype, shape, salt).permutation(count)
    if not (dtype.startswith("uint") or dtype in BOOL):
        values = values - count // 2
    if dtype in FLOATS:
        values = values * 0.5
    return T(values.reshape(shape) % 2 if dtype in BOOL else values.reshape(shape), dtype)


def index(values: object) -> T:
    return T(np.asarray(values, dtype=np.int64).reshape(np.shape(values)), "int64")


def mask(values: object) -> T:
    return T(np.asarray(values, dtype=bool), "bool")


def specials(dtype: str) -> np.ndarray:
    """nan, infinities, zeros of both signs, the ends of the range, the smallest numbers."""
    if dtype in BOOL:
        return np.array([True, False])
    if dtype in FLOATS:
        top = 3.3895313892515355e38 if dtype == "bfloat16" else float(np.finfo(dtype).max)
        tiny = float(np.finfo("float32" if dtype == "bfloat16" else dtype).tiny)
        return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, top, -top, tiny, -tiny, tiny / 4])
    if dtype in COMPLEX:
        parts = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
        return np.array([complex(a, b) for a, b in itertools.product(parts, parts)])
    info = np.iinfo(dtype)
    return np.array([info.min, info.max, 0, 1, 2, 3], dtype=dtype)


# ---- elementwise ---------------------------------------------------------------------------------------------------

Domain = tuple[float, float]


def elementwise(*domains: Domain, shapes=SHAPES, **kwargs: object) -> Callable[[str], Iterator[S]]:
    """One operand per domain, all of one shape and dtype."""

    def samples(dtype: str) -> Iterator[S]:
        for shape in shapes:
            yield S(*(make(dtype, shape, lo, hi, i) for i, (lo, hi) in enumerate(domains)), **kwargs)

    return samples


def broadcasting(*domains: Domain, **kwargs: object) -> Callable[[str], Iterator[S]]:
    """Operands whose shapes differ but fit together."""
    sets = [((3, 1), (1, 4), (4,)), ((2, 3, 4), (4,), (3, 1)), ((), (3,), (2, 1)), ((0, 1), (1, 5), (5,))]

    def samples(dtype: str) -> Iterator[S]:
        for shapes in sets:
            for order in (shapes, shapes[::-1]):
                yield S(*(make(dtype, order[i], lo, hi, i) for i, (lo, hi) in enumerate(domains)), **kwargs)

    return samples


def special_values(arity: int, nan: bool = True, **kwargs: object) -> Callable[[str], Iterator[S]]:
    """Every special value; for two operands, every pair. `nan=False` where a nan's sign would show."""

    def samples(dtype: str) -> Iterator[S]:
        values = specials(dtype)
        if not nan and dtype in FLOATS:
            values = values[1:]
        if arity == 1:
            yield S(T(values, dtype), **kwargs)
        else:
            left, right = np.meshgrid(values, values, indexing="ij")
            rest = [T(np.full(left.shape, 1), dtype)] * (arity - 2)
            yield S(T(left, dtype), T(right, dtype), *rest, **kwargs)

    return samples


# ---- along dimensions ----------------------------------------------------------------------------------------------


def over_dims(lo: float = -3, hi: float = 3, *, many: bool = True, none: bool = True, maker=make):
    """Samples of a reduction: all, one, a negative, several dimensions, kept and dropped."""

    def samples(dtype: str) -> Iterator[S]:
        x = maker(dtype, (3, 4, 2)) if maker is not make else make(dtype, (3, 4, 2), lo, hi)
        if none:
            yield S(x)
        for dim in (0, 1, -1):
            yield S(x, dim=dim)
        yield S(x, 1)
        yield S(x, dim=1, keepdim=True)
        if many:
            yield S(x, dim=(0, 2))
            yield S(x, dim=[0, -1], keepdim=True)

    return samples


def over_one_dim(lo: float = -3, hi: float = 3, maker=make):
    """Samples of an op along exactly one dimension that keeps the shape."""

    def samples(dtype: str) -> Iterator[S]:
        x = maker(dtype, (3, 4, 2)) if maker is not make else make(dtype, (3, 4, 2), lo, hi)
        for dim in (0, 1, -1):
            yield S(x, dim=dim)
        yield S(x, 1)

    return samples


def spd(dtype: str, n: int, batch: tuple[int, ...] = (), salt: object = 0) -> T:
    """A well-conditioned Hermitian positive definite matrix."""
    a = make(dtype, (*batch, n, n), -1, 1, salt).values
    return T(a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n), dtype)


def well_conditioned(dtype: str, n: int, batch: tuple[int, ...] = (), salt: object = 0) -> T:
    """An invertible matrix far from singular."""
    return T(make(dtype, (*batch, n, n), -1, 1, salt).values + n * np.eye(n), dtype)
