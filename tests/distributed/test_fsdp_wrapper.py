"""FullyShardedDataParallel against one process with whole parameters."""

import contextlib
import copy
import functools

import pytest
from rank_pool import on_ranks
from test_data_parallel import batches, close, halves, network, train

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed import fsdp
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
from flambeau.distributed.fsdp import ShardingStrategy, StateDictType, wrap
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.tensor import DTensor

LINEAR = wrap.ModuleWrapPolicy({nn.Linear})


def check_equal(model, alone):
    """Values and gradients, by the names that both have in their states."""
    with FSDP.summon_full_params(model, with_grads=True):
        found = dict(model.named_parameters())
        assert list(found) == [name for name, _ in alone.named_parameters()]
        for name, q in alone.named_parameters():
            close(found[name].detach(), q.detach())
            assert (found[name].grad is None) == (q.grad is None), name
            if q.grad is not None:
                close(found[name].grad, q.grad)


@pytest.mark.parametrize("strategy", list(ShardingStrategy))
@on_ranks(2)
def test_training_equals_one_process(strategy):
    fb.manual_seed(1)
    alone = network()
    names = list(alone.state_dict())
    model = FSDP(copy.deepcopy(alone), sharding_strategy=strategy, auto_wrap_policy=LINEAR)
    assert list(model.state_dict()) == names and len(FSDP.fsdp_modules(model)) == 4
    assert FSDP.fsdp_modules(model, root_only=True) == [model] and isinstance(model.module, nn.Sequential)
    held = sum(p.to_local().numel() for p in model.parameters())
    whole = sum(p.numel() for p in alone.parameters())
    assert held == (whole if strategy is ShardingStrategy.NO_SHARD else whole // 2)
    optimizer, plain = fb.optim.AdamW(model.parameters(), lr=0.05), fb.optim.AdamW(alone.parameters(), lr=0.05)
    losses = fb.stack(train(model, batches(), 4, halves, optimizer))
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    close(losses, fb.stack(train(alone, batches(), 4, optimizer=plain)))
    check_equal(model, alone)
    assert all(isinstance(p, DTensor) for p in model.parameters())


@on_ranks(2)
def test_states_go_from_any_kind_to_any():
    fb.manual_seed(1)
    alone = network()
    model, other = (FSDP(network(), auto_wrap_policy=LINEAR, sync_module_states=True) for _ in range(2))
    model.load_state_dict(alone.state_dict())
    x = batches()[0][0]
    close(model(x), alone(x))
    full = model.state_dict()
    assert not any(isinstance(v, DTensor) for v in full.values())
    for name, value in alone.state_dict().items():
        assert fb.equal(full[name], value)
    other.load_state_dict(full)
    close(other(x), alone(x))
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(rank0_only=True, offload_to_cpu=True)):
        assert list(model.state_dict()) == (list(full) if dist.get_rank() == 0 else [])
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        pieces = model.state_dict()
        assert all(isinstance(v, DTensor) for v in pieces.values()) and list(pieces) == list(full)
        for value in pieces.values():
            value.to_local().zero_()
        model.load_state_dict(pieces)
        assert FSDP.get_state_dict_type(model).state_dict_type is StateDictType.SHARDED_STATE_DICT
    assert FSDP.get_state_dict_type(model).state_dict_type is StateDictType.FULL_STATE_DICT
    assert float(model(x).abs().sum()) == 0
    with pytest.raises(ValueError, match="LOCAL_STATE_DICT"):
        FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT)
    with pytest.raises(ValueError, match="expected a FullStateDictConfig"):
        FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, fsdp.ShardedStateDictConfig())


