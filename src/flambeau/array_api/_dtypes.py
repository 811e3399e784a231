"""Data types of the standard: kinds, promotion, casts and limits.

float16 and bfloat16 are not in the standard. They count as real floating types here and promote as everywhere in
flambeau; ``dtypes()`` of the inspection functions leaves them out, as the standard asks.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass

import flambeau as fb
from flambeau import (
    Tensor,
    bfloat16,
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau.errors import ArgumentError, DTypeError

__all__ = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
    "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
REAL = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)

KINDS = {
    "bool": (bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + REAL + COMPLEX,
}

# Argument categories of functions, in addition to the kinds of the standard.
ACCEPTS = {
    "any": KINDS["bool"] + KINDS["numeric"],
    "numeric": KINDS["numeric"],
    "real-valued": SIGNED + UNSIGNED + REAL,
    "floating": REAL + COMPLEX,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "integral": KINDS["integral"],
    "integral or bool": KINDS["integral"] + KINDS["bool"],
    "bool": KINDS["bool"],
}

_COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
_REAL_OF = {complex64: float32, complex128: float64}


@dataclass(frozen=True)
class finfo_object:
    """Limits of a floating dtype; for a complex one, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: fb.dtype


@dataclass(frozen=True)
class iinfo_object:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: fb.dtype


def default_float() -> fb.dtype:
    return fb.get_default_dtype()


def default_complex() -> fb.dtype:
    return _COMPLEX_OF[default_float()]


def complex_of(dtype: fb.dtype) -> fb.dtype:
    """The complex dtype of a real floating dtype's precision."""
    return _COMPLEX_OF[dtype]


def real_of(dtype: fb.dtype) -> fb.dtype:
    """The dtype of the parts of a complex dtype; a real dtype is its own."""
    return _REAL_OF.get(dtype, dtype)


def default_for(value: builtins.bool | int | float | complex) -> fb.dtype:
    """The dtype of an array made from a Python scalar."""
    if isinstance(value, builtins.bool):
        return bool
    if isinstance(value, int):
        return int64
    return default_complex() if isinstance(value, complex) else default_float()


def _join(a: fb.dtype, b: fb.dtype) -> fb.dtype | None:
    """The common dtype of two dtypes in the standard's promotion lattice, None if there is none."""
    if a == b:
        return a
    for family in (SIGNED, UNSIGNED, COMPLEX):
        if a in family and b in family:
            return family[max(family.index(a), family.index(b))]
    if a in REAL and b in REAL:
        # float16 and bfloat16 hold each other's values only in float32
        return float32 if {a, b} == {float16, bfloat16} else REAL[max(REAL.index(a), REAL.index(b))]
    if a in UNSIGNED and b in SIGNED:
        a, b = b, a
    if a in SIGNED and b in UNSIGNED:
        wide = max(SIGNED.index(a), UNSIGNED.index(b) + 1)
        return SIGNED[wide] if wide < len(SIGNED) else None
    if a in COMPLEX and b in REAL:
        a, b = b, a
    if a in REAL and b in COMPLEX:
        return _join(complex_of(a), b)
    return None


_EVERY = ACCEPTS["any"]
_LATTICE = {(a, b): _join(a, b) for a in _EVERY for b in _EVERY}


def promote(name: str, a: fb.dtype, b: fb.dtype) -> fb.dtype:
    """The common dtype of two arrays; kinds do not mix."""
    joined = _LATTICE[a, b]
    if joined is None:
        raise DTypeError(f"{name}: {a} and {b} have no common dtype in the standard; use astype on one of them")
    return joined


def scalar_dtype(name: str, value: object, dtype: fb.dtype) -> fb.dtype:
    """The dtype of a Python scalar combined with an array of ``dtype``."""
    if isinstance(value, builtins.bool):
        fits = dtype == bool
    elif isinstance(value, int):
        fits = dtype != bool
        if dtype in KINDS["integral"]:
            limits = fb.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise ArgumentError(f"{name}: {value} is out of range for {dtype}; use a wider dtype")
    elif isinstance(value, float):
        fits = dtype in REAL or dtype in COMPLEX
    elif isinstance(value, complex):
        fits = dtype in REAL or dtype in COMPLEX
        dtype = complex_of(dtype) if dtype in REAL else dtype
    else:
        raise TypeError(f"{name}: expected an array or a Python scalar, got {type(value).__name__}")
    if not fits:
        kind = type(value).__name__
        raise DTypeError(f"{name}: a Python {kind} does not go with an array of {dtype}; use astype on the array")
    return dtype


