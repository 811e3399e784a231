"""What every tensor knows about itself, conversions, and changes of its own shape."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flambeau as fb
from ops.samples import make
from ops.spec import ALL, COMPLEX, FLOATS, INTS, LAYOUTS, dtype_of, name_of, to_numpy

CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


@pytest.mark.parametrize("method, dtype", CONVERSIONS.items(), ids=list(CONVERSIONS))
def test_conversion_methods(method, dtype):
    for source in ALL:
        x = make(source, (2, 3), 0, 3).tensor()
        got = getattr(x, method)()
        assert name_of(got.dtype) == dtype
        assert (got is x) == (source == dtype), f"{method} of {source}: copies when it need not, or the reverse"


def test_every_dtype_to_every_dtype():
    for source in ALL:
        values = make(source, (3, 4), 0, 3)
        for target in ALL:
            got = values.tensor().to(dtype_of(target))
            wide = values.wide()
            want = wide.real if source in COMPLEX and target not in COMPLEX else wide
            want = want != 0 if target == "bool" else want
            if target == "bool" and source in COMPLEX:
                want = wide != 0
            exact = np.asarray(want).astype({"bfloat16": "float32"}.get(target, target))
            if target in ("float16", "bfloat16"):
                assert np.allclose(to_numpy(got).astype(float), exact.astype(float), rtol=1e-2), f"{source} to {target}"
            else:
                assert np.allclose(to_numpy(got), exact), f"{source} to {target}"


def test_to_forms():
    x = fb.ones(2, 3)
    assert x.to(fb.float32) is x and x.to("cpu") is x and x.cpu() is x
    assert x.to(fb.float32, copy=True) is not x
    assert x.to(fb.ones(1, dtype=fb.int64)).dtype == fb.int64
    assert x.to("cpu", fb.float64).dtype == fb.float64
    assert x.to(device="cpu", dtype=fb.int8).dtype == fb.int8
    assert x.type_as(fb.ones(1, dtype=fb.bool)).dtype == fb.bool
    with pytest.raises((RuntimeError, TypeError)):
        x.to("no such device")
    with pytest.raises(TypeError):
        x.to(object())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attributes(layout):
    for shape in ((2, 3, 4), (3,), (), (0, 2)):
        described = make("float32", shape)
        described = described.repeated() if layout == "expanded" else described
        values, x = described.values, described.tensor(layout)
        assert tuple(x.shape) == tuple(x.size()) == shape and isinstance(x.shape, fb.Size)
        assert x.ndim == x.dim() == x.ndimension() == len(shape)
        assert x.numel() == x.nelement() == values.size
        assert x.element_size() == x.itemsize == 4 and x.nbytes == 4 * values.size
        assert len(x.stride()) == len(shape)
        assert str(x.device) == "cpu" and x.is_cpu and not x.is_cuda
        assert x.dtype == fb.float32 and x.is_floating_point() and not x.is_complex()
        assert np.array_equal(np.array(x.tolist()).reshape(shape), values)
        c = x.contiguous()
        assert c.is_contiguous() and np.array_equal(to_numpy(c), values)
        for i in range(len(shape)):
            assert x.size(i) == shape[i] and x.stride(i) == x.stride()[i]
    with pytest.raises(IndexError):
        fb.ones(2).size(1)


def test_negative_strides_are_visible():
    x = fb.arange(6)
    y = x[::-2]
    assert y.stride() == (-2,) and y.tolist() == [5, 3, 1] and y.storage_offset() == 5
    assert y.data_ptr() == x.data_ptr() + 5 * x.element_size()
    y[0] = 100
    assert x[5].item() == 100
    assert np.array_equal(y.numpy(), np.array([100, 3, 1])) and y.numpy().strides == (-16,)


def test_transposed_properties():
    values = make("complex64", (2, 3, 4)).values
    x = LAYOUTS["contiguous"](values, "complex64")
    assert np.array_equal(to_numpy(x.mT), np.swapaxes(values, -1, -2))
    assert np.array_equal(to_numpy(x.mH), np.conj(np.swapaxes(values, -1, -2)))
    assert np.array_equal(to_numpy(x[0].T), values[0].T)
    assert np.array_equal(to_numpy(x[0].H), np.conj(values[0].T))
    assert np.array_equal(to_numpy(x.real), values.real) and np.array_equal(to_numpy(x.imag), values.imag)
    x.real.zero_()
    assert not to_numpy(x).real.any() and to_numpy(x).imag.any(), "real is not a view"
    with pytest.raises(RuntimeError):
        _ = fb.ones(3).mT
    with pytest.raises(RuntimeError):
        _ = fb.ones(3).imag


def test_item_and_tolist():
    assert fb.tensor([[2.5]]).item() == 2.5 and type(fb.tensor(3).item()) is int
    assert type(fb.tensor(True).item()) is bool and type(fb.tensor(1j).item()) is complex
    assert fb.tensor(4).tolist() == 4 and fb.zeros(0, 2).tolist() == [] and fb.zeros(2, 0).tolist() == [[], []]
    for shape in ((2,), (0,)):
        with pytest.raises(RuntimeError):
            fb.zeros(shape).item()
    assert fb.tensor(2**64 - 1, dtype=fb.uint64).item() == 2**64 - 1


def test_kinds():
    for dtype in ALL:
        x = fb.ones(1, dtype=dtype_of(dtype))
        assert x.is_floating_point() == fb.is_floating_point(x) == (dtype in FLOATS)
        assert x.is_complex() == fb.is_complex(x) == (dtype in COMPLEX)
        assert x.is_signed() == (not dtype.startswith("u") and dtype != "bool")
        assert not x.is_conj() and not x.is_neg()
        assert fb.is_tensor(x) and not fb.is_tensor(1)
        assert fb.is_nonzero(x) and x.is_nonzero()
    with pytest.raises(RuntimeError):
        fb.is_nonzero(fb.ones(2))


def test_resize():
    x = fb.arange(6)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    x.resize_(3, 4)
    assert tuple(x.shape) == (3, 4) and x.reshape(-1)[:4].tolist() == [0, 1, 2, 3]
    x.zero_()
    assert not to_numpy(x).any()
    for bad in ((-1,), (2**40, 2**40)):
        with pytest.raises(RuntimeError):
            x.resize_(*bad)


    y = fb.arange(2)
    assert y.resize_as_(fb.zeros(1, 3)) is y and tuple(y.shape) == (1, 3)


def test_set():
    x, y = fb.zeros(2), fb.arange(6)
    assert x.to(fb.int64).set_(y[2:]).tolist() == [2, 3, 4, 5]
    z = fb.zeros(0, dtype=fb.int64)
    assert z.set_(y) is z and z.data_ptr() == y.data_ptr()
    with pytest.raises(RuntimeError):
        x.set_(y)


def test_shape_in_place():
    x = fb.ones(1, 2, 3)
    assert x.squeeze_(0) is x and tuple(x.shape) == (2, 3)
    assert x.unsqueeze_(-1) is x and tuple(x.shape) == (2, 3, 1)
    assert x.transpose_(0, 1) is x and tuple(x.shape) == (3, 2, 1)
    y = fb.ones(2, 3)
    assert y.t_() is y and tuple(y.shape) == (3, 2)


def test_data_pointers_and_versions_of_memory():
    x = fb.zeros(4)
    assert x.data_ptr() % 16 == 0 and x[1:].data_ptr() == x.data_ptr() + 4
    assert x.untyped_storage().nbytes() >= 16
    assert x.view(2, 2).data_ptr() == x.data_ptr() and x.clone().data_ptr() != x.data_ptr()


def test_result_type_functions():
    assert fb.result_type(fb.ones(2, dtype=fb.int32), 1.5) == fb.float32
    assert fb.result_type(fb.ones(2, dtype=fb.float16), fb.ones((), dtype=fb.float64)) == fb.float16
    assert fb.promote_types(fb.uint8, fb.int8) == fb.int16
    assert fb.promote_types(fb.float16, fb.bfloat16) == fb.float32
    assert fb.can_cast(fb.int32, fb.float32) and not fb.can_cast(fb.float32, fb.int32)
    assert fb.broadcast_shapes((3, 1), (1, 4)) == (3, 4)
    with pytest.raises(RuntimeError):
        fb.broadcast_shapes((3,), (4,))


def test_promotion_table_is_symmetric_and_closed():
    from ops import spec as lib

    names = [d for d in ALL if d not in ("uint16", "uint32", "uint64")]
    for a in names:
        for b in names:
            got = fb.promote_types(dtype_of(a), dtype_of(b))
            assert name_of(got) == lib.promote(a, b), f"promote_types({a}, {b}) is {got}"
            assert got == fb.promote_types(dtype_of(b), dtype_of(a))


def test_integers_at_their_limits():
    for dtype in INTS:
        info = np.iinfo(dtype)
        x = fb.tensor([info.min, info.max], dtype=dtype_of(dtype))
        assert x.tolist() == [info.min, info.max]
        wrapped = np.array([info.min, info.max], dtype) + np.array(1, dtype)
        assert (x + 1).tolist() == wrapped.tolist(), f"{dtype} does not wrap"
        assert fb.iinfo(dtype_of(dtype)).max == info.max and fb.iinfo(dtype_of(dtype)).min == info.min
        with pytest.raises((OverflowError, RuntimeError)):
            fb.tensor([info.max + 1], dtype=dtype_of(dtype))


def test_attributes_are_listed_and_restored():
    x = fb.ones(2)
    x.note = 1
    assert "note" in dir(x) and "add_" in dir(x) and pickle.loads(pickle.dumps(x)).note == 1
    y = fb.zeros(1)
    y.__setstate__((x.untyped_storage(), 1, (1,), (1,)))
    assert y.tolist() == [1] and y.data_ptr() == x.data_ptr() + 4
    with pytest.raises(TypeError, match="__setstate__"):
        y.__setstate__(3)


def test_is_contiguous_takes_preserve_format():
    x = fb.zeros(2, 3)
    assert x.is_contiguous(memory_format=fb.preserve_format) and not x.t().is_contiguous(memory_format=fb.preserve_format)


def test_dim_order_of_ambiguous_strides():
    assert fb.zeros(2, 3, 5).dim_order(ambiguity_check=True) == (0, 1, 2)
    formats = [fb.contiguous_format, fb.channels_last]
    x = fb.zeros(2, 2, 1, 2)
    for t, order in ((x, (0, 1, 2, 3)), (x.to(memory_format=fb.channels_last), (0, 2, 3, 1))):
        with pytest.raises(RuntimeError, match="does not have unique dim order"):
            t.dim_order(ambiguity_check=True)
        assert t.dim_order(ambiguity_check=formats) == order
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        fb.zeros(2, 1, 2, 2).dim_order(ambiguity_check=formats)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        x.dim_order(ambiguity_check="no")


def test_tensors_without_memory_are_not_set_to_each_other():
    x = fb.zeros(2)
    assert x.is_set_to(x.view(2)) and not fb.zeros(0).is_set_to(fb.zeros(0))


def test_new_dimensions_of_expand_have_the_strides_of_unsqueeze():
    x = fb.zeros(5)
    assert x.expand(1, 1, 5).stride() == x[None, None].stride() == (5, 5, 1)
    assert x.expand(1, 3, 5).stride() == (0, 0, 1) and fb.zeros(()).expand(1, 1).stride() == (0, 0)


@pytest.mark.parametrize("format", [fb.channels_last, fb.contiguous_format])
def test_resize_as_keeps_the_memory_format_of_the_template(format):
    like = fb.zeros(2, 3, 4, 4).contiguous(memory_format=format)
    x = fb.zeros(96).resize_as_(like, memory_format=fb.preserve_format)
    assert x.shape == like.shape and x.stride() == like.stride()
