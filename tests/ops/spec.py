"""What a row says about an op, and how its values travel between NumPy and flambeau.

A row (`OpSpec`) names an op, a NumPy reference and sample arguments; `test_specs.py` derives the generic tests from it.
References compute in float64 / complex128 on inputs already rounded to the tested dtype, so one reference serves all
dtypes and the tolerance is the dtype's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import flambeau as fb

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
BOOL = ("bool",)
INTS = SIGNED + UNSIGNED
REAL = INTS + FLOATS
NUMERIC = REAL + COMPLEX
ALL = BOOL + NUMERIC
INEXACT = FLOATS + COMPLEX
FULL_FLOATS = ("float32", "float64")
LAPACK = FULL_FLOATS + COMPLEX

# Relative and absolute tolerance: a few units in the last place, with room for sums of a dozen terms.
TOLERANCE = {
    "float16": (4e-3, 4e-3),
    "bfloat16": (2e-2, 2e-2),
    "float32": (1e-5, 2e-6),
    "float64": (1e-11, 1e-12),
    "complex64": (2e-5, 4e-6),
    "complex128": (1e-11, 1e-12),
}
REAL_OF = {"complex64": "float32", "complex128": "float64"}
COMPLEX_OF = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
BY_DTYPE = {getattr(fb, name): name for name in ALL}


def dtype_of(name: str) -> Any:
    """The flambeau dtype called `name`."""
    return getattr(fb, name)


def name_of(dtype: Any) -> str:
    """The plain name ("float32") of a flambeau dtype."""
    return BY_DTYPE.get(dtype, str(dtype))


def to_bfloat16(values: Any) -> np.ndarray:
    """Round to the nearest bfloat16, ties to even; the result is held in float32."""
    exact = np.asarray(values, dtype=np.float32)
    bits = exact.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(exact), exact, rounded).astype(np.float32).reshape(exact.shape)


STORAGE = {"float8_e4m3fn": "float32", "complex32": "complex64"}


def rounded_to(values: Any, dtype: str) -> np.ndarray:
    """`values` as NumPy would hold them in `dtype`; bfloat16 lives in float32, storage dtypes in what holds them."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return to_bfloat16(values)
        if dtype in STORAGE:
            return np.asarray(values).astype(STORAGE[dtype])
        return np.asarray(values).astype(dtype)


class T:
    """A tensor argument that is not a tensor yet: values, and the name of its dtype (NumPy has no bfloat16)."""

    def __init__(self, values: Any, dtype: str):
        self.dtype = dtype
        self.values = rounded_to(values, dtype)

    def __repr__(self) -> str:
        text = np.array2string(self.values, threshold=24, separator=", ").replace("\n", "")
        return f"T({text}, {self.dtype})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def wide(self, inexact: bool = False) -> np.ndarray:
        """The values a reference computes with: floats and complex widened; integers too when `inexact`."""
        if self.dtype in COMPLEX:
            return self.values.astype(np.complex128)
        if self.dtype in FLOATS:
            return self.values.astype(np.float64)
        if inexact:  # integers become float32 before anything is computed
            return self.values.astype(np.float32).astype(np.float64)
        return self.values.copy()

    def tensor(self, layout: str = "contiguous") -> Any:
        """A fresh tensor with these values, in the given memory layout."""
        return LAYOUTS[layout](self.values, self.dtype)

    def repeated(self) -> T:
        """The same shape with every entry along the first dimension equal: what an expanded tensor can hold."""
        if not self.shape or 0 in self.shape:
            return self
        return T(np.broadcast_to(self.values[:1], self.shape), self.dtype)


def _contiguous(values: np.ndarray, dtype: str) -> Any:
    # In memory of our own, not NumPy's: `make guard` protects what is behind it.
    tensor = fb.from_numpy(np.asarray(values)).clone(memory_format=fb.contiguous_format)
    return tensor.to(getattr(fb, dtype)) if dtype == "bfloat16" or dtype in STORAGE else tensor


def _transposed(values: np.ndarray, dtype: str) -> Any:
    return _contiguous(values.transpose(), dtype).permute(tuple(reversed(range(values.ndim))))


def _strided(values: np.ndarray, dtype: str) -> Any:
    if values.ndim == 0:
        return _contiguous(np.stack([values, values, values]), dtype)[1]
    # Every second element from the second on; the elements between must not leak into the result.
    base = np.ones((*values.shape[:-1], 2 * values.shape[-1] + 1), values.dtype)
    base[..., 1::2] = values
    return _contiguous(base, dtype)[..., 1::2]


