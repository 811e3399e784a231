"""Memory shared with other libraries: NumPy, the buffer protocol, DLPack, matplotlib."""

from __future__ import annotations

import array
import gc
import io
import operator
import weakref

import numpy as np
import pytest

import flambeau as fb

NUMPY_DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
)
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 1), (2, 3, 4)]


def values(shape, dtype):
    n = int(np.prod(shape))
    a = np.arange(n).reshape(shape)
    return np.asarray(a % 2 == 0) if dtype == "bool" else a.astype(dtype)


@pytest.fixture
def no_leak():
    """No more bytes are alive after the test than before it."""
    gc.collect()
    before = fb.memory_allocated()
    yield
    gc.collect()
    assert fb.memory_allocated() <= before


# ---- NumPy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numpy_both_ways_shares_memory(shape, dtype):
    a = values(shape, dtype)
    t = fb.from_numpy(a)
    assert t.dtype is getattr(fb, dtype) and tuple(t.shape) == shape
    back = t.numpy()
    assert back.dtype == a.dtype and back.shape == shape
    np.testing.assert_array_equal(back, a)
    if a.size:
        a[...] = 0
        assert not back.any() and not t.any()
        t.fill_(1)
        assert a.all()


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, ::-2], np.s_[1:, 1], np.s_[::2, 1:3]], ids=str)
def test_strides_come_across_both_ways(view):
    a = np.arange(12.0).reshape(3, 4)
    t = fb.from_numpy(a[view])
    np.testing.assert_array_equal(t.numpy(), a[view])
    assert t.numpy().strides == a[view].strides
    t.mul_(10)
    assert a[view].max() == t.max().item() >= 10
    ours = fb.arange(12.0).view(3, 4)
    np.testing.assert_array_equal(ours[view].numpy(), np.arange(12.0).reshape(3, 4)[view])
    ours[view].numpy()[...] = -1
    assert (ours[view] == -1).all()


def test_transposed_and_broadcast_arrays():
    a = np.arange(6).reshape(2, 3)
    assert fb.from_numpy(a.T).stride() == (1, 3)
    b = fb.from_numpy(np.broadcast_to(np.arange(3), (2, 3)))
    assert b.stride() == (0, 1) and b.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_read_only_arrays_stay_protected():
    a = np.arange(4.0)
    a.flags.writeable = False
    t = fb.from_numpy(a)
    for write in (
        lambda: t.add_(1),
        lambda: t[1:].mul_(2),
        lambda: t.__setitem__(0, 5),
        lambda: t.view(2, 2).fill_(0),
        lambda: fb.add(fb.ones(4, dtype=fb.float64), 1, out=t),
        lambda: t.copy_(fb.zeros(4)),
        lambda: t.index_fill_(0, fb.tensor([0]), 3),
        lambda: t.zero_(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert a.tolist() == [0, 1, 2, 3]
    assert not t.numpy().flags.writeable and not t[::2].numpy().flags.writeable
    assert memoryview(t).readonly
    assert (t + 1).tolist() == [1, 2, 3, 4]
    fresh = t.clone()
    fresh.add_(1)
    assert fresh[0] == 1


def test_bfloat16_through_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1.5, -2], dtype=ml_dtypes.bfloat16)
    t = fb.from_numpy(a)
    assert t.dtype is fb.bfloat16 and t.tolist() == [1.5, -2]
    assert t.numpy().dtype == ml_dtypes.bfloat16
    t.fill_(3)
    assert a[0] == 3
    assert np.asarray(t).dtype == np.float32
    assert np.asarray(t, dtype=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, copy=False)


@pytest.mark.parametrize(
    "bad", [np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(2, ">f4"), np.zeros(2, "f4,i4")], ids=str
)
def test_other_numpy_dtypes_are_refused(bad):
    with pytest.raises(TypeError, match="from_numpy: can't convert"):
        fb.from_numpy(bad)
    with pytest.raises(TypeError, match="expected a numpy.ndarray"):
        fb.from_numpy([1, 2])


def test_arrays_that_cannot_be_shared_are_copied_by_tensor_and_refused_by_from_numpy():
    big = np.arange(3, dtype=">i4")
    assert fb.tensor(big).tolist() == [0, 1, 2] and fb.asarray(big).dtype is fb.int32
    odd = np.zeros(3, dtype=[("a", "i1"), ("b", "<f4")])["b"]
    with pytest.raises(ValueError, match="multiple of the item size"):
        fb.from_numpy(odd)
    crooked = np.frombuffer(bytearray(9), dtype=np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="not aligned"):
        fb.from_numpy(crooked)
    assert fb.tensor(odd).tolist() == [0, 0, 0] and fb.as_tensor(crooked).tolist() == [0, 0]


