"""Result dtypes beyond two operands: joining, choosing, accumulating, in place, dtype= arguments, many dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb

from .spec import ALL, COMPLEX, FLOATS, INTS, dtype_of, name_of, promote, to_numpy

KNOWN = [d for d in ALL if d not in ("uint16", "uint32", "uint64")]


def ones(dtype, shape=(2,)):
    return fb.ones(shape, dtype=dtype_of(dtype))


def halves_meet_complex(a, b):
    return bool({a, b} & {"float16", "bfloat16"} and {a, b} & set(COMPLEX))


@pytest.mark.parametrize("join", [fb.cat, fb.stack, fb.hstack, fb.vstack], ids=lambda f: f.__name__)
def test_joining_promotes(join):
    for a in KNOWN:
        for b in KNOWN:
            if not halves_meet_complex(a, b):
                got = join([ones(a), ones(b)])
                assert name_of(got.dtype) == promote(a, b), f"{a} with {b}: {got.dtype}"
                assert (to_numpy(got) == 1).all()


def test_where_promotes():
    condition = fb.tensor([True, False])
    for a in KNOWN:
        for b in KNOWN:
            if not halves_meet_complex(a, b):
                assert name_of(fb.where(condition, ones(a), ones(b)).dtype) == promote(a, b), f"where({a}, {b})"
    assert fb.where(condition, ones("int32"), 2.5).dtype == fb.float32
    assert fb.where(condition, ones("float16"), 2).dtype == fb.float16
    assert fb.where(condition, 1, 2).dtype == fb.int64
    assert fb.where(condition, 1.0, 2).dtype == fb.float32
    assert fb.where(condition, ones("float64", ()), ones("float32")).dtype == fb.float32


def test_three_operands():
    assert fb.addcmul(ones("float32"), ones("float32"), ones("float64")).dtype == fb.float64
    assert fb.addcmul(ones("int64"), ones("int64"), ones("int64")).dtype == fb.int64
    assert fb.clamp(ones("int64"), 0.5, 2.5).dtype == fb.float32
    assert fb.clamp(ones("int32"), ones("int64"), ones("int64")).dtype == fb.int64
    assert fb.lerp(ones("float32"), ones("float32"), 0.5).dtype == fb.float32


def test_default_dtype_rules():
    """Python floats and float results of integers follow the default dtype."""
    fb.set_default_dtype(fb.float64)
    assert fb.tensor(1.5).dtype == fb.float64 and fb.tensor(1j).dtype == fb.complex128
    assert (ones("int64") * 1.5).dtype == fb.float64
    assert fb.sin(ones("int64")).dtype == fb.float64
    assert (ones("int64") / 2).dtype == fb.float64
    assert (ones("float32") * 1.5).dtype == fb.float32
    assert fb.zeros(2).dtype == fb.float64 and fb.arange(2.0).dtype == fb.float64 and fb.arange(2).dtype == fb.int64
    assert fb.rand(2).dtype == fb.float64 and fb.linspace(0, 1, 3).dtype == fb.float64
    fb.set_default_dtype(fb.float32)
    assert fb.tensor(1.5).dtype == fb.float32
    with pytest.raises((TypeError, RuntimeError)):
        fb.set_default_dtype(fb.int64)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod", "nansum"])
def test_dtype_arguments(name):
    op = getattr(fb, name)
    extra = (0,) if name.startswith("cum") else ()
    for source in ("int64", "float32", "bool", "float16"):
        for target in ("float64", "float32", "complex64"):
            if name == "nansum" and target in COMPLEX:
                continue
            got = op(ones(source), *extra, dtype=dtype_of(target))
            assert name_of(got.dtype) == target, f"{name}({source}, dtype={target}): {got.dtype}"
    # The conversion comes first: no overflow on the way.
    big = fb.full((4,), 60000.0, dtype=fb.float16)
    assert float(fb.sum(big, dtype=fb.float32)) == 4 * float(big[0])
    assert float(fb.mean(fb.tensor([1, 2]), dtype=fb.float32)) == 1.5


def test_small_integers_add_up_in_int64():
    for dtype in INTS + ("bool",):
        got = fb.sum(ones(dtype, (300,)))
        assert got.dtype == fb.int64 and int(got) == 300


def test_squares_of_bools_are_int64():
    squares = fb.square(fb.tensor([True, False]))
    assert (squares.dtype, squares.tolist()) == (fb.int64, [1, 0])
    assert fb.square(fb.tensor([3], dtype=fb.int8)).dtype == fb.int8


def test_half_precision_sums_are_accurate():
    """Half precision accumulates in float32: 4096 ones are 4096, not 2048 or 256."""
    for dtype in ("float16", "bfloat16"):
        assert float(fb.sum(ones(dtype, (4096,)))) == 4096.0
        assert float(fb.mean(ones(dtype, (5000,)))) == 1.0


def test_float32_sums_are_accurate():
    n = 1 << 21
    values = np.random.default_rng(0).random(n).astype(np.float32)
    got = float(fb.sum(fb.from_numpy(values)))
    assert abs(got / values.astype(np.float64).sum() - 1) < 1e-6


def test_in_place_keeps_the_dtype():
    for dtype in FLOATS:
        x = ones(dtype)
        x += ones("float64")
        assert name_of(x.dtype) == dtype and (to_numpy(x) == 2).all()
    x = ones("int64")
    for other in (1.5, ones("float32"), 1j):
        with pytest.raises(RuntimeError):
            x.add_(other)
    with pytest.raises(RuntimeError):
        ones("bool").add_(1)
    with pytest.raises(RuntimeError):
        ones("int64").div_(2)
    assert ones("int64").mul_(ones("bool")).dtype == fb.int64


def test_comparison_with_numbers_out_of_range():
    x = fb.tensor([250, 5], dtype=fb.uint8)
    assert (x > 100).tolist() == [True, False]
    assert (fb.tensor([1, 2]) == 1.5).tolist() == [False, False]
    assert (fb.tensor([1, 2]) < 1.5).tolist() == [True, False]


def test_thirty_two_dimensions():
    shape = (1, 2) * 5 + (1,) * 22
    values = np.arange(32, dtype=np.float32).reshape(shape)
    x = fb.from_numpy(values.copy())
    assert x.ndim == 32
    assert np.array_equal(to_numpy(x + x), values + values)
    order = tuple(reversed(range(32)))
    assert np.array_equal(to_numpy(x.permute(order) * 2), values.transpose(order) * 2)
    assert np.array_equal(to_numpy(x.sum(dim=(1, 5, 31))), values.sum(axis=(1, 5, 31)))
    assert np.array_equal(to_numpy(x.permute(order).contiguous()), values.transpose(order))
    assert float(x.sum()) == float(values.sum())
    assert np.array_equal(to_numpy(x.flip((1, 3))), np.flip(values, (1, 3)))


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16], ids=str)
def test_comparisons_round_numbers_to_half_types(dtype):
    x = fb.tensor([1.001, 2.0], dtype=dtype)
    assert (x == 1.001).tolist() == (1.001 == x).tolist() == [True, False]
    assert (x != 1.001).tolist() == [False, True] and (x < 1.001).tolist() == [False, False]
    assert (x >= 1.001).tolist() == [True, True] and bool(fb.tensor(1.001, dtype=dtype) == 1.001)
    assert (x < 1e30).tolist() == [True, True]
