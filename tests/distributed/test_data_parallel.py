"""DistributedDataParallel on several ranks against one process that has the data of all."""

import copy
import os
import warnings

import numpy as np
import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms import Join
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from flambeau.nn.parallel import DistributedDataParallel as DDP
from flambeau.utils.checkpoint import checkpoint


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


def close(a, b, rtol=1e-5, atol=1e-6):
    fb.testing.assert_close(a, b, rtol=rtol, atol=atol)


def halves(x):
    """This rank's part of a batch."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def train(model, batches, steps=3, share=lambda x: x, optimizer=None):
    optimizer = optimizer or fb.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = (share(part) for part in batches[step % len(batches)])
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def batches(count=3, size=8):
    generator = fb.Generator().manual_seed(7)
    return [(fb.randn(size, 8, generator=generator), fb.randn(size, 4, generator=generator)) for _ in range(count)]


def check_against_one_process(rank_model, **options):
    """Three steps on parts of batches equal three steps on whole batches."""
    alone = copy.deepcopy(rank_model)
    model = DDP(rank_model, **options)
    data = batches()
    losses = fb.stack(train(model, data, share=halves))
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    close(losses, fb.stack(train(alone, data)))
    for (name, mine), other in zip(model.named_parameters(), alone.parameters(), strict=True):
        close(mine, other), close(mine.grad, other.grad)
        assert name.startswith("module.")
    return model


@on_ranks(2)
def test_training_equals_one_process():
    fb.manual_seed(dist.get_rank())  # construction takes rank 0's values
    model = network()
    if dist.get_rank():
        with fb.no_grad():
            for p in model.parameters():
                p.add_(1)
    reference = [None]
    if dist.get_rank() == 0:
        reference[0] = [p.detach().numpy() for p in model.parameters()]
    dist.broadcast_object_list(reference, src=0)
    model = DDP(model).module
    for p, wanted in zip(model.parameters(), reference[0], strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), wanted)
    fb.manual_seed(1)
    check_against_one_process(network())


@on_ranks(4)
def test_four_ranks():
    check_against_one_process(network(), bucket_cap_mb=0.0005)


@pytest.mark.parametrize("options", [
    {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}, {"bucket_cap_mb": 0.0005},
    {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0005}, {"static_graph": True, "gradient_as_bucket_view": True},
], ids=str)  # fmt: skip
@on_ranks(2)
def test_options_change_nothing(options):
    check_against_one_process(network(), **options)


@on_ranks(2)
def test_gradients_are_averaged_where_they_are():
    """No buffer where none is needed: the tensors that backward made hold the mean."""
    model = DDP(network())
    made = {}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: made.update({id(p): p.grad.data_ptr()}))
    model(halves(batches()[0][0])).sum().backward()
    assert all(p.grad.data_ptr() == made[id(p)] for p in model.parameters())
    assert all(bucket.flat is None for bucket in model.reducer.buckets)
    # A value that two parameters' gradients might share is not averaged twice.
    both = nn.ParameterList([nn.Parameter(fb.zeros(3)), nn.Parameter(fb.zeros(3))])

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = both

        def forward(self, x):
            return (self.both[0] + self.both[1]) * x

    DDP(Sum())(float(dist.get_rank() + 1)).sum().backward()
    assert [p.grad.tolist() for p in both] == [[1.5] * 3] * 2


@on_ranks(2)
def test_gradients_are_sent_while_backward_runs_where_a_core_is_free():
    """The bucket of the last layer is on its way before the first layer's gradient exists; else all follow backward."""
    engine = dist.group.WORLD._engine
    assert engine.overlaps == (len(os.sched_getaffinity(0)) >= 4)
    before = engine.overlaps
    for engine.overlaps in (True, False):
        check_order(engine.overlaps)
    engine.overlaps = before


