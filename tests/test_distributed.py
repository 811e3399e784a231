"""A process group of one: what scripts written for many processes see when they are started as one."""

import pytest

import flambeau as fb
import flambeau.distributed as dist
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.parallel import DistributedDataParallel


@pytest.fixture
def alone():
    dist.init_process_group("gloo", world_size=1, rank=0)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_size_and_rank_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group(backend="NCCL")
    try:
        assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_world_size() == 1 and dist.get_backend() == "nccl"
        assert dist.group.WORLD.size() == 1
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None


def test_refusals(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match="WORLD_SIZE expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(StateError, match="2 processes were asked for.*WORLD_SIZE=1"):
        dist.init_process_group("gloo", world_size=2, rank=0)
    with pytest.raises(ArgumentError, match="rank 1 is out of range"):
        dist.init_process_group("gloo", world_size=1, rank=1)
    for call in (dist.get_rank, dist.barrier, lambda: dist.all_reduce(fb.ones(1)), lambda: DistributedDataParallel(fb.nn.Linear(1, 1))):
        with pytest.raises(ValueError, match="has not been initialized"):
            call()


def test_collectives(alone):
    with pytest.raises(ArgumentError, match="there is a group already"):
        dist.init_process_group("gloo", world_size=1, rank=0)
    x = fb.arange(3.0)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        assert dist.all_reduce(x, op=op) is None and x.tolist() == [0.0, 1.0, 2.0]
    assert dist.all_reduce(x, async_op=True).wait() and dist.broadcast(x, 0) is None and dist.barrier() is None
    parts = [fb.zeros(3)]
    dist.all_gather(parts, x)
    assert fb.equal(parts[0], x)
    out = fb.zeros(1, 3)
    dist.all_gather_into_tensor(out, x)
    assert out.tolist() == [[0.0, 1.0, 2.0]]
    found = [None]
    dist.all_gather_object(found, {"a": 1})
    assert found == [{"a": 1}]
    with pytest.raises(ArgumentError, match="one element per process"):
        dist.all_gather([fb.zeros(3), fb.zeros(3)], x)
    with pytest.raises(ArgumentError, match="src 1 is out of range"):
        dist.broadcast(x, src=1)
    with pytest.raises(TypeError, match="expected a tensor"):
        dist.all_reduce([1.0])
    assert dist.new_group([0]).size() == 1
    assert list(fb.utils.data.DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]


def test_model_in_a_group_of_one(alone):
    inner = fb.nn.Linear(2, 1)
    model = DistributedDataParallel(inner, find_unused_parameters=True)
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model.module is inner
    with model.no_sync():
        assert not model.require_backward_grad_sync
        model(fb.ones(3, 2)).sum().backward()
    assert model.require_backward_grad_sync and inner.weight.grad.tolist() == [[3.0, 3.0]]
    with pytest.raises(StateError, match="nothing to average"):
        DistributedDataParallel(fb.nn.ReLU())
    with pytest.raises(RuntimeError, match="device_ids"):
        DistributedDataParallel(inner, device_ids=[0])
