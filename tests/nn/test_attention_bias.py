"""Causal masks that are not tensors."""

import pytest

import flambeau as fb
from flambeau.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from flambeau.nn.functional import scaled_dot_product_attention as attention


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 3), (0, 2)])
@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
def test_same_as_the_mask(make, queries, keys):
    fb.manual_seed(0)
    q = fb.randn(2, 3, queries, 4, requires_grad=True)
    k, v = fb.randn(2, 3, keys, 4), fb.randn(2, 3, keys, 6)
    bias = make(queries, keys)
    mask = bias.materialize()
    assert mask.shape == bias.shape == (queries, keys)
    ours, theirs = attention(q, k, v, bias), attention(q, k, v, mask)
    fb.testing.assert_close(ours, theirs)
    for a, b in zip(fb.autograd.grad(ours.sum(), q), fb.autograd.grad(theirs.sum(), q), strict=True):
        fb.testing.assert_close(a, b)


def test_corners():
    assert causal_upper_left(2, 3).materialize().tolist() == [[True, False, False], [True, True, False]]
    assert causal_lower_right(2, 3).materialize().tolist() == [[True, True, False], [True, True, True]]
    assert repr(causal_lower_right(2, 3)) == "CausalBias(variant=LOWER_RIGHT, seq_len_q=2, seq_len_kv=3)"


def test_refused():
    x = fb.zeros(1, 4, 2)
    with pytest.raises(ValueError, match=r"for 3 queries and 4 keys, got 4 and 4"):
        attention(x, x, x, causal_upper_left(3, 4))
    with pytest.raises(ValueError, match="not both"):
        attention(x, x, x, causal_upper_left(4, 4), is_causal=True)
    with pytest.raises(ValueError, match="two sizes"):
        causal_upper_left(3)
    with pytest.raises(ValueError, match="CausalVariant"):
        CausalBias(1, 2, 3)
    with pytest.raises(ValueError, match="negative"):
        CausalBias(CausalVariant.UPPER_LEFT, -1, 3)
