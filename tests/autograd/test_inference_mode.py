"""What tensors made in inference mode may and may not do, inside and outside of it."""

from __future__ import annotations

import pytest

import flambeau as fb


@pytest.fixture
def made():
    with fb.inference_mode():
        return fb.ones(2, 2)


def test_made_inside_and_outside(made):
    assert made.is_inference() and not fb.ones(2).is_inference()
    with fb.inference_mode(False):
        assert not fb.ones(2).is_inference()


def test_functional_results_are_what_the_mode_says(made):
    assert not (made * 2).is_inference()  # a new tensor made outside
    plain = fb.ones(2, 2)
    with fb.inference_mode():
        assert (plain * 2).is_inference() and (made * 2).is_inference()


def test_views_are_what_their_base_is(made):
    assert made.view(4).is_inference() and made[0].is_inference() and made.t().is_inference()
    assert made.detach().is_inference()
    plain = fb.ones(2, 2)
    with fb.inference_mode():
        assert not plain.view(4).is_inference() and not plain[0].is_inference() and not plain.detach().is_inference()
        assert made.view(4).is_inference()


@pytest.mark.parametrize("write", [
    lambda t: t.add_(1), lambda t: t.view(4).zero_(), lambda t: t.__setitem__(0, 1.0), lambda t: fb.add(t.clone(), 1, out=t),
])  # fmt: skip
@pytest.mark.parametrize("mode", [fb.enable_grad, fb.no_grad])
def test_no_writing_outside(made, write, mode):
    with mode(), pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        write(made)


def test_writing_inside(made):
    plain = fb.ones(2, 2)
    version = plain._version
    with fb.inference_mode():
        made.add_(1)
        plain.add_(1)
        fb.add(made, 1, out=plain)
    assert plain._version > version and not plain.is_inference()


def test_not_kept_for_backward(made):
    x = fb.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * made
    assert (x + made).requires_grad  # a sum keeps nothing
    (x * made.clone()).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_no_version_counter(made):
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        made._version  # noqa: B018


def test_requires_grad(made):
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"):
        made.requires_grad_()
    with fb.inference_mode():
        inside = fb.ones(2, requires_grad=True)
        assert inside.requires_grad and not (inside * 2).requires_grad


def test_view_of_a_plain_tensor_made_inside_is_not_changed_outside():
    x = fb.ones(2, requires_grad=True).clone()
    with fb.inference_mode():
        view = x.view(2)
    with pytest.raises(RuntimeError, match="modified inplace"):
        view.add_(1)
