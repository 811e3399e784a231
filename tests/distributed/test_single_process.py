"""A group of one process: what scripts ask, collectives as copies, errors for what needs more processes."""

import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.parallel import DistributedDataParallel

dist = fb.distributed


@pytest.fixture
def world():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_before_and_after_a_group(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend, dist.destroy_process_group):
        with pytest.raises(ValueError, match="init_process_group"):
            call()
    with pytest.raises(ValueError, match="WORLD_SIZE expected, but not set"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo", init_method="env://")
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    with pytest.raises(ValueError, match="there is a group already"):
        dist.init_process_group("gloo")
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_what_is_not_there_says_so():
    with pytest.raises(ValueError, match="MASTER_ADDR expected, but not set"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(ValueError, match="'pigeons' is not known, expected one of gloo"):
        dist.init_process_group("pigeons", rank=0, world_size=1)
    with pytest.raises(ValueError, match="rank 1 is out of range"):
        dist.init_process_group("gloo", rank=1, world_size=1)
    assert not dist.is_initialized()


def test_collectives_copy(world):
    x = fb.arange(4.0)
    work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
    assert work.wait() and work.is_completed() and dist.all_reduce(x) is None
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    np.testing.assert_array_equal(x.numpy(), np.arange(4.0))
    targets = {
        name: fb.zeros(4) for name in "all_gather gather scatter into scatter_list scatter_tensor to_all single".split()
    }
    dist.all_gather([targets["all_gather"]], x)
    dist.gather(x, [targets["gather"]], dst=0)
    dist.scatter(targets["scatter"], [x], src=0)
    dist.all_gather_into_tensor(targets["into"], x)
    dist.reduce_scatter(targets["scatter_list"], [x])
    dist.reduce_scatter_tensor(targets["scatter_tensor"], x)
    dist.all_to_all([targets["to_all"]], [x])
    dist.all_to_all_single(targets["single"], x, [4], [4])
    for name, target in targets.items():
        np.testing.assert_array_equal(target.numpy(), x.numpy(), err_msg=name)
    dist.barrier()
    dist.monitored_barrier()


def test_objects(world):
    mine, places = {"a": [1]}, [None]
    dist.all_gather_object(places, mine)
    assert places == [mine] and places[0] is not mine
    dist.gather_object(mine, places, dst=0)
    dist.scatter_object_list(places, ["x"], src=0)
    assert places == ["x"]
    dist.broadcast_object_list(places, src=0)
    assert places == ["x"]


def test_bad_arguments(world):
    with pytest.raises(ValueError, match="one element per process"):
        dist.all_gather([fb.zeros(1), fb.zeros(1)], fb.zeros(1))
    with pytest.raises(ValueError, match="must agree"):
        dist.all_gather([fb.zeros(2)], fb.zeros(3))
    with pytest.raises(ValueError, match="src 1 is out of range"):
        dist.broadcast(fb.zeros(1), src=1)
    with pytest.raises(TypeError, match="expected a tensor"):
        dist.all_reduce([1.0])
    with pytest.raises(TypeError, match="ReduceOp"):
        dist.all_reduce(fb.zeros(1), op="sum")
    with pytest.raises(ValueError, match="integer tensor"):
        dist.all_reduce(fb.zeros(1), op=dist.ReduceOp.BAND)
    for call in (dist.send, dist.recv, dist.isend, dist.irecv):
        with pytest.raises(ValueError, match="no other"):
            call(fb.zeros(1), 0)
    with pytest.raises(ValueError, match="must sum to 2"):
        dist.all_to_all_single(fb.zeros(2), fb.zeros(2), [1], [2])


def test_groups(world):
    inner = dist.new_group([0])
    assert inner.size() == 1 and dist.get_rank(inner) == 0 and dist.get_process_group_ranks(inner) == [0]
    outside = dist.new_group([])
    assert outside == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(outside) == -1
    assert dist.all_reduce(fb.zeros(1), group=outside) is None
    with pytest.raises(ValueError, match="only 0"):
        dist.new_group([0, 1])
    dist.destroy_process_group(inner)
    with pytest.raises(ValueError, match="part of"):
        dist.barrier(inner)


def test_data_parallel_training_equals_plain_training(world):
    def train(wrap):
        fb.manual_seed(0)
        model = wrap(fb.nn.Linear(3, 1))
        sampler = fb.utils.data.DistributedSampler(range(8), seed=1)
        optimizer = fb.optim.SGD(model.parameters(), lr=0.1)
        data = fb.randn(8, 3)
        for i in sampler:
            optimizer.zero_grad()
            model(data[i]).square().sum().backward()
            optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    for ours, plain in zip(train(fb.nn.parallel.DistributedDataParallel), train(lambda m: m), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_data_parallel_checks(world):
    with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
        fb.nn.parallel.DistributedDataParallel(fb.nn.ReLU())
    with pytest.raises(ValueError, match="name accelerators"):
        fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(1, 1), device_ids=[0])
    model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(1, 1))
    with model.no_sync():
        assert not model.require_backward_grad_sync
    assert model.require_backward_grad_sync
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="init_process_group"):
        fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(1, 1))


def test_import_is_lazy():
    code = "import flambeau, sys; print('flambeau.distributed' in sys.modules, 'flambeau.distributions' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]


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
    with pytest.raises(ArgumentError, match="rank 1 is out of range"):
        dist.init_process_group("gloo", world_size=1, rank=1)
    for call in (dist.get_rank, dist.barrier, lambda: dist.all_reduce(fb.ones(1)), lambda: DistributedDataParallel(fb.nn.Linear(1, 1))):
        with pytest.raises(ValueError, match="has not been initialized"):
            call()


def test_collectives_answer_and_check(world):
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


def test_model_in_a_group_of_one(world):
    inner = fb.nn.Linear(2, 1)
    model = DistributedDataParallel(inner, find_unused_parameters=True)
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model.module is inner
    with model.no_sync():
        assert not model.require_backward_grad_sync
        model(fb.ones(3, 2)).sum().backward()
    assert model.require_backward_grad_sync and inner.weight.grad.tolist() == [[3.0, 3.0]]
    with pytest.raises(StateError, match="any parameter that requires a gradient"):
        DistributedDataParallel(fb.nn.ReLU())
    with pytest.raises(RuntimeError, match="device_ids"):
        DistributedDataParallel(inner, device_ids=[0])
