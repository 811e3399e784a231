"""Ops that PyTorch uses itself, under the names that programs call them by."""

import pytest

import flambeau as fb


@pytest.fixture
def torch():
    with fb.compat.torch() as module:
        yield module


def test_chunk_cat(torch):
    a, b = fb.arange(6).view(3, 2), fb.arange(4).view(2, 2)
    assert torch._chunk_cat([a, b], 0, 2).tolist() == [[0, 1, 2, 3, 0, 1], [4, 5, 0, 0, 2, 3]]
    out = fb.zeros(2, 6, dtype=fb.float64)
    assert torch._chunk_cat([a, b], 0, 2, out=out).tolist() == out.tolist() == [[0, 1, 2, 3, 0, 1], [4, 5, 0, 0, 2, 3]]
    with pytest.raises(RuntimeError, match="_chunk_cat expects positive num_chunks"):
        torch._chunk_cat([a, b], 0, 0)
    with pytest.raises(RuntimeError, match="_chunk_cat expects dim < ndim for all input tensors"):
        torch._chunk_cat([a, fb.ones(2)], 1, 2)


def test_masked_indices_may_be_out_of_range(torch):
    x, index = fb.tensor([1.0, 2.0, 3.0], requires_grad=True), fb.tensor([0, 7, 2])
    mask = index < 3
    assert torch._unsafe_masked_index(x, mask, [index], -1.0).tolist() == [1, -1, 3]
    assert torch._unsafe_masked_index_put_accumulate(x, mask, [index], fb.ones(3)).tolist() == [2, 2, 4]
    torch._unsafe_masked_index(x, mask, [index], -1.0).sum().backward()
    assert x.grad.tolist() == [1, 0, 1]


def test_safe_softmax_of_nothing_but_infinities_is_zero(torch):
    x = fb.tensor([[0.0, 0.0], [-fb.inf, -fb.inf]], requires_grad=True)
    y = torch.ops.aten._safe_softmax.default(x, -1)
    y[:, 0].sum().backward()
    assert y.tolist() == [[0.5, 0.5], [0, 0]] and x.grad.tolist() == [[0.25, -0.25], [0, 0]]


def test_backward_ops_agree_with_gradients(torch):
    aten, x = torch.ops.aten, fb.randn(1, 2, 4, 4, requires_grad=True)
    y, indices = fb.nn.functional.max_pool2d(x, 2, return_indices=True)
    g = fb.randn_like(y)
    expected = fb.autograd.grad(y, x, g)[0]
    assert aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices).equal(expected)
    y = x.softmax(-1)
    g = fb.randn_like(y)
    assert aten._softmax_backward_data(g, y, -1, fb.float32).allclose(fb.autograd.grad(y, x, g)[0], atol=1e-6)
    assert aten.native_dropout_backward(fb.ones(2), fb.tensor([True, False]), 2.0).tolist() == [2, 0]


def test_batch_norms_with_their_statistics(torch):
    x, mean, var = fb.randn(4, 3), fb.zeros(3), fb.ones(3)
    expected = fb.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    for found in (
        torch._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5),
        torch.ops.aten._batch_norm_with_update(x, None, None, mean, var, 0.1, 1e-5)[:3],
    ):
        assert all(map(fb.equal, found, expected))
    assert not mean.equal(fb.zeros(3))
    outs = [fb.empty(4, 3), fb.empty(3), fb.empty(3)]
    torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=outs)
    assert all(map(fb.equal, outs, expected))
    with pytest.raises(RuntimeError, match="native_batch_norm: expected out= to have 3 tensors, one per result, got 1"):
        torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=outs[:1])


def test_antialiased_images(torch):
    x = fb.randn(1, 2, 6, 6)
    expected = fb.nn.functional.interpolate(x, (3, 4), mode="bilinear", antialias=True)
    assert torch.ops.aten._upsample_bilinear2d_aa(x, [3, 4], False).equal(expected)