@pytest.mark.parametrize("kind", [StateDictType.FULL_STATE_DICT, StateDictType.SHARDED_STATE_DICT])
@on_ranks(2)
def test_optimizer_states(kind):
    fb.manual_seed(1)
    start = network()
    model = FSDP(copy.deepcopy(start), auto_wrap_policy=LINEAR)
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.05)
    train(model, batches(), 2, halves, optimizer)
    with FSDP.state_dict_type(model, kind):
        of_model, of_optimizer = model.state_dict(), FSDP.optim_state_dict(model, optimizer)
        again = FSDP(copy.deepcopy(start), auto_wrap_policy=LINEAR)
        FSDP.set_state_dict_type(again, kind)
        again.load_state_dict(of_model)
        second = fb.optim.AdamW(again.parameters(), lr=0.05)
        second.load_state_dict(FSDP.optim_state_dict_to_load(again, second, of_optimizer))
    assert sorted(of_optimizer["state"]) == sorted(start.state_dict())
    assert isinstance(of_optimizer["state"]["0.weight"]["exp_avg"], DTensor) == (kind is StateDictType.SHARDED_STATE_DICT)
    train(model, batches(), 2, halves, optimizer)
    train(again, batches(), 2, halves, second)
    for p, q in zip(model.parameters(), again.parameters(), strict=True):
        assert fb.equal(p.to_local(), q.to_local())


@on_ranks(2)
def test_a_whole_optimizer_state_of_rank_0():
    model = FSDP(network(), sync_module_states=True)
    optimizer = fb.optim.Adam(model.parameters(), lr=0.05)
    train(model, batches(), 1, halves, optimizer)
    whole = FSDP.full_optim_state_dict(model, optimizer)
    assert bool(whole) == (dist.get_rank() == 0)
    loaded = FSDP.scatter_full_optim_state_dict(whole or None, model, optim=optimizer)
    before = [optimizer.state[p]["exp_avg"].to_local().clone() for p in model.parameters()]
    optimizer.load_state_dict(loaded)
    assert all(fb.equal(optimizer.state[p]["exp_avg"].to_local(), b) for p, b in zip(model.parameters(), before, strict=True))
    if whole:
        numbered = FSDP.rekey_optim_state_dict(whole, fsdp.OptimStateKeyType.PARAM_ID, model, optim=optimizer)
        assert sorted(numbered["state"]) == list(range(len(before)))


@on_ranks(2)
def test_clipping_accumulation_and_whole_parameters():
    fb.manual_seed(1)
    alone = network()
    model = FSDP(copy.deepcopy(alone), auto_wrap_policy=LINEAR)
    for number, (x, y) in enumerate(batches()):
        with model.no_sync() if number < 2 else contextlib.nullcontext():
            ((model(halves(x)) - halves(y)) ** 2).mean().backward()
        ((alone(x) - y) ** 2).mean().backward()
    check_equal(model, alone)
    for order in (2.0, float("inf"), 1.0):
        close(model.clip_grad_norm_(0.05, order), nn.utils.clip_grad_norm_(alone.parameters(), 0.05, order))
        check_equal(model, alone)
    with FSDP.summon_full_params(model), fb.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    with FSDP.summon_full_params(model, writeback=False), fb.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    assert all(fb.all(p.to_local() == 0.5) for p in model.parameters())
    model.apply(lambda m: nn.init.constant_(m.weight, 0.25) if isinstance(m, nn.Linear) else None)
    assert {float(v.max()) for name, v in model.state_dict().items() if name.endswith("weight")} == {0.25}


@on_ranks(2)
def test_an_optimizer_built_before_keeps_its_parameters():
    fb.manual_seed(1)
    alone = network()
    inner = copy.deepcopy(alone)
    optimizer = fb.optim.SGD(inner.parameters(), lr=0.1)
    model = FSDP(inner, use_orig_params=True, auto_wrap_policy=LINEAR)
    assert [id(p) for p in model.parameters()] == [id(p) for p in optimizer.param_groups[0]["params"]]
    train(model, batches(), 3, halves, optimizer)
    train(alone, batches(), 3, optimizer=fb.optim.SGD(alone.parameters(), lr=0.1))
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        close(p.full_tensor().detach(), q.detach())


