"""Comparing and making tensors in tests.

Example:
    >>> fb.testing.assert_close(fb.tensor([1.0]), fb.tensor([1.0 + 1e-8]))
"""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import flambeau as fb
from flambeau.errors import ArgumentError

__all__ = ["assert_close", "make_tensor"]
__dir__ = __all__.copy

_TOLERANCES = {
    fb.float16: (1e-3, 1e-5), fb.bfloat16: (1.6e-2, 1e-5), fb.float32: (1.3e-6, 1e-5), fb.float64: (1e-7, 1e-7),
    fb.complex32: (1e-3, 1e-5), fb.complex64: (1.3e-6, 1e-5), fb.complex128: (1e-7, 1e-7),
}  # fmt: skip
_FLOAT8 = (fb.float8_e4m3fn, fb.float8_e4m3fnuz, fb.float8_e5m2, fb.float8_e5m2fnuz, fb.float8_e8m0fnu)
_NUMBERS = (int, float, complex, np.number)
# The index tensors of the compressed layouts, in the order in which they are compared.
_COMPRESSED = {
    fb.sparse_csr: ("CSR", "crow_indices", "col_indices"),
    fb.sparse_csc: ("CSC", "ccol_indices", "row_indices"),
    fb.sparse_bsr: ("BSR", "crow_indices", "col_indices"),
    fb.sparse_bsc: ("BSC", "ccol_indices", "row_indices"),
}


class _Problem(Exception):
    """The difference, and its position."""