def _negative(values: np.ndarray, dtype: str) -> Any:
    turned = tuple(slice(None, None, -1) for _ in values.shape)
    return _contiguous(values[turned], dtype)[turned]


def _expanded(values: np.ndarray, dtype: str) -> Any:
    if values.ndim == 0 or 0 in values.shape:
        return _contiguous(values, dtype)
    return _contiguous(values[:1], dtype).expand(values.shape)


LAYOUTS: dict[str, Callable[[np.ndarray, str], Any]] = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "strided": _strided,
    "negative": _negative,
    "expanded": _expanded,
}


@dataclass(frozen=True)
class D:
    """A dtype argument: flambeau's dtype for the op, its name for the reference."""

    name: str


class S:
    """One sample call: positional and keyword arguments, tensors given as `T`. `_dtype` overrides the result dtype."""

    def __init__(self, *args: Any, _dtype: Any = None, **kwargs: Any):
        self.args, self.kwargs, self.dtype = args, kwargs, _dtype

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        text = ", ".join(parts)
        return f"({text})" if len(text) < 240 else f"({text[:160]} … {text[-60:]})"

    def map(self, change: Callable[[Any], Any]) -> S:
        """The same call with `change` applied to every `T`, inside lists and tuples too."""
        args = [_deep(a, change) for a in self.args]
        kwargs = {k: _deep(v, change) for k, v in self.kwargs.items()}
        return S(*args, _dtype=self.dtype, **kwargs)

    def with_dtypes(self, change: Callable[[D], Any]) -> S:
        """The same call with `change` applied to every dtype argument."""

        def swap(value: Any) -> Any:
            return change(value) if isinstance(value, D) else value

        return S(*map(swap, self.args), _dtype=self.dtype, **{k: swap(v) for k, v in self.kwargs.items()})

    def tensors(self) -> list[T]:
        found: list[T] = []
        self.map(lambda t: found.append(t) or t)
        return found


def _deep(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, T):
        return change(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_deep(v, change) for v in value)
    return value


@dataclass(frozen=True)
class Bad:
    """A call that must fail: the arguments, the class of the error, and words its message must contain."""

    label: str
    sample: Callable[[], S]
    error: type[Exception] | tuple[type[Exception], ...]
    words: str = ""
    method: str = ""  # call this method of the first argument instead of the function


def bad(label: str, error: Any, *args: Any, words: str = "", method: str = "", **kwargs: Any) -> Bad:
    return Bad(label, lambda: S(*args, **kwargs), error, words, method)


Maker = Callable[[str], Iterable[S]]


@dataclass(frozen=True)
class OpSpec:
    """One op: where it is found, what it computes, on which inputs, and what it refuses."""

    name: str
    ref: Callable[..., Any] | None
    samples: Maker
    dtypes: tuple[str, ...] = ALL
    result: Any = "same"  # a rule of RESULT_RULES, a tuple of them (several outputs), or None: not a tensor
    function: bool = True
    method: bool = True
    inplace: bool = False
    out: bool = False
    view: bool = False  # the result shares memory with the first argument
    edge: Maker | None = None  # empty and 0-d inputs
    special: Maker | None = None  # nan, infinities, signed zeros, extremes
    broadcast: Maker | None = None
    large: Maker | None = None  # big enough to be split over threads
    promotes: int = 0  # how many leading operands take part in type promotion
    errors: tuple[Bad, ...] = ()
    layouts: bool = True
    expand: bool = True  # an expanded input makes sense
    exact: bool = False  # every bit counts, the sign of zero too
    native: bool = False  # the reference wants the tested dtype itself, not a wider one
    check: Callable[..., None] | None = None  # instead of `ref`: judges (result, *NumPy arguments)
    tolerance: dict[str, tuple[float, float]] | None = None
    special_dtypes: tuple[str, ...] | None = None
    domains: tuple[tuple[float, float], ...] = ()  # of a pointwise op's operands
    canonical: str = ""  # the op this name is another spelling of
    mutates: bool = False  # the op is in-place by nature (`fill_`)
    keywords: bool = True  # also accepts NumPy's spellings `axis` and `keepdims`

    def __post_init__(self) -> None:
        assert self.ref is not None or self.check is not None, f"{self.name}: a row needs a reference or a check"

    def alias(self, name: str, **changes: Any) -> OpSpec:
        """A row for another name of the same op."""
        return replace(self, name=name, canonical=self.canonical or self.name, **changes)

    def run(self, ready: S, **more: Any) -> Any:
        """Calls the function, or the method if there is no function, with arguments that are tensors already."""
        ready = ready.with_dtypes(lambda d: dtype_of(d.name))
        if self.function:
            return find(self.name)(*ready.args, **ready.kwargs, **more)
        return getattr(ready.args[0], self.name)(*ready.args[1:], **ready.kwargs)

    def expected(self, sample: S) -> Any:
        """The reference's result."""
        to_float = self.result == "float" or (isinstance(self.result, tuple) and "float" in self.result)
        ready = sample.map(lambda t: t.values.copy() if self.native else t.wide(to_float)).with_dtypes(lambda d: d.name)
        with np.errstate(all="ignore"):
            return self.ref(*ready.args, **ready.kwargs)


