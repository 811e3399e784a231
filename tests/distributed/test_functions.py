"""Collectives as functions, lists of tensors in one call, groups made by dividing, objects from rank to rank."""

import functools

import numpy as np
import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import nn
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.nn import functional as F

dist = fb.distributed


def weights(count, rank):
    """What rank's loss counts each element of its result by."""
    return fb.arange(float(count)) + 10 * rank


# Each entry: a function of this rank's tensor of 4 elements, and the same on the list of all ranks' (NumPy), for each rank.
FUNCTIONS = {
    "all_reduce": (lambda x: F.all_reduce(x), lambda xs: [sum(xs)] * 2),
    "average": (lambda x: F.all_reduce(x, dist.ReduceOp.AVG), lambda xs: [sum(xs) / 2] * 2),
    "all_gather": (lambda x: fb.cat(F.all_gather(x)), lambda xs: [fb.cat(xs)] * 2),
    "broadcast": (lambda x: F.broadcast(x, 1), lambda xs: [xs[1], xs[1]]),
    "reduce_scatter": (lambda x: F.reduce_scatter(fb.empty(2), list(x.chunk(2))), lambda xs: list(sum(xs).chunk(2))),
    "all_to_all": (
        lambda x: fb.cat(F.all_to_all([fb.empty(2), fb.empty(2)], list(x.chunk(2)))),
        lambda xs: [fb.cat([x.chunk(2)[r] for x in xs]) for r in range(2)],
    ),
    "all_to_all_single": (
        lambda x: F.all_to_all_single(fb.empty(2 if dist.get_rank() == 0 else 6), x, [1, 1] if dist.get_rank() == 0 else [3, 3], [1, 3]),
        lambda xs: [fb.cat([x[:1] for x in xs]), fb.cat([x[1:] for x in xs])],
    ),
    "scatter": (lambda x: F.scatter(list(x.chunk(2)), src=1), lambda xs: list(xs[1].chunk(2))),
    "all_gather_tensor": (lambda x: functional.all_gather_tensor(x.view(2, 2), 1, dist.group.WORLD).flatten(),
                          lambda xs: [fb.cat([x.view(2, 2) for x in xs], 1).flatten()] * 2),
    "reduce_scatter_tensor": (lambda x: functional.reduce_scatter_tensor(x.view(2, 2), "sum", 1, [0, 1]).flatten(),
                              lambda xs: [part.flatten() for part in sum(xs).view(2, 2).chunk(2, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@on_ranks(2)
def test_values_and_gradients_are_those_of_one_process(name):
    here, whole = FUNCTIONS[name]
    rank = dist.get_rank()
    xs = [(fb.arange(4.0) + r).requires_grad_() for r in range(2)]
    expected = whole(xs)
    sum((y * weights(y.numel(), r)).sum() for r, y in enumerate(expected)).backward()
    x = (fb.arange(4.0) + rank).requires_grad_()
    y = here(x)
    assert fb.equal(y, expected[rank])
    (y * weights(y.numel(), rank)).sum().backward()
    wanted = xs[rank].grad if xs[rank].grad is not None else fb.zeros(4)
    assert fb.equal(x.grad, wanted)


@on_ranks(2)
def test_gather_and_reduce_give_one_rank_the_result():
    rank = dist.get_rank()
    x = fb.full((2,), rank + 1.0, requires_grad=True)
    parts = F.gather(x, dst=1)
    assert [p.tolist() for p in parts] == ([[1, 1], [2, 2]] if rank else [[0, 0], [0, 0]])
    (parts[0] * 3 + parts[1] * 5).sum().backward()
    assert x.grad.tolist() == ([5, 5] if rank else [3, 3])
    x.grad = None
    total = F.reduce(x, 0)
    (total * (7 if rank == 0 else 100)).sum().backward()
    assert total.tolist() == ([3, 3] if rank == 0 else [2, 2]) and x.grad.tolist() == [7, 7]


@on_ranks(2)
def test_second_derivatives():
    x = fb.tensor([2.0 + dist.get_rank()], requires_grad=True)
    y = F.all_reduce(x**3)
    (first,) = fb.autograd.grad(y, x, create_graph=True)  # both ranks' losses count x³: 2 * 3 x²
    (second,) = fb.autograd.grad(first, x)
    assert first.item() == 6 * x.item() ** 2 and second.item() == 12 * x.item()


@on_ranks(2)
def test_errors_of_functions():
    with pytest.raises(ValueError, match="SUM and AVG only, got MAX"):
        F.all_reduce(fb.ones(1), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match=r"first dimension, 3, is not divisible by 2 processes; give input_split_sizes"):
        F.all_to_all_single(fb.empty(4), fb.ones(3))
    with pytest.raises(ValueError, match="must be a multiple of group_size 2"):
        functional.reduce_scatter_tensor(fb.ones(3), "sum", 0, dist.group.WORLD)
    with pytest.raises(ValueError, match=r"got MAX; pass x.detach\(\)"):
        functional.all_reduce(fb.ones(1, requires_grad=True), "max", dist.group.WORLD)
    assert functional.all_reduce(fb.ones(1) * dist.get_rank(), "max", dist.group.WORLD).item() == 1


@on_ranks(2)
def test_groups_of_functional_collectives():
    x, mesh = fb.ones(2) * (dist.get_rank() + 1), dist.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    for group in (dist.group.WORLD, mesh, (mesh, 0), [0, 1], [[0, 1]], "default_pg"):
        assert functional.all_reduce(x, "sum", group).tolist() == [3, 3]
    assert functional.all_reduce(x, "sum", [[0], [1]]).tolist() == x.tolist()
    assert functional.permute_tensor(x, [1, 0], mesh).tolist() == [2 - dist.get_rank()] * 2
    with pytest.raises(ValueError, match="no process group named 'other'"):
        functional.all_reduce(x, "sum", "other")


@on_ranks(2)
def test_lists_and_collected_calls():
    rank = dist.get_rank()
    ts = [fb.ones(2) * rank, fb.ones(3, dtype=fb.int64), fb.ones(2, 2) * rank]
    dist.all_reduce_coalesced(ts)
    assert [t.flatten().tolist() for t in ts] == [[1, 1], [2, 2, 2], [1] * 4]
    future = dist.all_reduce_coalesced(ts, async_op=True)
    assert future.wait()[1].tolist() == [4, 4, 4]
    got = [[fb.zeros(2), fb.zeros(1)] for _ in range(2)]
    dist.all_gather_coalesced(got, [fb.ones(2) * rank, fb.ones(1)])
    assert got[1][0].tolist() == [1, 1] and got[0][0].tolist() == [0, 0]
    a, b = fb.ones(2), fb.ones(3)
    with dist._coalescing_manager():
        dist.all_reduce(a)
        dist.all_reduce(b)
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(b)
    manager.wait()
    assert a.tolist() == [2, 2] and b.tolist() == [4, 4, 4]


@on_ranks(2)
def test_divided_groups():
    rank, count = dist.get_rank(), dist.get_pg_count()
    mine, both = dist.new_subgroups(group_size=1)
    assert mine.size() == 1 and len(both) == 2 and dist.get_process_group_ranks(mine) == [rank]
    mine, both = dist.new_subgroups_by_enumeration([[1, 0]])
    assert mine.size() == 2 and dist.get_pg_count() == count + 2
    split = dist.split_group(mine, [[1], [0]])
    assert dist.get_process_group_ranks(split) == [rank]
    assert dist.split_group(mine, [[0, 1]]).size() == 2
    with pytest.raises(ValueError, match="rank 0 has appeared in more than one subgroup"):
        dist.new_subgroups_by_enumeration([[0], [0, 1]])
    with pytest.raises(ValueError, match="2 processes are not divisible by group_size, 3"):
        dist.new_subgroups(3)


@on_ranks(2)
def test_objects_from_rank_to_rank():
    if dist.get_rank() == 0:
        dist.send_object_list(["a", {"b": fb.ones(2)}, None], dst=1)
        dist.send_object_list([1], dst=1)
    else:
        got = [0, 0, 0]
        assert dist.recv_object_list(got, src=0) == 0
        assert got[0] == "a" and got[1]["b"].tolist() == [1, 1] and got[2] is None
        assert dist.recv_object_list(got[:1]) == 0


@on_ranks(2)
def test_parameters_are_averaged_now_and_then():
    from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
    from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from flambeau.distributed.optim import PostLocalSGDOptimizer

    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False))
    nn.init.ones_(model.module.weight)
    model.register_comm_hook(PostLocalSGDState(None, None, 1, post_local_gradient_allreduce=False), post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(fb.optim.SGD(model.parameters(), lr=1.0), PeriodicModelAverager(2, warmup_steps=1))
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        model(fb.ones(1, 2) * (dist.get_rank() + 1)).sum().backward()
        optimizer.step()
        seen.append(model.module.weight[0, 0].item())
    # step 1: gradients averaged, 1.5; step 2: own gradient, then averaged parameters; step 3: own gradient only
    assert seen == [-0.5, -2.0, -2.0 - (dist.get_rank() + 1)]
    assert optimizer.state_dict()["step"] == 3


@on_ranks(2)
def test_blocks_that_are_computed_again_may_be_in_pieces():
    from flambeau.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapper
    from flambeau.distributed.fsdp import fully_shard

    rng = np.random.default_rng(0)
    x = fb.from_numpy(rng.standard_normal((4, 6), dtype=np.float32)) + dist.get_rank()

    def build():
        fb.manual_seed(1)
        return nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)])

    plain = nn.parallel.DistributedDataParallel(build())
    plain(x).square().sum().backward()
    for kind in wrapper.CheckpointImpl:
        model = build()
        wrap = functools.partial(wrapper.checkpoint_wrapper, checkpoint_impl=kind)
        wrapper.apply_activation_checkpointing(model, wrap, check_fn=lambda m: isinstance(m, nn.Sequential))
        assert list(model.state_dict()) == list(plain.module.state_dict())
        for block in model:
            fully_shard(block)
        fully_shard(model)
        model(x.clone().requires_grad_()).square().sum().backward()
        for (name, p), q in zip(model.named_parameters(), plain.module.parameters(), strict=True):
            assert fb.allclose(p.grad.full_tensor(), q.grad, atol=1e-5), (kind, name)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@on_ranks(2)
