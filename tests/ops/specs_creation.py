"""Creation: from sizes, ranges, other tensors and Python data; window functions; ops that fill a tensor."""

from __future__ import annotations

import numpy as np
from scipy import signal

from .samples import make
from .spec import COMPLEX, FULL_FLOATS, INEXACT, INTS, NUMERIC, REAL, SIGNED, D, OpSpec, S, T, bad

X = T(np.ones((2, 3)), "float32")


def size_errors(*tail):
    """What every op that takes a size must refuse, before it allocates anything."""
    return (
        bad("a negative size", RuntimeError, (2, -1), *tail),
        bad("a size that overflows", RuntimeError, (2**40, 2**40), *tail),
        bad("more memory than there is", RuntimeError, (2**50,), *tail),
        bad("a string", TypeError, "big", *tail),
        bad("a float size", TypeError, (2.5,), *tail),
    )


def sizes(*tail):
    def samples(dtype):
        for shape in ((2, 3), (), (0, 4), (5,)):
            yield S(shape, *tail, dtype=D(dtype))

    return samples


def filled(value):
    def ref(shape, *rest, dtype=None):
        return np.full(shape, rest[0] if rest else value)

    return ref


def like(value):
    def ref(x, *rest, dtype=None):
        return np.full(x.shape, rest[0] if rest else value)

    return ref


def likes(*tail):
    def samples(dtype):
        yield S(make(dtype, (2, 3)), *tail)
        yield S(make(dtype, ()), *tail)
        yield S(make(dtype, (0, 2)), *tail)
        yield S(make("float32", (2,)), *tail, dtype=D(dtype))

    return samples


def shaped(got, x, *rest, dtype=None):
    shape = x.shape if isinstance(x, np.ndarray) else tuple(x)
    assert tuple(got.shape) == shape, f"shape {tuple(got.shape)}, expected {shape}"


def _arange_samples(dtype):
    yield S(5, dtype=D(dtype))
    yield S(2, 9, dtype=D(dtype))
    yield S(1, 10, 3, dtype=D(dtype))
    yield S(3, 3, dtype=D(dtype))
    if dtype in SIGNED or dtype in REAL and dtype not in INTS:
        yield S(5, -5, -2, dtype=D(dtype))
    if dtype in FULL_FLOATS:
        yield S(0.0, 1.0, 0.25, dtype=D(dtype))


def _arange(*args, dtype=None):
    return np.arange(*args)


def _linspace_samples(dtype):
    yield S(0, 10, 5, dtype=D(dtype))
    yield S(3, 3, 1, dtype=D(dtype))
    yield S(1, 7, 0, dtype=D(dtype))
    if dtype in INEXACT:
        yield S(-1.5, 2.0, 8, dtype=D(dtype))
        yield S(2.0, -1.0, steps=3, dtype=D(dtype))


def _linspace(start, end, steps, dtype=None):
    return np.linspace(start, end, steps)


def _logspace(start, end, steps, base=10.0, dtype=None):
    return np.logspace(start, end, steps, base=base)


def _indices(how):
    def ref(row, col, offset=0):
        return np.stack(how(row, offset, col))

    return ref


def _data_samples(dtype):
    values = {"bool": [[True, False], [False, True]]}.get(dtype, [[1, 2], [3, 4]])
    yield S(values, dtype=D(dtype))
    yield S(values[0][0], dtype=D(dtype))
    yield S([], dtype=D(dtype))
    yield S(make(dtype, (2, 3)))


def _data(values, dtype=None):
    return np.asarray(values)


def _vander(x, N=None, increasing=False):
    return np.vander(x, N, increasing)


def window(name, ref, *extra, **kw):
    def samples(dtype):
        for n in (1, 2, 7, 8):
            yield S(n, *extra, dtype=D(dtype))
            yield S(n, False, *extra, dtype=D(dtype))

    def reference(n, *rest, dtype=None):
        sym = bool(rest) and rest[0] is False
        return ref(n, not sym)

    return OpSpec(name, reference, samples, FULL_FLOATS, method=False, result="any", tolerance=WINDOW,
                  errors=(bad("a negative length", RuntimeError, -1), bad("an integer dtype", RuntimeError, 4,
                  dtype=D("int64"))),
                  **kw)


WINDOW = {"float32": (1e-4, 1e-5), "float64": (1e-7, 1e-8)}


