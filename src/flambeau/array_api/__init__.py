"""The array API standard, version 2025.12, for flambeau's tensors.

``Tensor.__array_namespace__()`` returns this module. It has the standard's names, arguments and rules, and is strict
where flambeau itself follows PyTorch: kinds of dtypes do not mix, a zero-dimensional array promotes like any other,
nothing the standard leaves undefined happens silently. Arrays are plain ``flambeau.Tensor`` objects.

Example:
    >>> import flambeau as fb
    >>> xp = fb.tensor([1.0, 2.0]).__array_namespace__()
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
"""

from __future__ import annotations

import math

from flambeau._registry.names import package_dir as _package_dir
from flambeau.array_api import fft, linalg
from flambeau.array_api._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from flambeau.array_api._dtypes import (
    astype,
    bool,
    can_cast,
    complex64,
    complex128,
    finfo,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau.array_api._elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from flambeau.array_api._info import __array_namespace_info__
from flambeau.array_api._manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from flambeau.array_api._searching import (
    argmax,
    argmin,
    argsort,
    isin,
    nonzero,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from flambeau.array_api._statistics import (
    all,
    any,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from flambeau.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange",
    "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "ceil", "clip", "complex128", "complex64",
    "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff",
    "divide", "e", "empty", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "fft", "finfo", "flip",
    "float32", "float64", "floor", "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal",
    "hypot", "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "less", "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "maximum",
    "mean", "meshgrid", "min", "minimum", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter",
    "nonzero", "not_equal", "ones", "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign",
    "signbit", "sin", "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "uint16", "uint32", "uint64",
    "uint8", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot",
    "where", "zeros", "zeros_like",
]  # fmt: skip
__dir__ = _package_dir(__name__)

__array_api_version__ = "2025.12"

e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi
