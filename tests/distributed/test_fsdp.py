"""fully_shard against one process with whole parameters."""

import copy

import pytest
from rank_pool import on_ranks
from test_data_parallel import batches, close, halves, network, train

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from flambeau.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from flambeau.distributed.tensor import DTensor, Replicate, Shard
from flambeau.utils.checkpoint import checkpoint


def shard_all(model, layers=(nn.Linear,), **options):
    for module in list(model.modules()):
        if isinstance(module, layers):
            fully_shard(module, **options)
    return fully_shard(model, **options)


def check_equal(model, alone, **tolerance):
    for (name, p), q in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert isinstance(p, DTensor), name
        close(p.full_tensor(), q.detach(), **tolerance)
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            close(p.grad.full_tensor(), q.grad, **tolerance)


@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": True}, {"reshard_after_forward": False}], ids=str)
@on_ranks(2)
def test_training_equals_one_process(options):
    fb.manual_seed(1)
    alone = network()
    model = shard_all(copy.deepcopy(alone), **options)
    names = list(alone.state_dict())
    assert list(model.state_dict()) == names and isinstance(model, nn.Sequential) and isinstance(model, FSDPModule)
    sizes = [p.to_local().numel() for p in model.parameters()]
    assert sum(sizes) == sum(p.numel() for p in alone.parameters()) // 2
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.05)
    plain = fb.optim.AdamW(alone.parameters(), lr=0.05)
    losses = fb.stack(train(model, batches(), 4, halves, optimizer))
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    close(losses, fb.stack(train(alone, batches(), 4, optimizer=plain)))
    check_equal(model, alone)
    state = optimizer.state[next(iter(model.parameters()))]["exp_avg"]
    assert state.to_local().numel() == sizes[0]
    with fb.no_grad():
        x = batches()[0][0]
        close(model(x), alone(x))
    assert all(g.wholes is None for g in model._groups(True))


@on_ranks(4)
def test_four_ranks_and_uneven_pieces():
    fb.manual_seed(1)
    alone = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 4, bias=False))
    model = shard_all(copy.deepcopy(alone), (nn.Linear, nn.LayerNorm))
    train(model, batches(), 3, halves)
    train(alone, batches(), 3)
    check_equal(model, alone)


@on_ranks(2)
def test_parameters_are_whole_only_when_needed():
    """At most one layer, besides the one being fetched, is whole; what backward keeps does not hold the others."""
    whole = []

    class Watched(nn.Linear):
        def forward(self, x):
            assert self.weight.shape == (64, 64) and not isinstance(self.weight, DTensor)
            whole.append(sum(g.wholes is not None for g in model._groups(True)))
            return super().forward(x)

    model = nn.Sequential(*[Watched(64, 64, bias=False) for _ in range(8)])
    shard_all(model)
    x = fb.randn(2, 64, requires_grad=True)
    for layer in model:
        layer.register_full_backward_hook(lambda m, gi, go: whole.append(sum(g.wholes is not None for g in model._groups(True))))
    held = fb.memory_allocated()
    y = model(x)
    assert whole == [1] * 8
    assert fb.memory_allocated() - held < 2 * 64 * 64 * 4  # activations, of 512 bytes each
    whole.clear()
    y.sum().backward()
    assert len(whole) == 8 and max(whole) <= 2 and not any(g.wholes for g in model._groups(True))


@on_ranks(2)
def test_accumulation_without_sync():
    fb.manual_seed(1)
    alone = network()
    model = shard_all(copy.deepcopy(alone))
    for number, (x, y) in enumerate(batches()):
        model.set_requires_gradient_sync(number == 2)
        ((model(halves(x)) - halves(y)) ** 2).mean().backward()
        ((alone(x) - y) ** 2).mean().backward()
        if number < 2:
            assert all(p.grad is None for p in model.parameters())
    check_equal(model, alone)
    # With sync in every backward, .grad adds up as well.
    model.zero_grad(), alone.zero_grad()
    for x, y in batches():
        ((model(halves(x)) - halves(y)) ** 2).mean().backward()
        ((alone(x) - y) ** 2).mean().backward()
    check_equal(model, alone)


@on_ranks(2)
def test_mixed_precision():
    fb.manual_seed(1)
    alone = network()
    policy = MixedPrecisionPolicy(param_dtype=fb.bfloat16, reduce_dtype=fb.float32, output_dtype=fb.float32)
    model = copy.deepcopy(alone)
    dtypes = []
    model[2].register_forward_hook(lambda m, i, o: dtypes.append((i[0].dtype, o.dtype)))
    for layer in (model[0], model[2], model[4]):
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=fb.bfloat16, reduce_dtype=fb.float32))
    fully_shard(model, mp_policy=policy)
    x, y = batches()[0]
    out = model(halves(x))
    assert out.dtype == fb.float32 and dtypes == [(fb.bfloat16, fb.bfloat16)]
    ((out - halves(y)) ** 2).mean().backward()
    ((alone(x) - y) ** 2).mean().backward()
    assert all(p.dtype == p.grad.dtype == fb.float32 for p in model.parameters())
    check_equal(model, alone, rtol=0.1, atol=0.02)


@on_ranks(4)
def test_replicas_of_pieces():
    fb.manual_seed(1)
    alone = network()
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "pieces"))
    model = shard_all(copy.deepcopy(alone), mesh=mesh)
    assert model[0].weight.placements == (Replicate(), Shard(0)) and model[0].weight.to_local().shape == (8, 8)
    train(model, batches(), 3, halves)
    train(alone, batches(), 3)
    check_equal(model, alone)


@on_ranks(2)
def test_other_dimensions_shared_and_frozen_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
            self.head.weight = self.embed.weight
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.odd = nn.Parameter(fb.randn(4))

        def forward(self, i):
            return self.head(fb.relu(self.frozen(self.embed(i))) * self.odd)

    fb.manual_seed(1)
    alone = Tied()
    odd = alone.odd
    model = copy.deepcopy(alone)
    ignored = {model.odd}
    fully_shard(model, shard_placement_fn=lambda p: Shard(1) if p.ndim == 2 and p.shape[1] == 4 else None, ignored_params=ignored)
    assert model.embed.weight is model.head.weight and model.embed.weight.to_local().shape == (6, 2)
    assert not isinstance(model.odd, DTensor) and odd is not model.odd
    index = fb.tensor([0, 1, 2, 5, 3, 3])
    for some, i in ((model, halves(index)), (alone, index)):
        some(i).square().mean().backward()
    close(model.embed.weight.grad.full_tensor(), alone.embed.weight.grad)
    assert model.frozen.weight.grad is None
    dist.all_reduce(model.odd.grad, op=dist.ReduceOp.AVG)
    close(model.odd.grad, alone.odd.grad)