def test_memory_outlives_either_side(no_leak):
    a = np.arange(1000.0)
    gone = weakref.ref(a)
    t = fb.from_numpy(a)[10:20]
    del a
    gc.collect()
    assert gone() is not None and t.sum() == 145
    del t
    assert gone() is None
    u = fb.arange(1000.0)
    b = u[10:20].numpy()
    del u
    assert b.sum() == 145
    held = fb.memory_allocated()
    del b
    assert fb.memory_allocated() < held


def test_lent_memory_does_not_move():
    t = fb.zeros(4)
    a = t.numpy()
    with pytest.raises(RuntimeError, match="shared with another library"):
        t.resize_(1000)
    t.data = fb.ones(2)
    assert a.tolist() == [0, 0, 0, 0]
    for share in (memoryview, np.asarray, lambda x: x.__dlpack__(), lambda x: x.__array_interface__):
        t = fb.zeros(4)
        keep = share(t)
        with pytest.raises(RuntimeError, match="shared with another library"):
            t.resize_(1000)
        assert keep is not None
    assert fb.zeros(4).resize_(1000).numel() == 1000


def test_memory_given_back_may_move_again():
    t = fb.arange(4.0)
    assert "3." in str(t)  # printing reads through NumPy
    assert t.resize_(1000).numel() == 1000
    view = memoryview(t)
    array = t.numpy()
    view.release()
    with pytest.raises(RuntimeError, match="shared with another library"):
        t.resize_(100_000)
    half = array[:2]
    del array
    with pytest.raises(RuntimeError, match="shared with another library"):
        t.resize_(100_000)
    del half
    assert t.resize_(100_000)[:4].tolist() == [0, 1, 2, 3]
    fb.fft.fft(t)
    assert t.resize_(200_000)[3] == 3


def test_asarray_copy_and_dtype():
    t = fb.arange(3)
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.shares_memory(np.asarray(t, copy=False), t.numpy())
    assert not np.shares_memory(np.array(t, copy=True), t.numpy())
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)
    assert np.asarray(t).dtype.char == np.dtype(np.int64).char
    assert np.asarray(fb.tensor(2.5)).shape == () and float(np.asarray(fb.tensor(2.5))) == 2.5


@pytest.mark.parametrize("copy", [None, True])
def test_asarray_keeps_the_history_of_a_tensor_unless_told_not_to(copy):
    x = fb.ones(3, requires_grad=True)
    assert fb.asarray(x * 2, copy=copy).grad_fn is not None
    assert fb.asarray(x * 2, copy=copy, requires_grad=True).grad_fn is not None
    plain = fb.asarray(x * 2, copy=copy, requires_grad=False)
    assert plain.grad_fn is None and not plain.requires_grad
    assert not fb.asarray([1.0]).requires_grad and fb.asarray([1.0], requires_grad=True).requires_grad


def test_asarray_takes_capsules():
    t = fb.arange(3)
    shared = fb.asarray(t.__dlpack__(), copy=False)
    shared[0] = 7
    assert t.tolist() == [7, 1, 2]
    assert fb.asarray(fb.to_dlpack(t), copy=True).data_ptr() != t.data_ptr()


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow eq lt ge".split())
def test_operators_between_arrays_and_tensors_give_tensors(name):
    f = getattr(operator, name)
    a, b = np.array([3.0, 4.0]), np.array([2.0, 4.0])
    for result in (f(a, fb.from_numpy(b)), f(fb.from_numpy(a), b)):
        assert type(result) is fb.Tensor
        np.testing.assert_array_equal(result.numpy(), f(a, b))


def test_operators_with_numpy_scalars_keep_the_tensor_dtype():
    t = fb.ones(2)
    for scalar in (np.float32(2), np.float64(2), np.int64(2), np.int8(2)):
        for result in (t * scalar, scalar * t, scalar + t, t - scalar):
            assert type(result) is fb.Tensor and result.dtype is fb.float32
    m = np.eye(2) @ fb.ones(2, 2, dtype=fb.float64)
    assert type(m) is fb.Tensor and m.tolist() == [[1, 1], [1, 1]]


