"""Elementwise functions.

Arrays of different kinds do not mix, a Python scalar takes the dtype of the array beside it, and a dtype that the
standard does not name for a function is an error: where flambeau itself would promote, nothing happens silently here.
"""

from __future__ import annotations

import math

import flambeau as fb
from flambeau import Tensor
from flambeau.array_api._args import array, pair
from flambeau.array_api._dtypes import COMPLEX, REAL

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign",
    "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal",
    "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

Anything = Tensor | bool | int | float | complex
Number = Tensor | int | float | complex
RealNumber = Tensor | int | float
Integer = Tensor | int
Bits = Tensor | int | bool
Truth = Tensor | bool


def abs(x: Tensor, /) -> Tensor:
    """Absolute value."""
    return fb.abs(array("abs", x, "numeric"))


def acos(x: Tensor, /) -> Tensor:
    """Inverse cosine."""
    return fb.acos(array("acos", x, "floating"))


def acosh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic cosine."""
    return fb.acosh(array("acosh", x, "floating"))


def add(x1: Number, x2: Number, /) -> Tensor:
    """Sum."""
    return fb.add(*pair("add", x1, x2, "numeric"))


def asin(x: Tensor, /) -> Tensor:
    """Inverse sine."""
    return fb.asin(array("asin", x, "floating"))


def asinh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic sine."""
    return fb.asinh(array("asinh", x, "floating"))


def atan(x: Tensor, /) -> Tensor:
    """Inverse tangent."""
    return fb.atan(array("atan", x, "floating"))