def check_order(free):
    model = network()
    wrapped = DDP(model, bucket_cap_mb=0.0001)
    events = []
    send = wrapped.reducer._send
    wrapped.reducer._send = lambda index: (events.append(f"send {index}"), send(index))
    model[0].weight.register_hook(lambda g: events.append("first layer"))
    for _ in range(2):
        events.clear()
        wrapped(fb.ones(2, 8)).sum().backward()
        first, layer = events.index("send 0"), events.index("first layer")
        assert first < layer < len(events) - 1 if free else layer == 0, events
    assert wrapped.reducer.rebuilt and len(wrapped.reducer.buckets) > 2


@on_ranks(2)
def test_no_sync_accumulates():
    fb.manual_seed(1)
    model, data = network(), batches()
    alone = copy.deepcopy(model)
    model = DDP(model)
    with model.no_sync():
        x, y = data[0]
        ((model(halves(x)) - halves(y)) ** 2).mean().backward()
    mine = model.module[0].weight.grad.clone()
    other = [None, None]
    dist.all_gather_object(other, mine)
    assert not other[0].equal(other[1])
    x, y = data[1]
    ((model(halves(x)) - halves(y)) ** 2).mean().backward()
    for x, y in data[:2]:
        ((alone(x) - y) ** 2).mean().backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        close(p.grad, q.grad)


