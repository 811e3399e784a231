"""Creation functions and exchange."""

import array as python_array
import math

import numpy as np
import pytest

import flambeau as fb
from flambeau import array_api as xp

from . import standard


@pytest.mark.parametrize(
    "args",
    [
        (5,),
        (0,),
        (-3,),
        (2, 7),
        (7, 2),
        (7, 2, -2),
        (2, 7, -1),
        (0, 10, 3),
        (0, 1, 0.25),
        (1.5, 4),
        (3, 0, -0.5),
        (5, 5),
    ],
)
def test_arange(args):
    found = xp.arange(*args)
    floats = any(isinstance(a, float) for a in args)
    assert found.dtype == (xp.float32 if floats else xp.int64)
    assert found.tolist() == np.arange(*args).tolist()


def test_arange_dtypes_and_errors():
    for name in standard.DTYPES[1:]:
        assert xp.arange(3, dtype=getattr(xp, name)).tolist() == [0, 1, 2]
    assert xp.arange(2**63, 2**63 + 2, dtype=xp.uint64).tolist() == [2**63, 2**63 + 1]
    with pytest.raises(ValueError):
        xp.arange(0, 3, 0)
    with pytest.raises(TypeError):
        xp.arange(1j)
    with pytest.raises(TypeError):
        xp.arange(3, dtype="int64")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (3, "int64"), (1.5, "float32"), (1j, "complex64"), ([True, 2], "int64"), ([1, 2.5], "float32"),
     ([1, 2j], "complex64"), ([], "float32"), ([[1], [2]], "int64"), ((True, False), "bool")],
)  # fmt: skip
def test_asarray_of_scalars(value, dtype):
    x = xp.asarray(value)
    assert x.dtype == getattr(xp, dtype) and x.shape == np.shape(value)
    assert x.tolist() == np.asarray(value).tolist()
    with pytest.raises(ValueError):
        xp.asarray(value, copy=False)


def test_asarray_of_arrays():
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert xp.asarray(x, dtype=xp.float64).dtype == xp.float64
    copy = xp.asarray(x, copy=True)
    copy[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="without a copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    mixed = xp.asarray([[x[0], x[1]], [1.5, xp.asarray(2.0, dtype=xp.float64)]])
    assert mixed.dtype == xp.float64 and mixed.tolist() == [[1.0, 2.0], [1.5, 2.0]]
    assert xp.asarray(2**64 - 1, dtype=xp.uint64).tolist() == 2**64 - 1
    with pytest.raises(TypeError):
        xp.asarray("text")
    with pytest.raises((TypeError, ValueError)):
        xp.asarray([[1, 2], [3]])


@pytest.mark.parametrize(
    "make", [np.arange, lambda n: python_array.array("q", range(n)), lambda n: memoryview(np.arange(n))]
)
def test_asarray_shares_buffers(make):
    source = make(4)
    x = xp.asarray(source)
    assert x.dtype == xp.int64 and x.tolist() == [0, 1, 2, 3]
    source[0] = 7
    assert x.tolist() == [7, 1, 2, 3]
    assert xp.asarray(source, copy=True).tolist() == [7, 1, 2, 3]
    same = xp.asarray(source, copy=False)
    source[1] = 8
    assert same.tolist() == [7, 8, 2, 3]
    with pytest.raises(ValueError):
        xp.asarray(source, dtype=xp.int32, copy=False)


def test_asarray_of_numpy_scalars_keeps_their_dtype():
    assert xp.asarray(np.float64(1.5)).dtype == xp.float64
    assert xp.asarray(np.int8(3)).dtype == xp.int8


@pytest.mark.parametrize("name", standard.DTYPES)
def test_filled(name):
    dtype = getattr(xp, name)
    for make, value in ((xp.zeros, 0), (xp.ones, 1)):
        x = make((2, 3), dtype=dtype)
        assert x.dtype == dtype and x.tolist() == [[value] * 3] * 2
    assert xp.full((2,), 1, dtype=dtype).tolist() == [1, 1]
    like = xp.ones((3, 2), dtype=dtype)
    for make in (xp.zeros_like, xp.ones_like, xp.empty_like):
        assert make(like).dtype == dtype and make(like).shape == (3, 2)
        assert make(like, dtype=xp.float64).dtype == xp.float64
    assert xp.full_like(like, 0).tolist() == [[0, 0]] * 3
    assert xp.eye(2, 3, k=1, dtype=dtype).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.empty((2, 0), dtype=dtype).shape == (2, 0)


def test_full_infers_the_kind():
    for value, dtype in ((True, xp.bool), (1, xp.int64), (1.0, xp.float32), (1j, xp.complex64)):
        assert xp.full(3, value).dtype == dtype and xp.full((), value).tolist() == value
    assert xp.full(2, 2**64 - 1, dtype=xp.uint64).tolist() == [2**64 - 1] * 2
    with pytest.raises(TypeError):
        xp.full(2, "1")
    for bad in (xp.zeros, xp.ones, xp.empty):
        assert bad(3).dtype == xp.float32
        with pytest.raises(ValueError):
            bad((-1,))
        with pytest.raises(TypeError):
            bad(1.5)
        with pytest.raises(TypeError):
            bad(2, dtype=float)


@pytest.mark.parametrize("k", [-9, -1, 0, 1, 2, 9, 10**30, -(10**30)])
@pytest.mark.parametrize("shape", [(3, 4), (3, None), (0, 2), (2, 0)])
def test_eye(shape, k):
    rows, cols = shape[0], shape[0] if shape[1] is None else shape[1]
    want = [[float(j - i == k) for j in range(cols)] for i in range(rows)]
    found = xp.eye(*shape, k=k)
    assert found.tolist() == want and found.shape == (rows, cols)


def test_eye_negative():
    with pytest.raises(ValueError):
        xp.eye(-1)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (5.0, -3.0), (1, 1), (1j, 2 + 3j)])
