"""ZeroRedundancyOptimizer against the optimizer it distributes, and batch normalization over all ranks."""

import copy

import pytest
from rank_pool import on_ranks
from test_data_parallel import DDP, batches, close, halves, network, train

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed.optim import ZeroRedundancyOptimizer


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
@on_ranks(2)
def test_steps_equal_the_plain_optimizer(name):
    fb.manual_seed(1)
    kind, options = getattr(fb.optim, name), {"lr": 0.05, "weight_decay": 0.1}
    alone = network()
    model = DDP(copy.deepcopy(alone))
    groups = [{"params": list(model.parameters())[:2], "lr": 0.01}, {"params": list(model.parameters())[2:]}]
    optimizer = ZeroRedundancyOptimizer(groups, kind, **options)
    plain = kind([{"params": list(alone.parameters())[:2], "lr": 0.01}, {"params": list(alone.parameters())[2:]}], **options)
    schedulers = [fb.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (optimizer, plain)]
    for _ in range(2):
        train(model, batches(), 2, halves, optimizer)
        train(alone, batches(), 2, optimizer=plain)
        for scheduler in schedulers:
            scheduler.step()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        close(p, q)
    assert optimizer.param_groups[0]["lr"] == plain.param_groups[0]["lr"] == 0.0025
    if name == "AdamW":
        counts = [None, None]
        dist.all_gather_object(counts, len(optimizer.optim.state))
        assert sum(counts) == len(plain.state) and min(counts) > 0


@on_ranks(2)
def test_state_is_collected_and_loaded():
    fb.manual_seed(1)
    model = DDP(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), fb.optim.Adam, lr=0.05)
    train(model, batches(), 2, halves, optimizer)
    with pytest.raises(RuntimeError, match="not been consolidated"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=1)
    saved = [copy.deepcopy(optimizer.state_dict()) if dist.get_rank() == 1 else None]
    dist.broadcast_object_list(saved, src=1)
    assert sorted(saved[0]["state"]) == list(range(6))
    twin = DDP(copy.deepcopy(model.module))
    fresh = ZeroRedundancyOptimizer(twin.parameters(), fb.optim.Adam, lr=0.9)
    fresh.load_state_dict(saved[0])
    alone = copy.deepcopy(model.module)
    plain = fb.optim.Adam(alone.parameters())
    plain.load_state_dict(copy.deepcopy(saved[0]))
    assert len(fresh.optim.state) < 6
    for some, o in ((model, optimizer), (twin, fresh)):
        train(some, batches(), 2, halves, o)
    train(alone, batches(), 2, optimizer=plain)
    for p, q, r in zip(model.parameters(), twin.parameters(), alone.parameters(), strict=True):
        assert p.equal(q)
        close(p, r)


@on_ranks(2)
def test_a_group_is_added_later():
    fb.manual_seed(1)
    model = DDP(network())
    params = list(model.parameters())
    optimizer = ZeroRedundancyOptimizer(params[:2], fb.optim.SGD, lr=0.1, momentum=0.9)
    before = [p.detach().clone() for p in params]
    train(model, batches(), 1, halves, optimizer)
    assert params[2].equal(before[2]) and not params[0].equal(before[0])
    optimizer.add_param_group({"params": params[2:]})
    train(model, batches(), 2, halves, optimizer)
    everywhere = [None, None]
    dist.all_gather_object(everywhere, [p.detach() for p in params])
    assert all(a.equal(b) for a, b in zip(*everywhere, strict=True)) and not params[2].equal(before[2])


def test_bad_arguments():
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(TypeError, match="class of optimizers"):
            ZeroRedundancyOptimizer([fb.zeros(1)], "SGD")
        with pytest.raises(ValueError, match="overlap_with_ddp"):
            ZeroRedundancyOptimizer([fb.zeros(1)], fb.optim.SGD, overlap_with_ddp=True)
    finally:
        dist.destroy_process_group()


# ---- SyncBatchNorm ----------------------------------------------------------------------------------------------------


def uneven(x):
    """Rank 0's part is three quarters."""
    cut = 3 * len(x) // 4
    return x[:cut] if dist.get_rank() == 0 else x[cut:]


@pytest.mark.parametrize("share", [halves, uneven], ids=["halves", "uneven"])
@on_ranks(2)
def test_batch_norm_over_all_ranks(share):
    fb.manual_seed(1)
    alone = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 1, 1), nn.BatchNorm2d(1, affine=False))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone))
    assert isinstance(model[1], nn.SyncBatchNorm) and model[1].weight.equal(alone[1].weight)
    generator = fb.Generator().manual_seed(3)
    whole = fb.randn(8, 2, 5, 5, generator=generator).requires_grad_()
    weights = fb.randn(8, 1, 3, 3, generator=generator)
    mine = share(whole.detach()).requires_grad_()
    (model(mine) * share(weights)).sum().backward()
    (alone(whole) * weights).sum().backward()
    close(mine.grad, share(whole.grad), rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        dist.all_reduce(p.grad)
        close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
    for name, value in alone.state_dict().items():
        close(model.state_dict()[name].float(), value.float(), rtol=1e-4, atol=1e-5)
    model.eval(), alone.eval()
    close(model(mine), share(alone(whole)), rtol=1e-4, atol=1e-5)


@on_ranks(2)
def test_batch_norm_with_an_empty_batch_and_16_bits():
    layer = nn.SyncBatchNorm(2)
    x = fb.arange(8.0).reshape(4, 2)
    mine = (x if dist.get_rank() else x[:0]).requires_grad_()
    out = layer(mine)
    close(out, fb.nn.functional.batch_norm(x, None, None, training=True)[: len(mine)])
    out.square().sum().backward()
    assert mine.grad.shape == mine.shape and bool(layer.weight.grad.isfinite().all())
    half = layer.bfloat16()(halves(x).bfloat16())
    assert half.dtype == fb.bfloat16
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.SyncBatchNorm(2)(fb.ones(1 - dist.get_rank(), 2))


@on_ranks(2)
def test_a_process_without_data_steps_with_the_gradients_of_the_others():
    from flambeau.distributed.algorithms.join import Join

    def build():
        fb.manual_seed(0)
        return nn.Linear(4, 2)

    fb.manual_seed(1)
    batches = [[fb.randn(5, 4) for _ in range(3 + rank)] for rank in range(2)]
    whole = build()
    reference = fb.optim.Adam(whole.parameters(), lr=0.01)
    for i in range(4):
        reference.zero_grad()
        for own in batches:
            if i < len(own):
                (whole(own[i]).square().sum() / 2).backward()
        reference.step()
    model = nn.parallel.DistributedDataParallel(build())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=fb.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for x in batches[dist.get_rank()]:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    for p, q in zip(model.module.parameters(), whole.parameters(), strict=True):
        fb.testing.assert_close(p, q)