def check_dtype(name: str, dtype: object) -> fb.dtype:
    """``dtype``, checked. Python's ``bool`` is accepted for the dtype, since SciPy relies on that."""
    if dtype is builtins.bool:
        return bool
    if not isinstance(dtype, fb.dtype):
        raise TypeError(f"{name}: dtype must be a dtype of this namespace, got {dtype!r}")
    return dtype


def _dtype_of(name: str, x: object) -> fb.dtype:
    return x.dtype if isinstance(x, Tensor) else check_dtype(name, x)


def astype(x: Tensor, dtype: fb.dtype, /, *, copy: builtins.bool = True, device: fb.device | None = None) -> Tensor:
    """``x`` in ``dtype``, whatever the promotion rules; complex to real is an error (take ``real`` or ``imag``)."""
    if not isinstance(x, Tensor):
        raise TypeError(f"astype: x must be an array, got {type(x).__name__}")
    dtype = check_dtype("astype", dtype)
    if x.dtype in COMPLEX and dtype not in COMPLEX and dtype != bool:
        raise DTypeError(f"astype: {x.dtype} to {dtype} would drop the imaginary part; use real(x) or imag(x)")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def can_cast(from_: fb.dtype | Tensor, to: fb.dtype, /) -> builtins.bool:
    """Whether the promotion rules lead from one dtype to the other."""
    to = check_dtype("can_cast", to)
    return _LATTICE[_dtype_of("can_cast", from_), to] == to


def finfo(type: fb.dtype | Tensor, /) -> finfo_object:
    """Limits of a floating dtype: bits, eps, max, min, smallest_normal, dtype."""
    dtype = real_of(_dtype_of("finfo", type))
    if dtype not in REAL:
        raise DTypeError(f"finfo: expected a floating dtype, got {dtype}; use iinfo for integers")
    limits = fb.finfo(dtype)
    return finfo_object(
        bits=limits.bits,
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=dtype,
    )


def iinfo(type: fb.dtype | Tensor, /) -> iinfo_object:
    """Limits of an integer dtype: bits, max, min, dtype."""
    dtype = _dtype_of("iinfo", type)
    if dtype not in KINDS["integral"]:
        raise DTypeError(f"iinfo: expected an integer dtype, got {dtype}; use finfo for floating ones")
    limits = fb.iinfo(dtype)
    return iinfo_object(bits=limits.bits, max=int(limits.max), min=int(limits.min), dtype=dtype)


def isdtype(dtype: fb.dtype, kind: fb.dtype | str | tuple[fb.dtype | str, ...]) -> builtins.bool:
    """Whether ``dtype`` is ``kind``: a dtype, the name of a kind, or a tuple of these (any of them)."""
    dtype = check_dtype("isdtype", dtype)
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ArgumentError(f"isdtype: unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
        return dtype in KINDS[kind]
    return dtype == check_dtype("isdtype", kind)


def result_type(*arrays_and_dtypes: Tensor | fb.dtype | builtins.bool | int | float | complex) -> fb.dtype:
    """The dtype that the arguments, arrays, dtypes and Python scalars, promote to."""
    scalars = [a for a in arrays_and_dtypes if isinstance(a, (builtins.bool, int, float, complex))]
    dtypes = [_dtype_of("result_type", a) for a in arrays_and_dtypes if not isinstance(a, (int, float, complex))]
    if not dtypes:
        raise ArgumentError("result_type: expected at least one array or dtype, got none")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote("result_type", result, dtype)
    for value in scalars:
        result = promote("result_type", result, scalar_dtype("result_type", value, result))
    return result