def test_linspace(start, stop, num, endpoint):
    dtype = xp.complex128 if isinstance(start, complex) else xp.float64
    found = xp.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    np.testing.assert_allclose(np.asarray(found), np.linspace(start, stop, num, endpoint=endpoint), atol=1e-15)
    default = xp.linspace(start, stop, num, endpoint=endpoint).dtype
    assert default == (xp.complex64 if isinstance(start, complex) else xp.float32)


def test_linspace_errors():
    with pytest.raises(ValueError):
        xp.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        xp.linspace(0, 1, 2.5)


def test_meshgrid():
    a, b = xp.arange(2), xp.arange(3)
    for indexing in ("xy", "ij"):
        found = xp.meshgrid(a, b, indexing=indexing)
        want = np.meshgrid(np.arange(2), np.arange(3), indexing=indexing)
        assert isinstance(found, tuple) and [f.tolist() for f in found] == [w.tolist() for w in want]
    assert xp.meshgrid() == ()
    assert xp.meshgrid(a)[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(a, b, indexing="yx")
    with pytest.raises(ValueError, match="dtype"):
        xp.meshgrid(a, xp.ones(2))
    with pytest.raises(ValueError, match="one-dimensional"):
        xp.meshgrid(xp.ones((2, 2)))


@pytest.mark.parametrize("name", standard.DTYPES)
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles(name, k):
    x = xp.ones((2, 3, 4), dtype=getattr(xp, name))
    assert xp.tril(x, k=k).tolist() == np.tril(np.ones((2, 3, 4)), k).astype(name).tolist()
    assert xp.triu(x, k=k).tolist() == np.triu(np.ones((2, 3, 4)), k).astype(name).tolist()
    with pytest.raises(ValueError):
        xp.tril(xp.ones(3))


def test_from_dlpack():
    source = np.arange(3.0)
    x = xp.from_dlpack(source)
    source[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 2.0] and x.dtype == xp.float64
    copy = xp.from_dlpack(source, copy=True)
    source[1] = 6.0
    assert copy.tolist() == [5.0, 1.0, 2.0]
    again = xp.from_dlpack(x, copy=False, device=x.device)
    assert again.data_ptr() == x.data_ptr()
    assert np.from_dlpack(x).tolist() == x.tolist()
    with pytest.raises(AttributeError):
        xp.from_dlpack([1, 2])


def test_devices():
    cpu = fb.device("cpu")
    for x in (
        xp.asarray([1], device=cpu),
        xp.zeros(2, device=cpu),
        xp.arange(2, device=cpu),
        xp.linspace(0, 1, 2, device=cpu),
    ):
        assert x.device == cpu
    with pytest.raises((RuntimeError, ValueError)):
        xp.zeros(2, device="no such device")
    assert math.isnan(float(xp.full((), math.nan)))
