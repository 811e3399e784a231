"""DLPack in both directions: NumPy, tvm_ffi, hand-made capsules, lifetimes."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import flambeau as fb

NUMPY_DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
)


@pytest.fixture
def no_leak():
    """Bytes alive after the test are those before it."""
    gc.collect()
    before = fb.memory_allocated()
    yield
    gc.collect()
    assert fb.memory_allocated() == before


# ---- NumPy -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 1)], ids=str)
def test_numpy_both_ways(shape, dtype, no_leak):
    a = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    t = fb.from_dlpack(a)
    assert t.dtype is getattr(fb, dtype) and tuple(t.shape) == shape
    np.testing.assert_array_equal(t.numpy(), a)
    back = np.from_dlpack(t)
    assert back.dtype == a.dtype and back.shape == shape
    np.testing.assert_array_equal(back, a)
    if a.size:
        t.fill_(1)
        assert a.all() and back.all()


def test_strides_both_ways():
    a = np.arange(12.0).reshape(3, 4)
    for view in (a[::-1], a[:, ::-2], a.T, a[1:, 1]):
        np.testing.assert_array_equal(fb.from_dlpack(view).numpy(), view)
        np.testing.assert_array_equal(np.from_dlpack(fb.from_dlpack(view)), view)
    t = fb.arange(5)[::-1]
    assert np.from_dlpack(t).tolist() == [4, 3, 2, 1, 0] and np.from_dlpack(t).strides == (-8,)


def test_read_only_is_kept():
    a = np.arange(3)
    a.flags.writeable = False
    t = fb.from_dlpack(a)
    with pytest.raises(ValueError, match="read-only"):
        t.add_(1)
    assert not np.from_dlpack(t).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    with pytest.raises(BufferError, match="read-only"):
        fb.to_dlpack(t)
    copy = fb.from_dlpack(t.__dlpack__(copy=True))
    copy.add_(1)
    assert copy.tolist() == [1, 2, 3] and a.tolist() == [0, 1, 2]


def test_copy_argument():
    a = np.zeros(3)
    assert not np.shares_memory(fb.from_dlpack(a, copy=True).numpy(), a)
    assert np.shares_memory(fb.from_dlpack(a, copy=False).numpy(), a)
    t = fb.zeros(3)
    assert not np.shares_memory(np.from_dlpack(t, copy=True), t.numpy())
    assert np.shares_memory(np.from_dlpack(t, copy=False), t.numpy())
    shared = fb.from_dlpack(t)
    assert shared is not t and shared.data_ptr() == t.data_ptr()
    assert fb.from_dlpack(fb.to_dlpack(t), copy=True).data_ptr() != t.data_ptr()


def test_device_and_stream_arguments():
    t = fb.ones(2)
    assert t.__dlpack_device__() == (1, 0)
    assert fb.from_dlpack(np.ones(2), device="cpu").tolist() == [1, 1]
    assert np.from_dlpack(t, device="cpu").tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="device 'cuda'"):
        fb.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises(BufferError, match="dl_device"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream"):
        t.__dlpack__(stream=3)
    with pytest.raises(TypeError, match="stream"):
        t.__dlpack__(stream="main")


def test_capsule_names_and_single_use():
    t = fb.arange(3)
    for kwargs, name in (
        ({}, "dltensor"),
        ({"max_version": (0, 8)}, "dltensor"),
        ({"max_version": (1, 0)}, "dltensor_versioned"),
    ):
        capsule = t.__dlpack__(**kwargs)
        assert f'"{name}"' in repr(capsule)
        assert fb.from_dlpack(capsule).tolist() == [0, 1, 2]
        assert f'"used_{name}"' in repr(capsule)
        with pytest.raises(ValueError, match="consumed already"):
            fb.from_dlpack(capsule)
    with pytest.raises(TypeError, match="__dlpack__"):
        fb.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="expected a tensor"):
        fb.to_dlpack(np.ones(2))


def test_unused_capsules_free_their_memory(no_leak):
    t = fb.zeros(1000)
    capsules = [t.__dlpack__(), t.__dlpack__(max_version=(1, 0)), t.__dlpack__(copy=True)]
    del t
    assert len(capsules) == 3


def test_memory_outlives_either_side(no_leak):
    t = fb.arange(1000)
    a = np.from_dlpack(t[5:8])
    del t
    assert a.tolist() == [5, 6, 7]
    u = fb.from_dlpack(a)
    del a
    gc.collect()
    assert u.tolist() == [5, 6, 7]


# ---- another library --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES, "bfloat16"])
def test_tvm_ffi_both_ways(dtype, no_leak):
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="needs the package apache-tvm-ffi (extra [test])")
    if dtype.startswith("complex"):
        pytest.skip("tvm_ffi knows no complex dtypes")
    t = fb.arange(6).to(getattr(fb, dtype)).view(2, 3)
    there = tvm_ffi.from_dlpack(t)
    assert tuple(there.shape) == (2, 3) and str(there.dtype) == dtype
    back = fb.from_dlpack(there)
    assert back.dtype is t.dtype and back.tolist() == t.tolist()
    t.zero_()
    assert not back.any()
    del t, there
    assert back.tolist() == [[0, 0, 0], [0, 0, 0]]
    del back


# ---- capsules made by hand ----------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", DELETER),
        ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    ]  # fmt: skip


class Producer:
    """Four float32 numbers behind a capsule whose every field a test can spoil; counts deleter calls."""

    def __init__(self, versioned=False, shape=(4,), strides=None, **fields):
        self.deleted = 0
        self.memory = (ctypes.c_float * 4)(0, 1, 2, 3)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = Versioned(major=1, minor=0) if versioned else Legacy()
        self.managed.deleter = DELETER(self._delete)
        t = self.managed.tensor
        t.data, t.device_type, t.ndim, t.code, t.bits, t.lanes = ctypes.addressof(self.memory), 1, len(shape), 2, 32, 1
        t.shape, t.strides = self.shape, self.strides
        for name, value in fields.items():
            setattr(t if hasattr(t, name) else self.managed, name, value)
        self.name = ctypes.c_char_p(b"dltensor_versioned" if versioned else b"dltensor")

    def _delete(self, pointer):
        assert pointer == ctypes.addressof(self.managed)
        self.deleted += 1

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("versioned", [False, True])
def test_deleter_runs_once(versioned):
    p = Producer(versioned)
    capsule = p.capsule()
    t = fb.from_dlpack(capsule)
    part = t[1:]
    assert t.tolist() == [0, 1, 2, 3]
    del t, capsule
    assert p.deleted == 0 and part.tolist() == [1, 2, 3]
    del part
    assert p.deleted == 1


@pytest.mark.parametrize(
    "fields, error, text",
    [
        ({"code": 3}, BufferError, "opaque"),
        ({"code": 9}, BufferError, "type code 9"),
        ({"bits": 8}, BufferError, "float of 8 bits"),
        ({"lanes": 4}, BufferError, "4 lanes"),
        ({"device_type": 2}, BufferError, "DLPack type 2"),
        ({"ndim": -1}, BufferError, "-1 dimensions"),
        ({"ndim": 100}, BufferError, "100 dimensions"),
        ({"data": None}, ValueError, "null"),
        ({"byte_offset": 1}, ValueError, "aligned"),
        ({"shape": (-4,)}, BufferError, "negative size"),
        ({"shape": (2**40, 2**40)}, ValueError, "shape|large|overflow"),
        ({"strides": (2**62,)}, ValueError, "overflow|extent"),
        ({"versioned": True, "major": 2}, BufferError, "version 2"),
    ],
    ids=str,
)
def test_bad_capsules_are_refused_and_freed_once(fields, error, text):
    p = Producer(**fields)
    with pytest.raises(error, match=text):
        fb.from_dlpack(p.capsule())
    assert p.deleted == 1


def test_fields_of_capsules():
    assert fb.from_dlpack(Producer(byte_offset=4, shape=(3,)).capsule()).tolist() == [1, 2, 3]
    p = Producer(shape=(2, 2), strides=(1, 2))
    assert fb.from_dlpack(p.capsule()).tolist() == [[0, 2], [1, 3]]
    q = Producer(shape=(2,), strides=(-1,), byte_offset=8)
    assert fb.from_dlpack(q.capsule()).tolist() == [2, 1]
    r = Producer(True, flags=1)
    with pytest.raises(ValueError, match="read-only"):
        fb.from_dlpack(r.capsule()).zero_()
    s = Producer(shape=(0, 2), data=None)
    assert tuple(fb.from_dlpack(s.capsule()).shape) == (0, 2)
    n = Producer(deleter=DELETER())
    assert fb.from_dlpack(n.capsule()).sum() == 6
    bools = Producer(code=6, bits=8)
    assert fb.from_dlpack(bools.capsule()).dtype is fb.bool


def test_producers_from_before_version_one():
    class Old:
        def __init__(self):
            self.array = np.arange(3.0)

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    old = Old()
    assert np.shares_memory(fb.from_dlpack(old).numpy(), old.array)
    assert not np.shares_memory(fb.from_dlpack(old, copy=True).numpy(), old.array)

    class Elsewhere(Old):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="DLPack type 2"):
        fb.from_dlpack(Elsewhere())


def test_tensors_that_require_gradients_are_not_exported():
    x = fb.zeros(2, requires_grad=True)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        x.__dlpack__()
    assert fb.from_dlpack(x.detach()).shape == (2,)


def test_strides_of_single_elements_survive():
    assert fb.from_dlpack(fb.zeros(16)[::3][:1]).stride() == (3,)


def test_tensor_reads_a_producer_at_once():
    class Producer:
        def __init__(self, t):
            self.t = t

        def __dlpack__(self, **options):
            return self.t.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.t.__dlpack_device__()

    x = fb.arange(3.0)
    y = fb.tensor(Producer(x), dtype=fb.int64)
    assert y.tolist() == [0, 1, 2] and y.dtype == fb.int64
    z = fb.tensor(Producer(x))
    z.zero_()
    assert x.tolist() == [0, 1, 2]


def test_kinds_of_devices_are_named():
    kinds = fb.utils.dlpack.DLDeviceType
    assert fb.zeros(1).__dlpack_device__() == (kinds.kDLCPU, 0) and kinds.kDLHexagon == 16
    with pytest.raises(BufferError, match="Unsupported device_type: 16"):
        fb.zeros(1).__dlpack__(dl_device=(kinds.kDLHexagon, 0))
