"""Reading and writing x[...] as in NumPy: slices, negative steps, None, Ellipsis, masks, index arrays, mixtures."""

from __future__ import annotations

import os

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import flambeau as fb
from ops.spec import LAYOUTS, to_numpy

EXAMPLES = 6 * int(os.environ.get("FLAMBEAU_FUZZ", 25))
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
LAYOUT = st.sampled_from(["contiguous", "transposed", "strided", "negative"])


@st.composite
def cases(draw, advanced=True):
    """A shape, and an index that fits it."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    index, dim, ellipsis = [], 0, False
    together = draw(st.integers(1, 3))  # the common length of index arrays
    while dim < len(shape):
        kind = draw(st.sampled_from(["slice", "int", "slice", "none", "ellipsis", "array", "mask", "stop", "numbers"]))
        n = shape[dim]
        if kind == "none":
            index.append(None)
            if draw(st.booleans()):
                continue
            kind = "slice"
        if kind == "ellipsis" and not ellipsis:
            ellipsis = True
            index.append(...)
            dim += draw(st.integers(0, len(shape) - dim))
        elif kind == "int" and n:
            index.append(draw(st.integers(-n, n - 1)))
            dim += 1
        elif kind in ("array", "numbers") and n and advanced:
            rows = draw(st.lists(st.integers(-n, n - 1), min_size=together, max_size=together))
            index.append(np.array(rows) if kind == "array" else rows)
            dim += 1
        elif kind == "mask" and advanced:
            flags = draw(st.lists(st.booleans(), min_size=n, max_size=n))
            alone = not any(isinstance(i, (np.ndarray, list)) for i in index) and dim == len(shape) - 1
            if sum(flags) == together or alone:
                index.append(np.array(flags, dtype=bool))
                dim += 1
        elif kind == "stop":
            break
        else:
            step = draw(st.sampled_from([None, 1, 2, -1, -2, 3]))
            bounds = st.one_of(st.none(), st.integers(-n - 2, n + 2))
            index.append(slice(draw(bounds), draw(bounds), step))
            dim += 1
    hypothesis.assume(not number_apart_from_arrays(index))
    return shape, tuple(index)


def number_apart_from_arrays(index) -> bool:
    """x[0, :, [1, 3]]: NumPy counts the number as an index array, PyTorch does not; the order of dimensions differs."""
    kinds = ["array" if isinstance(i, (list, np.ndarray)) else "int" if isinstance(i, int) else "" for i in index]
    special = [i for i, kind in enumerate(kinds) if kind]
    mixed = {"array", "int"} <= set(kinds)
    return mixed and special != list(range(special[0], special[-1] + 1))


def ours(index):
    """The same index with tensors instead of arrays."""
    return tuple(fb.from_numpy(i.copy()) if isinstance(i, np.ndarray) else i for i in index)


def array(shape, dtype=np.float32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@SETTINGS
@hypothesis.given(cases(), LAYOUT)
def test_reading(case, layout):
    shape, index = case
    values = array(shape)
    try:
        want = values[index]
    except IndexError:
        hypothesis.reject()
    got = LAYOUTS[layout](values, "float32")[ours(index)]
    assert tuple(got.shape) == want.shape and np.array_equal(to_numpy(got), want)


@SETTINGS
@hypothesis.given(cases(advanced=False), LAYOUT)
def test_basic_indexing_is_a_view(case, layout):
    shape, index = case
    values = np.asarray(array(shape) + 1)
    want = values.copy()
    tensor = LAYOUTS[layout](values, "float32")
    tensor[index].zero_()
    want[index if index else ...] = 0
    assert np.array_equal(to_numpy(tensor), want)


@SETTINGS
@hypothesis.given(cases(), LAYOUT, st.sampled_from(["number", "same", "row", "0-d"]))
def test_writing(case, layout, source):
    shape, index = case
    values = array(shape)
    try:
        target = values[index]
    except IndexError:
        hypothesis.reject()
    # An element written twice may hold either value, so index arrays must not repeat when the values differ.
    repeats = any(isinstance(i, (list, np.ndarray)) and np.asarray(i).dtype != bool for i in index)
    if source == "number" or repeats and source != "0-d":
        new = -7.0
    elif source == "0-d" or not target.ndim:
        new = np.float32(-8.0)
    else:
        new = -1.0 - array(target.shape if source == "same" else target.shape[-1:])
    values[index] = new
    tensor = LAYOUTS[layout](array(shape), "float32")
    tensor[ours(index)] = fb.from_numpy(np.array(new)) if isinstance(new, (np.ndarray, np.float32)) else new
    assert np.array_equal(to_numpy(tensor), values)


def test_mixtures_by_hand():
    values = array((2, 3, 4, 5))
    x = fb.from_numpy(values.copy())
    rows, cols = np.array([[0], [1]]), np.array([0, 2, 1])
    for index in (
        (rows, cols),
        (slice(None), rows, cols),
        (rows, slice(None), cols),
        (..., np.array([0, 4])),
        (np.array([True, False]),),
        (slice(None), np.array([True, False, True]), ...),
        (values > 50,),
        (None, ..., np.array([1]), None),
        (slice(None, None, -1), np.array([2, 0])),
        ([0, 1], [1, 2]),
        (True,),
        (False,),
        (np.array(1),),
    ):
        want = values[index]
        got = x[ours(index)]
        assert tuple(got.shape) == want.shape, f"{index}: shape {tuple(got.shape)}, expected {want.shape}"
        assert np.array_equal(to_numpy(got), want), f"{index}"


@pytest.mark.parametrize(
    "index, error",
    [
        (5, IndexError),
        (-3, IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        ("x", (TypeError, IndexError)),
        (1.5, (TypeError, IndexError)),
        (slice(None, None, 0), ValueError),
        ([0, 7], IndexError),
        ([True, False, True], IndexError),
        (2**70, (IndexError, OverflowError, ValueError, TypeError)),
    ],
    ids=str,
)
def test_bad_indices(index, error):
    x = fb.zeros(2, 3)
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 1.0
    assert not to_numpy(x).any()


def test_bad_tensor_indices():
    x = fb.zeros(2, 3)
    wrong_masks = fb.tensor([True, False, True]), fb.ones(2, 3, 1, dtype=fb.bool)
    for index in (fb.tensor([0.5]), fb.tensor([9]), fb.tensor([-3]), *wrong_masks):
        with pytest.raises((IndexError, RuntimeError)):
            x[index]


def test_assignment_that_does_not_fit():
    x = fb.zeros(2, 3)
    with pytest.raises(RuntimeError):
        x[0] = fb.ones(2)
    with pytest.raises(RuntimeError):
        x[x > 1] = fb.ones(5)
    with pytest.raises((TypeError, RuntimeError)):
        x[0] = "text"


def test_assignment_converts_and_broadcasts():
    x = fb.zeros(2, 3, dtype=fb.int64)
    x[0] = 2.9
    x[1, 1:] = fb.tensor([True])
    x[:, 0] = fb.tensor([5.5, 6.5])
    assert x.tolist() == [[5, 2, 2], [6, 1, 1]]


def test_overlapping_assignment():
    x = fb.arange(6)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = fb.arange(6)
    y[:] = y[::-1]
    assert y.tolist() == [5, 4, 3, 2, 1, 0]


def test_many_dimensions():
    x = fb.arange(2).reshape((1,) * 31 + (2,))
    assert x[(0,) * 31].tolist() == [0, 1]
    assert x[..., 1].ndim == 31