def find(path: str) -> Callable[..., Any]:
    """The function under a dotted name; "_nn.x" is one that only nn.functional calls, "_x" one that only the library does."""
    namespace, _, name = path.rpartition(".")
    if path.startswith("_"):
        return fb._C.namespaces[namespace][name]
    target: Any = fb
    for part in path.split("."):
        target = getattr(target, part)
    return target


# ---- result dtypes -----------------------------------------------------------------------------------------------

RESULT_RULES: dict[str, Callable[[str], str]] = {
    "same": lambda d: d,
    "bool": lambda d: "bool",
    "truth": lambda d: "uint8" if d == "uint8" else "bool",  # all and any keep uint8, which once stood for bool
    "int64": lambda d: "int64",
    "int32": lambda d: "int32",
    "float64": lambda d: "float64",
    "uint8": lambda d: "uint8",
    "uint64": lambda d: "uint64",
    "float": lambda d: d if d in INEXACT else "float32",
    "real": lambda d: REAL_OF.get(d, d),
    "real_float": lambda d: REAL_OF.get(d, d if d in FLOATS else "float32"),
    "sum": lambda d: d if d in INEXACT else "int64",
    "complex": lambda d: d if d in COMPLEX else COMPLEX_OF.get(d, "complex64"),
    "double": lambda d: "complex128" if d in COMPLEX else "float64",
}


def expected_dtype(rule: Any, sample: S, dtype: str) -> Any:
    """The dtype name(s) the result must have; None where the rule leaves it open."""
    if sample.dtype is not None:
        return sample.dtype
    if rule is None or rule == "any":
        return None
    if isinstance(rule, tuple):
        return tuple(RESULT_RULES[r](dtype) for r in rule)
    return RESULT_RULES[rule](dtype)


CATEGORY = {
    **{d: 0 for d in BOOL},
    **{d: 1 for d in INTS},
    **{d: 2 for d in FLOATS},
    **{d: 3 for d in COMPLEX},
}


def promote(a: str, b: str) -> str:
    """PyTorch's table for two dtypes, written as a rule. uint16/32/64 never promote with other integers in it."""
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda d: CATEGORY[d])
    if CATEGORY[low] != CATEGORY[high]:
        if high == "complex64" and low == "float64":
            return "complex128"
        return high
    if high in COMPLEX:
        return "complex128"
    if high in FLOATS:
        halves = {"float16", "bfloat16"}
        return "float32" if {a, b} == halves else max(a, b, key=lambda d: (d not in halves, d))
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return "int16" if other == "int8" else other
    return max(a, b, key=lambda d: int(d[3:]))


def result_type(*operands: tuple[str, str]) -> str:
    """PyTorch's rule for operands ("dim" | "zero" | "number", dtype): 0-d tensors and Python numbers only raise the
    category of what ranks above them, and numbers do so with the default dtypes."""
    levels: dict[str, str | None] = {"dim": None, "zero": None, "number": None}
    for rank, dtype in operands:
        if rank == "number":
            dtype = {"float64": "float32", "complex128": "complex64"}.get(dtype, dtype)
        seen = levels[rank]
        levels[rank] = dtype if seen is None else promote(seen, dtype)
    result = _raised(levels["dim"], _raised(levels["zero"], levels["number"]))
    assert result is not None
    return result


def _raised(higher: str | None, lower: str | None) -> str | None:
    if higher is None or lower is None:
        return higher or lower
    if CATEGORY[lower] <= CATEGORY[higher]:
        return higher
    return promote(higher, lower)


