"""Attention with functions of the position, against the same thing written with whole tensors."""

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b, h, q, k):
    return q >= k


def inputs(heads=4, shared=4):
    fb.manual_seed(0)
    return fb.randn(2, heads, 6, 8), fb.randn(2, shared, 6, 8), fb.randn(2, shared, 6, 5)


def test_plain_and_causal_equal_scaled_dot_product_attention():
    q, k, v = inputs()
    sdpa = fb.nn.functional.scaled_dot_product_attention
    np.testing.assert_allclose(flex_attention(q, k, v).numpy(), sdpa(q, k, v).numpy(), rtol=1e-4, atol=1e-6)
    mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)
    expected = sdpa(q, k, v, is_causal=True)
    np.testing.assert_allclose(flex_attention(q, k, v, block_mask=mask).numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        flex_attention(q, k, v, scale=0.3).numpy(), sdpa(q, k, v, scale=0.3).numpy(), rtol=1e-4, atol=1e-6
    )


def test_score_functions_with_tables_and_gradients():
    q, k, v = inputs()
    slopes, table = fb.tensor([0.5, 0.25, 0.125, 0.0625], requires_grad=True), fb.randn(4, 6, 6)

    def alibi(score, b, h, i, j):
        return score + slopes[h] * (j - i) + table[h, i, j]

    positions = fb.arange(6)
    bias = slopes.view(4, 1, 1) * (positions - positions.view(6, 1)) + table
    expected = ((q @ k.mT) / 8**0.5 + bias).softmax(-1) @ v
    actual = flex_attention(q, k, v, score_mod=alibi)
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    (ours,) = fb.autograd.grad(actual.sum(), slopes)
    (theirs,) = fb.autograd.grad(expected.sum(), slopes)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-3, atol=1e-4)


def test_shared_heads_lse_and_empty_rows():
    q, k, v = inputs(heads=4, shared=2)
    whole = flex_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    np.testing.assert_allclose(flex_attention(q, k, v, enable_gqa=True).numpy(), whole.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="4 heads and key 2"):
        flex_attention(q, k, v)
    q, k, v = inputs()
    never_first = create_block_mask(lambda b, h, i, j: i > j, None, None, 6, 6)
    output, lse = flex_attention(q, k, v, block_mask=never_first, return_lse=True)
    assert (output[:, :, 0] == 0).all() and lse[:, :, 0].isneginf().all() and lse[:, :, 1:].isfinite().all()
    _, extra = flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))
    np.testing.assert_allclose(extra.max_scores.numpy(), (q @ k.mT / 8**0.5).amax(-1).numpy(), rtol=1e-5)


def test_masks():
    window = and_masks(causal, lambda b, h, q, k: q - k < 2)
    assert create_mask(window, None, None, 4, 4).sum() == 7
    assert create_mask(or_masks(causal, lambda b, h, q, k: k == 3), 2, 3, 4, 4).shape == (2, 3, 4, 4)
    assert create_mask(noop_mask, None, None, 3, 5).all()
    mask = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=(2, 4))
    assert mask.to_dense().tolist() == [[[[1, 0], [1, 0], [1, 1], [1, 1]]]]
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]] and mask.full_kv_num_blocks.tolist() == [[[0, 0, 1, 1]]]
    assert mask.sparsity() == 25 and mask.numel() == 64
    q, k, v = inputs()
    with pytest.raises(ValueError, match="block_mask is for lengths"):
        flex_attention(q, k, v, block_mask=mask)
    with pytest.raises(ValueError, match="BLOCK_SIZE"):
        create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=0)
