"""Storages, set_() on them, and swap_tensors()."""

import copy
import gc
import weakref

import numpy as np
import pytest

import flambeau as fb


def test_bytes_and_elements():
    x = fb.tensor([1.0, 2.0, 3.0])
    s, u = x[1:].storage(), x.untyped_storage()
    assert s.tolist() == [1, 2, 3] == list(s) and len(s) == s.size() == 3 and s.nbytes() == u.nbytes() == len(u) == 12
    assert s.dtype is fb.float32 and s.element_size() == 4 and u.element_size() == 1 and s.untyped() == u == u.untyped()
    assert fb.is_storage(s) and fb.is_storage(u) and not fb.is_storage(x) and not u.is_cuda and u.cpu() is u
    s[1] = 7
    u[8:12] = [0, 0, 0, 0]
    assert x.tolist() == [1, 7, 0] and s[1] == 7 and s[-1] == 0 and s[:2].tolist() == [1, 7]
    assert u[3] == 63 and u[2:4].tolist() == [128, 63] and u.data_ptr() == s.data_ptr() == x.data_ptr()


def test_copies_have_memory_of_their_own():
    x = fb.tensor([1, 2, 3])
    for s in (x.storage(), x.untyped_storage()):
        assert s.clone().fill_(0).tolist() == [0] * len(s) and x.tolist() == [1, 2, 3] and s.clone() != s
    assert x.storage().float().tolist() == [1.0, 2.0, 3.0] and x.storage().to(fb.int8).nbytes() == 3
    x.storage().copy_(fb.tensor([4.0, 5.0, 6.0]).storage())
    assert x.tolist() == [4, 5, 6]
    with pytest.raises(ValueError, match="copy_: a storage of 1 elements"):
        x.storage().copy_(fb.ones(1).storage())


def test_storages_of_their_own():
    assert fb.UntypedStorage(5).nbytes() == 5 and fb.UntypedStorage().nbytes() == 0
    assert fb.UntypedStorage(b"ab").tolist() == [97, 98]
    for wrong in ("ab", True, 1.5, None):
        with pytest.raises(TypeError, match="UntypedStorage: expected"):
            fb.UntypedStorage(wrong)
    with pytest.raises(TypeError, match="wrap_storage"):
        fb.TypedStorage(wrap_storage=[1], dtype=fb.int8)


def test_set_to_a_storage():
    base = fb.arange(6.0)
    x = fb.zeros(1).set_(base.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]] and x.data_ptr() == base.data_ptr() + 4
    assert fb.zeros(1).set_(base.storage()).tolist() == base.tolist()
    assert fb.zeros(1).set_(base, 2, (3,)).tolist() == [2, 3, 4] and fb.ones(3).set_().shape == (0,)
    assert fb.zeros(1).set_(base).shape == (6,)
    with pytest.raises(RuntimeError):
        fb.zeros(1).set_(base.storage(), 4, (3,))


def test_swap_tensors():
    a, b = fb.zeros(2), fb.nn.Parameter(fb.ones(3))
    b.sum().backward()
    b.note = "mine"
    grad, first, second = b.grad, id(a), id(b)
    fb.utils.swap_tensors(a, b)
    assert (id(a), id(b)) == (first, second) and isinstance(a, fb.nn.Parameter) and type(b) is fb.Tensor
    assert a.requires_grad and not b.requires_grad and a.grad is grad and b.grad is None and a.note == "mine" and not hasattr(b, "note")
    assert a.tolist() == [1, 1, 1] and b.tolist() == [0, 0]
    c, d = a * 2, fb.zeros(2)
    fb.utils.swap_tensors(c, d)
    assert d.grad_fn is not None and d.tolist() == [2, 2, 2] and c.is_leaf and not c.requires_grad


def test_swap_tensors_exchanges_what_the_core_holds():
    a, b = fb.zeros(2), fb.ones(3)
    first, second = a._cdata, b._cdata
    fb.utils.swap_tensors(a, b)
    assert (a._cdata, b._cdata) == (second, first)
    fb.utils.swap_tensors(a, a)
    assert a._cdata == second
    module = fb.nn.Linear(2, 2)
    module(fb.ones(1, 2)).sum().backward()
    p, grad = module.weight, module.weight.grad
    before, before_grad = p._cdata, grad._cdata
    fb.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.double()
        assert module.weight is p and p.grad is grad and p._cdata != before and grad._cdata != before_grad
        assert p.dtype is grad.dtype is fb.float64
        before, before_grad = p._cdata, grad._cdata
        module.double()
        assert p._cdata != before and grad._cdata == before_grad  # nothing to convert in the gradient
    finally:
        fb.__future__.set_swap_module_params_on_conversion(False)