def test_numpy_functions_take_tensors():
    """As in PyTorch: a function of NumPy's own gives arrays, a ufunc tensors, one that calls a method what the method gives."""
    a = np.arange(6.0).reshape(2, 3)
    t = fb.from_numpy(a.copy())
    of_numpy = [
        np.median, np.linalg.norm, np.sort, np.unique, np.copy, np.zeros_like, np.diff, np.ravel,
        lambda x: np.concatenate([x, a]), lambda x: np.concatenate([x, x]).astype("int32"), lambda x: np.stack([x, x]),
        lambda x: np.where(x > 2, x, 0), lambda x: np.percentile(x, 30), lambda x: np.dot(x, a.T),
        lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.histogram(x, bins=3), lambda x: np.roll(x, 1),
    ]  # fmt: skip
    ufuncs = [np.sin, np.sqrt, np.isnan, np.abs, lambda x: np.add(x, a), lambda x: np.maximum(x, 2), lambda x: np.less(a, x)]
    methods = [np.sum, np.mean, np.argmax, np.cumsum, np.transpose, np.round, lambda x: np.clip(x, 1, 2)]
    for f in of_numpy + ufuncs + methods:
        want, got = f(a), f(t)
        if not isinstance(want, (tuple, list)):
            want, got = [want], [got]
        assert len(want) == len(got)
        for w, g in zip(want, got, strict=True):
            assert isinstance(g, (np.ndarray, np.generic) if f in of_numpy else fb.Tensor)
            np.testing.assert_allclose(np.asarray(g), w)
    assert np.allclose(t, a) is True and np.array_equal(t, a) and np.shape(t) == (2, 3) and np.ndim(t) == 2
    out = fb.zeros(3, dtype=fb.float64)
    assert np.sum(t, axis=0, out=out) is out and out.tolist() == [3, 5, 7]
    with io.BytesIO() as file:
        np.save(file, out)
        file.seek(0)
        assert np.load(file).tolist() == [3, 5, 7]


def test_matplotlib_draws_tensors():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3)
    x = fb.linspace(0, 1, 20)
    axes[0, 0].plot(x, x.square(), label="square")
    axes[0, 1].imshow(fb.rand(4, 5))
    axes[0, 2].hist(fb.randn(100), bins=10)
    axes[1, 0].scatter(x, x, c=x, s=x * 10)
    axes[1, 1].bar(fb.arange(3), fb.tensor([1.0, 2.0, 3.0]))
    axes[1, 2].contourf(fb.rand(5, 5))
    with io.BytesIO() as file:
        figure.savefig(file, format="png")
        assert file.tell() > 1000
    line = axes[0, 0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), x.square().numpy())
    plt.close(figure)


# ---- buffer protocol -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_memoryview_of_every_dtype(dtype, no_leak):
    a = values((2, 3), dtype)
    t = fb.tensor(a)
    m = memoryview(t)
    assert m.shape == (2, 3) and m.itemsize == a.itemsize and m.strides == a.strides and not m.readonly
    assert m.tobytes() == a.tobytes() == bytes(t)
    assert np.asarray(m).dtype == a.dtype
    np.testing.assert_array_equal(np.frombuffer(t, dtype=a.dtype), a.ravel())
    if not dtype.startswith("complex") and dtype != "float16":
        assert m.tolist() == a.tolist()


def test_buffer_shapes_and_strides():
    t = fb.arange(12).view(3, 4)
    back = memoryview(t[:, ::-1])
    assert back.strides == (32, -8) and back.tolist() == [[3, 2, 1, 0], [7, 6, 5, 4], [11, 10, 9, 8]]
    assert memoryview(t.t()).f_contiguous
    with pytest.raises(BufferError, match="contiguous"):
        np.frombuffer(t[:, ::2])
    assert memoryview(fb.tensor(7)).tolist() == 7
    assert memoryview(fb.empty(0, 3)).tolist() == [] and bytes(fb.empty(0)) == b""
    assert bytes(fb.tensor(3, dtype=fb.uint8)) == b"\x03" and bytes(fb.arange(3)[::-1].to(fb.uint8)) == b"\x02\x01\x00"
    assert array.array("q", memoryview(fb.arange(3)).cast("B").cast("q")).tolist() == [0, 1, 2]


def test_buffer_writes_reach_the_tensor_and_read_only_is_kept():
    t = fb.zeros(3, dtype=fb.uint8)
    m = memoryview(t)
    m[1] = 9
    assert t.tolist() == [0, 9, 0]
    assert io.BytesIO(b"abc").readinto(t) == 3 and t.tolist() == [97, 98, 99]
    r = fb.frombuffer(b"abc", dtype=fb.uint8)
    assert memoryview(r).readonly
    with pytest.raises((BufferError, TypeError), match="read-only|read-write"):
        io.BytesIO(b"xyz").readinto(r)


