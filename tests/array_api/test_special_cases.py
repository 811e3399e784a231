"""Special cases of the elementwise functions: infinities, NaN, signed zeros, in both real precisions and in complex."""

import cmath
import math

import numpy as np
import pytest

import flambeau as fb
from flambeau import array_api as xp

inf, nan = math.inf, math.nan
HALF, QUARTER = math.pi / 2, math.pi / 4

UNARY = {
    "abs": [(-0.0, 0.0), (-inf, inf), (nan, nan)],
    "acos": [(nan, nan), (1.5, nan), (-1.5, nan), (1.0, 0.0)],
    "acosh": [(nan, nan), (0.5, nan), (1.0, 0.0), (inf, inf)],
    "asin": [(nan, nan), (1.5, nan), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "atan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, HALF), (-inf, -HALF)],
    "atanh": [(nan, nan), (-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(nan, nan), (inf, inf), (-inf, -inf), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (2.5, 3.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0)],
    "floor": [(nan, nan), (inf, inf), (-inf, -inf), (-0.0, -0.0), (-2.5, -3.0)],
    "log": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [(nan, nan), (-2.0, nan), (-1.0, -inf), (0.0, 0.0), (-0.0, -0.0), (inf, inf)],
    "log2": [(nan, nan), (-1.0, nan), (0.0, -inf), (1.0, 0.0), (8.0, 3.0), (inf, inf)],
    "log10": [(nan, nan), (-1.0, nan), (0.0, -inf), (1.0, 0.0), (inf, inf)],
    "reciprocal": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0), (nan, nan)],
    "round": [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (nan, nan), (inf, inf), (-0.0, -0.0)],
    "sign": [(nan, nan), (-0.0, 0.0), (0.0, 0.0), (-3.0, -1.0), (inf, 1.0)],
    "sin": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan)],
    "sinh": [(nan, nan), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "sqrt": [(nan, nan), (-1.0, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf)],
    "tan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan)],
    "tanh": [(nan, nan), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "trunc": [(nan, nan), (inf, inf), (-0.5, -0.0), (-0.0, -0.0), (2.7, 2.0)],
    "isfinite": [(nan, 0), (inf, 0), (1.0, 1)],
    "isinf": [(nan, 0), (-inf, 1), (1.0, 0)],
    "isnan": [(nan, 1), (inf, 0)],
    "signbit": [(-0.0, 1), (0.0, 0), (-inf, 1), (2.0, 0), (-2.0, 1)],
}

BINARY = {
    "add": [(inf, -inf, nan), (nan, 1.0, nan), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (inf, 1.0, inf)],
    "atan2": [
        (1.0, 0.0, HALF), (0.0, 1.0, 0.0), (0.0, -0.0, math.pi), (-0.0, 1.0, -0.0), (-0.0, -1.0, -math.pi),
        (1.0, inf, 0.0), (1.0, -inf, math.pi), (inf, inf, QUARTER), (-inf, -inf, -3 * QUARTER), (nan, 1.0, nan),
    ],
    "copysign": [(nan, -0.0, nan), (1.0, -0.0, -1.0), (-1.0, 0.0, 1.0), (2.0, -inf, -2.0)],
    "divide": [
        (inf, inf, nan), (0.0, 0.0, nan), (1.0, 0.0, inf), (1.0, -0.0, -inf), (-0.0, 1.0, -0.0), (1.0, -inf, -0.0),
    ],
    "floor_divide": [
        (nan, 1.0, nan), (inf, inf, nan), (0.0, 0.0, nan), (1.0, 0.0, inf), (1.0, -0.0, -inf), (-0.0, 1.0, -0.0),
        (inf, 2.0, inf), (inf, -2.0, -inf), (1.0, -inf, -0.0), (1.0, inf, 0.0), (-7.0, 2.0, -4.0), (7.0, -2.0, -4.0),
    ],
    "hypot": [(inf, nan, inf), (nan, inf, inf), (nan, 1.0, nan), (-0.0, 0.0, 0.0), (3.0, 4.0, 5.0)],
    "logaddexp": [(nan, 1.0, nan), (inf, 1.0, inf), (-inf, -inf, -inf), (-inf, 1.0, 1.0)],
    "maximum": [(nan, 1.0, nan), (1.0, nan, nan), (-inf, 1.0, 1.0)],
    "minimum": [(nan, 1.0, nan), (1.0, nan, nan), (inf, 1.0, 1.0)],
    "multiply": [(inf, 0.0, nan), (-0.0, 1.0, -0.0), (inf, -1.0, -inf), (nan, 1.0, nan)],
    "nextafter": [(0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (nan, 1.0, nan), (1.0, nan, nan), (2.0, 2.0, 2.0)],
    "pow": [
        (nan, 0.0, 1.0), (1.0, nan, 1.0), (nan, 1.0, nan), (-0.5, inf, 0.0), (1.0, inf, 1.0), (-1.0, -inf, 1.0),
        (-inf, 3.0, -inf), (-inf, 2.0, inf), (-0.0, 3.0, -0.0), (-0.0, -3.0, -inf), (-8.0, 0.5, nan), (0.0, -1.0, inf),
    ],
    "remainder": [
        (nan, 1.0, nan), (inf, 1.0, nan), (1.0, 0.0, nan), (-0.0, 2.0, 0.0), (0.0, -2.0, -0.0), (1.0, inf, 1.0),
        (1.0, -inf, -inf), (-1.0, inf, inf), (-1.0, -inf, -1.0), (7.0, -2.0, -1.0), (-7.0, 2.0, 1.0), (4.0, -2.0, -0.0),
    ],
    "subtract": [(inf, inf, nan), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (-inf, inf, -inf)],
    "equal": [(nan, nan, 0), (0.0, -0.0, 1), (inf, inf, 1)],
    "not_equal": [(nan, nan, 1), (0.0, -0.0, 0)],
    "less": [(nan, 1.0, 0), (-0.0, 0.0, 0), (-inf, inf, 1)],
    "greater_equal": [(nan, nan, 0), (-0.0, 0.0, 1)],
}  # fmt: skip


def check(found: float, want: float, dtype) -> None:
    """Equal up to rounding; NaN equals NaN, and zeros must have the right sign."""
    if math.isnan(want):
        assert math.isnan(found)
    elif want == 0:
        assert found == 0 and math.copysign(1, found) == math.copysign(1, want)
    else:
        assert found == pytest.approx(want, rel=4 * xp.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    for x, want in UNARY[name]:
        found = getattr(xp, name)(xp.asarray(x, dtype=dtype))
        assert found.dtype == (xp.bool if name.startswith("is") or name == "signbit" else dtype)
        check(float(found), want, dtype)
    # the same cases side by side, long enough for vector loops
    x = xp.asarray([x for x, _ in UNARY[name]] * 9, dtype=dtype)
    for found, (_, want) in zip(getattr(xp, name)(x).tolist(), UNARY[name] * 9, strict=True):
        check(float(found), want, dtype)


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    rows = BINARY[name] * 9
    first = xp.asarray([a for a, _, _ in rows], dtype=dtype)
    second = xp.asarray([b for _, b, _ in rows], dtype=dtype)
    for found, (_, _, want) in zip(getattr(xp, name)(first, second).tolist(), rows, strict=True):
        check(float(found), want, dtype)
    for a, b, want in BINARY[name]:
        check(float(getattr(xp, name)(xp.asarray(a, dtype=dtype), b)), want, dtype)
        check(float(getattr(xp, name)(a, xp.asarray(b, dtype=dtype))), want, dtype)


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
def test_nextafter_steps_by_one_bit(dtype):
    x = np.asarray([0.0, 1.0, -1.0, 3.5, 1e30], dtype="float32" if dtype == xp.float32 else "float64")
    for towards in (inf, -inf):
        found = xp.nextafter(xp.asarray(x), towards)
        assert found.tolist() == np.nextafter(x, np.asarray(towards, dtype=x.dtype)).tolist()


COMPLEX = {
    "exp": [(complex(0, 0), complex(1, 0)), (complex(-inf, nan), complex(0, 0)), (complex(inf, 0), complex(inf, 0))],
    "expm1": [
        (complex(0, 0), complex(0, 0)), (complex(inf, 0), complex(inf, 0)), (complex(-inf, inf), complex(-1, 0)),
        (complex(inf, nan), complex(inf, nan)), (complex(-inf, nan), complex(-1, 0)),
        (complex(nan, 0), complex(nan, 0)),
    ],
    "log1p": [
        (complex(-1, 0), complex(-inf, 0)), (complex(inf, nan), complex(inf, nan)),
        (complex(nan, inf), complex(inf, nan)),
        (complex(inf, 1), complex(inf, 0)), (complex(-inf, inf), complex(inf, 3 * QUARTER)),
    ],
    "sqrt": [(complex(0, 0), complex(0, 0)), (complex(1, inf), complex(inf, inf)), (complex(-4, 0), complex(0, 2))],
    "log": [
        (complex(-0.0, 0), complex(-inf, math.pi)), (complex(0, 0), complex(-inf, 0)),
        (complex(1, inf), complex(inf, HALF)),
    ],
    "tanh": [
        (complex(0, 0), complex(0, 0)), (complex(inf, 1), complex(1, 0)), (complex(inf, 2), complex(1, 0)),
        (complex(-inf, -2), complex(-1, -0.0)),
    ],
    "acos": [(complex(0, 0), complex(HALF, -0.0)), (complex(1, inf), complex(HALF, -inf))],
    "sign": [(complex(0, 0), complex(0, 0)), (complex(nan, 1), complex(nan, nan)), (complex(3, 4), complex(0.6, 0.8))],
    "round": [(complex(0.5, 1.5), complex(0, 2)), (complex(-2.5, inf), complex(-2, inf))],
    "square": [(complex(1, 2), complex(-3, 4))],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name, dtype):
    for x, want in COMPLEX[name]:
        found = complex(getattr(xp, name)(xp.asarray(x, dtype=dtype)))
        check(found.real, want.real, dtype)
        check(found.imag, want.imag, dtype)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_complex_keeps_digits_near_zero(name):
    z = complex(3e-9, -4e-9)
    # two terms of the series are exact here to double precision
    want = z + z * z / 2 if name == "expm1" else z - z * z / 2
    found = complex(getattr(xp, name)(xp.asarray(z, dtype=xp.complex128)))
    assert abs(found - want) < 1e-23
    far = complex(1.25, -2.5)
    exact = cmath.exp(far) - 1 if name == "expm1" else cmath.log(1 + far)
    assert abs(complex(getattr(xp, name)(xp.asarray(far, dtype=xp.complex128))) - exact) < 1e-14


@pytest.mark.parametrize("dtype", [xp.int8, xp.int64, xp.uint8, xp.uint64], ids=str)
def test_rounding_functions_leave_integers_alone(dtype):
    x = xp.asarray([0, 1, 100], dtype=dtype)
    for name in ("ceil", "floor", "round", "trunc", "positive", "real", "conj"):
        y = getattr(xp, name)(x)
        assert y.dtype == dtype and y.tolist() == [0, 1, 100]
    assert xp.isfinite(x).tolist() == [True] * 3
    assert xp.isnan(x).tolist() == xp.isinf(x).tolist() == [False] * 3
    assert xp.sign(x).tolist() == [0, 1, 1] and xp.sign(x).dtype == dtype


def test_clip():
    x = xp.asarray([-2.0, 0.5, nan, 9.0])
    assert xp.clip(x, -1, 1).tolist()[:2] == [-1.0, 0.5] and math.isnan(xp.clip(x, -1, 1).tolist()[2])
    assert xp.clip(x, max=1.0).tolist()[3] == 1.0 and xp.clip(x, min=0).tolist()[0] == 0.0
    assert all(math.isnan(v) for v in xp.clip(x, nan).tolist())
    copy = xp.clip(x)
    assert copy.data_ptr() != x.data_ptr()
    table = xp.clip(xp.asarray([1, 5, 9], dtype=xp.int32), xp.asarray([[2], [6]], dtype=xp.int8), 8)
    assert table.tolist() == [[2, 5, 8], [6, 6, 8]] and table.dtype == xp.int32
    assert xp.clip(xp.ones(2, dtype=xp.float32), xp.asarray(2.0, dtype=xp.float64)).dtype == xp.float32
    with pytest.raises(TypeError):
        xp.clip(xp.asarray([1, 2]), 0.5)
    with pytest.raises(TypeError):
        xp.clip(xp.asarray([1j]), 0)


def test_half_precision_goes_through():
    x = xp.asarray([0.0, -0.0, inf, nan], dtype=fb.float16)
    assert xp.exp(x).dtype == fb.float16
    assert xp.exp(x).tolist()[:3] == [1.0, 1.0, inf]