def test_swap_tensors_refuses_shared_tensors():
    class Slotted(fb.Tensor):
        __slots__ = ("unit",)

    a, b = fb.ones(2, requires_grad=True), fb.zeros(2, requires_grad=True)
    weak = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        fb.utils.swap_tensors(a, b)
    del weak
    saved = a * a
    with pytest.raises(RuntimeError, match="Expected use_count of t2 to be 1 or 2"):
        fb.utils.swap_tensors(b, a)
    del saved
    view = a[:1]
    with pytest.raises(RuntimeError, match="Expected use_count of t1"):
        fb.utils.swap_tensors(a, b)
    del view
    with pytest.raises(RuntimeError, match="different slots"):
        fb.utils.swap_tensors(a, fb.ones(2).as_subclass(Slotted))
    c, d = fb.ones(2).as_subclass(Slotted), fb.zeros(2).as_subclass(Slotted)
    c.unit = "m"
    fb.utils.swap_tensors(c, d)
    assert d.unit == "m" and not hasattr(c, "unit")
    y = (a * 2).sum()
    fb.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        y.backward()
    assert a.grad is None and b.grad is None
    (a * 3).sum().backward()
    assert a.tolist() == [0, 0] and a.grad.tolist() == [3, 3]


def test_classes_by_dtype():
    s = fb.FloatStorage([1, 2, 3])
    assert s.tolist() == [1.0, 2.0, 3.0] and s.dtype is fb.float32 and s.type() == "flambeau.FloatStorage" and len(fb.LongStorage(4)) == 4
    assert isinstance(fb.ones(2).storage(), fb.FloatStorage) and not isinstance(fb.ones(2).storage(), fb.LongStorage)
    assert isinstance(s, fb.FloatStorage) and isinstance(s, fb.TypedStorage) and fb.is_storage(s)
    wrapped = fb.IntStorage(wrap_storage=fb.tensor([1, 0], dtype=fb.int32).untyped_storage())
    assert wrapped.tolist() == [1, 0] and wrapped.complex_float().tolist() == [1, 0] and wrapped.float8_e5m2().element_size() == 1
    assert fb.TypedStorage(2, dtype=fb.float8_e4m3fn).size() == 2 and fb.TypedStorage([True], dtype=fb.bool).tolist() == [True]
    assert fb.zeros(1).set_(s).tolist() == [1, 2, 3] and s.type("torch.IntStorage").tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Too many positional arguments"):
        fb.FloatStorage(1, 2)
    with pytest.raises(TypeError, match="Argument type not recognized: str"):
        fb.FloatStorage("ab")
    with pytest.raises(RuntimeError, match="No positional arguments should be given when using 'wrap_storage'"):
        fb.TypedStorage(1, wrap_storage=fb.UntypedStorage(4), dtype=fb.int32)


def test_storages_grow_and_do_not_shrink():
    x = fb.tensor([1.0, 2.0])
    s = x.storage()
    assert s.resize_(4) is s and x.untyped_storage().nbytes() == 16 and s.tolist()[:2] == [1.0, 2.0] and x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="resize_: a storage of 4 elements cannot shrink to 0"):
        s.resize_(0)
    assert s.new().size() == 0 and s.get_device() == -1 and s.resizable() and not s.is_pinned()


def test_storages_are_copied_and_pickled(tmp_path):
    import pickle

    s = fb.tensor([1, 2]).storage()
    for other in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert other.tolist() == [1, 2] and other.dtype is fb.int64 and other.data_ptr() != s.data_ptr()
    assert pickle.loads(pickle.dumps(s.untyped())).tolist()[:9] == [1, 0, 0, 0, 0, 0, 0, 0, 2]
    pair = copy.deepcopy([s, s])
    assert pair[0] is pair[1]
    assert fb.ShortStorage.from_buffer(b"\x00\x01\x02\x00", "big").tolist() == [1, 512]
    assert fb.UntypedStorage.from_buffer(b"abc", offset=1).tolist() == [98, 99]
    with pytest.raises(ValueError, match="byte_order must be"):
        fb.ShortStorage.from_buffer(b"ab")
    path = tmp_path / "numbers"
    path.write_bytes(fb.tensor([1.5, 2.5]).numpy().tobytes())
    assert fb.FloatStorage.from_file(path, size=2).tolist() == [1.5, 2.5]
    assert repr(fb.ByteStorage([7])) == " 7\n[flambeau.storage.TypedStorage(dtype=flambeau.uint8, device=cpu) of size 1]"
    assert repr(fb.UntypedStorage([7])) == " 7\n[flambeau.storage.UntypedStorage(device=cpu) of size 1]"