def _scipy_window(kind):
    return lambda n, periodic: signal.get_window(kind, n, fftbins=periodic)


def _fill_diagonal(x, value, wrap=False):
    out = x.copy()
    np.fill_diagonal(out, value, wrap)
    return out


def _new(*tail):
    def samples(dtype):
        yield S(make(dtype, (2,)), (2, 3), *tail)
        yield S(make(dtype, (2,)), (), *tail)
        yield S(make("float32", (2,)), (0, 3), *tail, dtype=D(dtype))

    return samples


def new(value):
    def ref(x, shape, *rest, dtype=None):
        return np.full(shape, rest[0] if rest else value)

    return ref


def check_permuted(got, size, order, dtype=None):
    assert tuple(got.shape) == size and tuple(got.stride()) == (12, 1, 3), f"strides {got.stride()}"


# fmt: off
SIZED = [
    OpSpec("zeros", filled(0), sizes(), method=False, out=False, errors=size_errors()),
    OpSpec("ones", filled(1), sizes(), method=False, errors=size_errors()),
    OpSpec("full", filled(None), sizes(1), method=False, errors=size_errors(1)),
    OpSpec("empty", None, sizes(), method=False, check=shaped, errors=size_errors()),
    OpSpec("empty_strided", None, lambda d: [S((2, 3), (3, 1), dtype=D(d)), S((2, 3), (1, 2), dtype=D(d))],
           method=False,
           check=lambda got, size, stride, dtype: (_ for _ in ()).throw(AssertionError("wrong strides"))
           if tuple(got.stride()) != stride or tuple(got.shape) != size else None,
           errors=(bad("lengths that differ", RuntimeError, (2, 3), (1,)),
           bad("a negative size", RuntimeError, (-2,), (1,)),
                   bad("an overflow", RuntimeError, (2**40, 2**40), (2**40, 1)))),
    OpSpec("empty_permuted", None, lambda d: [S((2, 3, 4), (0, 2, 1), dtype=D(d))], method=False, check=check_permuted,
           errors=(bad("an order of another length", RuntimeError, (2, 3), (0,)),
                   bad("an order that repeats", RuntimeError, (2, 3), (0, 0)))),
    OpSpec("zeros_like", like(0), likes(), method=False, errors=(bad("a list", TypeError, [1, 2]),)),
    OpSpec("ones_like", like(1), likes(), method=False, errors=(bad("a list", TypeError, [1, 2]),)),
    OpSpec("full_like", like(None), likes(1), method=False),
    OpSpec("empty_like", None, likes(), method=False, check=shaped),
    OpSpec("new_zeros", new(0), _new(), function=False, errors=(bad("a negative size", RuntimeError, X, (-1,)),)),
    OpSpec("new_ones", new(1), _new(), function=False, errors=(bad("a negative size", RuntimeError, X, (-1,)),)),
    OpSpec("new_full", new(None), _new(1), function=False, errors=(bad("a negative size", RuntimeError, X, (-1,), 1),)),
    OpSpec("new_empty", None, _new(), function=False, check=lambda got, x, shape, dtype=None: shaped(got, shape)),
    OpSpec("new_empty_strided", None, lambda d: [S(make(d, (2,)), (2, 3), (1, 2))], function=False,
           check=lambda got, x, size, stride: shaped(got, size)),
    OpSpec("new_tensor", lambda x, data, dtype=None: np.asarray(data), lambda d: [S(make(d, (2,)), [[1, 0]]),
           S(make("float32", (2,)), [1, 0], dtype=D(d))], function=False),
    OpSpec("eye", lambda n, m=None, dtype=None: np.eye(n, m), lambda d: [S(3, dtype=D(d)), S(2, 4, dtype=D(d)),
           S(0, dtype=D(d))],
           method=False, errors=(bad("a negative size", RuntimeError, -1),)),
]

