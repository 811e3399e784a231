"""Attention over a sequence that is cut over processes gives the numbers of one process."""

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import nn
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.experimental import _attention as cp
from flambeau.distributed.tensor.experimental import context_parallel, implicit_replication, local_map
from flambeau.nn import functional as F

dist = fb.distributed


@pytest.mark.parametrize("causal", [True, False])
@on_ranks(2)
def test_values_and_gradients_on_two(causal):
    every_way(causal)


@pytest.mark.parametrize("causal", [True, False])
@on_ranks(4)
def test_values_and_gradients_on_four(causal):
    every_way(causal)


def every_way(causal):
    """With parts that are consecutive or balanced, with keys that come at once or around a ring."""
    try:
        for balance in (True, False):
            for method in ("allgather", "alltoall"):
                values_and_gradients(causal, balance, method)
    finally:
        cp._cp_options.__init__()


def values_and_gradients(causal, balance, method):
    cp._cp_options.enable_load_balance = balance
    cp.set_rotate_method(method)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for dtype, gqa in ((fb.float32, False), (fb.bfloat16, False), (fb.float64, True)):
        whole = [fb.randn(2, 2 if gqa and i else 4, 16, 6, dtype=dtype) for i in range(3)]
        grad = fb.randn(2, 4, 16, 6, dtype=dtype)
        for t in whole:
            t.requires_grad_()
        expected = F.scaled_dot_product_attention(*whole, is_causal=causal, enable_gqa=gqa)
        expected.backward(grad)
        parts = [t.detach().clone() for t in (*whole, grad)]
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4):
            assert parts[0].shape[2] == 16 // mesh.size()
            q, k, v = (t.clone().requires_grad_() for t in parts[:3])
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)
            out.backward(parts[3])
            results = cp.context_parallel_unshard(mesh, [out, q.grad, k.grad, v.grad], [2] * 4)
        close = {"rtol": 0.05, "atol": 0.05} if dtype == fb.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
        for mine, theirs in zip(results, (expected, *(t.grad for t in whole)), strict=True):
            fb.testing.assert_close(mine, theirs, **close)
        assert all(fb.equal(a, b) for a, b in zip(parts, (*whole, grad), strict=True))


@on_ranks(2)
def test_a_transformer_trains_as_in_one_process():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    mesh = dist.init_device_mesh("cpu", (2,))

    def build():
        fb.manual_seed(0)
        return nn.Sequential(nn.Embedding(11, 8), Block(), Block(), nn.Linear(8, 11))

    whole, model = build(), build()
    tokens = fb.randint(0, 11, (3, 12))
    labels = tokens.roll(-1, 1)
    F.cross_entropy(whole(tokens).flatten(0, 1), labels.flatten()).backward()
    wrapped = nn.parallel.DistributedDataParallel(model)  # averages over the parts of the sequence
    with context_parallel(mesh, buffers=[tokens, labels], buffer_seq_dims=[1, 1], no_restore_buffers={labels}):
        F.cross_entropy(wrapped(tokens).flatten(0, 1), labels.flatten()).backward()
    assert tokens.shape == (3, 12) and labels.shape == (3, 6)
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        fb.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)


@on_ranks(2)
def test_errors_of_context_parallel():
    mesh = dist.init_device_mesh("cpu", (2,))
    x = fb.ones(1, 2, 4, 4)
    with pytest.raises(ValueError, match="a sequence of 3 is not divisible by 2 processes; pad it"):
        with context_parallel(mesh, buffers=[fb.ones(3)], buffer_seq_dims=[0]):
            pass
    with context_parallel(mesh):
        with pytest.raises(ValueError, match="attn_mask and dropout_p are not supported"):
            F.scaled_dot_product_attention(x, x, x, attn_mask=fb.ones(4, 4))
        with pytest.raises(ValueError, match="queries and keys must be of one sequence"):
            F.scaled_dot_product_attention(x, x[:, :, :2], x[:, :, :2])
    with pytest.raises(ValueError, match="must be a subset of `buffers`"):
        with context_parallel(mesh, no_restore_buffers={x}):
            pass
    with pytest.raises(ValueError, match="'allgather' or 'alltoall', got 'ring'"):
        cp.set_rotate_method("ring")
    assert F.scaled_dot_product_attention(x, x, x).shape == x.shape


@on_ranks(2)
def test_functions_on_parts():
    mesh = dist.init_device_mesh("cpu", (2,))
    x = distribute_tensor(fb.arange(4.0), mesh, [Shard(0)])

    @local_map(out_placements=([Shard(0)], None), in_placements=([Shard(0)], None))
    def scaled(t, factor):
        assert not isinstance(t, DTensor) and t.shape == (2,)
        return t * factor, "text"

    y, text = scaled(x, 3)
    assert y.full_tensor().tolist() == [0, 3, 6, 9] and text == "text"
    with pytest.raises(ValueError, match="redistribute_inputs=True"):
        scaled(x.redistribute(placements=[Replicate()]), 3)
    with pytest.raises(ValueError, match="got mixed Tensor and DTensor"):
        x + fb.ones(4)
    with implicit_replication():
        assert (x + fb.arange(4.0)).full_tensor().tolist() == [0, 2, 4, 6]
