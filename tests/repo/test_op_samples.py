"""How tools/op_samples.py describes arguments and results, and what it calls different."""

from __future__ import annotations

import op_sample_values as values
import pytest

import flambeau as fb


@pytest.fixture(autouse=True)
def with_flambeau(monkeypatch):
    monkeypatch.setattr(values, "torch", fb)


def test_descriptions_keep_values_strides_dtypes_and_structure():
    x = fb.randn(3, 4, dtype=fb.bfloat16).t()
    sparse = fb.eye(3).to_sparse()
    call = (x.requires_grad_(), [fb.tensor(2), sparse], {"dtype": fb.float64, "dim": (0, 1), "at": slice(1, None), "p": 2.5})
    first, (number, again), options = values.decode(values.encode(call))
    assert first.equal(x) and first.stride() == x.stride() and first.dtype is x.dtype and first.requires_grad
    assert number.item() == 2 and again.to_dense().equal(fb.eye(3))
    assert options == {"dtype": fb.float64, "dim": (0, 1), "at": slice(1, None), "p": 2.5}
    assert values.decode(values.encode([len]), [max]) == [max]  # functions are those of the sample made here


@pytest.mark.parametrize(
    ("found", "wanted", "says"),
    [
        (fb.ones(2), fb.ones(2) + 1e-6, None),
        (fb.ones(2), fb.ones(2) + 1e-3, "values: 2 of 2 differ"),
        (fb.tensor([1.0, fb.nan]), fb.tensor([1.0, fb.nan]), None),
        (fb.tensor([1.0, fb.inf]), fb.tensor([1.0, 2.0]), "non-finite values: 1 of 2 differ"),
        (fb.ones(2), fb.ones(2, dtype=fb.float64), "float32 instead of float64"),
        (fb.ones(2), fb.ones(2, 1), "shape (2,) instead of (2, 1)"),
        (fb.tensor([1, 2]), fb.tensor([1, 3]), "integers: 1 of 2 differ"),
        ([fb.ones(1)], (fb.ones(1),), None),
        ((fb.ones(1),), (fb.ones(1), fb.ones(1)), "1 results instead of 2"),
        (True, 1, "True instead of 1"),
    ],
)
def test_what_differs(found, wanted, says):
    problem = values.different(values.encode(found), values.encode(wanted), tolerance=values.TOLERANCE["float32"])
    assert problem is None if says is None else problem.startswith(says), problem


def test_a_half_as_near_to_float64_as_the_other_is_right():
    exact = values.encode(fb.tensor([1.0, 2.0], dtype=fb.float64))
    near, far = (values.encode(fb.tensor([1.0, x], dtype=fb.bfloat16)) for x in (2.0, 3.0))
    assert not values.farther(exact, near, far) and values.farther(exact, far, near)