def test_size_as_a_numpy_integer():
    for kind in (np.int64, np.int16, np.uint8):
        assert fb.FloatStorage(kind(3)).size() == 3
    with pytest.raises(TypeError, match="Argument type not recognized: float64"):
        fb.FloatStorage(np.float64(3))
    with pytest.raises(TypeError, match="Argument type not recognized: ndarray"):
        fb.FloatStorage(np.array(3))


def test_tensors_from_storages():
    x = fb.tensor([[1, 2], [3, 4]], dtype=fb.int16)
    assert fb.tensor(x.storage()).tolist() == fb.tensor(x.untyped_storage(), dtype=fb.int16).tolist() == [1, 2, 3, 4]
    assert fb.tensor(x.untyped_storage(), dtype=fb.int32).tolist() == [0x20001, 0x40003]
    fb.tensor(x.storage(), dtype=fb.int16).zero_()
    assert fb.tensor(fb.UntypedStorage(10)).shape == (2,)
    assert x[0, 0] == 1
    for use in (lambda s: fb.tensor(s, dtype=fb.float32), lambda s: fb.empty(0).set_(s)):
        with pytest.raises(RuntimeError, match="Expected a Storage of type"):
            use(x.storage())


def test_storage_type():
    assert fb.zeros(1, dtype=fb.bfloat16).storage_type() is fb.BFloat16Storage
    assert fb.zeros(1, dtype=fb.uint16).storage_type() is fb.TypedStorage


@pytest.mark.parametrize("source", [None, 0, 100, [1, 2, 3]])
def test_storages_on_the_meta_device(source):
    args = () if source is None else (source,)
    for s, like in (
        (fb.TypedStorage(*args, dtype=fb.int16, device="meta"), fb.TypedStorage(*args, dtype=fb.int16)),
        (fb.UntypedStorage(*args, device="meta"), fb.UntypedStorage(*args)),
    ):
        assert s.device.type == "meta" and s.data_ptr() == 0 and (s.nbytes(), s.size()) == (like.nbytes(), like.size())
        for use in (lambda s=s: s[0], s.tolist):
            with pytest.raises(NotImplementedError, match="Not available"):
                use()
        for use in (s.cpu, lambda s=s, like=like: like.copy_(s)):
            with pytest.raises(NotImplementedError, match="Cannot copy out"):
                use()
        with pytest.raises(RuntimeError, match="only available on CPU"):
            s.share_memory_()
        assert s.resize_(1000).size() == 1000
    t = fb.empty(3, 4, device="meta")
    assert t.storage().nbytes() == t.untyped_storage().nbytes() == 48
    with pytest.raises(RuntimeError, match="Storage device not recognized"):
        fb.UntypedStorage(1, device="cuda")


def test_deepcopy_keeps_sharing_between_tensors_and_storages():
    a = fb.zeros(4)
    b, whole, elements = copy.deepcopy([a, a.untyped_storage(), a[1:].storage()])
    b.fill_(1)
    assert elements.tolist() == [1] * 4 and whole.data_ptr() == b.data_ptr() != a.data_ptr() and a.sum() == 0


def test_shared_files_are_made_as_long_as_needed(tmp_path):
    path = tmp_path / "new"
    s = fb.FloatStorage.from_file(path, True, 3)
    s.fill_(2)
    assert path.stat().st_size == 12 and fb.FloatStorage.from_file(path, True, 3).tolist() == [2, 2, 2]
    assert s.filename == str(path) and fb.zeros(1).untyped_storage().filename is None
    assert fb.from_file(str(path), True, 2).untyped_storage().filename == str(path)
    assert fb.from_file(str(path), False, 2).untyped_storage().filename is None
    del s
    gc.collect()
    assert not fb._tensor.exchange.mapped_files
    with pytest.raises(ValueError, match="has 12 bytes, 16 were asked for"):
        fb.FloatStorage.from_file(path, False, 4)