def test_loss_of_cut_classes(reduction):
    from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
    from flambeau.distributed.tensor.parallel import loss_parallel

    mesh = dist.init_device_mesh("cpu", (2,))
    for shape, target in (((4, 5), fb.tensor([0, 4, -100, 2])), ((2, 5, 3), fb.tensor([[0, 4, 1], [2, 3, 3]])), ((5,), fb.tensor(3))):
        scores = (fb.randn(shape) * 30).requires_grad_()
        wanted = nn.functional.cross_entropy(scores, target, reduction=reduction)
        wanted.sum().backward()
        cut = distribute_tensor(scores.detach(), mesh, [Shard(0 if len(shape) == 1 else 1)]).requires_grad_()
        with loss_parallel():
            loss = nn.functional.cross_entropy(cut, target, reduction=reduction)
            assert loss.placements == (Replicate(),)
            assert fb.allclose(loss.full_tensor(), wanted)
            loss.sum().backward()
        assert fb.allclose(cut.grad.full_tensor(), scores.grad, atol=1e-6)
    with loss_parallel(), pytest.raises(IndexError, match="Target 5 is out of bounds for 5 classes"):
        nn.functional.cross_entropy(distribute_tensor(fb.ones(1, 5), mesh, [Shard(1)]), fb.tensor([5]))
