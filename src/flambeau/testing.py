"""Comparing and making tensors in tests.

Example:
    >>> fb.testing.assert_close(fb.tensor([1.0]), fb.tensor([1.0 + 1e-8]))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError

__all__ = ["assert_close", "make_tensor"]

_TOLERANCES = {
    fb.float16: (1e-3, 1e-5), fb.bfloat16: (1.6e-2, 1e-5), fb.float32: (1.3e-6, 1e-5), fb.float64: (1e-7, 1e-7),
    fb.complex32: (1e-3, 1e-5), fb.complex64: (1.3e-6, 1e-5), fb.complex128: (1e-7, 1e-7),
}  # fmt: skip


def _tolerance(dtypes, rtol, atol):
    if (rtol is None) != (atol is None):
        raise ArgumentError(f"assert_close: give both rtol and atol or neither, got rtol={rtol}, atol={atol}")
    if rtol is not None:
        return rtol, atol
    known = [_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
    return max(r for r, _ in known), max(a for _, a in known)


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

    Example:
        >>> fb.testing.assert_close([fb.ones(2), 1.0], [fb.ones(2), 1.0])
    """
    options = {
        "rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype, "check_device": check_device,
        "check_layout": check_layout, "check_stride": check_stride, "allow_subclasses": allow_subclasses,
    }  # fmt: skip
    problem = _difference(actual, expected, "", options)
    if problem:
        text = msg(problem) if callable(msg) else msg or problem
        raise AssertionError(text)


def _difference(a: Any, b: Any, where: str, options: dict[str, Any]) -> str | None:
    at = f" (at {where})" if where else ""
    if not options["allow_subclasses"] and type(a) is not type(b):
        return f"Types differ{at}: {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"The keys of the mappings do not match{at}: {sorted(map(str, set(a) ^ set(b)))}"
        return next((d for k in a if (d := _difference(a[k], b[k], f"{where}[{k!r}]", options))), None)
    if _is_sequence(a) and _is_sequence(b):
        if len(a) != len(b):
            return f"The length of the sequences mismatch{at}: {len(a)} != {len(b)}"
        pairs = enumerate(zip(a, b, strict=True))
        return next((d for i, (x, y) in pairs if (d := _difference(x, y, f"{where}[{i}]", options))), None)
    if a is None or b is None:
        return None if a is b else f"None mismatch{at}: {a} and {b}"
    return _tensor_difference(a, b, at, options)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _tensor_difference(a: Any, b: Any, at: str, options: dict[str, Any]) -> str | None:
    x, y = (v if isinstance(v, fb.Tensor) else fb.as_tensor(v) for v in (a, b))
    numbers = not isinstance(a, fb.Tensor) and not isinstance(b, fb.Tensor)
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match{at}: {tuple(x.shape)} != {tuple(y.shape)}."
    if options["check_dtype"] and x.dtype != y.dtype and not numbers:
        return f"The values for attribute 'dtype' do not match{at}: {x.dtype} != {y.dtype}."
    if options["check_stride"] and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match{at}: {x.stride()} != {y.stride()}."
    rtol, atol = _tolerance((x.dtype, y.dtype), options["rtol"], options["atol"])
    common = fb.promote_types(x.dtype, y.dtype)
    wide = fb.complex128 if common.is_complex else fb.float64 if common.is_floating_point else common
    x, y = x.to(wide), y.to(wide)
    close = fb.isclose(x, y, rtol=rtol, atol=atol, equal_nan=options["equal_nan"])
    if close.all():
        return None
    bad = int((~close).sum())
    gap = (x.to(fb.complex128) - y.to(fb.complex128)).abs() if wide.is_complex else (x.to(fb.float64) - y.to(fb.float64)).abs()
    worst = int(gap.reshape(-1).nan_to_num(math.inf).argmax())
    spot = tuple(int(i) for i in fb.unravel_index(fb.tensor(worst), x.shape)) if x.ndim else ()
    relative = gap / (y.abs().to(fb.float64))
    kind = "Scalars" if x.ndim == 0 else "Tensor-likes"
    return (
        f"{kind} are not close{at}!\n\nMismatched elements: {bad} / {x.numel()} ({100 * bad / x.numel():.1f}%)\n"
        f"Greatest absolute difference: {gap.max().item()} at index {spot} (up to {atol} allowed)\n"
        f"Greatest relative difference: {relative.nan_to_num(0.0).max().item()} (up to {rtol} allowed)"
    )


def make_tensor(
    *shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False, memory_format=None
):
    """A tensor of random numbers from [low, high) for tests.

    Args:
        shape: the sizes.
        dtype: element type.
        device: where to put it.
        low: lower end; -9 by default (0 for bool and unsigned types).
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
    sizes = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype == fb.bool:
        result = fb.randint(0, 2, sizes).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        real = fb.float64 if dtype in (fb.float64, fb.complex128) else fb.float32
        a, b = -9 if low is None else low, 9 if high is None else high
        parts = [fb.rand(sizes, dtype=real) * (b - a) + a for _ in range(1 + dtype.is_complex)]
        result = (fb.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)
    else:
        info = fb.iinfo(dtype)
        a = max(info.min, -9 if low is None else math.ceil(low))
        b = min(info.max, 10 if high is None else math.ceil(high))
        if a >= b:
            raise ArgumentError(f"make_tensor: low {low} must be below high {high} within the range of {dtype}")
        result = fb.randint(a, b, sizes, dtype=fb.int64).to(dtype)
    if exclude_zero:
        tiny = fb.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        result = fb.where(result == 0, fb.tensor(tiny, dtype=dtype), result)
    if noncontiguous and shape:
        result = result[..., ::2]
    result = result if memory_format is None else result.to(memory_format=memory_format)
    return result.requires_grad_(requires_grad)