def test_bfloat16_has_no_buffer_but_a_way_out():
    t = fb.ones(2, dtype=fb.bfloat16)
    with pytest.raises(BufferError, match=r"view\(fb.uint16\)"):
        memoryview(t)
    assert bytes(t) == b"\x80\x3f\x80\x3f" == bytes(memoryview(t.view(fb.uint16)))


def test_a_memoryview_keeps_the_memory(no_leak):
    t = fb.arange(100)
    m = memoryview(t)
    del t
    assert m[99] == 99
    held = fb.memory_allocated()
    m.release()
    del m
    assert fb.memory_allocated() < held


def test_frombuffer():
    data = bytearray(range(8))
    t = fb.frombuffer(data, dtype=fb.uint8)
    t[0] = 255
    assert data[0] == 255
    assert fb.frombuffer(data, dtype=fb.int16, offset=2, count=2).tolist() == [0x0302, 0x0504]
    assert fb.frombuffer(array.array("d", [1, 2]), dtype=fb.float64).tolist() == [1, 2]
    assert fb.frombuffer(fb.arange(3), dtype=fb.int64).tolist() == [0, 1, 2]
    for kwargs, text in (
        ({"dtype": fb.int64, "offset": 1, "count": 1}, "requested buffer length .1 . 8 bytes. after offset .1 bytes. must fit"),
        ({"dtype": fb.int32, "offset": 1}, "buffer length .7 bytes. after offset .1 bytes. must be a multiple of 4"),
        ({"dtype": fb.int16, "offset": 1, "count": 1}, "not aligned"),
        ({"dtype": fb.int16, "offset": 9}, "offset .9 bytes. must be"),
        ({"dtype": fb.int16, "offset": -1}, "offset .-1 bytes. must be"),
        ({"dtype": fb.int16, "count": 0}, "both buffer length .8. and count .0. must not be 0"),
    ):
        with pytest.raises(ValueError, match=text):
            fb.frombuffer(data, **kwargs)
    with pytest.raises(ValueError, match="must not be 0"):
        fb.frombuffer(b"", dtype=fb.uint8)
    with pytest.raises(ValueError, match="object does not implement Python buffer protocol"):
        fb.frombuffer(5, dtype=fb.uint8)
    with pytest.raises(TypeError, match="dtype must be"):
        fb.frombuffer(data, dtype="int16")
    with pytest.raises(ValueError, match="read-only"):
        fb.frombuffer(b"ab", dtype=fb.uint8).zero_()
    with pytest.raises(BufferError):
        data.append(1)


def test_files_as_memory(tmp_path):
    name = str(tmp_path / "numbers")
    shared = fb.from_file(name, shared=True, size=6, dtype=fb.int32)
    assert shared.tolist() == [0] * 6
    shared.copy_(fb.arange(6))
    again = fb.from_file(name, shared=True, size=4, dtype=fb.int32)
    again[0] = 7
    assert shared[0].item() == 7
    own = fb.from_file(name, size=3, dtype=fb.int32)
    own.add_(100)
    assert own.tolist() == [107, 101, 102]
    assert shared.tolist() == [7, 1, 2, 3, 4, 5]
    assert np.fromfile(name, np.int32).tolist() == shared.tolist()
    assert fb.from_file(name, size=2, dtype=fb.bfloat16).shape == (2,)
    assert fb.from_file(name).shape == (0,)
    assert fb.from_file(name, size=2, requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="24 bytes, fewer than the 28 that 7 elements"):
        fb.from_file(name, size=7)
    with pytest.raises(ValueError, match="size must be"):
        fb.from_file(name, size=-1)
    with pytest.raises(FileNotFoundError):
        fb.from_file(str(tmp_path / "none"), size=1)


@pytest.mark.parametrize("use", [np.asarray, np.array, np.exp, memoryview, lambda x: np.concatenate([x, x]), lambda x: x.numpy()])
def test_numpy_does_not_take_tensors_that_require_gradients(use):
    x = fb.ones(3, requires_grad=True)
    with pytest.raises((RuntimeError, BufferError), match="requires grad"):
        use(x)
    with fb.no_grad():
        assert np.allclose(use(x), use(x.detach()))
    assert np.asarray(x.numpy(force=True)).tolist() == [1, 1, 1]