# ---- comparing -----------------------------------------------------------------------------------------------------


def is_tensor(value: Any) -> bool:
    return isinstance(value, fb.Tensor)


def to_numpy(tensor: Any) -> np.ndarray:
    """A NumPy copy; dtypes that NumPy lacks come as float32 or complex64."""
    if tensor.dtype == fb.complex32:
        tensor = tensor.to(fb.complex64)
    elif tensor.dtype == fb.bfloat16 or str(tensor.dtype).rpartition(".")[2].startswith("float8"):
        tensor = tensor.to(fb.float32)
    return np.array(tensor.numpy())


def flat_results(value: Any) -> list[Any]:
    """The tensors (or numbers) of a result as a list."""
    if isinstance(value, (list, tuple)) and not isinstance(value, fb.Size):
        return [leaf for v in value for leaf in flat_results(v)]
    return [value]


def assert_close(got: Any, want: Any, dtype: str | None, what: str, tolerance=None, exact: bool = False) -> None:
    """Compare a tensor with the reference's array: dtype, shape, then values."""
    if not is_tensor(got):
        same = got == want or (got != got and want != want)
        assert same, f"{what}: got {got!r}, expected {want!r}"
        return
    have = name_of(got.dtype)
    if dtype is not None:
        assert have == dtype, f"{what}: result dtype {have}, expected {dtype}"
    want = rounded_to(want, have)
    assert tuple(got.shape) == want.shape, f"{what}: result shape {tuple(got.shape)}, expected {want.shape}"
    value = to_numpy(got)
    if have not in INEXACT:
        wrong = value != want
    else:
        wrong = ~close_mask(value, want, have, tolerance, exact)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} values differ ({have}); "
            f"first at {where}: got {value[where]!r}, expected {want[where]!r}"
        )


def close_mask(value: np.ndarray, want: np.ndarray, dtype: str, tolerance=None, exact: bool = False) -> np.ndarray:
    """Where two arrays agree; nan agrees with nan, infinities with themselves."""
    kind = np.complex128 if np.iscomplexobj(want) else np.float64
    value, want = value.astype(kind), want.astype(kind)
    both_nan = np.isnan(value) & np.isnan(want)
    if exact:
        return both_nan | ((value == want) & (np.signbit(value.real) == np.signbit(want.real)))
    rtol, atol = (tolerance or {}).get(dtype) or TOLERANCE[dtype]
    with np.errstate(all="ignore"):
        near = np.abs(value - want) <= atol + rtol * np.abs(want)
    return both_nan | (value == want) | (near & np.isfinite(value))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit (any nan equals any nan)."""
    left, right = flat_results(a), flat_results(b)
    if len(left) != len(right):
        return False
    for x, y in zip(left, right, strict=True):
        if not is_tensor(x):
            if x != y and not (x != x and y != y):
                return False
            continue
        if x.dtype != y.dtype or tuple(x.shape) != tuple(y.shape):
            return False
        u, v = np.ravel(to_numpy(x)), np.ravel(to_numpy(y))
        if u.dtype.kind in "fc":
            u, v = u.view(u.real.dtype), v.view(v.real.dtype)
            if not (((u == v) & (np.signbit(u) == np.signbit(v))) | (np.isnan(u) & np.isnan(v))).all():
                return False
        elif not (u == v).all():
            return False
    return True


def assert_error(call: Callable[[], Any], error: Any, spec: OpSpec, label: str, words: str = "") -> None:
    """The call must raise `error`, and the message must begin with the op's name."""
    try:
        result = call()
    except error as caught:
        message = str(caught)
    except Exception as caught:
        wanted = getattr(error, "__name__", str(error))
        raise AssertionError(f"{spec.name}, {label}: {type(caught).__name__}({caught}) instead of {wanted}") from caught
    else:
        raise AssertionError(f"{spec.name}, {label}: no error; the result was {result!r}")
    names = {spec.name, spec.canonical, *(n.rpartition(".")[2] for n in (spec.name, spec.canonical))} - {""}
    names |= {n.replace(".", "_") for n in names}
    begins = any(re.match(re.escape(n) + r"_?[\s:(]", message) for n in names)
    assert begins, f"{spec.name}, {label}: the message should begin with the op's name: {message!r}"
    assert words in message, f"{spec.name}, {label}: the message should contain {words!r}: {message!r}"