@pytest.mark.parametrize("reentrant", [True, False])
@on_ranks(2)
def test_checkpointed_layers(reentrant):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return x + self.b(fb.relu(self.a(x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.end = nn.ModuleList(Block() for _ in range(2)), nn.Linear(8, 4)

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return self.end(x)

    fb.manual_seed(1)
    alone = Model()
    model = copy.deepcopy(alone)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    x, y = batches()[0]
    for some, share in ((model, halves), (alone, lambda x: x)):
        ((some(share(x).requires_grad_()) - share(y)) ** 2).mean().backward()
    check_equal(model, alone)


@on_ranks(2)
def test_a_module_used_twice_and_other_methods():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x):
            return self.a(fb.tanh(self.a(x)))

        def other(self, x):
            return (self.a.weight @ x.t()).t()

    fb.manual_seed(1)
    alone = Model()
    model = copy.deepcopy(alone)
    fully_shard(model.a)
    x = batches()[0][0]
    for some, share in ((model, halves), (alone, lambda x: x)):
        some(share(x)).square().mean().backward()
    check_equal(model, alone)
    outer = copy.deepcopy(alone)
    outer.zero_grad(), alone.zero_grad()
    fully_shard(outer)
    register_fsdp_forward_method(outer, "other")
    for some, share in ((outer, halves), (alone, lambda x: x)):
        (some.other(share(x)).square().mean() + some(share(x)).mean()).backward()
    check_equal(outer, alone)


@on_ranks(2)
def test_prefetch_unshard_and_reshard():
    fb.manual_seed(1)
    alone = network()
    model = shard_all(copy.deepcopy(alone))
    model[0].set_modules_to_forward_prefetch([model[2]])
    model[4].set_modules_to_backward_prefetch([model[2], model[0]])
    model[0].unshard()
    assert model[0].weight.shape == (16, 8) and not isinstance(model[0].weight, DTensor)
    model[0].reshard()
    assert isinstance(model[0].weight, DTensor)
    model[2].unshard(async_op=True).wait()
    assert not isinstance(model[2].weight, DTensor)
    x, y = batches()[0]
    for some, share in ((model, halves), (alone, lambda x: x)):
        ((some(share(x)) - share(y)) ** 2).mean().backward()
    check_equal(model, alone)


@on_ranks(2)
def test_clipping_and_loading():
    fb.manual_seed(1)
    alone = network()
    model = shard_all(copy.deepcopy(alone))
    x, y = batches()[0]
    for some, share in ((model, halves), (alone, lambda x: x)):
        (100 * (some(share(x)) - share(y)) ** 2).mean().backward()
    norms = [nn.utils.clip_grad_norm_(some.parameters(), 1.0) for some in (model, alone)]
    close(norms[0].full_tensor(), norms[1])
    check_equal(model, alone)
    other = network()
    state = {k: v.detach() for k, v in other.state_dict().items()}
    model.load_state_dict({k: fb.distributed.tensor.distribute_tensor(v, p.device_mesh, p.placements)
                           for (k, v), p in zip(state.items(), model.parameters(), strict=True)})  # fmt: skip
    mine = [None, None]
    dist.all_gather_object(mine, [p.full_tensor().sum().item() for p in model.parameters()])
    assert mine[0] == mine[1]
    with fb.no_grad():
        close(model(x)[:1] * 0, model(x)[:1] * 0)


@on_ranks(2)
def test_bad_calls():
    with pytest.raises(ValueError, match="containers"):
        fully_shard(nn.ModuleList([nn.Linear(1, 1)]))
    model = fully_shard(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="already"):
        fully_shard(model)
    scalar = nn.Linear(2, 2)
    scalar.scale = nn.Parameter(fb.tensor(1.0))
    with pytest.raises(ValueError, match="scale has no dimension"):
        fully_shard(scalar)
    optimizer = fb.optim.SGD(model.parameters(), lr=0.1)
    outer = nn.Sequential(fully_shard(nn.Linear(2, 2)), model)
    fully_shard(outer)
    model(fb.ones(1, 2)).sum().backward()
    y = outer(fb.ones(1, 2, requires_grad=True))
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed after the forward"):
        y.sum().backward()


@on_ranks(2)
def test_a_model_on_the_meta_device_is_cut_before_it_has_memory():
    with fb.device("meta"):
        model = shard_all(network())
    assert all(p.device.type == "meta" for p in model.parameters())
    with pytest.raises(RuntimeError, match="weight is on the meta device; call to_empty"):
        model(fb.ones(1, 8))
    model.to_empty(device="cpu")
    fb.manual_seed(5)
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    fb.manual_seed(5)
    alone = network()
    train(model, batches(), 2, halves)
    train(alone, batches(), 2)
    check_equal(model, alone)
    # Or with the values of a whole state, which the first process has.
    with fb.device("meta"):
        loaded = shard_all(network())
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(loaded, alone.state_dict() if dist.get_rank() == 0 else {}, options=options)
    close(loaded(fb.ones(1, 8)), alone(fb.ones(1, 8)))
