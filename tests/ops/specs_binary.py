"""Pointwise ops of several operands: arithmetic, comparison, logic, bits."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from .samples import EDGE_SHAPES, LARGE, broadcasting, elementwise, index, make, mask, special_values, specials
from .spec import ALL, BOOL, COMPLEX, FLOATS, FULL_FLOATS, INEXACT, INTS, NUMERIC, REAL, SIGNED, OpSpec, S, T, bad

NOT_COMPLEX = BOOL + REAL


def unfit():
    return bad("shapes that do not broadcast", ValueError, T(np.ones((2, 3)), "float32"), T(np.ones(4), "float32"))


def unfit_ints():
    return bad("shapes that do not broadcast", ValueError, T(np.ones((2, 3)), "int64"), T(np.ones(4), "int64"))


def floats_refused():
    return bad("float tensors", RuntimeError, T([1.0], "float32"), T([2.0], "float32"))


def binary(name, ref, a=(-3, 3), b=(-3, 3), dtypes=ALL, result="same", inplace=True, out=True, special=True, errors=(),
           promotes=2, samples=None, **kw):
    """A row for a pointwise op of two tensors."""
    ints_only = not set(dtypes) & set(FLOATS)
    return OpSpec(
        name,
        ref,
        samples or elementwise(a, b),
        dtypes,
        result,
        inplace=inplace,
        out=out,
        edge=elementwise(a, b, shapes=EDGE_SHAPES),
        broadcast=broadcasting(a, b),
        special=special_values(2, nan=special != "no nan") if special else None,
        large=elementwise(a, b, shapes=((LARGE + 13,), (500, 501))),
        promotes=promotes,
        errors=(unfit_ints() if ints_only else unfit(), bad("a string", TypeError, "x", "y"), *errors),
        domains=(a, b),
        **kw,
    )


def complex_refused():
    return bad("complex tensors", RuntimeError, T([1.0], "complex64"), T([2.0], "complex64"))


# ---- references ----------------------------------------------------------------------------------------------------


def _add(a, b, alpha=1):
    return a | b if a.dtype == bool else a + b * a.dtype.type(alpha)


def _sub(a, b, alpha=1):
    return a - b * a.dtype.type(alpha)


def _mul(a, b):
    return a & b if a.dtype == bool else a * b


def _div(a, b, rounding_mode=None):
    if rounding_mode is None:
        return np.true_divide(a, b)
    if rounding_mode == "floor":
        return np.floor_divide(a, b)
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    whole = np.abs(a.astype(object)) // np.abs(b.astype(object)) * np.sign(a.astype(object)) * np.sign(b.astype(object))
    return whole.astype(a.dtype)


def _float_floor(a, b):
    """Floor division of floats by way of the exact remainder; infinities and zeros as in true division."""
    if a.dtype.kind != "f":
        return np.floor_divide(a, b)
    whole = np.floor_divide(a, b)
    return np.where(b == 0, a / b, whole)


def _pow(a, b):
    return np.power(a, b) if a.dtype != bool else (a | ~b)


def _heaviside(x, values):
    if x.dtype.kind == "f":
        return np.where(np.isnan(x), 0.0, np.heaviside(x, values))
    return np.where(x == 0, values, (x > 0).astype(x.dtype)).astype(x.dtype)


def _shift(move):
    def ref(a, b):
        return move(a, b).astype(a.dtype)

    return ref


def _isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    if a.dtype == bool:
        return a == b
    close = np.abs(a - b) <= atol + rtol * np.abs(b)
    close = (close & np.isfinite(b)) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


def _lerp(a, b, w):
    return a + w * (b - a)


def _clamp(x, min=None, max=None):
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def _addcmul(x, a, b, value=1):
    return x + x.dtype.type(value) * a * b


def _addcdiv(x, a, b, value=1):
    return x + value * a / b


# ---- samples -------------------------------------------------------------------------------------------------------


def with_numbers(a, b, *numbers, swap=True):
    """Tensors with tensors, then a tensor with Python numbers."""

    def samples(dtype):
        yield from elementwise(a, b)(dtype)
        x = make(dtype, (3, 4), *a)
        for number in numbers:
            if isinstance(number, float) and dtype not in INEXACT:
                continue
            if number is True or (isinstance(number, int) and dtype in BOOL):
                continue
            yield S(x, number)

    return samples


def _number_ref(ref):
    """NumPy must not widen an integer array because of a Python number."""

    def wrapped(a, b, **kwargs):
        if not isinstance(b, np.ndarray):
            b = np.full_like(a, b)
        if not isinstance(a, np.ndarray):
            a = np.full_like(b, a)
        return ref(a, b, **kwargs)

    return wrapped


def _add_samples(dtype):
    yield from with_numbers((-3, 3), (-3, 3), 2, 1.5)(dtype)
    if dtype not in BOOL:
        yield S(make(dtype, (3, 4)), make(dtype, (3, 4), salt=1), alpha=2)


def _div_samples(dtype):
    positive = (1, 5) if dtype not in INEXACT else (0.5, 5)
    yield from elementwise((-9, 9), positive)(dtype)
    if dtype in INEXACT:
        yield S(make(dtype, (3, 4)), 2.0)


def _div_mode_samples(dtype):
    yield from _div_samples(dtype)
    a, b = make(dtype, (3, 4), -9, 9), make(dtype, (3, 4), 1, 5)
    if dtype not in COMPLEX and dtype not in BOOL:
        yield S(a, b, rounding_mode="floor", _dtype=dtype)
        yield S(a, b, rounding_mode="trunc", _dtype=dtype)


def _nonzero(dtype):
    signs = make("int8", (3, 4), 0, 1, "sign").values * 2 - 1
    divisor = make(dtype, (3, 4), 1, 5).values
    if dtype in FLOATS + SIGNED:
        divisor = divisor * signs.astype(divisor.dtype)
    yield S(make(dtype, (3, 4), -9, 9), T(divisor, dtype))
    yield S(make(dtype, (5,), -9, 9), 3)
    if dtype in FLOATS:
        yield S(make(dtype, (5,), -9, 9), -2.5)


def _pow_samples(dtype):
    if dtype in INEXACT:
        yield from elementwise((0.25, 3), (-2, 2))(dtype)
        for exponent in (2, 3, -1, 0.5, 0, 2.5):
            yield S(make(dtype, (3, 4), 0.25, 3), exponent)
        yield S(2.0, make(dtype, (3, 4), -2, 2))
    else:
        yield from elementwise((-3, 3), (0, 4))(dtype)
        for exponent in (0, 1, 2, 3):
            yield S(make(dtype, (3, 4), -3, 3), exponent)


def _float_power_samples(dtype):
    yield from elementwise((0.5, 3), (-2, 2))(dtype)
    yield S(make(dtype, (3, 4), 1, 3), 2)


def _shift_samples(dtype):
    bits = min(np.iinfo(dtype).bits - 2, 6)
    yield S(make(dtype, (3, 4), -9, 9), make(dtype, (3, 4), 0, bits))
    yield S(make(dtype, (3, 4), -9, 9), 2)


def _compare_samples(dtype):
    yield from with_numbers((-2, 2), (-2, 2), 1, 0.5)(dtype)


def _close_samples(dtype):
    x = make(dtype, (3, 4), 1, 4)
    yield S(x, x)
    yield S(x, make(dtype, (3, 4), 1, 4, "other"))
    if dtype in FLOATS:
        near = x.values.astype(np.float64) * (1 + 1e-3)
        yield S(x, T(near, dtype), rtol=5e-2)
        yield S(x, T(near, dtype), rtol=0.0, atol=10.0)
        yield S(T(specials(dtype), dtype), T(specials(dtype), dtype))
        yield S(T([np.nan, 1.0], dtype), T([np.nan, 1.0], dtype), equal_nan=True)


def _lerp_samples(dtype):
    x, y = make(dtype, (3, 4)), make(dtype, (3, 4), salt=1)
    yield S(x, y, make(dtype, (3, 4), 0, 1))
    yield S(x, y, 0.25)
    yield S(x, y, 0.75)


def _clamp_samples(dtype):
    x = make(dtype, (3, 4), -9, 9)
    low, high = (1, 3) if dtype.startswith("uint") else (-2, 3)
    yield S(x, low, high)
    yield S(x, min=low)
    yield S(x, max=high)
    yield S(x, make(dtype, (3, 4), low, low), make(dtype, (4,), high, high))
    yield S(x, min=make(dtype, (4,), low, high))
    if dtype in FLOATS:
        yield S(T([np.nan, np.inf, -np.inf, 0.0], dtype), -1.0, 1.0)


def _one_bound(dtype):
    x = make(dtype, (3, 4), -9, 9)
    yield S(x, 2)
    yield S(x, make(dtype, (3, 4), 0, 3))


def _addc_samples(lo):
    def samples(dtype):
        x = make(dtype, (3, 4)), make(dtype, (3, 4), salt=1), make(dtype, (3, 4), lo, 3, 2)
        yield S(*x)
        yield S(*x, value=2)
        if dtype in INEXACT:
            yield S(*x, value=0.5)

    return samples


def _where_samples(dtype):
    cond = mask([[True, False, True, False]] * 3)
    yield S(cond, make(dtype, (3, 4)), make(dtype, (3, 4), salt=1))
    yield S(cond, make(dtype, (4,)), make(dtype, (3, 1), salt=1))
    if dtype not in BOOL:
        yield S(cond, make(dtype, (3, 4)), 1)


def _where(cond, a, b):
    b = b if isinstance(b, np.ndarray) else a.dtype.type(b)
    return np.where(cond, a, b)


def _ldexp_samples(dtype):
    yield S(make(dtype, (3, 4)), T(make("int32", (3, 4), -3, 3).values, "int32"))


def _igamma_samples(dtype):
    yield S(make(dtype, (3, 4), 0.5, 5), make(dtype, (3, 4), 0.1, 6))


def _gcd_samples(dtype):
    yield S(make(dtype, (3, 4), -60, 60), make(dtype, (3, 4), -60, 60, 1))
    yield S(make(dtype, (3, 4), 0, 2), make(dtype, (3, 4), 0, 60, 1))


def _lcm_samples(dtype):
    yield S(make(dtype, (3, 4), -9, 9), make(dtype, (3, 4), -9, 9, 1))


EQUAL_ERRORS = (bad("a string", TypeError, "x", "y"),)
HALF_LOOSE = {"float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}

# fmt: off
ARITHMETIC = [
    binary("add", _number_ref(_add), samples=_add_samples,
           errors=(bad("a float alpha for integers", RuntimeError, T([1], "int64"), T([1], "int64"), alpha=0.5),)),
    binary("sub", _number_ref(_sub), dtypes=NUMERIC, samples=_add_samples,
           errors=(bad("bool tensors", RuntimeError, T([1], "bool"), T([1], "bool")),)),
    binary("mul", _number_ref(_mul), samples=with_numbers((-3, 3), (-3, 3), 2, 1.5), special_dtypes=FLOATS + INTS),
    binary("div", _number_ref(_div), (-9, 9), (0.5, 5), result="float", samples=_div_mode_samples,
           special_dtypes=FLOATS,
           errors=(bad("an unknown rounding mode", ValueError, T([1.0], "float32"), T([1.0], "float32"),
                       rounding_mode="up"),)),
    binary("floor_divide", _number_ref(_float_floor), (-9, 9), (1, 5), REAL, samples=_nonzero, special_dtypes=(),
           tolerance=HALF_LOOSE,
           errors=(bad("an integer divided by zero", (RuntimeError, ZeroDivisionError), T([1], "int64"),
                       T([0], "int64")), complex_refused())),
    binary("remainder", _number_ref(np.remainder), (-9, 9), (1, 5), REAL, samples=_nonzero, special=False,
           tolerance=HALF_LOOSE,
           errors=(bad("an integer divided by zero", (RuntimeError, ZeroDivisionError), T([1], "int64"),
                       T([0], "int64")), complex_refused())),
    binary("fmod", _number_ref(np.fmod), (-9, 9), (1, 5), REAL, samples=_nonzero, special_dtypes=FLOATS,
           tolerance=HALF_LOOSE,
           errors=(bad("an integer divided by zero", (RuntimeError, ZeroDivisionError), T([1], "int64"),
                       T([0], "int64")), complex_refused())),
    binary("pow", _number_ref(_pow), (0.25, 3), (0, 2), NUMERIC, samples=_pow_samples, special_dtypes=FLOATS,
           errors=(bad("a negative integer power", RuntimeError, T([2], "int64"), -1),)),
    binary("float_power", lambda a, b: np.power(a.astype(complex if np.iscomplexobj(a) else float), b), (0.5, 3),
           (-2, 2),
           result="double", samples=_float_power_samples, inplace=False, special=False, promotes=2),
]

FUNCTIONS = [
    binary("atan2", np.arctan2, dtypes=NOT_COMPLEX, result="float", errors=(complex_refused(),), special_dtypes=FLOATS),
    binary("hypot", np.hypot, dtypes=FLOATS, special_dtypes=FLOATS),
    binary("copysign", np.copysign, dtypes=NOT_COMPLEX, result="float", exact=True, special="no nan",
           special_dtypes=FLOATS,
           errors=(complex_refused(),)),
    binary("nextafter", np.nextafter, dtypes=FULL_FLOATS, native=True, exact=True),
    binary("logaddexp", np.logaddexp, dtypes=FLOATS, inplace=False),
    binary("logaddexp2", np.logaddexp2, dtypes=FLOATS, inplace=False),
    binary("xlogy", sp.xlogy, (-3, 3), (0.1, 5), NOT_COMPLEX, "float", special_dtypes=FULL_FLOATS),
    binary("ldexp", lambda a, b: a * 2.0**b, dtypes=INEXACT, samples=_ldexp_samples, special=False, promotes=0),
    binary("igamma", sp.gammainc, (0.5, 5), (0.1, 6), FLOATS, samples=_igamma_samples, special=False,
           tolerance={"float32": (1e-4, 1e-5)}),
    binary("igammac", sp.gammaincc, (0.5, 5), (0.1, 6), FLOATS, samples=_igamma_samples, special=False,
           tolerance={"float32": (1e-4, 1e-5)}),
    binary("heaviside", _heaviside, dtypes=NOT_COMPLEX, promotes=0, special_dtypes=FLOATS),
    binary("maximum", np.maximum, dtypes=NOT_COMPLEX, inplace=False, errors=(complex_refused(),)),
    binary("minimum", np.minimum, dtypes=NOT_COMPLEX, inplace=False, errors=(complex_refused(),)),
    binary("fmax", np.fmax, dtypes=NOT_COMPLEX, inplace=False),
    binary("fmin", np.fmin, dtypes=NOT_COMPLEX, inplace=False),
    binary("gcd", np.gcd, (-60, 60), (-60, 60), INTS, samples=_gcd_samples, special=False),
    binary("lcm", np.lcm, (-9, 9), (-9, 9), INTS, samples=_lcm_samples, special=False),
]

COMPARISON = [
    binary(name, _number_ref(ref), (-2, 2), (-2, 2), dtypes, "bool", samples=_compare_samples,
           special_dtypes=ALL if dtypes is ALL else NOT_COMPLEX,
           errors=() if dtypes is ALL else (complex_refused(),))
    for name, ref, dtypes in (
        ("eq", np.equal, ALL), ("ne", np.not_equal, ALL), ("lt", np.less, NOT_COMPLEX),
        ("le", np.less_equal, NOT_COMPLEX),
        ("gt", np.greater, NOT_COMPLEX), ("ge", np.greater_equal, NOT_COMPLEX),
    )
]

LOGIC = [
    binary(name, ref, (-1, 1), (-1, 1), ALL, "bool", promotes=2, special_dtypes=ALL)
    for name, ref in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor))
] + [
    binary(name, _number_ref(ref), (-99, 99), (-99, 99), BOOL + INTS, errors=(floats_refused(),),
           samples=with_numbers((-99, 99), (-99, 99), 5))
    for name, ref in (
        ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor),
    )
] + [
    binary("bitwise_left_shift", _number_ref(_shift(np.left_shift)), (-9, 9), (0, 6), INTS, samples=_shift_samples,
           special=False, errors=(floats_refused(),)),
    binary("bitwise_right_shift", _number_ref(_shift(np.right_shift)), (-9, 9), (0, 6), INTS, samples=_shift_samples,
           special=False, errors=(floats_refused(),)),
]

OTHER = [
    OpSpec("isclose", _isclose, _close_samples, ALL, "bool", errors=(
        bad("a negative rtol", (ValueError, RuntimeError), T([1.0], "float32"), T([1.0], "float32"), rtol=-1.0),
        bad("different dtypes", RuntimeError, T([1.0], "float32"), T([1.0], "float64")))),
    OpSpec("allclose", lambda *a, **k: bool(_isclose(*a, **k).all()), _close_samples, ALL, None),
    OpSpec("equal", lambda a, b: bool(np.array_equal(a, b)), lambda d: [
        S(make(d, (3, 4)), make(d, (3, 4))), S(make(d, (3, 4)), make(d, (3, 4), salt=1)),
        S(make(d, (3, 4)), make(d, (3, 1)))],
           ALL, None, errors=EQUAL_ERRORS),
    OpSpec("lerp", _lerp, _lerp_samples, INEXACT, inplace=True, out=True, special=None,
           edge=lambda d: [S(make(d, ()), make(d, ()), 0.5), S(make(d, (0, 2)), make(d, (2,)), 0.5)],
           large=elementwise((-3, 3), (-3, 3), (0, 1), shapes=((LARGE + 5,),)),
           broadcast=broadcasting((-3, 3), (-3, 3), (0, 1)),
           errors=(bad("an integer tensor", RuntimeError, T([1], "int64"), T([2], "int64"), 0.5),)),
    OpSpec("addcmul", _addcmul, _addc_samples(-3), NUMERIC, inplace=True, out=True,
           broadcast=broadcasting((-3, 3), (-3, 3), (-3, 3)), large=elementwise(*[(-3, 3)] * 3, shapes=((LARGE + 5,),)),
           errors=(bad("shapes that do not broadcast", ValueError, *(T(np.ones(n), "float32") for n in (2, 3, 4))),)),
    OpSpec("addcdiv", _addcdiv, _addc_samples(0.5), INEXACT, inplace=True, out=True,
           broadcast=broadcasting((-3, 3), (-3, 3), (0.5, 3)), large=elementwise(*[(1, 3)] * 3, shapes=((LARGE + 5,),)),
           errors=(bad("integer tensors", RuntimeError, *(T(np.ones(2), "int64") for _ in range(3))),)),
    OpSpec("clamp", _clamp, _clamp_samples, REAL, inplace=True, out=True,
           edge=lambda d: [S(make(d, ()), 1, 2), S(make(d, (0, 3)), 1, 2)],
           large=lambda d: [S(make(d, (LARGE + 5,)), -1, 1)],
           errors=(bad("no bound", (ValueError, RuntimeError), T([1.0], "float32")),
                   bad("a complex tensor", RuntimeError, T([1.0], "complex64"), 0, 1))),
    OpSpec("clamp_min", lambda x, m: np.maximum(x, x.dtype.type(m) if np.isscalar(m) else m), _one_bound, REAL,
           inplace=True,
           out=True),
    OpSpec("clamp_max", lambda x, m: np.minimum(x, x.dtype.type(m) if np.isscalar(m) else m), _one_bound, REAL,
           inplace=True,
           out=True),
    OpSpec("where", _where, _where_samples, ALL, method=False, out=True,
           edge=lambda d: [S(mask(True), make(d, ()), make(d, (), salt=1)), S(mask([]), make(d, (0,)), make(d, (1,)))],
           large=lambda d: [S(T(np.arange(LARGE) % 3 == 0, "bool"), make(d, (LARGE,)), make(d, (LARGE,), salt=1))],
           errors=(bad("an integer condition", RuntimeError, index([1, 0]), T([1.0, 2.0], "float32"),
                       T([1.0, 2.0], "float32")),
                   bad("shapes that do not broadcast", ValueError, mask([True, False]), T(np.ones(3), "float32"),
                       T(np.ones(2), "float32")))),
    OpSpec("complex", lambda a, b: a + 1j * b, elementwise((-3, 3), (-3, 3)), FULL_FLOATS, "complex", method=False,
           out=True,
           errors=(bad("integer tensors", RuntimeError, index([1]), index([2])),)),
    OpSpec("polar", lambda r, t: r * np.exp(1j * t), elementwise((0, 3), (-3, 3)), FULL_FLOATS, "complex", method=False,
           out=True),
    OpSpec("rsub", lambda a, b: b - a, elementwise((-3, 3), (-3, 3)), NUMERIC, method=False),
]
# fmt: on

BASE = ARITHMETIC + FUNCTIONS + COMPARISON + LOGIC + OTHER
_NAMED = {row.name: row for row in BASE}
ROWS = BASE + [
    _NAMED[name].alias(other)
    for name, other in (
        ("sub", "subtract"),
        ("mul", "multiply"),
        ("div", "divide"),
        ("atan2", "arctan2"),
        ("ne", "not_equal"),
        ("lt", "less"),
        ("le", "less_equal"),
        ("gt", "greater"),
        ("ge", "greater_equal"),
        ("clamp", "clip"),
    )
]
ROWS.append(_NAMED["div"].alias("true_divide", samples=_div_samples, errors=()))
ROWS += [
    _NAMED[root].alias(f"special.{name}", method=False, inplace=False)
    for name, root in (("xlogy", "xlogy"), ("gammainc", "igamma"), ("gammaincc", "igammac"))
]
