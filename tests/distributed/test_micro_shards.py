"""The bits of training do not depend on the number of processes."""

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import nn

dist = fb.distributed


def trained(count, group):
    """Parameters and losses after some steps."""
    fb.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Dropout(0.3), nn.Linear(7, 3), nn.LayerNorm(3))
    model.append(nn.Linear(3, 1).double())
    unused = nn.Parameter(fb.ones(2))
    shards = dist.MicroShards([*model.parameters(), unused], count, group=group, seed=5)
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.01)
    x, y, losses = fb.randn(count * 4, 5) * 100, fb.randn(count * 4, 1), []
    for _ in range(3):
        optimizer.zero_grad()
        for i in shards:
            h = model[:5](shards.part(x, i))
            shards.backward(nn.functional.mse_loss(model[5](h.double()), shards.part(y, i).double()))
        losses.append(shards.reduce())
        optimizer.step()
    assert unused.grad is not None and not unused.grad.any()
    return [p.detach() for p in model.parameters()], losses


def same_bits(counts):
    alone, _ = dist.new_subgroups(1)
    for count in counts:
        (one, one_losses), (several, losses) = trained(count, alone), trained(count, None)
        assert all(fb.equal(a, b) for a, b in zip([*one, *one_losses], [*several, *losses], strict=True)), count


@on_ranks(2)
def test_two_processes_have_the_bits_of_one():
    same_bits((2, 6, 8))
    shards = dist.MicroShards([fb.ones(1, requires_grad=True)], 6)
    assert list(shards) == [0, 1, 2] if dist.get_rank() == 0 else [3, 4, 5]
    assert shards._left_over(0) == [(0, 2), (1, 0)] and shards._left_over(1) == [(0, 3), (1, 2)]


@on_ranks(4)
def test_four_processes_have_the_bits_of_one():
    same_bits((4, 8, 12))


def test_gradients_are_means():
    model = nn.Linear(3, 2)
    x = fb.randn(12, 3)
    model(x).square().mean().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    shards = dist.MicroShards(model.parameters(), 3)
    for _ in range(2):
        for i in shards:
            shards.backward(model(shards.part(x, i)).square().mean())
        loss = shards.reduce()
    assert fb.allclose(loss.float(), model(x).square().mean())
    for p, grad in zip(model.parameters(), wanted, strict=True):
        fb.testing.assert_close(p.grad, 2 * grad)


def test_errors_of_micro_shards():
    p = fb.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="count must be a multiple of the 1 processes, got 0"):
        dist.MicroShards([p], 0)
    shards = dist.MicroShards([p], 2)
    with pytest.raises(ValueError, match="a batch of 3 is not divisible into 2 micro-shards"):
        shards.part(fb.ones(3), 0)
    with pytest.raises(RuntimeError, match="call it inside"):
        shards.backward(p.sum())
    for _ in shards:
        shards.backward(p.sum())
        with pytest.raises(RuntimeError, match="was called already for micro-shard 0"):
            shards.backward(p.sum())
        break
    with pytest.raises(RuntimeError, match="not called for micro-shard 1"):
        shards.reduce()