def assert_close(
    actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True,
    check_layout=True, check_stride=False, msg=None,
):  # fmt: skip
    """Raises AssertionError with a description unless both are close: tensors, numbers, sequences or mappings of them.

    Args:
        actual: what came out.
        expected: what should have.
        allow_subclasses: whether objects of different related types may be compared.
        rtol: relative tolerance; by dtype if not given.
        atol: absolute tolerance; by dtype if not given.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must be the same.
        check_dtype: whether dtypes must be the same.
        check_layout: whether layouts must be the same.
        check_stride: whether strides must be the same.
        msg: a text, or a function of the text, for the error.

    Raises:
        AssertionError: the two differ.
        TypeError: the two are not of types that can be compared, such as a tensor and a list.

    Example:
        >>> fb.testing.assert_close([fb.ones(2), 1.0], [fb.ones(2), 1.0])
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(
            f"assert_close: Both 'rtol' and 'atol' must be either specified or omitted, got rtol={rtol} and atol={atol}"
        )
    comparison = _Comparison(
        allow_subclasses, rtol, atol, equal_nan, check_device=check_device, check_dtype=check_dtype,
        check_layout=check_layout, check_stride=check_stride,
    )  # fmt: skip
    try:
        comparison.compare(actual, expected, "")
    except _Problem as problem:
        text = str(problem)
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


class _Comparison:
    """One call of assert_close()."""

    def __init__(self, allow_subclasses: bool, rtol: Any, atol: Any, equal_nan: bool, **checks: bool) -> None:
        self.allow_subclasses, self.rtol, self.atol, self.equal_nan, self.checks = allow_subclasses, rtol, atol, equal_nan, checks

    def compare(self, a: Any, b: Any, item: str) -> None:
        at = f"\n\nThe failure occurred for item {item}" if item else ""
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            self._keys(a, b, at)
            for key in a:
                self.compare(a[key], b[key], f"{item}[{key!r}]")
        elif _is_sequence(a) and _is_sequence(b):
            if len(a) != len(b):
                raise _Problem(f"The length of the sequences mismatch: {len(a)} != {len(b)}{at}")
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self.compare(x, y, f"{item}[{i}]")
        elif a is None or b is None:
            if a is not b:
                raise _Problem(f"None mismatch: {a} is not {b}{at}")
        elif isinstance(a, bool) and isinstance(b, bool):
            if a is not b:
                raise _Problem(f"Booleans mismatch: {a} is not {b}{at}")
        elif isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
            self._numbers(a, b, at)
        else:
            self._tensors(*self._as_tensors(a, b, at), at)

    def _keys(self, a: Mapping[Any, Any], b: Mapping[Any, Any], at: str) -> None:
        if set(a) != set(b):
            missing, extra = sorted(map(repr, set(b) - set(a))), sorted(map(repr, set(a) - set(b)))
            raise _Problem(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: [{', '.join(missing)}]\n"
                f"Additional keys in the actual mapping: [{', '.join(extra)}]{at}"
            )

    def _as_tensors(self, a: Any, b: Any, at: str) -> tuple[fb.Tensor, fb.Tensor]:
        related = isinstance(a, type(b)) or isinstance(b, type(a)) if self.allow_subclasses else type(a) is type(b)
        tensors: list[fb.Tensor] = []
        if related and not isinstance(a, (str, bytes)):
            try:
                tensors = [x if isinstance(x, fb.Tensor) else fb.as_tensor(x) for x in (a, b)]
            except (TypeError, ValueError):
                tensors = []
        if not tensors:
            raise TypeError(
                f"assert_close: No comparison pair was able to handle inputs of type {type(a)} and {type(b)}; "
                f"expected two tensors, arrays or numbers{at}"
            )
        return tensors[0], tensors[1]

    def _tolerances(self, *dtypes: fb.dtype) -> tuple[float, float]:
        if self.rtol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in known), max(a for _, a in known)

    def _numbers(self, a: Any, b: Any, at: str) -> None:
        if self.checks["check_dtype"] and type(a) is not type(b):
            raise _Problem(f"The (d)types do not match: {type(a)} != {type(b)}.{at}")
        rtol, atol = self._tolerances(*(fb.as_tensor(x).dtype if isinstance(x, np.number) else _dtype_of(x) for x in (a, b)))
        if self.equal_nan and a != a and b != b:
            return
        gap = abs(a - b)
        if a == b or (cmath.isfinite(gap) and gap <= atol + rtol * abs(b)):
            return
        relative = gap / abs(b) if b != 0 else math.inf
        raise _Problem(
            f"Scalars are not {_kind(rtol, atol)}!\n\nExpected {b} but got {a}.\n"
            f"Absolute difference: {gap}{_allowed(atol, rtol, atol)}\n"
            f"Relative difference: {relative}{_allowed(rtol, rtol, atol)}{at}"
        )

    def _tensors(self, x: fb.Tensor, y: fb.Tensor, at: str) -> None:
        for name, check in (("shape", None), ("layout", "check_layout"), ("device", "check_device"), ("dtype", "check_dtype")):
            if (check is None or self.checks[check]) and getattr(x, name) != getattr(y, name):
                raise _Problem(f"The values for attribute '{name}' do not match: {getattr(x, name)} != {getattr(y, name)}.{at}")
        strided = x.layout == y.layout == fb.strided
        if self.checks["check_stride"] and strided and x.stride() != y.stride():
            raise _Problem(f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}.{at}")
        if x.is_meta or y.is_meta:
            return
        if x.layout != y.layout:
            x, y = (t if t.layout == fb.strided else t.to_dense() for t in (x, y))
        if x.layout == fb.sparse_coo:
            self._coordinates(x, y, at)
        elif x.layout in _COMPRESSED:
            layout, *indices = _COMPRESSED[x.layout]
            self._count(x, y, layout, at)
            for name in indices:
                self._values(getattr(x, name)(), getattr(y, name)(), f"Sparse {layout} {name}", at)
            self._values(x.values(), y.values(), f"Sparse {layout} values", at)
        else:
            self._values(x, y, "Scalars" if x.ndim == 0 else "Tensor-likes", at)

    def _count(self, x: Any, y: Any, layout: str, at: str) -> None:
        if x._nnz() != y._nnz():
            raise _Problem(
                f"The number of specified values in sparse {layout} tensors does not match: {x._nnz()} != {y._nnz()}{at}"
            )

    def _coordinates(self, x: Any, y: Any, at: str) -> None:
        if x.sparse_dim() != y.sparse_dim():
            raise _Problem(
                f"The number of sparse dimensions in sparse COO tensors does not match: {x.sparse_dim()} != {y.sparse_dim()}{at}"
            )
        self._count(x, y, "COO", at)
        self._values(x._indices(), y._indices(), "Sparse COO indices", at)
        self._values(x._values(), y._values(), "Sparse COO values", at)

    def _values(self, x: fb.Tensor, y: fb.Tensor, name: str, at: str) -> None:
        """Compares the elements of two dense tensors of one shape."""
        rtol, atol = self._tolerances(x.dtype, y.dtype)
        small = x.dtype in _FLOAT8 and y.dtype in _FLOAT8
        x, y = _wide(x.detach(), y.detach())
        close = x == y
        if self.equal_nan:
            close = close | ((x != x) & (y != y))
        # Differences of unsigned integers would wrap around.
        gap = fb.maximum(x, y) - fb.minimum(x, y) if x.dtype == fb.uint64 else (x - y).abs()
        scale = y.abs()
        if rtol or atol:
            close = close | (gap.isfinite() & (gap <= atol + rtol * scale))
        if close.all():
            return
        if x.ndim == 0:
            a, b = x.item(), y.item()
            relative = gap.item() / abs(b) if b != 0 else math.inf
            raise _Problem(
                f"{name} are not {_kind(rtol, atol)}!\n\nExpected {b} but got {a}.\n"
                f"Absolute difference: {gap.item()}{_allowed(atol, rtol, atol)}\n"
                f"Relative difference: {relative}{_allowed(rtol, rtol, atol)}{at}"
            )
        bad, count = int((~close).sum()), x.numel()
        text = f"{name} are not {_kind(rtol, atol)}!\n\nMismatched elements: {bad} / {count} ({100 * bad / count:.1f}%)\n"
        if small:
            raise _Problem(f"{text}The first mismatched element is at index {_spot(~close)}.{at}")
        # Matching elements count as no difference, even 0 / 0 and inf - inf.
        gap = fb.where(close, fb.zeros_like(gap), gap)
        relative = fb.where(close, 0.0, gap / scale)
        where = [_spot(d.isnan() if d.isnan().any() else d == d.max()) for d in (gap, relative)]
        greatest = [d[i].item() for d, i in zip((gap, relative), where, strict=True)]
        raise _Problem(
            f"{text}Greatest absolute difference: {greatest[0]} at index {where[0]}{_allowed(atol, rtol, atol)}\n"
            f"Greatest relative difference: {greatest[1]} at index {where[1]}{_allowed(rtol, rtol, atol)}{at}"
        )


def _dtype_of(number: Any) -> fb.dtype:
    return fb.complex128 if isinstance(number, complex) else fb.float64 if isinstance(number, float) else fb.int64


def _kind(rtol: float, atol: float) -> str:
    return "close" if rtol or atol else "equal"


def _allowed(limit: float, rtol: float, atol: float) -> str:
    return f" (up to {limit} allowed)" if rtol or atol else ""


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _spot(where: fb.Tensor) -> tuple[int, ...]:
    """The index of the first True."""
    return tuple(where.nonzero()[0].tolist())


def _wide(x: fb.Tensor, y: fb.Tensor) -> tuple[fb.Tensor, fb.Tensor]:
    """Both in a dtype in which differences are accurate enough for comparison with tolerances."""
    x, y = (t.to(fb.float32) if t.dtype in _FLOAT8 else t.to(fb.int64) if t.dtype == fb.bool else t for t in (x, y))
    common = fb.promote_types(x.dtype, y.dtype)
    wide = fb.complex128 if common.is_complex else fb.float64 if common.is_floating_point else common
    wide = fb.int64 if wide in (fb.uint8, fb.int8, fb.int16, fb.int32, fb.uint16, fb.uint32) else wide
    return x.to(wide), y.to(wide)


def make_tensor(
    *shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False, memory_format=None
):
    """A tensor of random numbers from [low, high) for tests.

    Args:
        shape: the sizes.
        dtype: element type.
        device: device of the result.
        low: lower end; -9 by default (0 for bool and unsigned types). Integers begin at the next whole number.
        high: upper end, excluded; 9 (10 for integers, 2 for bool) by default.
        requires_grad: whether operations on the tensor are recorded for backward.
        noncontiguous: every second element of a larger tensor.
        exclude_zero: replaces zeros by the smallest positive number (1 for integers).
        memory_format: order of the dimensions in memory.

    Example:
        >>> fb.testing.make_tensor((2, 3), dtype=fb.float32).shape
        flambeau.Size([2, 3])
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    inexact = dtype.is_floating_point or dtype.is_complex
    if noncontiguous and memory_format is not None:
        raise ArgumentError(
            "make_tensor: The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and not inexact:
        raise ArgumentError(
            f"make_tensor: `requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    low, high = _interval(dtype, low, high, inexact)
    sizes = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if not inexact:
        result = fb.randint(low, high, sizes, dtype=fb.int64, device=device).to(dtype)
    elif dtype.is_complex:
        part = {fb.complex32: fb.float16, fb.complex64: fb.float32, fb.complex128: fb.float64}[dtype]
        result = fb.complex(*[_uniform(sizes, part, device, low, high) for _ in range(2)])
    else:
        result = _uniform(sizes, dtype, device, low, high)
    if exclude_zero:
        tiny = fb.finfo(dtype).tiny if inexact else 1
        result = fb.where(result == 0, fb.tensor(tiny, dtype=dtype, device=device), result)
    if noncontiguous and shape:
        result = result[..., ::2]
    result = result if memory_format is None else result.clone(memory_format=memory_format)
    return result.requires_grad_(requires_grad)


def _interval(dtype: fb.dtype, low: Any, high: Any, inexact: bool) -> tuple[Any, Any]:
    """The ends of [low, high): defaults filled in, checked, clamped to the dtype's range."""
    if dtype == fb.bool:
        default, least, greatest = (0, 2), 0, 1
    elif inexact:
        info = fb.finfo(dtype)
        default, least, greatest = (-9, 9), info.min, info.max
    else:
        info = fb.iinfo(dtype)
        default, least, greatest = (max(-9, info.min), 10), info.min, info.max
    low, high = (d if given is None else given for given, d in zip((low, high), default, strict=True))
    if low != low or high != high:
        raise ArgumentError(f"make_tensor: `low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and inexact:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated; "
            "use torch.full() for a constant", FutureWarning, stacklevel=3,
        )  # fmt: skip
    elif low >= high:
        raise ArgumentError(f"make_tensor: `low` must be less than `high`, but got {low} >= {high}")
    if high < least or low > greatest:
        raise ArgumentError(
            f"make_tensor: The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only holds "
            f"[{least}, {greatest}]"
        )
    if inexact:
        return max(low, least), min(high, greatest)
    low, high = (least if low < least else math.ceil(low)), (greatest + 1 if high > greatest else math.ceil(high))
    high = min(high, 2**63 - 1)  # randint draws int64
    if low >= high:
        raise ArgumentError(f"make_tensor: `low` must be less than `high`, but there is no whole number from {low} to {high}")
    return low, high


def _uniform(sizes: Any, dtype: fb.dtype, device: Any, low: float, high: float) -> fb.Tensor:
    wide = fb.float64 if dtype == fb.float64 else fb.float32
    u = fb.rand(sizes, dtype=wide, device=device)
    # Not low + u * (high - low), because the difference may overflow.
    result = (u * high + (1 - u) * low).to(dtype)
    if low == high:
        return result
    # Rounding may reach the excluded end. 8-bit floats cannot be compared.
    rounded = result.to(wide)
    return fb.where(rounded >= high, low, rounded).to(dtype)