RANGES = [
    OpSpec("arange", _arange, _arange_samples, REAL, method=False, errors=(bad("a step of zero", RuntimeError, 0, 5, 0),
           bad("the wrong direction", RuntimeError, 0, 5, -1), bad("an endless range", RuntimeError, 0, np.inf),
           bad("nan", RuntimeError, np.nan), bad("too many", RuntimeError, 0, 2**62))),
    OpSpec("range", lambda start, end, step=1, dtype=None: np.arange(int((end - start) / step) + 1) * step + start,
           lambda d: [S(0, 4, dtype=D(d)), S(1, 9, 3, dtype=D(d)), S(5, 1, -2, dtype=D(d)), S(2, 2, dtype=D(d))],
           ("int64", "float32", "float64", "float16"), method=False, out=True, errors=(
           bad("a step of zero", RuntimeError, 0, 5, 0), bad("the wrong direction", RuntimeError, 0, 5, -1), bad("no end", TypeError, 3))),
    OpSpec("linspace", _linspace, _linspace_samples, FULL_FLOATS + COMPLEX + ("int64", "bfloat16"), method=False,
           errors=(bad("a negative count", RuntimeError, 0, 1, -1), bad("no count", TypeError, 0, 1))),
    OpSpec("logspace", _logspace, lambda d: [S(0, 3, 4, dtype=D(d)), S(-1, 1, 5, base=2.0, dtype=D(d))], FULL_FLOATS,
           method=False, errors=(bad("a negative count", RuntimeError, 0, 1, -1),)),
    OpSpec("tril_indices", _indices(np.tril_indices), lambda d: [S(3, 4), S(4, 3, 1), S(3, 3, -1), S(0, 2)],
           ("int64",), method=False,
           errors=(bad("a negative size", RuntimeError, -1, 2),)),
    OpSpec("triu_indices", _indices(np.triu_indices), lambda d: [S(3, 4), S(4, 3, 1), S(3, 3, -1), S(0, 2)],
           ("int64",), method=False,
           errors=(bad("a negative size", RuntimeError, -1, 2),)),
    OpSpec("vander", _vander, lambda d: [S(make(d, (4,))), S(make(d, (4,)), 3), S(make(d, (3,)), N=2, increasing=True)],
           NUMERIC, method=False, result="any", expand=False, tolerance={"float16": (2e-2, 2e-2),
           "bfloat16": (8e-2, 8e-2)},
           errors=(bad("a matrix", RuntimeError, X),)),
]

DATA = [
    OpSpec("tensor", _data, _data_samples, method=False, errors=(bad("a ragged list", ValueError, [[1], [1, 2]]),
           bad("a string", (TypeError, ValueError), "words"), bad("a dict", (TypeError, RuntimeError), {}),
           bad("None", (TypeError, RuntimeError), None))),
    OpSpec("as_tensor", _data, _data_samples, method=False),
    OpSpec("asarray", _data, _data_samples, method=False),
    OpSpec("scalar_tensor", lambda v, dtype=None: np.asarray(v), lambda d: [S(1, dtype=D(d))], method=False),
]

WINDOWS = [
    window("hann_window", _scipy_window("hann")),
    window("hamming_window", _scipy_window("hamming")),
    window("blackman_window", _scipy_window("blackman")),
    window("bartlett_window", _scipy_window("bartlett")),
    window("kaiser_window", _scipy_window(("kaiser", 12.0))),
]

FILLS = [
    OpSpec("fill_", lambda x, v: np.full(x.shape, v), lambda d: [S(make(d, (2, 3)), 1), S(make(d, ()), 0),
           S(make(d, (0,)), 1),
           S(make(d, (2,)), T(1, d))], function=False, mutates=True, expand=False, errors=(
           bad("a tensor with dimensions", RuntimeError, X, X), bad("a string", TypeError, X, "x"))),
    OpSpec("zero_", lambda x: np.zeros(x.shape), lambda d: [S(make(d, (2, 3))), S(make(d, ()))], function=False,
           mutates=True,
           expand=False),
    OpSpec("copy_", lambda x, src: np.broadcast_to(src, x.shape).astype(x.dtype),
           lambda d: [S(make(d, (2, 3)), make(d, (2, 3),
           salt=1)), S(make(d, (2, 3)), make(d, (3,), salt=1)), S(make(d, (2, 3)), make("int64", (2, 3), 0, 1))],
           function=False, mutates=True, expand=False, errors=(bad("a shape that does not fit", RuntimeError, X,
           T(np.ones(4), "float32")),)),
    OpSpec("fill_diagonal_", _fill_diagonal, lambda d: [S(make(d, (3, 3)), 1), S(make(d, (5, 2)), 1),
           S(make(d, (7, 2)), 1,
           wrap=True)], function=False, mutates=True, expand=False, errors=(bad("a vector", RuntimeError,
           T([1.0], "float32"), 1),)),
]
# fmt: on
ROWS = SIZED + RANGES + DATA + WINDOWS + FILLS
