"""Creation: dtypes, exact counts, options, out=."""

import math

import numpy as np
import pytest

import flambeau as fb

ARANGES = [(5,), (2, 7), (2, 7, 3), (7, 2, -2), (0, 1, 0.1), (1, 2.5), (0.5, 3), (3, 3), (-1, 1, 0.25), (0, -5, -1)]


@pytest.mark.parametrize("args", ARANGES, ids=str)
def test_arange_counts_like_numpy(args):
    ours, theirs = fb.arange(*args), np.arange(*args)
    assert ours.dtype == (fb.int64 if theirs.dtype.kind == "i" else fb.float32)
    assert ours.numel() == theirs.size and np.allclose(ours.numpy(), theirs)


def test_arange_is_exact_at_the_ends_of_int64():
    top = 2**63 - 1
    assert fb.arange(top - 3, top).tolist() == [top - 3, top - 2, top - 1]
    assert fb.arange(-(2**63), top, 2**62).tolist() == [-(2**63), -(2**62), 0, 2**62]
    assert fb.arange(0, 1000, 3, dtype=fb.uint8).tolist() == [i % 256 for i in range(0, 1000, 3)]


BAD = [
    (lambda: fb.arange(0, 5, 0), "nonzero"),
    (lambda: fb.arange(5, 0), "inconsistent with step sign"),
    (lambda: fb.arange(0, math.inf), "finite"),
    (lambda: fb.arange(0, 1e300), "overflow"),
    (lambda: fb.linspace(0, 1, -1), "non-negative"),
    (lambda: fb.linspace(0, 1j, 3, dtype=fb.float32), "safely cast"),
    (lambda: fb.linspace(fb.zeros(2), 1, 3), "0-dimensional"),
    (lambda: fb.zeros(-1), "negative"),
    (lambda: fb.empty(2**40, 2**40), "too many elements"),
    (lambda: fb.eye(-1), "greater or equal to 0"),
    (lambda: fb.empty_strided((2, 2), (-1, 1)), "negative"),
    (lambda: fb.empty_strided((2**31, 2), (2**61, 1)), "overflow"),
    (lambda: fb.zeros(2, dtype=fb.float64, out=fb.zeros(2)), "does not match"),
]


@pytest.mark.parametrize("call, message", BAD, ids=range(len(BAD)))
def test_impossible_requests_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_options_that_are_not_there_yet_say_so():
    with pytest.raises(RuntimeError, match="accelerator"):
        fb.ones(2, pin_memory=True)
    with pytest.raises(NotImplementedError, match="strided"):
        fb.empty(2, layout=fb.sparse_coo)


def test_linspace_hits_both_ends():
    for n in (1, 2, 3, 1000):
        values = fb.linspace(-3, 7, n).tolist()
        assert values[0] == -3 and values[-1] == (7 if n > 1 else -3) and len(values) == n
    assert fb.linspace(0, 10, 5, dtype=fb.int64).tolist() == [0, 2, 5, 7, 10]
    assert fb.linspace(fb.tensor(1.0), fb.tensor(2), 3).tolist() == [1, 1.5, 2]
    assert fb.linspace(0, 1 + 1j, 3).tolist() == [0, 0.5 + 0.5j, 1 + 1j]
    assert fb.logspace(0, 3, 4, base=2).tolist() == [1, 2, 4, 8]


def test_full_takes_the_dtype_of_its_value():
    dtypes = [fb.full((1,), v).dtype for v in (True, 3, 2.5, 1j)]
    assert dtypes == [fb.bool, fb.int64, fb.float32, fb.complex64]
    fb.set_default_dtype(fb.float64)
    assert fb.full((1,), 2.5).dtype == fb.zeros(1).dtype == fb.float64


def test_like_forms_follow_their_model():
    model = fb.zeros(3, 2, dtype=fb.int16).t()
    for make in (fb.empty_like, fb.zeros_like, fb.ones_like, lambda t, **k: fb.full_like(t, 4, **k)):
        assert make(model).dtype == fb.int16 and make(model).stride() == model.stride()
        assert make(model, dtype=fb.bool, memory_format=fb.contiguous_format).stride() == (3, 1)
    assert model.new_ones(2).tolist() == [1, 1] and model.new_full((2,), 3, dtype=fb.float64).dtype == fb.float64
    assert fb.ones_like(fb.zeros(2, 3).expand(4, 2, 3)).shape == (4, 2, 3)


def test_out_is_resized_and_returned():
    out = fb.zeros(1, dtype=fb.int64)
    assert fb.arange(4, out=out) is out and out.tolist() == [0, 1, 2, 3]
    assert fb.full((2, 2), 7, out=out).tolist() == [[7, 7], [7, 7]]
    every_other = fb.zeros(6)[::2]
    assert fb.linspace(0, 1, 3, out=every_other).tolist() == [0, 0.5, 1]