@on_ranks(2)
def test_precision():
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append((x.dtype, self.weight.dtype))
            return super().forward(x)

    inner = nn.Sequential(Watched(8, 8), nn.BatchNorm1d(8), Watched(8, 4))
    half = fsdp.MixedPrecision(param_dtype=fb.bfloat16, reduce_dtype=fb.float32, buffer_dtype=fb.bfloat16)
    model = FSDP(inner, mixed_precision=half, auto_wrap_policy=wrap.ModuleWrapPolicy({Watched}))
    model.module[1].register_forward_hook(lambda m, i, o: seen.append(m.module.weight.dtype))
    model(fb.randn(4, 8)).float().sum().backward()
    assert seen == [(fb.bfloat16, fb.bfloat16), fb.float32, (fb.bfloat16, fb.bfloat16)]
    assert {p.grad.dtype for p in model.parameters()} == {fb.float32}
    assert all(v.dtype in (fb.float32, fb.int64) for v in model.state_dict().values())


@on_ranks(2)
def test_what_is_ignored_or_recomputed():
    fb.manual_seed(1)
    alone = network()
    inner = copy.deepcopy(alone)
    model = FSDP(inner, ignored_modules=[inner[0]], auto_wrap_policy=LINEAR, use_orig_params=True)
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
    assert [isinstance(p, DTensor) for p in model.parameters()] == [False, False, True, True, True, True]
    assert list(model.state_dict()) == list(alone.state_dict())
    model.load_state_dict(alone.state_dict())
    x, y = batches()[0]
    ((model(halves(x)) - halves(y)) ** 2).mean().backward()
    ((alone(x) - y) ** 2).mean().backward()
    for p, q in zip(list(model.parameters())[2:], list(alone.parameters())[2:], strict=True):
        close(p.grad.full_tensor(), q.grad)
    with pytest.raises(ValueError, match="names an accelerator"):
        FSDP(nn.Linear(1, 1), device_id="cuda")
    with pytest.raises(RuntimeError, match="hooks are not supported"):
        model.register_comm_hook(None, None)


@on_ranks(2)
def test_modules_on_the_meta_device_get_values_of_the_first_process():
    fb.manual_seed(dist.get_rank())
    with fb.device("meta" if dist.get_rank() else "cpu"):
        inner = network()
    model = FSDP(inner, sync_module_states=True, auto_wrap_policy=LINEAR, param_init_fn=lambda m: m.to_empty(device="cpu", recurse=False))
    fb.manual_seed(0)
    alone = network()
    for name, value in model.state_dict().items():
        assert fb.equal(value, alone.state_dict()[name]), name


@on_ranks(2)
def test_scaler_steps_together():
    p = nn.Parameter(fb.ones(2))
    scaler = ShardedGradScaler("cpu")
    (scaler.scale(p.sum()) / (0.0 if dist.get_rank() == 1 else 1.0)).backward()
    scaler.step(fb.optim.SGD([p], lr=1.0))
    scaler.update()
    assert p.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0**15


def test_policies():
    model = nn.Sequential(nn.Linear(10, 10), nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10)), nn.ModuleList([nn.Linear(30, 30)]))

    def wrapped(policy):
        found = []
        wrap.wrap_inside(copy.deepcopy(model), policy, lambda m, options: found.append((type(m).__name__, options)) or m, set())
        return found

    assert wrapped(functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=150)) == [("Sequential", {}), ("Linear", {})]
    assert wrapped(functools.partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})) == [("Linear", {})] * 4
    chosen = wrap.CustomPolicy(lambda m: {"x": 1} if getattr(m, "in_features", 0) == 30 else False)
    assert wrapped(chosen) == [("Linear", {"x": 1})]
    lists = functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.ModuleList))
    assert wrapped(lists) == [("ModuleList", {})]
    both = functools.partial(wrap._or_policy, policies=[LINEAR, wrap.always_wrap_policy])
    assert len(wrapped(both)) == 6
    with wrap.enable_wrap(wrapper_cls=lambda m, **options: (m, options), a=1):
        assert wrap.wrap(model, b=2) == (model, {"a": 1, "b": 2})
    with pytest.raises(ValueError, match="should return False/True or a kwarg dict"):
        wrapped(wrap.CustomPolicy(lambda m: "yes"))
