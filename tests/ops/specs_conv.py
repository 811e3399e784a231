"""Convolutions: windows written out in NumPy."""

import itertools

import numpy as np

from .samples import make as _make
from .spec import COMPLEX, FLOATS, OpSpec, S, bad


def make(*shape, dtype):
    return _make(dtype, shape)


def _each(value, n):
    return tuple(value) * n if isinstance(value, (list, tuple)) and len(value) == 1 else tuple(np.broadcast_to(value, n))


def _conv(n):
    def reference(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        single = x.ndim == n + 1
        x = x[None] if single else x
        steps, gaps = _each(stride, n), _each(dilation, n)
        if padding == "valid":
            padding = 0
        if padding == "same":
            totals = [g * (k - 1) for g, k in zip(gaps, w.shape[2:], strict=True)]
            sides = [(t // 2, t - t // 2) for t in totals]
        else:
            sides = [(p, p) for p in _each(padding, n)]
        x = np.pad(x, [(0, 0), (0, 0), *sides])
        reach = [g * (k - 1) + 1 for g, k in zip(gaps, w.shape[2:], strict=True)]
        sizes = [(a - r) // s + 1 for a, r, s in zip(x.shape[2:], reach, steps, strict=True)]
        y = np.zeros((x.shape[0], w.shape[0], *sizes), np.result_type(x, w))
        into, out = w.shape[1], w.shape[0] // groups
        for place in itertools.product(*map(range, sizes)):
            window = tuple(slice(i * s, i * s + r, g) for i, s, r, g in zip(place, steps, reach, gaps, strict=True))
            for k in range(groups):
                part = x[(slice(None), slice(k * into, (k + 1) * into), *window)]
                weight = w[k * out : (k + 1) * out]
                y[(slice(None), slice(k * out, (k + 1) * out), *place)] = np.tensordot(part, weight, (range(1, n + 2), range(1, n + 2)))
        if bias is not None:
            y = y + bias.reshape(-1, *[1] * n)
        return y[0] if single else y

    return reference


def _transposed(n):
    def reference(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        single = x.ndim == n + 1
        x = x[None] if single else x
        steps, gaps, pads, more = (_each(v, n) for v in (stride, dilation, padding, output_padding))
        sizes = [
            (a - 1) * s + g * (k - 1) + 1 + m
            for a, s, g, k, m in zip(x.shape[2:], steps, gaps, w.shape[2:], more, strict=True)
        ]
        y = np.zeros((x.shape[0], w.shape[1] * groups, *sizes), np.result_type(x, w))
        into, out = w.shape[0] // groups, w.shape[1]
        for place in itertools.product(*map(range, x.shape[2:])):
            window = tuple(
                slice(i * s, i * s + g * (k - 1) + 1, g) for i, s, g, k in zip(place, steps, gaps, w.shape[2:], strict=True)
            )
            for k in range(groups):
                value = x[(slice(None), slice(k * into, (k + 1) * into), *place)]
                y[(slice(None), slice(k * out, (k + 1) * out), *window)] += np.tensordot(
                    value, w[k * into : (k + 1) * into], (1, 0)
                )
        y = y[(slice(None), slice(None), *(slice(p, a - p) for p, a in zip(pads, sizes, strict=True)))]
        if bias is not None:
            y = y + bias.reshape(-1, *[1] * n)
        return y[0] if single else y

    return reference


SIZE, KERNEL = (5, 4, 3), (3, 2, 2)


def _samples(n):
    def samples(dtype):
        size, kernel = SIZE[:n], KERNEL[:n]
        yield S(make(1, 2, *size, dtype=dtype), make(2, 2, *kernel, dtype=dtype))
        yield S(make(2, *size, dtype=dtype), make(2, 2, *kernel, dtype=dtype), make(2, dtype=dtype))
        yield S(make(2, 4, *size, dtype=dtype), make(6, 2, *kernel, dtype=dtype), make(6, dtype=dtype), 2, 1, 1, 2)
        yield S(make(1, 3, *size, dtype=dtype), make(3, 1, *kernel, dtype=dtype), padding="same", dilation=2, groups=3)
        yield S(make(1, 2, *size, dtype=dtype), make(1, 2, *kernel, dtype=dtype), stride=(2,) * n, padding=(1,) * n, dilation=(2,) * n)

    return samples


def _transposed_samples(n):
    def samples(dtype):
        size, kernel = SIZE[:n], KERNEL[:n]
        yield S(make(1, 2, *size, dtype=dtype), make(2, 2, *kernel, dtype=dtype))
        yield S(make(2, *size, dtype=dtype), make(2, 3, *kernel, dtype=dtype), make(3, dtype=dtype))
        yield S(make(2, 4, *size, dtype=dtype), make(4, 1, *kernel, dtype=dtype), None, 2, 1, 1, 2, 1)
        yield S(make(1, 2, *size, dtype=dtype), make(2, 1, *kernel, dtype=dtype), dilation=2, output_padding=1)

    return samples


def _errors(n):
    x, w = make(1, 2, *SIZE[:n], dtype="float32"), make(2, 3, *KERNEL[:n], dtype="float32")
    fits = make(2, 2, *KERNEL[:n], dtype="float32")
    return (
        bad("channels", ValueError, x, w, words="channels"),
        bad("dtype", ValueError, x, make(2, 2, *KERNEL[:n], dtype="float64"), words="should be the same"),
        bad("bias", ValueError, x, fits, make(3, dtype="float32"), words="bias"),
        bad("stride", ValueError, x, fits, stride=0, words="stride"),
        bad("rank", ValueError, make(2, dtype="float32"), fits, words="input"),
    )


TOLERANCE = {"float16": (2e-2, 2e-2), "bfloat16": (8e-2, 2e-1), "float32": (1e-4, 1e-4), "complex64": (1e-4, 1e-4)}
COMMON = dict(dtypes=FLOATS + COMPLEX, method=False, tolerance=TOLERANCE, expand=False)


def _general(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = x.ndim - 2
    if transposed:
        return _transposed(n)(x, w, bias, stride, padding, output_padding, groups, dilation)
    return _conv(n)(x, w, bias, stride, padding, dilation, groups)


def _general_samples(dtype):
    x, w = make(1, 2, 4, 3, dtype=dtype), make(2, 2, 2, 2, dtype=dtype)
    yield S(x, w, None, [1], [1], [1], False, [0], 1)
    yield S(x, w, make(2, dtype=dtype), [2, 1], [0, 1], [1, 1], True, [1, 0], 1)


ROWS = [OpSpec("convolution", _general, _general_samples, **COMMON)]
for _n in (1, 2, 3):
    _row = OpSpec(f"conv{_n}d", _conv(_n), _samples(_n), errors=_errors(_n), **COMMON)
    _back = OpSpec(f"conv_transpose{_n}d", _transposed(_n), _transposed_samples(_n), **COMMON)
    ROWS += [_row, _row.alias(f"nn.functional.conv{_n}d"), _back, _back.alias(f"nn.functional.conv_transpose{_n}d")]