def atan2(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Angle of the point ``(x2, x1)``, in radians."""
    return fb.atan2(*pair("atan2", x1, x2, "real floating"))


def atanh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic tangent."""
    return fb.atanh(array("atanh", x, "floating"))


def bitwise_and(x1: Bits, x2: Bits, /) -> Tensor:
    """Bitwise and."""
    return fb.bitwise_and(*pair("bitwise_and", x1, x2, "integral or bool"))


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit flipped; for booleans, not."""
    return fb.bitwise_not(array("bitwise_invert", x, "integral or bool"))


def bitwise_left_shift(x1: Integer, x2: Integer, /) -> Tensor:
    """Bits of ``x1`` moved up by ``x2``."""
    return fb.bitwise_left_shift(*pair("bitwise_left_shift", x1, x2, "integral"))


def bitwise_or(x1: Bits, x2: Bits, /) -> Tensor:
    """Bitwise or."""
    return fb.bitwise_or(*pair("bitwise_or", x1, x2, "integral or bool"))


def bitwise_right_shift(x1: Integer, x2: Integer, /) -> Tensor:
    """Bits of ``x1`` moved down by ``x2``, keeping the sign."""
    return fb.bitwise_right_shift(*pair("bitwise_right_shift", x1, x2, "integral"))


def bitwise_xor(x1: Bits, x2: Bits, /) -> Tensor:
    """Bitwise exclusive or."""
    return fb.bitwise_xor(*pair("bitwise_xor", x1, x2, "integral or bool"))


def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer not below each element."""
    return fb.ceil(array("ceil", x, "real-valued"))


def clip(x: Tensor, /, min: RealNumber | None = None, max: RealNumber | None = None) -> Tensor:
    """Each element moved into ``[min, max]``; a bound may be None, and a NaN bound gives NaN. The dtype stays."""
    result = array("clip", x, "real-valued")
    if min is not None:
        result = fb.maximum(*pair("clip", result, min, "real-valued"))
    if max is not None:
        result = fb.minimum(*pair("clip", result, max, "real-valued"))
    return x.clone() if result is x else result.to(x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """Complex conjugate."""
    return fb.conj(array("conj", x, "numeric"))


def copysign(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """The magnitude of ``x1`` with the sign of ``x2``."""
    return fb.copysign(*pair("copysign", x1, x2, "real floating"))


def cos(x: Tensor, /) -> Tensor:
    """Cosine."""
    return fb.cos(array("cos", x, "floating"))


def cosh(x: Tensor, /) -> Tensor:
    """Hyperbolic cosine."""
    return fb.cosh(array("cosh", x, "floating"))


def divide(x1: Number, x2: Number, /) -> Tensor:
    """Quotient; integers must be cast first."""
    return fb.divide(*pair("divide", x1, x2, "floating"))


def equal(x1: Anything, x2: Anything, /) -> Tensor:
    """Whether elements are equal."""
    return fb.eq(*pair("equal", x1, x2, "any"))


def exp(x: Tensor, /) -> Tensor:
    """Exponential."""
    return fb.exp(array("exp", x, "floating"))


def expm1(x: Tensor, /) -> Tensor:
    """``exp(x) - 1``, precise near 0."""
    if array("expm1", x, "floating").dtype not in COMPLEX:
        return fb.expm1(x)
    a, b = x.real, x.imag
    # exp(a) cos(b) - 1, written without cancellation; + 0.0 because the standard wants 0, not -0, at -0
    real = fb.expm1(a) * fb.cos(b) - 2 * fb.square(fb.sin(b / 2)) + 0.0
    near = fb.complex(real, fb.exp(a) * fb.sin(b))
    return fb.where(fb.isfinite(x) & fb.isfinite(near), near, fb.exp(x) - 1)


def floor(x: Tensor, /) -> Tensor:
    """The largest integer not above each element."""
    return fb.floor(array("floor", x, "real-valued"))


def floor_divide(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Quotient, rounded down."""
    x1, x2 = pair("floor_divide", x1, x2, "real-valued")
    result = fb.floor_divide(x1, x2)
    if x1.dtype not in REAL:
        return result
    # with an infinity the standard takes the quotient as it is, where Python's rule gives NaN or -1
    return fb.where(fb.isinf(x1) | fb.isinf(x2), fb.divide(x1, x2), result)


def greater(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Whether ``x1 > x2``."""
    return fb.gt(*pair("greater", x1, x2, "real-valued"))


def greater_equal(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Whether ``x1 >= x2``."""
    return fb.ge(*pair("greater_equal", x1, x2, "real-valued"))


def hypot(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)`` without overflow on the way."""
    return fb.hypot(*pair("hypot", x1, x2, "real floating"))


def imag(x: Tensor, /) -> Tensor:
    """Imaginary part."""
    return fb.imag(array("imag", x, "complex floating"))


def isfinite(x: Tensor, /) -> Tensor:
    """Whether each element is neither infinite nor NaN."""
    return fb.isfinite(array("isfinite", x, "numeric"))


def isinf(x: Tensor, /) -> Tensor:
    """Whether each element is infinite."""
    return fb.isinf(array("isinf", x, "numeric"))


def isnan(x: Tensor, /) -> Tensor:
    """Whether each element is NaN."""
    return fb.isnan(array("isnan", x, "numeric"))


def less(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Whether ``x1 < x2``."""
    return fb.lt(*pair("less", x1, x2, "real-valued"))


def less_equal(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """Whether ``x1 <= x2``."""
    return fb.le(*pair("less_equal", x1, x2, "real-valued"))


def log(x: Tensor, /) -> Tensor:
    """Natural logarithm."""
    return fb.log(array("log", x, "floating"))


def log10(x: Tensor, /) -> Tensor:
    """Logarithm to base 10."""
    return fb.log10(array("log10", x, "floating"))


def log1p(x: Tensor, /) -> Tensor:
    """``log(1 + x)``, precise near 0."""
    if array("log1p", x, "floating").dtype not in COMPLEX:
        return fb.log1p(x)
    a, b = x.real, x.imag
    # log|1 + x| as half of log1p(|1 + x|**2 - 1), which keeps the digits of a small x
    near = fb.complex(fb.log1p(a * (a + 2) + b * b) / 2, fb.atan2(b, a + 1))
    return fb.where(fb.abs(x) < 0.5, near, fb.log(fb.complex(a + 1, b)))


def log2(x: Tensor, /) -> Tensor:
    """Logarithm to base 2."""
    return fb.log2(array("log2", x, "floating"))


def logaddexp(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """``log(exp(x1) + exp(x2))`` without overflow on the way."""
    return fb.logaddexp(*pair("logaddexp", x1, x2, "real floating"))


def logical_and(x1: Truth, x2: Truth, /) -> Tensor:
    """Logical and."""
    return fb.logical_and(*pair("logical_and", x1, x2, "bool"))


def logical_not(x: Tensor, /) -> Tensor:
    """Logical not."""
    return fb.logical_not(array("logical_not", x, "bool"))


def logical_or(x1: Truth, x2: Truth, /) -> Tensor:
    """Logical or."""
    return fb.logical_or(*pair("logical_or", x1, x2, "bool"))


def logical_xor(x1: Truth, x2: Truth, /) -> Tensor:
    """Logical exclusive or."""
    return fb.logical_xor(*pair("logical_xor", x1, x2, "bool"))


def maximum(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """The larger of two elements; NaN if either is."""
    return fb.maximum(*pair("maximum", x1, x2, "real-valued"))


def minimum(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """The smaller of two elements; NaN if either is."""
    return fb.minimum(*pair("minimum", x1, x2, "real-valued"))


def multiply(x1: Number, x2: Number, /) -> Tensor:
    """Product."""
    return fb.multiply(*pair("multiply", x1, x2, "numeric"))


def negative(x: Tensor, /) -> Tensor:
    """Minus each element."""
    return fb.negative(array("negative", x, "numeric"))


def nextafter(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """The next representable value after ``x1`` towards ``x2``."""
    return fb.nextafter(*pair("nextafter", x1, x2, "real floating"))


def not_equal(x1: Anything, x2: Anything, /) -> Tensor:
    """Whether elements differ."""
    return fb.ne(*pair("not_equal", x1, x2, "any"))


def positive(x: Tensor, /) -> Tensor:
    """Plus each element: the same values."""
    return fb.positive(array("positive", x, "numeric"))


def pow(x1: Number, x2: Number, /) -> Tensor:
    """``x1`` to the power ``x2``."""
    return fb.pow(*pair("pow", x1, x2, "numeric"))


def real(x: Tensor, /) -> Tensor:
    """Real part; of a real array, the array itself."""
    return fb.real(array("real", x, "numeric"))


def reciprocal(x: Tensor, /) -> Tensor:
    """One over each element."""
    return fb.reciprocal(array("reciprocal", x, "floating"))


def remainder(x1: RealNumber, x2: RealNumber, /) -> Tensor:
    """What division leaves over, with the sign of ``x2``."""
    return fb.remainder(*pair("remainder", x1, x2, "real-valued"))


def round(x: Tensor, /) -> Tensor:
    """The nearest integer, ties to the even one; of a complex number, in both parts."""
    array("round", x, "numeric")
    if x.dtype in COMPLEX:
        return fb.complex(fb.round(x.real), fb.round(x.imag))
    return fb.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign of each element; of a complex number, itself over its absolute value."""
    array("sign", x, "numeric")
    if x.dtype in REAL or x.dtype in COMPLEX:
        # NaN stays NaN, where PyTorch's functions say 0
        return fb.where(fb.isnan(x), x * math.nan, fb.sgn(x))
    return fb.sgn(x)


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, which it is in -0.0 too."""
    return fb.signbit(array("signbit", x, "real floating"))


def sin(x: Tensor, /) -> Tensor:
    """Sine."""
    return fb.sin(array("sin", x, "floating"))


def sinh(x: Tensor, /) -> Tensor:
    """Hyperbolic sine."""
    return fb.sinh(array("sinh", x, "floating"))


def sqrt(x: Tensor, /) -> Tensor:
    """Square root."""
    return fb.sqrt(array("sqrt", x, "floating"))


def square(x: Tensor, /) -> Tensor:
    """The square of each element."""
    return fb.square(array("square", x, "numeric"))


def subtract(x1: Number, x2: Number, /) -> Tensor:
    """Difference."""
    return fb.subtract(*pair("subtract", x1, x2, "numeric"))


def tan(x: Tensor, /) -> Tensor:
    """Tangent."""
    return fb.tan(array("tan", x, "floating"))


def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent."""
    result = fb.tanh(array("tanh", x, "floating"))
    if x.dtype not in COMPLEX:
        return result
    # at an infinite real part C takes the sign of the zero from sin(2 imag), the standard from imag itself
    a, b = x.real, x.imag
    limit = fb.complex(fb.copysign(fb.ones_like(a), a), fb.copysign(fb.zeros_like(b), b))
    return fb.where(fb.isinf(a), limit, result)


def trunc(x: Tensor, /) -> Tensor:
    """Each element without its fraction."""
    return fb.trunc(array("trunc", x, "real-valued"))
