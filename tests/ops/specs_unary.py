"""Pointwise ops of one tensor."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from .samples import EDGE_SHAPES, LARGE, elementwise, make, special_values, specials
from .spec import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTS,
    NUMERIC,
    REAL,
    OpSpec,
    S,
    T,
    assert_close,
    bad,
    name_of,
)

NOT_COMPLEX = BOOL + REAL


def unary(name, ref, lo=-3.0, hi=3.0, dtypes=ALL, result="float", inplace=True, out=True, special=True, errors=(),
**kw):
    """A row for a pointwise op of one tensor."""
    return OpSpec(
        name,
        ref,
        elementwise((lo, hi)),
        dtypes,
        result,
        inplace=inplace,
        out=out,
        edge=elementwise((lo, hi), shapes=EDGE_SHAPES),
        special=special_values(1, nan=special != "no nan") if special else None,
        large=elementwise((lo, hi), shapes=((LARGE + 13,),)),
        errors=(bad("a string", TypeError, "no tensor"), bad("no argument", TypeError), *errors),
        domains=((lo, hi),),
        **kw,
    )


def complex_refused(dtype="complex64"):
    return bad("a complex tensor", RuntimeError, T(np.ones(2), dtype))


def bool_refused():
    return bad("a bool tensor", RuntimeError, T(np.ones(2), "bool"))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _sign(x):
    return np.sign(x) if x.dtype != bool else x.copy()


def _sgn(x):
    if not np.iscomplexobj(x):
        return _sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def _round(x, decimals=0):
    return np.round(x, decimals)


def _frac(x):
    return x - np.trunc(x)


def _logit(x, eps=None):
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def _nan_to_num(x, nan=0.0, posinf=None, neginf=None, *, dtype=None):
    if x.dtype.kind not in "fc":
        return x.copy()
    top = {"bfloat16": 3.3895313892515355e38}.get(dtype) or float(np.finfo(dtype).max)
    posinf = top if posinf is None else posinf
    neginf = -top if neginf is None else neginf
    return np.where(np.isnan(x), nan, np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, x)))


def _square(x):
    return x.astype(np.int64) ** 2 if x.dtype == bool else x * x


def _angle(x):
    if np.iscomplexobj(x):
        return np.angle(x)
    return np.where(np.isnan(x), np.nan, np.where(x < 0, np.pi, 0.0))


def _relu(x):
    return np.where(np.isnan(x), x, np.maximum(x, 0)) if x.dtype.kind == "f" else np.maximum(x, x.dtype.type(0))


def _sinc(x):
    safe = np.where(x == 0, 1, x)
    return np.where(x == 0, 1, np.sin(np.pi * safe) / (np.pi * safe))


def _whole(x, how):
    return how(x) if x.dtype.kind == "f" else x.copy()


def _rounding_samples(dtype):
    yield from elementwise((-9, 9))(dtype)
    if dtype in FLOATS:
        yield S(T([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.4999, 8388609.0], dtype))


def _round_samples(dtype):
    yield from _rounding_samples(dtype)
    if dtype in ("float32", "float64"):
        yield S(make(dtype, (5,), -9, 9), decimals=2)
        yield S(T([1234.5, -5555.25], dtype), decimals=-2)


def _nan_to_num_check(got, x, **kwargs):
    """The stand-ins for infinities are the ends of the tested dtype, which a widened reference does not know."""
    dtype = name_of(got.dtype)
    assert_close(got, _nan_to_num(x, **kwargs, dtype=dtype), dtype, "nan_to_num")


def _nan_to_num_samples(dtype):
    yield S(make(dtype, (3, 4)))
    if dtype in FLOATS:
        yield S(T(specials(dtype), dtype))
        yield S(T(specials(dtype), dtype), nan=1.0)
        yield S(T(specials(dtype), dtype), nan=2.0, posinf=5.0, neginf=-5.0)


def _logit_samples(dtype):
    yield from elementwise((0.05, 0.95))(dtype)
    if dtype in FLOATS:
        yield S(T([-0.5, 0.0, 0.25, 1.0, 1.5], dtype), eps=0.125)


def _logit_edge(dtype):
    return elementwise((0.05, 0.95), shapes=EDGE_SHAPES)(dtype)


# fmt: off
FLOAT_ROWS = [
    unary("acos", np.arccos, -1, 1),
    unary("acosh", np.arccosh, 1, 9),
    unary("asin", np.arcsin, -1, 1),
    unary("asinh", np.arcsinh),
    unary("atan", np.arctan),
    unary("atanh", np.arctanh, -0.95, 0.95),
    unary("cos", np.cos, -9, 9),
    unary("cosh", np.cosh),
    unary("deg2rad", np.deg2rad, -360, 360, NOT_COMPLEX, errors=(complex_refused(),)),
    unary("digamma", sp.digamma, 0.25, 9, NOT_COMPLEX, errors=(complex_refused(),)),
    unary("erf", sp.erf, dtypes=NOT_COMPLEX, errors=(complex_refused(),)),
    unary("erfc", sp.erfc, dtypes=NOT_COMPLEX, errors=(complex_refused(),)),
    unary("erfinv", sp.erfinv, -0.95, 0.95, NOT_COMPLEX, errors=(complex_refused(),)),
    unary("exp", np.exp),
    unary("exp2", np.exp2),
    unary("expm1", np.expm1),
    unary("i0", sp.i0, -5, 5, NOT_COMPLEX, errors=(complex_refused(),)),
    unary("lgamma", lambda x: np.where(x == -np.inf, np.inf, sp.gammaln(x)), 0.25, 9, NOT_COMPLEX,
          errors=(complex_refused(),)),
    unary("log", np.log, 0.1, 9),
    unary("log10", np.log10, 0.1, 9),
    unary("log1p", np.log1p, -0.5, 9),
    unary("log2", np.log2, 0.1, 9),
    unary("rad2deg", np.rad2deg, dtypes=NOT_COMPLEX, errors=(complex_refused(),)),
    unary("reciprocal", lambda x: 1 / x, 0.25, 9),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.25, 9),
    unary("sigmoid", _sigmoid, -9, 9),
    unary("sin", np.sin, -9, 9),
    unary("sinc", _sinc, special=False),
    unary("sinh", np.sinh),
    unary("sqrt", np.sqrt, 0, 9),
    unary("tan", np.tan, -1.4, 1.4),
    unary("tanh", np.tanh),
]

SAME_ROWS = [
    unary("abs", np.abs, dtypes=NUMERIC, result="real", inplace=False, exact=False),
    unary("ceil", lambda x: _whole(x, np.ceil), -9, 9, REAL, "same", exact=True, errors=(complex_refused(),)),
    unary("floor", lambda x: _whole(x, np.floor), -9, 9, REAL, "same", exact=True, errors=(complex_refused(),)),
    unary("trunc", lambda x: _whole(x, np.trunc), -9, 9, REAL, "same", exact=True, errors=(complex_refused(),)),
    unary("frac", _frac, -9, 9, FLOATS, "same", special_dtypes=()),
    unary("neg", np.negative, dtypes=NUMERIC, result="same", exact=True, errors=(bool_refused(),)),
    unary("positive", lambda x: x.copy(), dtypes=NUMERIC, result="same", inplace=False, out=False, exact=True,
          errors=(bool_refused(),)),
    unary("sign", _sign, dtypes=NOT_COMPLEX, result="same", errors=(complex_refused(),), special_dtypes=INTS),
    unary("sgn", _sgn, dtypes=ALL, result="same", special_dtypes=INTS),
    unary("square", _square, dtypes=NUMERIC, result="same"),
    unary("relu", _relu, dtypes=REAL, result="same", out=False, errors=(complex_refused(), bool_refused())),
    unary("conj_physical", np.conj, result="same", exact=False),
    unary("bitwise_not", np.invert, dtypes=BOOL + INTS, result="same",
          errors=(bad("a float tensor", RuntimeError, T(np.ones(2), "float32")),)),
    unary("angle", _angle, dtypes=ALL, result="real_float", inplace=False),
]

BOOL_ROWS = [
    unary("isnan", np.isnan, result="bool", inplace=False, out=False, special_dtypes=ALL),
    unary("isinf", np.isinf, result="bool", inplace=False, out=False, special_dtypes=ALL),
    unary("isfinite", np.isfinite, result="bool", inplace=False, out=False, special_dtypes=ALL),
    unary("isposinf", lambda x: np.equal(x, np.inf), dtypes=NOT_COMPLEX, result="bool", inplace=False,
          errors=(complex_refused(),)),
    unary("isneginf", lambda x: np.equal(x, -np.inf), dtypes=NOT_COMPLEX, result="bool", inplace=False,
          errors=(complex_refused(),)),
    unary("isreal", np.isreal, result="bool", inplace=False, out=False),
    unary("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, dtypes=NOT_COMPLEX, result="bool",
          special="no nan", inplace=False, errors=(complex_refused(),)),
    unary("logical_not", np.logical_not, result="bool", inplace=False, special_dtypes=ALL),
]

OTHER_ROWS = [
    OpSpec("round", lambda x, decimals=0: _whole(x, lambda v: _round(v, decimals)), _round_samples, REAL, inplace=True,
           out=True, edge=elementwise((-9, 9), shapes=EDGE_SHAPES), special=special_values(1),
           errors=(bad("a string", TypeError, "x"), complex_refused(),
                   bad("decimals for an integer tensor", (TypeError, ValueError, RuntimeError), T([1, 2], "int64"),
                       decimals="two"))),
    OpSpec("nan_to_num", None, _nan_to_num_samples, NOT_COMPLEX, check=_nan_to_num_check, inplace=True, out=True,
           edge=elementwise((-3, 3), shapes=EDGE_SHAPES), expand=True, errors=(bad("a string", TypeError, "x"),)),
    OpSpec("logit", _logit, _logit_samples, NOT_COMPLEX, "float", inplace=True, out=True, edge=_logit_edge,
           errors=(complex_refused(), bad("a string", TypeError, "x"))),
    OpSpec("frexp", np.frexp, elementwise((-9, 9)), FLOATS, ("same", "int32"), out=True,
           edge=elementwise((-9, 9), shapes=EDGE_SHAPES),
           errors=(bad("an integer tensor", (TypeError, RuntimeError), T([1, 2], "int64")),)),
    OpSpec("clone", lambda x: x, elementwise((-3, 3)), special=special_values(1), exact=True,
           edge=elementwise((-3, 3), shapes=EDGE_SHAPES), special_dtypes=FLOATS + INTS),
    OpSpec("conj", np.conj, elementwise((-3, 3)), edge=elementwise((-3, 3), shapes=EDGE_SHAPES)),
    OpSpec("resolve_conj", lambda x: x, elementwise((-3, 3))),
    OpSpec("resolve_neg", lambda x: x, elementwise((-3, 3))),
    OpSpec("detach", lambda x: x, elementwise((-3, 3)), view=True),
    OpSpec("real", np.real, elementwise((-3, 3)), INEXACT, "real", method=False, view=True,
           edge=elementwise((-3, 3), shapes=EDGE_SHAPES)),
    OpSpec("imag", np.imag, elementwise((-3, 3)), COMPLEX, "real", method=False, view=True,
           errors=(bad("a real tensor", RuntimeError, T(np.ones(2), "float32")),),
           edge=elementwise((-3, 3), shapes=EDGE_SHAPES)),
]
# fmt: on

BY_NAME = {row.name: row for row in FLOAT_ROWS + SAME_ROWS + BOOL_ROWS + OTHER_ROWS}
ALIASES = [
    BY_NAME[name].alias(other)
    for name, other in (
        ("abs", "absolute"),
        ("acos", "arccos"),
        ("acosh", "arccosh"),
        ("asin", "arcsin"),
        ("asinh", "arcsinh"),
        ("atan", "arctan"),
        ("atanh", "arctanh"),
        ("neg", "negative"),
        ("trunc", "fix"),
    )
]
ROWS = FLOAT_ROWS + SAME_ROWS + BOOL_ROWS + OTHER_ROWS + ALIASES
