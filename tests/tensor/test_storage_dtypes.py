"""The dtypes for storage: 8-bit floats and complex32. They are converted, moved, printed, saved and compared, not computed with."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fb

FLOAT8 = {  # exponent bits, mantissa bits, bias
    fb.float8_e4m3fn: (4, 3, 7),
    fb.float8_e4m3fnuz: (4, 3, 8),
    fb.float8_e5m2: (5, 2, 15),
    fb.float8_e5m2fnuz: (5, 2, 16),
    fb.float8_e8m0fnu: (8, 0, 127),
}
ALL = [*FLOAT8, fb.complex32]


def decoded(dtype):
    """The values of all 256 codes, from the definition of the format."""
    _, mantissa, bias = FLOAT8[dtype]
    values = np.empty(256)
    for code in range(256):
        sign, size = (-1.0 if code & 0x80 else 1.0), code & 0x7F
        power, rest = size >> mantissa, size & (2**mantissa - 1)
        if dtype == fb.float8_e8m0fnu:
            values[code] = np.nan if code == 255 else 2.0 ** (code - 127)
        elif dtype.name.endswith("uz") and code == 0x80 or dtype == fb.float8_e4m3fn and size == 0x7F:
            values[code] = np.nan
        elif dtype == fb.float8_e5m2 and power == 31:
            values[code] = np.nan if rest else sign * np.inf
        elif power == 0:
            values[code] = sign * rest * 2.0 ** (1 - bias - mantissa)
        else:
            values[code] = sign * (1 + rest / 2**mantissa) * 2.0 ** (power - bias)
    return values


def all_codes(dtype):
    return fb.arange(256).to(fb.uint8).view(dtype)


@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda d: d.name)
def test_every_code_means_what_the_format_says(dtype):
    expected = decoded(dtype)
    for wide in (fb.float32, fb.float64):
        np.testing.assert_array_equal(all_codes(dtype).to(wide).numpy(), expected)
    # What is finite comes back as the same code.
    finite = np.isfinite(expected)
    back = all_codes(dtype).float().to(dtype).view(fb.uint8).numpy()
    np.testing.assert_array_equal(back[finite], np.arange(256)[finite])
    assert all_codes(dtype).isnan().tolist() == np.isnan(expected).tolist()


@pytest.mark.parametrize("dtype", [d for d in FLOAT8 if d != fb.float8_e8m0fnu], ids=lambda d: d.name)
def test_rounds_to_the_nearest_and_ties_to_even(dtype):
    values = decoded(dtype)
    codes = np.arange(128)[np.isfinite(values[:128])]
    low, high = codes[:-1], codes[1:]
    middle = ((values[low] + values[high]) / 2).astype(np.float32)
    even = np.where(low % 2 == 0, low, high)
    np.testing.assert_array_equal(fb.from_numpy(middle).to(dtype).view(fb.uint8).numpy(), even)
    below = np.nextafter(middle, np.float32(0))
    above = np.nextafter(middle, np.float32(np.inf))
    np.testing.assert_array_equal(fb.from_numpy(below).to(dtype).view(fb.uint8).numpy(), low)
    np.testing.assert_array_equal(fb.from_numpy(above).to(dtype).view(fb.uint8).numpy(), high)
    negative = fb.from_numpy(-below).to(dtype).view(fb.uint8).numpy()
    unsigned_zero = dtype.name.endswith("uz")
    np.testing.assert_array_equal(negative, np.where((low == 0) & unsigned_zero, 0, low | 0x80))


def test_values_out_of_range():
    x = fb.tensor([1e9, -1e9, fb.inf, -fb.inf, fb.nan, 465.0, -0.0])

    def bits(dtype):
        return [hex(code) for code in x.to(dtype).view(fb.uint8).tolist()]

    assert bits(fb.float8_e4m3fn) == ["0x7e", "0xfe", "0x7e", "0xfe", "0x7f", "0x7e", "0x80"]
    assert bits(fb.float8_e4m3fnuz) == ["0x80"] * 6 + ["0x0"]
    assert bits(fb.float8_e5m2) == ["0x7c", "0xfc", "0x7c", "0xfc", "0x7f", "0x5f", "0x80"]
    assert bits(fb.float8_e5m2fnuz) == ["0x80"] * 5 + ["0x63", "0x0"]
    scales = fb.tensor([0.0, 1e-45, 5.9e-39, 1.49, 1.5, -3.0, 3e38, fb.inf])
    assert scales.to(fb.float8_e8m0fnu).view(fb.uint8).tolist() == [0, 0, 1, 127, 128, 129, 255, 255]


def test_conversions_between_all_kinds():
    x = fb.tensor([1.5, -2.0, 0.25])
    for dtype in (fb.float8_e4m3fn, fb.float8_e5m2, fb.complex32):
        for other in (fb.float16, fb.bfloat16, fb.float64, fb.complex64, fb.complex128, fb.float8_e5m2fnuz, fb.complex32):
            there = x.to(other).to(dtype)
            assert there.dtype == dtype and there.to(fb.complex64).real.tolist() == [1.5, -2.0, 0.25]
            assert there.to(other).dtype == other
        assert x.to(dtype).to(fb.int64).tolist() == [1, -2, 0] and x.to(dtype).bool().tolist() == [True] * 3
        assert fb.tensor([True, False, True]).to(dtype).to(fb.int8).tolist() == [1, 0, 1]
        big = fb.arange(1000).to(dtype)  # longer than a chunk of the conversion
        assert big[:9].to(fb.int32).tolist() == list(range(9))
        assert fb.arange(600)[::2].to(dtype)[::3].float().shape == (100,)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_elements_are_made_moved_and_compared(dtype):
    x = fb.tensor([[1.0, 2.0], [4.0, 8.0]]).to(dtype)
    assert x.dtype == dtype and x.element_size() == dtype.itemsize and x.tolist() == [[1, 2], [4, 8]] and x[1, 0].item() == 4
    assert fb.full((2,), 2.0, dtype=dtype).tolist() == [2, 2] and fb.ones(1, dtype=dtype).tolist() == [1]
    assert fb.tensor([2, 4], dtype=dtype).tolist() == [2, 4]
    assert x.t().contiguous().tolist() == [[1, 4], [2, 8]] and x.clone().fill_(4).tolist() == [[4, 4], [4, 4]]
    assert fb.cat([x, x])[3].tolist() == [4, 8] and fb.stack([x[0], x[1]]).tolist() == x.tolist()
    assert x[fb.tensor([1])].tolist() == [[4, 8]] and x[fb.tensor([True, False])].tolist() == [[1, 2]]
    assert x.index_select(1, fb.tensor([1])).tolist() == [[2], [8]] and x.flip(0)[0].tolist() == [4, 8]
    y = x.clone()
    y[0] = 8
    y[1, 1] = x[0, 0]
    assert y.tolist() == [[8, 8], [4, 1]]
    assert (x == y).tolist() == [[False, False], [True, False]] and (x != y).sum().item() == 3 and x.equal(x.clone())
    assert fb.where(x == y, x, y).tolist() == [[8, 8], [4, 1]] and x.any().item() and x.isnan().sum().item() == 0
    assert (x * x).tolist() == [[1, 4], [16, 64]] and x.abs().tolist() == x.tolist()
    assert x.sum(dtype=fb.complex64 if dtype.is_complex else fb.float32).item() == 15
    assert (x @ x).tolist() == (x.to(fb.complex64).real @ x.to(fb.complex64).real).to(dtype).tolist()
    assert x.view(-1).view(fb.uint8).view(dtype).tolist() == [1, 2, 4, 8]
    assert fb.from_dlpack(x).tolist() == x.tolist() and fb.from_dlpack(x).dtype == dtype
    assert copy.deepcopy(x).tolist() == x.tolist() and pickle.loads(pickle.dumps(x)).dtype == dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype and x.to("meta").dtype == dtype


@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda d: d.name)
def test_arithmetic_names_the_way_out(dtype):
    x = fb.ones(2, dtype=dtype)
    shown = dtype.name.capitalize()
    for call in (lambda: x + x, lambda: x - 1, lambda: x.exp(), lambda: x.sum(), lambda: x.sort(), lambda: x < x, lambda: x.cumsum(0)):
        with pytest.raises(NotImplementedError, match=f"not implemented for '{shown}'.*\\.to\\(float32\\)"):
            call()
    for other in (fb.ones(2), fb.ones(2, dtype=fb.int64), fb.ones(2, dtype=fb.bool), fb.ones(2, dtype=fb.complex64)):
        with pytest.raises(RuntimeError, match=f"Promotion for Float8 Types is not supported, attempted to promote {shown}"):
            fb.mul(x, other)
    assert fb.result_type(x, 1.0) == dtype and fb.result_type(x, fb.tensor(1.0)) == dtype
    with pytest.raises(TypeError, match="Unknown Complex ScalarType"):
        dtype.to_complex()


def test_promotion_of_complex32():
    z = fb.tensor([1 + 2j], dtype=fb.complex32)
    wider = {fb.float16: fb.complex32, fb.int64: fb.complex32, fb.bool: fb.complex32, fb.bfloat16: fb.complex64}
    wider |= {fb.float32: fb.complex64, fb.float64: fb.complex128, fb.complex64: fb.complex64, fb.complex128: fb.complex128}
    for other, expected in wider.items():
        assert fb.promote_types(fb.complex32, other) == expected == fb.promote_types(other, fb.complex32)
        assert (z + fb.ones(1, dtype=other)).dtype == expected and (z + fb.ones(1, dtype=other)).tolist() == [2 + 2j]
    assert fb.float16.to_complex() == fb.complex32 == fb.chalf and fb.complex32.to_real() == fb.float16
    assert (fb.ones(1, dtype=fb.float16) * 2j).tolist() == [2j] and (fb.ones(1, dtype=fb.float16) * 2j).dtype == fb.complex32
    assert (-z).tolist() == [-1 - 2j] and z.real.dtype == fb.float16 and fb.view_as_real(z).tolist() == [[1, 2]]
    assert fb.view_as_complex(fb.ones(1, 2, dtype=fb.float16)).dtype == fb.complex32 and z.abs().dtype == fb.float16
    assert fb.complex(fb.ones(1).half(), fb.ones(1).half()).tolist() == [1 + 1j] and fb.ones(1).chalf().dtype == fb.complex32


def test_gradients_pass_conversions():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    (x.to(fb.float8_e5m2).float() * fb.tensor([3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [3, 4]
    leaf = fb.ones(2, dtype=fb.float8_e4m3fn, requires_grad=True)
    leaf.float().sum().backward()
    assert leaf.grad.dtype == fb.float8_e4m3fn and leaf.grad.float().tolist() == [1, 1]


def test_text_and_limits():
    x = fb.tensor([1.5, 2.0, -3.0])
    assert repr(x.to(fb.float8_e4m3fn)) == "tensor([ 1.5000,  2.0000, -3.0000], dtype=flambeau.float8_e4m3fn)"
    assert repr(fb.tensor([1.5 + 2j], dtype=fb.chalf)) == "tensor([1.5000+2.j], dtype=flambeau.complex32)"
    assert "..." in repr(fb.zeros(2000, dtype=fb.float8_e5m2))
    assert x.to(fb.float8_e5m2).type() == "flambeau.Float8_e5m2Tensor" and x.chalf().type() == "flambeau.ComplexHalfTensor"
    limits = {
        fb.float8_e4m3fn: (0.125, 448.0, 2.0**-6), fb.float8_e4m3fnuz: (0.125, 240.0, 2.0**-7), fb.float8_e5m2: (0.25, 57344.0, 2.0**-14),
        fb.float8_e5m2fnuz: (0.125, 57344.0, 2.0**-15), fb.float8_e8m0fnu: (1.0, 2.0**127, 2.0**-127),
    }  # fmt: skip
    for dtype, (eps, most, tiny) in limits.items():
        info = fb.finfo(dtype)
        assert (info.eps, info.max, info.tiny, info.bits, info.dtype) == (eps, most, tiny, 8, dtype.name)
        assert info.min == (tiny if dtype == fb.float8_e8m0fnu else -most) and dtype.is_floating_point
        assert dtype.is_signed == (dtype != fb.float8_e8m0fnu) and fb.zeros(1, dtype=dtype).is_floating_point()
    assert fb.finfo(fb.complex32).dtype == "float16" and fb.zeros(1, dtype=fb.complex32).is_complex()


def test_numpy():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in FLOAT8:
        x = all_codes(dtype)
        array = x.numpy()
        assert array.dtype == getattr(ml_dtypes, dtype.name) and fb.from_numpy(array).dtype == dtype
        array[0] = 2.0
        assert x[0].item() == 2.0  # one memory
        np.testing.assert_array_equal(array.astype(np.float32), np.asarray(x))
    with pytest.raises(TypeError, match="Got unsupported ScalarType ComplexHalf"):
        fb.zeros(1, dtype=fb.complex32).numpy()
    assert np.asarray(fb.ones(1, dtype=fb.complex32)).dtype == np.complex64


def test_files(tmp_path):
    state = {dtype.name: fb.tensor([[1.0, 2.0], [0.5, 4.0]]).to(dtype).t() for dtype in ALL}
    for name in ("x.pt", "x.safetensors"):
        kept = state if name == "x.pt" else {k: v for k, v in state.items() if k != "complex32"}
        fb.save(kept, tmp_path / name)
        back = fb.load(tmp_path / name)
        for key, tensor in kept.items():
            assert back[key].dtype == tensor.dtype and back[key].tolist() == tensor.tolist()
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert set(file.keys()) >= {"float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"}


@pytest.mark.parametrize("dtype", [fb.int64, fb.bool, fb.uint16])
def test_integers_have_no_complex_dtype(dtype):
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for"):
        dtype.to_complex()


def test_complex32_adds_up_at_indices():
    x = fb.tensor([1 + 2j, 3 + 4j, 5 + 6j], dtype=fb.complex32)
    index = fb.tensor([0, 2, 0])
    added = fb.zeros(3, dtype=fb.complex32).index_add(0, index, x, alpha=2)
    assert added.dtype is fb.complex32 and added.to(fb.complex64).tolist() == [12 + 16j, 0, 6 + 8j]
    put = fb.index_put(fb.zeros(3, dtype=fb.complex32), (index,), x, accumulate=True)
    assert put.to(fb.complex64).tolist() == [6 + 8j, 0, 3 + 4j]
    put.index_put_((index,), x, accumulate=True)
    assert put.to(fb.complex64).tolist() == [12 + 16j, 0, 6 + 8j]
    for look in (lambda t: t[index], lambda t: t.index_select(0, index), lambda t: t.as_strided((3, 2), (1, 0))):
        leaf = x.clone().requires_grad_()
        y = look(leaf)
        (grad,) = fb.autograd.grad(y, leaf, fb.ones_like(y))
        wide = x.to(fb.complex64).requires_grad_()
        y = look(wide)
        (expected,) = fb.autograd.grad(y, wide, fb.ones_like(y))
        assert grad.dtype is fb.complex32 and grad.to(fb.complex64).equal(expected)
