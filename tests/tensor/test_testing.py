"""flambeau.testing: assert_close and make_tensor."""

import re

import numpy as np
import pytest

import flambeau as fb
from flambeau.testing import assert_close, make_tensor

NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (fb.zeros(3), fb.zeros(2), "attribute 'shape' do not match"),
        (fb.zeros(2), fb.zeros(2, dtype=fb.float64), "attribute 'dtype' do not match"),
        (fb.zeros(2), fb.zeros(2, device="meta"), "attribute 'device' do not match"),
        (fb.zeros(2, 2).to_sparse(), fb.zeros(2, 2), "attribute 'layout' do not match"),
        (fb.tensor([[1, 2], [3, 4]]), fb.tensor([[1, 2], [5, 4]]), "Greatest absolute difference: 2 at index (1, 0)\n"),
        (fb.tensor([[1, 2], [3, 4]]), fb.tensor([[1, 4], [3, 4]]), "Greatest relative difference: 0.5 at index (0, 1)"),
        (fb.tensor([1.0, 0.0]), fb.tensor([2.0, 0.0]), "Mismatched elements: 1 / 2 (50.0%)"),
        (fb.tensor(2**53), fb.tensor(2**53 + 1), "Expected 9007199254740993 but got 9007199254740992"),
        (fb.tensor([2**64 - 1], dtype=fb.uint64), fb.tensor([0], dtype=fb.uint64), "absolute difference: 18446744073709551615"),
        (fb.tensor([True]), fb.tensor([False]), "Tensor-likes are not equal!"),
        (fb.tensor([1.0]), fb.tensor([NAN]), "Greatest absolute difference: nan at index (0,)"),
        (np.zeros(2), np.ones(2), "Tensor-likes are not close!"),
        (fb.tensor(1.0), fb.tensor(2.0), "Scalars are not close!\n\nExpected 2.0 but got 1.0."),
        (3, 5, "Scalars are not equal!\n\nExpected 5 but got 3.\nAbsolute difference: 2\nRelative difference: 0.4"),
        (1, 1.0, "The (d)types do not match"),
        (True, False, "Booleans mismatch: True is not False"),
        (None, 3, "None mismatch: None is not 3"),
        ([1], [1, 3], "The length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, "Missing keys in the actual mapping: ['b']\nAdditional keys in the actual mapping: ['a']"),
        ({"a": [fb.zeros(2)]}, {"a": [fb.ones(2)]}, "The failure occurred for item ['a'][0]"),
        (fb.tensor([1.0, 2.0]).to(fb.float8_e5m2), fb.tensor([1.0, 3.0]).to(fb.float8_e5m2), "first mismatched element is at index (1,)"),
        (fb.zeros(2, 2).to_sparse(1), fb.zeros(2, 2).to_sparse(), "number of sparse dimensions in sparse COO tensors"),
        (fb.eye(2).to_sparse(), fb.ones(2, 2).to_sparse(), "number of specified values in sparse COO tensors"),
        (fb.eye(2).to_sparse(), fb.eye(2).flip(0).to_sparse(), "Sparse COO indices are not equal!"),
        (fb.eye(2).to_sparse(), (2 * fb.eye(2)).to_sparse(), "Sparse COO values are not close!"),
        (fb.eye(2).to_sparse_csr(), fb.eye(2).flip(0).to_sparse_csr(), "Sparse CSR col_indices are not equal!"),
        (fb.eye(2).to_sparse_csc(), (2 * fb.eye(2)).to_sparse_csc(), "Sparse CSC values are not close!"),
    ],
)  # fmt: skip
def test_what_differs_is_said(actual, expected, text):
    with pytest.raises(AssertionError, match=re.escape(text)):
        assert_close(actual, expected)


def test_what_is_close():
    assert_close(fb.tensor([1.0, 0.0, NAN]), fb.tensor([1.0 + 1e-7, 0.0, NAN]), equal_nan=True)
    assert_close(fb.tensor(complex(NAN, 0)), fb.tensor(complex(0, NAN)), equal_nan=True)
    assert_close(fb.tensor([True, False]), fb.tensor([True, False]))
    assert_close(fb.empty(2, device="meta"), fb.empty(2, device="meta"))
    assert_close(fb.eye(2).to_sparse(), fb.eye(2), check_layout=False)
    assert_close(fb.eye(2).to_sparse_csr(), fb.eye(2).to_sparse_csr())
    assert_close((1, {"a": 2.0}), [1, {"a": 2.0 + 1e-9}])
    assert_close(fb.tensor(0.99, dtype=fb.bfloat16), fb.tensor(1.0, dtype=fb.float64), check_dtype=False)
    assert_close(fb.zeros(1), fb.nn.Parameter(fb.zeros(1)))


@pytest.mark.parametrize(
    ("actual", "expected"), [(fb.tensor(1.0), 1.0), (fb.zeros(1), [0.0]), (fb.zeros(1), np.zeros(1)), ("a", "a")]
)
def test_types_that_cannot_be_compared(actual, expected):
    with pytest.raises(TypeError, match=f"{re.escape(str(type(actual)))} and {re.escape(str(type(expected)))}"):
        assert_close(actual, expected)


def test_subclasses_can_be_refused():
    with pytest.raises(TypeError, match="Parameter"):
        assert_close(fb.zeros(1), fb.nn.Parameter(fb.zeros(1)), allow_subclasses=False)


def test_one_tolerance_alone_is_refused():
    with pytest.raises(ValueError, match="must be either specified or omitted"):
        assert_close(1.0, 1.0, rtol=0.1)


DTYPES = [fb.bool, fb.uint8, fb.int64, fb.float16, fb.bfloat16, fb.float64, fb.float8_e4m3fn, fb.complex32, fb.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_make_tensor_stays_in_the_interval(dtype):
    x = make_tensor(5000, dtype=dtype, low=0, high=2)
    parts = fb.view_as_real(x.to(fb.complex64)) if dtype.is_complex else x.to(fb.float32)
    assert x._base is None and x.dtype == dtype and ((parts >= 0) & (parts < 2)).all() and parts.unique().numel() > 1


def test_make_tensor_takes_the_whole_range_of_a_dtype():
    assert make_tensor(1000, dtype=fb.float64, low=-1e400, high=1e400).isfinite().all()
    assert (make_tensor(9, dtype=fb.int8, low=127, high=500) == 127).all()
    assert (make_tensor(9, dtype=fb.int64, low=-0.9, high=0.9) == 0).all()


def test_make_tensor_equal_ends():
    with pytest.warns(FutureWarning, match="low==high"):
        assert (make_tensor(3, dtype=fb.float32, low=1, high=1) == 1).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dtype": fb.int8, "low": 3, "high": 2}, "`low` must be less than `high`"),
        ({"dtype": fb.bool, "low": 0, "high": 0}, "`low` must be less than `high`"),
        ({"dtype": fb.float32, "high": NAN}, "`low` and `high` cannot be NaN"),
        ({"dtype": fb.int8, "low": 300, "high": 400}, "only holds"),
        ({"dtype": fb.float64, "low": 2**1025, "high": 2**1026}, "only holds"),
        ({"dtype": fb.int8, "requires_grad": True}, "`requires_grad=True` is not supported"),
        ({"dtype": fb.int8, "noncontiguous": True, "memory_format": fb.channels_last}, "mutually exclusive"),
    ],
)
def test_make_tensor_refuses(options, text):
    with pytest.raises(ValueError, match=text):
        make_tensor(2, 2, 2, 2, **options)