class Branches(nn.Module):
    """Each rank uses its own branch, and none the last one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.branches = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x, which):
        return self.branches[which](self.stem(x))


@on_ranks(2)
def test_unused_parameters():
    model = DDP(Branches(), find_unused_parameters=True)
    rank = dist.get_rank()
    for _ in range(3):
        model.zero_grad()
        model(fb.ones(2, 4), rank).sum().backward()
    for branch in (0, 1):
        # One rank has gradient 2 for the bias, the other none: the mean is 1.
        close(model.module.branches[branch].bias.grad, fb.ones(1))
    assert model.module.branches[2].weight.grad is None


@on_ranks(2)
def test_unused_parameters_are_named_in_the_error():
    model = DDP(Branches())
    model(fb.ones(2, 4), 0).sum().backward()
    with pytest.raises(RuntimeError, match=r"Expected to have finished reduction.*4 parameters: branches.1.weight, .*find_unused"):
        model(fb.ones(2, 4), 0)


@on_ranks(2)
def test_static_graph_with_unused_and_reentrant_checkpoints():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(2):
                x = checkpoint(self.a, x, use_reentrant=True)
            return x

    fb.manual_seed(1)
    inner = Twice()
    alone = copy.deepcopy(inner)
    model = DDP(inner, static_graph=True)
    x = fb.arange(16.0).reshape(4, 4).requires_grad_()
    for _ in range(3):
        model.zero_grad(), alone.zero_grad()
        model(halves(x)).mean().backward()
        alone(x).mean().backward()
        close(inner.a.weight.grad, alone.a.weight.grad)
        assert inner.unused.weight.grad is None
    without = DDP(copy.deepcopy(alone), find_unused_parameters=True)
    with pytest.raises(RuntimeError, match="ready only once"):
        without(halves(x)).mean().backward()


@on_ranks(2)
def test_models_that_differ_are_refused():
    model = nn.Linear(4, 4 + dist.get_rank())
    with pytest.raises(ValueError, match=r"different models: weight has shape \(4, 4\).* rank 0, but in rank 1 weight has shape \(5, 4\)"):
        DDP(model)
    more = nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + dist.get_rank())])
    with pytest.raises(ValueError, match="rank 0 has 2 parameters, rank 1 has 4"):
        DDP(more)


@on_ranks(2)
def test_buffers_follow_rank_0():
    rank = dist.get_rank()
    model = DDP(nn.BatchNorm1d(2))
    for _ in range(2):
        model(fb.randn(4, 2) + 10 * rank).sum().backward()
    before = model.module.running_mean.clone()
    model(fb.randn(4, 2) + 10 * rank).sum().backward()
    # One update from rank 0's statistics; of its own, rank 1 would have 1.9 by now.
    assert 0.5 < float(before[0]) < 1.5 if rank else float(before[0]) < 0.5
    model.module.eval()
    model(fb.zeros(1, 2))
    means = [None, None]
    dist.all_gather_object(means, model.module.running_mean)
    assert means[0].equal(means[1])
    free = DDP(nn.BatchNorm1d(2), broadcast_buffers=False)
    for _ in range(3):
        free(fb.randn(4, 2) + 10 * rank).sum().backward()
    dist.all_gather_object(means, free.module.running_mean)
    assert not means[0].equal(means[1])


@on_ranks(2)
def test_default_hooks():
    fb.manual_seed(1)
    model, (x, y) = network(), batches()[0]
    plain = DDP(copy.deepcopy(model))
    ((plain(halves(x)) - halves(y)) ** 2).mean().backward()
    hooks = {
        default_hooks.allreduce_hook: 1e-6, default_hooks.fp16_compress_hook: 1e-2, default_hooks.bf16_compress_hook: 5e-2,
        default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook): 5e-2,
        default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook): 1e-2,
    }  # fmt: skip
    for hook, tolerance in hooks.items():
        hooked = DDP(copy.deepcopy(model), bucket_cap_mb=0.001)
        hooked.register_comm_hook(None, hook)
        for _ in range(2):
            hooked.zero_grad()
            ((hooked(halves(x)) - halves(y)) ** 2).mean().backward()
        for p, q in zip(hooked.parameters(), plain.parameters(), strict=True):
            assert p.grad.dtype == fb.float32
            close(p.grad, q.grad, rtol=tolerance, atol=tolerance * 0.1)
    with pytest.raises(RuntimeError, match="only be called once"):
        hooked.register_comm_hook(None, default_hooks.allreduce_hook)


@on_ranks(2)
def test_compression_sends_half_the_bytes():
    """What goes into all_reduce has 16 bits per element."""
    model = DDP(nn.Linear(64, 64, bias=False))
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    sizes, all_reduce = [], dist.all_reduce
    dist.all_reduce = lambda t, *a, **k: (sizes.append(t.numel() * t.element_size()), all_reduce(t, *a, **k))[1]
    try:
        model(fb.ones(1, 64)).sum().backward()
    finally:
        dist.all_reduce = all_reduce
    assert sizes == [64 * 64 * 2]


@pytest.mark.parametrize("name", ["powerSGD_hook", "batched_powerSGD_hook"])
@on_ranks(2)
def test_power_sgd(name):
    fb.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 4))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    wrapped = DDP(model)
    wrapped.register_comm_hook(state, getattr(powerSGD_hook, name))
    generator = fb.Generator().manual_seed(3)
    x = fb.randn(64, 32, generator=generator)
    y = fb.tanh(x @ fb.randn(32, 4, generator=generator))
    optimizer = fb.optim.SGD(wrapped.parameters(), lr=0.2)
    losses = []
    for _ in range(120):
        loss = ((wrapped(halves(x)) - halves(y)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.25 * losses[0], losses[::20]
    ratio, before, after = state.compression_stats()
    assert ratio > 4 and before > after
    everywhere = [None, None]
    dist.all_gather_object(everywhere, [p.detach() for p in model.parameters()])
    assert all(a.equal(b) for a, b in zip(*everywhere, strict=True))
    # A matrix of rank 1, the same in both processes, gets across at once.
    flat = fb.outer(fb.arange(1.0, 9), fb.arange(1.0, 9)).reshape(-1)
    exact = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False)
    bucket = dist.GradBucket(0, flat.clone(), [fb.zeros(8, 8)], True)
    close(getattr(powerSGD_hook, name)(exact, bucket).wait(), flat, rtol=1e-4)


@on_ranks(2)
def test_join():
    """Rank 1 has more batches; those it trains on alone count half."""
    fb.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    for whole in (True, False):
        alone, inner = copy.deepcopy(model), copy.deepcopy(model)
        wrapped = DDP(inner)
        optimizer, optimizer_alone = fb.optim.SGD(wrapped.parameters(), lr=0.1), fb.optim.SGD(alone.parameters(), lr=0.1)
        x = fb.arange(12.0).reshape(4, 3) / 10
        with wrapped.join(divide_by_initial_world_size=whole):
            for _ in range(2 + 3 * dist.get_rank()):
                optimizer.zero_grad()
                wrapped(x).square().mean().backward()
                optimizer.step()
        for step in range(5):
            optimizer_alone.zero_grad()
            (alone(x).square().mean() * (1 if step < 2 or not whole else 0.5)).backward()
            optimizer_alone.step()
        for p, q in zip(inner.state_dict().values(), alone.state_dict().values(), strict=True):
            close(p.float(), q.float())


@on_ranks(2)
def test_join_can_stop_everybody():
    model = DDP(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="exhausted"), Join([model], throw_on_early_termination=True):
        for _ in range(1 + dist.get_rank()):
            model(fb.ones(1, 1)).sum().backward()
    model(fb.ones(1, 1)).sum().backward()  # still in step


@on_ranks(2)
def test_sparse_gradients():
    fb.manual_seed(1)
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 1))
    alone = copy.deepcopy(model)
    wrapped = DDP(model)
    index = fb.tensor([1, 2, 2, 5])
    for _ in range(2):
        wrapped.zero_grad(), alone.zero_grad()
        wrapped(halves(index)).mean().backward()
        alone(index).mean().backward()
        assert model[0].weight.grad.is_sparse
        close(model[0].weight.grad.to_dense(), alone[0].weight.grad.to_dense())


@on_ranks(2)
def test_mixed_dtypes_and_frozen_parameters():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4).double()
            self.frozen = nn.Linear(4, 4).requires_grad_(False)

        def forward(self, x):
            return self.b(self.frozen(self.a(x)).double())

    fb.manual_seed(1)
    model = Mixed()
    alone = copy.deepcopy(model)
    wrapped = DDP(model, bucket_cap_mb=0.00001)
    x = fb.arange(8.0).reshape(2, 4)
    for _ in range(2):
        wrapped.zero_grad(), alone.zero_grad()
        wrapped(halves(x)).mean().backward()
        alone(x).mean().backward()
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                close(p.grad, q.grad)


@on_ranks(2)
def test_copies_and_pickles():
    import pickle

    model = DDP(nn.Linear(2, 2))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin(fb.ones(1, 2) * (1 + dist.get_rank())).sum().backward()
        close(twin.module.weight.grad, fb.full((2, 2), 1.5))
    assert model.module.weight.grad is None
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


@on_ranks(2)
def test_two_losses_of_one_forward():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, x):
            return self.a(x), self.b(x)

    model = DDP(Heads())
    for _ in range(2):
        model.zero_grad()
        first, second = model(fb.ones(1, 2) * (1 + dist.get_rank()))
        first.sum().backward()
        second.sum().backward()
        close(model.module.a.weight.grad, fb.full((1, 2), 1.5))
        close(model.module.b.weight.grad, fb.full((1, 2), 1.5))


def test_bad_arguments():
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="bucket_cap_mb must be positive"):
            DDP(nn.Linear(1, 1), bucket_cap_mb=0)
        with pytest.raises(RuntimeError, match="doesn't have any parameter"):
            DDP(nn.Linear(1, 1).requires_grad_(False))
        model = DDP(nn.Linear(1, 1))
        with pytest.raises(TypeError, match="must be callable"):
            model.register_comm_hook(None, 3)
        model.register_comm_hook(None, lambda state, bucket: bucket.buffer())
        with pytest.raises(TypeError, match="must return a Future"):
            model(fb.ones(1, 1)).sum().backward()
        with pytest.raises(ValueError, match="start_powerSGD_iter"):
            powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)
        with pytest.raises(ValueError, match="at least 1"):
            powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=0)
        with warnings.catch_warnings(), pytest.raises(ValueError, match="empty"):
            Join([])
    finally:
        dist.destroy_process_group()