def test_complex_and_polar():
    z = fb.complex(fb.tensor([1.0, 2.0]), fb.tensor(3.0))
    assert z.tolist() == [1 + 3j, 2 + 3j]
    w = fb.polar(fb.tensor([2.0], dtype=fb.float64), fb.tensor([math.pi / 2], dtype=fb.float64))
    assert abs(w.item() - 2j) < 1e-15
    with pytest.raises(RuntimeError, match="for second argument"):
        fb.complex(fb.zeros(1), fb.zeros(1, dtype=fb.float64))


@pytest.mark.parametrize(
    "name, numpy_name",
    [("hann", "hanning"), ("hamming", "hamming"), ("blackman", "blackman"), ("bartlett", "bartlett")],
)
def test_windows(name, numpy_name):
    window = getattr(fb, f"{name}_window")
    assert np.allclose(window(9, periodic=False, dtype=fb.float64).numpy(), getattr(np, numpy_name)(9))
    assert np.allclose(window(8, dtype=fb.float64).numpy(), getattr(np, numpy_name)(9)[:-1])
    assert window(1).tolist() == [1] and window(0).numel() == 0
    with pytest.raises(ValueError, match="negative"):
        window(-1)


def test_kaiser_window():
    assert np.allclose(fb.kaiser_window(9, False, 5.0, dtype=fb.float64).numpy(), np.kaiser(9, 5))


def test_arange_of_uint64_reaches_its_end():
    top = 2**64 - 1
    assert fb.arange(top - 2, top, dtype=fb.uint64).tolist() == [top - 2, top - 1]
    assert fb.arange(top, top - 3, -1, dtype=fb.uint64).tolist() == [top, top - 1, top - 2]
    with pytest.raises(ValueError, match="do not fit int64"):
        fb.arange(2**63, 2**63 + 2)


def test_legacy_constructors():
    """Without arguments they are empty; numbers are sizes, sequences and storages data, tensors themselves."""
    for made in (fb.Tensor(), fb.LongTensor(), fb.HalfTensor(), fb.ones(2).new(), fb.Tensor(device="cpu"), fb.nn.Parameter()):
        assert made.shape == (0,)
    assert fb.LongTensor().dtype is fb.int64 and fb.ones(2, dtype=fb.int16).new().dtype is fb.int16
    for made in (fb.Tensor(2, 3), fb.Tensor(size=(2, 3)), fb.Tensor(fb.Size([2, 3])), fb.ones(1).new(size=(2, 3))):
        assert made.shape == (2, 3)
    assert fb.Tensor(np.int64(3)).shape == (3,) and fb.Tensor(0).shape == (0,)
    assert fb.Tensor(()).shape == (0,) and fb.Tensor(data=[1]).tolist() == [1]
    assert fb.LongTensor([1.5]).tolist() == [1] and fb.Tensor(range(3)).tolist() == [0, 1, 2]
    x = fb.tensor([1, 2])
    assert fb.Tensor(x).dtype is fb.int64 and fb.Tensor(x).data_ptr() == x.data_ptr()
    assert fb.Tensor(fb.ones(2).untyped_storage()).tolist() == [1, 1]
    for wrong in (3.5, True, None, "a"):
        with pytest.raises(TypeError, match="data must be a sequence"):
            fb.Tensor(wrong)
    with pytest.raises(TypeError, match="one of them"):
        fb.Tensor(1, size=(2,))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.complex64])
def test_whole_numbers_beyond_64_bits_are_rounded(dtype):
    assert fb.tensor(2**64, dtype=dtype) == 2.0**64 and fb.tensor([1, -(2**70)], dtype=dtype).tolist() == [1, -(2.0**70)]
    assert fb.tensor([-(2**63) - 1, 0], dtype=fb.bool).tolist() == [True, False]
    with pytest.raises(OverflowError, match="Overflow when unpacking long"):
        fb.tensor(2**64)
    with pytest.raises(OverflowError):
        fb.tensor(2**64, dtype=fb.int64)
    with pytest.raises(OverflowError, match="too large"):
        fb.tensor(10**400, dtype=dtype)


def test_tensors_of_one_element_in_lists_are_numbers():
    """As in PyTorch: rewards that are kept as tensors of one element make a vector. Arrays keep their shape."""
    one, two = fb.tensor([1.0]), fb.tensor(2.0)
    assert fb.tensor([one]).tolist() == [1] and fb.tensor([one, two, 3]).tolist() == [1, 2, 3]
    assert fb.tensor([[3, one], [fb.ones(1, 1, 1), two]]).tolist() == [[3, 1], [1, 2]]
    assert fb.as_tensor((fb.ones(1, 1),)).shape == (1,) and fb.tensor(one).shape == (1,)
    assert fb.tensor([np.ones(1)]).shape == (1, 1) and fb.tensor([fb.ones(2), fb.zeros(2)]).shape == (2, 2)
    with pytest.raises(ValueError, match="ragged"):
        fb.tensor([one, [2.0]])
