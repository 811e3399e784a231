"""Formulas, reductions and scans as data: each expression tree, evaluated with NumPy, gives what the compiled kernel gives."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from scipy import special as sp

import flambeau as fb
from flambeau import _C

FORMULAS, REDUCTIONS, SCANS = _C.formulas(), _C.reductions(), _C.scans()
PARTS = ("identity", "element", "combine", "finish")
DTYPES = {"b": ["bool"], "i": ["uint8", "int32", "int64"], "f": ["float32", "float64"], "c": ["complex128"]}
NUMBERS = (0.25, 0.75, 1.5)
# What a formula assumes of its numbers, and where a comparison makes sense.
SPECIAL = {
    "f": [
        0.0,
        -0.0,
        1.0,
        -1.0,
        math.inf,
        -math.inf,
        math.nan,
        0.5,
        -0.5,
        2.0,
        3.0,
        -3.0,
        7.5,
        -7.5,
        1e-30,
        30.0,
        -40.0,
    ],
    "i": [0, 1, 2, 3, 5, 7, 100, 127],
    "b": [False, True],
    "c": [0, 1, -1, 1j, -1j, 1 + 2j, -0.5 + 0.25j, 3 - 4j],
}


def _signed(name):
    return not name.startswith("u") and name != "bool"


def _samples(kind, dtype, inputs):
    values = list(SPECIAL[kind]) + ([-v for v in SPECIAL["i"]] if kind == "i" and _signed(dtype) else [])
    grids = np.meshgrid(*[np.array(values, dtype)] * inputs, indexing="ij")
    return [g.ravel() for g in grids]


# ---- the vocabulary ------------------------------------------------------------------------------------------------------


def _real(x):
    return np.finfo(x.dtype).dtype.type if x.dtype.kind in "fc" else x.dtype.type


def _floating(x):
    return x.dtype.kind in "f"


def _sign(x):
    return x if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _sgn(x):
    return np.where(x == 0, 0, x / np.where(x == 0, 1, abs(x))) if x.dtype.kind == "c" else _sign(x)


def _angle(x):
    if x.dtype.kind == "c":
        return np.angle(x)
    return np.where(np.isnan(x), x, np.where(x < 0, _real(x)(math.pi), _real(x)(0))) if _floating(x) else x


def _only_floats(f):
    return lambda x: f(x) if _floating(x) else x


def _divide_trunc(x, y):
    if _floating(x):
        return np.trunc(x / y)
    return (x - np.fmod(x, y)) // y


def _divide_floor(x, y):
    with np.errstate(all="ignore"):
        return np.where(y == 0, x / y, np.floor_divide(x, y)) if _floating(x) else np.floor_divide(x, y)


def _log_add(x, y, log1p, exp):
    high = _maximum(x, y)
    return np.where(np.isinf(x) & (x == y), x, high + log1p(exp(-abs(x - y))))


def _log_add_exp(x, y):
    if x.dtype.kind != "c":
        return _log_add(x, y, np.log1p, np.exp)
    high, low = np.where(x.real >= y.real, x, y), np.where(x.real >= y.real, y, x)
    return high + np.log(1 + np.exp(low - high))


def _maximum(x, y):
    return np.where(np.isnan(x), x, np.where(x > y, x, y)) if x.dtype.kind in "f" else np.maximum(x, y)


def _minimum(x, y):
    return np.where(np.isnan(x), x, np.where(x < y, x, y)) if x.dtype.kind in "f" else np.minimum(x, y)


def _pow(x, y):
    if x.dtype.kind == "b":
        return x | ~y
    if x.dtype.kind == "i":
        wrapped = np.power(x, np.where(y < 0, 0, y))
        odd = np.where(y % 2 != 0, -1, 1)
        return np.where(y < 0, np.where(x == 1, 1, np.where(x == -1, odd, 0)), wrapped).astype(x.dtype)
    if x.dtype.kind == "c":
        with np.errstate(all="ignore"):
            usual = np.power(x, y)
        return np.where(y == 0, 1, np.where((x == 0) & (y.real > 0) & (y.imag == 0), 0, usual))
    return np.power(x, y)


def _shift(x, y, left):
    bits = x.dtype.itemsize * 8
    safe = np.clip(y, 0, bits - 1)
    out = (y < 0) | (y >= bits)
    if left:
        return np.where(out, 0, np.left_shift(x, safe)).astype(x.dtype)
    return np.where(out, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, safe))


def _add(x, y):
    return x + y if x.dtype.kind != "b" else x | y


def _mul(x, y):
    return x * y if x.dtype.kind != "b" else x & y


def _lerp(x, y, w):
    near = np.abs(w) < 0.5
    return np.where(near, x + w * (y - x), y - (y - x) * (1 - w))


def _ldexp(x, e):
    if x.dtype.kind == "c":
        return x * np.exp(e * 0.693147180559945309417)
    if x.dtype == np.float32:
        return (x.astype(np.float64) * np.exp2(e.astype(np.float64))).astype(x.dtype)
    half = np.trunc(e / 2)
    return x * np.exp2(half) * np.exp2(e - half)


def _close(x, y, rtol, atol, equal_nan):
    if x.dtype.kind in "fc":
        distance = np.abs(x - y)
        near = np.isfinite(distance) & (distance <= atol + rtol * np.abs(y))
        return (x == y) | near | (bool(equal_nan) & np.isnan(x) & np.isnan(y))
    x, y = x.astype(np.float64), y.astype(np.float64)
    return (x == y) | (np.abs(x - y) <= atol + np.abs(rtol * y))


def _finite_or(x, nan, positive, negative):
    if x.dtype.kind == "c":
        parts = [_finite_or(part, nan, positive, negative) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    y = np.where(np.isnan(x), nan, x)
    return np.where(x == math.inf, positive, np.where(x == -math.inf, negative, y)).astype(x.dtype)


def _limited(x, e):
    return x if e < 0 else np.where(x < e, e, np.where(x > 1 - e, 1 - e, x))


def _between(x, low, high):
    above = np.where(low > x, low, x)
    return np.where(high < above, high, above)


def _sinc(x):
    y = x * math.pi
    return np.where(x == 0, 1, np.sin(y) / np.where(x == 0, 1, y))


def _round_to(x, decimals):
    scale = x.dtype.type(10.0 ** abs(decimals))
    return np.rint(x) if decimals == 0 else np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


def _bfloat16(x):
    # rounded to the nearest, ties to even: bfloat16 is the upper half of a float32
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(x), rounded, x).astype(x.dtype)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _mish_gate(x):
    return np.tanh(np.logaddexp(x, 0))


def _bend(x):
    return x * (1.5957691216057308 + 0.044715 * 1.5957691216057308 * x * x)


def _tanh_gelu_slope(x, s):
    return s * (1 + x * (1 - s) * (1.5957691216057308 + 3 * 0.044715 * 1.5957691216057308 * x * x))


def _polynomial(f):
    def checked(x, n, *_):
        return np.where(n < 0, 0.0, f(np.maximum(n, 0), x))

    return checked


def _whole(f):
    return lambda n, x: f(n.astype(np.int64), x)


def _chebyshev_like(start):
    def value(n, x):
        n, x = np.broadcast_arrays(n, x)
        last, now = np.ones_like(x), start(x)
        result = np.where(n == 0, last, now)
        for k in range(2, int(np.max(n, initial=0)) + 1):
            last, now = now, 2 * x * now - last
            result = np.where(n == k, now, result)
        return result

    return value


def _entr(x):
    return np.where(np.isnan(x), x, sp.entr(x))


def _bound(x, end):
    dtype = np.asarray(x).dtype
    return (
        dtype.type({"min": -math.inf, "max": math.inf}[end])
        if dtype.kind == "f"
        else dtype.type(getattr(np.iinfo(dtype), end))
    )


def _positive(f):
    return lambda x: np.where(x < 0, math.nan, f(x))


WORDS = {
    "+": operator.add, "*": operator.mul, "/": operator.truediv, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "&&": operator.and_, "||": operator.or_,
    "bool": lambda x: np.asarray(x, bool), "where": lambda c, x, y: np.where(c, x, y), "both": operator.and_,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "erf": sp.erf, "erfc": sp.erfc, "neg": operator.neg, "sign": _sign, "sgn": _sgn,
    "floor_any": _only_floats(np.floor), "ceil_any": _only_floats(np.ceil), "trunc_any": _only_floats(np.trunc),
    "rint_any": _only_floats(np.rint), "trunc": np.trunc, "not_bits": np.invert, "abs": np.abs, "angle": _angle,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "imag_part": np.imag,
    "sign_bit": lambda x: np.signbit(x) if _floating(x) else x < 0,
    "mul": _mul, "add": _add, "sub": operator.sub, "div_floor": _divide_floor, "div_trunc": _divide_trunc,
    "remainder": np.remainder, "fmod": np.fmod, "atan2": np.arctan2, "hypot": np.hypot, "max": _maximum, "min": _minimum,
    "copy_sign": np.copysign, "next_after": np.nextafter, "log_add_exp": _log_add_exp,
    "log_add_exp2": lambda x, y: _log_add(x, y, lambda v: np.log1p(v) * 1.4426950408889634, np.exp2),
    "gcd": np.gcd, "lcm": np.lcm, "shift_left": lambda x, y: _shift(x, y, True), "shift_right": lambda x, y: _shift(x, y, False),
    "pow": _pow, "between": _between, "lerp": _lerp, "ldexp": _ldexp, "close": _close, "finite_or": _finite_or,
    "limited": _limited, "sinc": _sinc, "round_to": _round_to, "conj": np.conj, "as_half": lambda x: x.astype(np.float16).astype(x.dtype),
    "as_bfloat16": _bfloat16, "number": lambda x, value: np.full_like(x, value), "sigmoid": _sigmoid,
    "below": lambda x: 0.5 * sp.erfc(-0.707106781186547524 * x), "density": lambda x: 0.398942280401432678 * np.exp(-0.5 * x * x),
    "mish_gate": _mish_gate, "ramp": lambda x: np.where(x <= -3, 0, np.where(x >= 3, 6, x + 3)), "bend": _bend,
    "tanh_gelu_slope": _tanh_gelu_slope, "silu_slope": lambda x, s: s * (1 + x * (1 - s)),
    "mish_slope": lambda x, gate: gate + x * (1 - gate * gate) * _sigmoid(x),
    "erfinv": sp.erfinv, "digamma": sp.digamma, "i0": sp.i0, "i0e": sp.i0e, "i1": sp.i1, "i1e": sp.i1e, "ndtr": sp.ndtr,
    "ndtri": sp.ndtri, "log_ndtr": sp.log_ndtr, "erfcx": sp.erfcx, "entr": _entr, "j0": sp.j0, "j1": sp.j1,
    "bessel_y0": _positive(sp.y0), "bessel_y1": _positive(sp.y1), "k0": _positive(sp.k0), "k1": _positive(sp.k1),
    "k0e": _positive(sp.k0e), "k1e": _positive(sp.k1e), "spherical_j0": lambda x: np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1, x)),
    "airy_ai": lambda x: sp.airy(x)[0], "lgamma": sp.gammaln, "polygamma": lambda n, x: sp.polygamma(int(n), x),
    "multigamma": lambda p, x: p * (p - 1) / 4 * math.log(math.pi) + sum(sp.gammaln(x - j / 2) for j in range(math.ceil(p))),
    "gammainc": sp.gammainc, "gammaincc": sp.gammaincc, "zeta": sp.zeta, "degree": lambda n: np.trunc(n),
    "chebyshev_t": _polynomial(_chebyshev_like(lambda x: x)), "chebyshev_u": _polynomial(_chebyshev_like(lambda x: 2 * x)),
    "chebyshev_v": _polynomial(_chebyshev_like(lambda x: 2 * x - 1)), "chebyshev_w": _polynomial(_chebyshev_like(lambda x: 2 * x + 1)),
    "hermite_h": _polynomial(_whole(sp.eval_hermite)), "hermite_he": _polynomial(_whole(sp.eval_hermitenorm)),
    "!": np.logical_not, "parts": lambda *parts: parts, "nonzero": lambda x: x != 0, "modulus": np.abs,
    "squared_modulus": lambda x: x.real * x.real + x.imag * x.imag, "root_if": lambda wanted, x: np.sqrt(x) if wanted else x,
    "lowest": lambda x: _bound(x, "min"), "highest": lambda x: _bound(x, "max"), "nan_like": lambda x: np.full_like(x, np.nan),
    "mantissa": lambda x: np.frexp(x)[0], "exponent": lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0),
    "laguerre_l": _polynomial(sp.eval_laguerre), "legendre_p": _polynomial(sp.eval_legendre),
}  # fmt: skip
# With one argument a minus is a sign.
SIGNS = {("-", 1): operator.neg, ("-", 2): operator.sub}


def evaluate(tree, names, compute):
    if isinstance(tree, float):
        return tree
    if isinstance(tree, str):
        return names[tree]
    word, *arguments = tree
    values = [evaluate(a, names, compute) for a in arguments]
    if word == "T":
        return np.asarray(values[0]).astype(compute) if isinstance(values[0], np.ndarray) else compute(values[0])
    return SIGNS[word, len(values)](*values) if word == "-" else WORDS[word](*values)


def _words(tree):
    if isinstance(tree, tuple):
        yield tree[0]
        for argument in tree[1:]:
            yield from _words(argument)


def test_the_evaluator_knows_the_vocabulary_and_nothing_else():
    trees = [row[part] for row in FORMULAS.values() for part in ("tree", "second") if part in row]
    trees += [row[part] for row in REDUCTIONS.values() for part in PARTS]
    assert {word for tree in trees for word in _words(tree)} - {"T", "-"} == set(WORDS)


def test_there_are_no_unused_inputs():
    def leaves(tree):
        return (
            {tree}
            if isinstance(tree, str)
            else {n for t in tree[1:] for n in leaves(t)}
            if isinstance(tree, tuple)
            else set()
        )

    for name, row in FORMULAS.items():
        inputs = {n for n in leaves(row["tree"]) if not n.startswith("p.")}
        assert inputs == set("xyz"[: row["inputs"]]), name
        assert leaves(row["tree"]) - inputs <= {"p.a", "p.b", "p.c", "p.value"}, name


# Where the domain of a function ends, at which argument, and where references differ from what is documented here.
RANGES = {
    "polygamma": (0.1, 9), "mvlgamma": (1.6, 9), "igamma": (0.1, 9), "igammac": (0.1, 9), "zeta": (1.5, 9),
    "bessel_y1": (0.1, 9), "bessel_y0": (0.1, 9), "bessel_j0": (-9, 9), "bessel_j1": (-9, 9), "airy_ai": (-5, 3),
    "digamma": (0.1, 9), "lgamma": (0.1, 9), "ndtri": (0.01, 0.99), "erfinv": (-0.99, 0.99), "log_ndtr": (-9, 3),
    "spherical_bessel_j0": (-9, 9), "erfcx": (-3, 9), "i0": (-9, 9), "i1": (-9, 9), "modified_bessel_i0": (-9, 9),
    "modified_bessel_i1": (-9, 9), "modified_bessel_k0": (0.1, 9), "modified_bessel_k1": (0.1, 9),
    "scaled_modified_bessel_k0": (0.1, 9), "scaled_modified_bessel_k1": (0.1, 9),
}  # fmt: skip


def _wide_samples(name, inputs, dtype):
    low, high = RANGES.get(name, (-0.9, 0.9))
    x = np.linspace(low, high, 37).astype(dtype)
    if inputs == 1:
        return [x]
    degrees = np.arange(6).astype(dtype) if "polynomial" in name else np.linspace(0.5, 5, 6).astype(dtype)
    return [g.ravel() for g in np.meshgrid(x, degrees, indexing="ij")]


CASES = [(name, kind, dtype) for name, row in sorted(FORMULAS.items()) for kind in row["kinds"] for dtype in DTYPES[kind]
         if not (row["result"] in ("float", "float real") and kind in "bi")]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "dtype"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_tree_gives_what_the_kernel_gives(name, kind, dtype):
    row = FORMULAS[name]
    special = row["wide"] or name == "lgamma"
    arrays = _wide_samples(name, row["inputs"], dtype) if special else _samples(kind, dtype, row["inputs"])
    if name in ("floor_divide", "remainder", "fmod", "truncate_divide") and kind == "i":
        keep = arrays[1] != 0
        arrays = [a[keep] for a in arrays]
    numbers = (2.0, 0.75, 1.5) if name in ("polygamma", "mvlgamma", "round_decimals") else NUMBERS
    conditions = [bool(row["conditions"] >> i & 1) for i in range(row["inputs"])]
    arrays = [a.astype(bool) if c else a for a, c in zip(arrays, conditions, strict=True)]
    got = _C.compute_formula(name, tuple(fb.tensor(a) for a in arrays), *numbers)
    compute = np.dtype(dtype).type
    seen = [a.astype(np.float64) for a in arrays] if row["wide"] else arrays
    names = dict(zip("xyz", seen, strict=False)) | dict(
        zip(("p.a", "p.b", "p.c", "p.value"), (*numbers, numbers[0]), strict=True)
    )
    results = got if "second" in row else (got,)
    for result, part in zip(results, ("tree", "second")[: len(results)], strict=True):
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(np.asarray(evaluate(row[part], names, compute)), arrays[0].shape)
        _compare(result.numpy(), expected, kind, dtype, 1e-6 if special else 1e-11)


def _compare(got, expected, kind, dtype, rtol):
    assert got.shape == expected.shape
    if got.dtype.kind in "fc":
        if kind == "c":  # C and NumPy differ in the infinite complex numbers they give
            finite = np.isfinite(expected) & np.isfinite(got)
            assert finite.any()
            got, expected = got[finite], expected[finite]
        rtol = 3e-5 if dtype == "float32" else rtol
        np.testing.assert_allclose(
            got, expected.astype(got.dtype), rtol=rtol, atol=1e-6 if dtype == "float32" else 1e-12
        )
    else:
        np.testing.assert_array_equal(got, expected.astype(got.dtype))


# ---- reductions and scans ----------------------------------------------------------------------------------------------

NORM = fb.linalg.vector_norm
# What computes a row along the last dimension, from the numbers of the call.
KERNELS = {
    "Sum": lambda x: x.sum(1), "NanSum": lambda x: x.nansum(1), "Mean": lambda x, n: x.mean(1), "Product": lambda x: x.prod(1),
    "Count": lambda x: x.count_nonzero(1), "Any": lambda x: x.any(1), "All": lambda x: x.all(1), "Largest": lambda x: x.amax(1),
    "Smallest": lambda x: x.amin(1), "NonZeros": lambda x: NORM(x, 0, 1), "Absolutes": lambda x: NORM(x, 1, 1),
    "Euclidean": lambda x: NORM(x, 2, 1), "LargestAbsolute": lambda x: NORM(x, math.inf, 1),
    "SmallestAbsolute": lambda x: NORM(x, -math.inf, 1), "Extremes": lambda x: x.aminmax(dim=1),
    "Moments": lambda x, correction, root: (fb.std_mean if root else fb.var_mean)(x, 1, correction=correction),
    "LogSumExp": lambda x: x.logsumexp(1), "FirstLargest": lambda x: x.max(1), "FirstSmallest": lambda x: x.min(1),
}  # fmt: skip
RUNNING = {
    "sum": fb.cumsum,
    "product": fb.cumprod,
    "logsumexp": fb.logcumsumexp,
    "largest": fb.cummax,
    "smallest": fb.cummin,
}
CALLS = {"Mean": [(5.0,)], "Moments": [(1.0, 0.0), (0.0, 1.0), (2.0, 0.0)]}


def _lane(row, dtype):
    if dtype in ("bool", "uint8", "int32") and row["lanes"] in ("sums", "counts"):
        return np.dtype("int64")
    return np.dtype("uint8" if row["lanes"] == "flags" or dtype == "bool" else dtype)


class Row:
    """A row whose trees are evaluated for states that are arrays, one element per reduction."""

    def __init__(self, name, dtype, numbers=()):
        self.row, self.numbers = REDUCTIONS[name], dict(zip(("p.a", "p.b"), numbers, strict=False))
        self.compute = np.dtype(
            _lane(self.row, dtype).type(0).real.dtype if self.row["lanes"] == "moduli" else _lane(self.row, dtype)
        ).type

    def _state(self, tree, names):
        with np.errstate(all="ignore"):
            value = evaluate(tree, names | self.numbers, self.compute)
        return value if isinstance(value, tuple) else (value,)

    def element(self, x, place, y=None):
        seen = x if x.dtype.kind == "c" or self.row["lanes"] in ("flags", "counts") else x.astype(self.compute)
        return self._state(self.row["element"], {"x": seen, "i": np.full(x.shape, place), "y": y})

    def identity(self):
        return self._state(self.row["identity"], {})

    def combine(self, first, behind):
        return self._state(
            self.row["combine"], dict(zip("abc", first, strict=False)) | dict(zip("uvw", behind, strict=False))
        )

    def finish(self, state):
        return self._state(self.row["finish"], dict(zip("abc", state, strict=False)))

    def running(self, x, y=None):
        """The states of the first 1, 2, … elements of each row of x."""
        state, states = self.identity(), []
        for i in range(x.shape[1]):
            state = self.combine(state, self.element(x[:, i], i, None if y is None else y[:, i]))
            states.append(state)
        return states


def _rows(kind, dtype, length):
    """Rows of random special values."""
    values = np.array(
        list(SPECIAL[kind]) + ([-v for v in SPECIAL["i"]] if kind == "i" and _signed(dtype) else []), dtype
    )
    return values[np.random.default_rng(0).integers(0, len(values), (400, length))]


def _match(results, expected, kind, dtype):
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    assert len(results) == len(expected)
    for got, value in zip(results, expected, strict=True):
        value = np.asarray(value)
        # Which NaN and which infinity come of infinite sums depends on their order.
        tolerant = kind if value.dtype.kind == "c" else "f"
        _compare(got.numpy(), np.broadcast_to(value, got.shape), tolerant, dtype, 1e-11)


def test_every_row_has_a_kernel_and_every_scan_a_row():
    assert set(KERNELS) | set(SCANS.values()) == set(REDUCTIONS)
    assert set(RUNNING) | {"linear"} == set(SCANS)


@pytest.mark.parametrize(
    ("name", "kind", "dtype", "numbers"),
    [(name, kind, dtype, numbers) for name in KERNELS for kind in REDUCTIONS[name]["kinds"] for dtype in DTYPES[kind]
     for numbers in CALLS.get(name, [()])
     if not (name in ("Sum", "Mean") and kind == "c" or name == "Mean" and kind != "f")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_reduction_gives_what_its_row_says(name, kind, dtype, numbers):
    row = Row(name, dtype, numbers)
    assert len(numbers) == row.row["numbers"]
    for length in (1, 2, 5):
        x = _rows(kind, dtype, length)
        if name == "Mean":
            row.numbers = {"p.a": float(length)}
        states = row.running(x)
        result = KERNELS[name](fb.tensor(x), *numbers)
        _match(result, row.finish(states[-1]), kind, dtype)
        # Any place to split the elements at is as good, and no elements change nothing.
        if length == 5:
            behind = row.running(x[:, 2:])[-1]
            if name.startswith("First"):
                behind = (behind[0], behind[1] + 2)
            _match(result, row.finish(row.combine(states[1], behind)), kind, dtype)
            _match(result, row.finish(row.combine(states[-1], row.identity())), kind, dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, d) for name in RUNNING for k in REDUCTIONS[SCANS[name]]["kinds"] for d in DTYPES[k] if d != "bool"],
)
@pytest.mark.filterwarnings("ignore")
def test_a_scan_gives_the_states_of_its_row(name, dtype):
    row = Row(SCANS[name], "float64" if dtype == "float32" else dtype)  # a running sum is wider than its results
    kind = next(k for k, all in DTYPES.items() if dtype in all)
    x = _rows(kind, dtype, 6)
    result = RUNNING[name](fb.tensor(x), 1)
    expected = [np.stack(parts, 1) for parts in zip(*map(row.finish, row.running(x)), strict=True)]
    _match(result, expected, kind, dtype)


def test_a_mean_is_infinite_wherever_the_infinity_lies():
    for place in (0, 2500, 4999):
        x = fb.zeros(5000)
        x[place] = math.inf
        assert fb.var_mean(x)[1].item() == math.inf


def test_the_linear_scan_is_a_recurrence():
    """The gradient of cumprod is one, backwards, times the product of the elements before."""
    x = fb.tensor(np.random.default_rng(0).uniform(0.5, 2, (7, 5)), requires_grad=True)
    g = np.random.default_rng(1).normal(size=(7, 5))
    fb.cumprod(x, 1).backward(fb.tensor(g))
    values = x.detach().numpy()
    before = np.concatenate([np.ones((7, 1)), np.cumprod(values, 1)[:, :-1]], 1)
    row = Row("Recurrence", "float64")
    factor = np.concatenate([values, np.zeros((7, 1))], 1)[:, 1:]
    sums = np.stack([row.finish(s)[0] for s in row.running(g[:, ::-1], factor[:, ::-1])], 1)[:, ::-1]
    np.testing.assert_allclose(x.grad.numpy(), before * sums, rtol=1e-12)


@pytest.mark.parametrize("text", ["1 +", "f(x", "(x", "x y", "@x", ""])
def test_what_is_no_formula_is_an_error(text):
    with pytest.raises(ValueError, match="formula"):
        _C.parse_formula(text)


def test_operators_bind_as_in_cpp():
    assert _C.parse_formula("a + b * c - d") == ("-", ("+", "a", ("*", "b", "c")), "d")
    assert _C.parse_formula("-x * y == z && !w || u") == (
        "||",
        ("&&", ("==", ("*", ("-", "x"), "y"), "z"), ("!", "w")),
        "u",
    )
    assert _C.parse_formula("a & b | c ^ d") == ("|", ("&", "a", "b"), ("^", "c", "d"))
    assert _C.parse_formula("a <= b < 2.5e3") == ("<", ("<=", "a", "b"), 2500.0)
    assert _C.parse_formula("::j0(x)") == ("j0", "x")


def test_calling_a_formula_checks_its_arguments():
    with pytest.raises(ValueError, match="no formula"):
        _C.compute_formula("frobnicate", (fb.ones(2),))
    with pytest.raises(ValueError, match="inputs"):
        _C.compute_formula("exp", (fb.ones(2), fb.ones(2)))
    with pytest.raises(ValueError, match="one shape"):
        _C.compute_formula("add", (fb.ones(2), fb.ones(3)))
    with pytest.raises(NotImplementedError):
        _C.compute_formula("exp", (fb.ones(2, dtype=fb.int64),))
