"""DTensors against the ops on the whole tensors."""

import itertools

import pytest
from rank_pool import on_ranks
from test_data_parallel import close

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed import tensor as dt
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor

F = nn.functional


def mesh_of(*shape):
    names = ("a", "b")[: len(shape)]
    return dist.init_device_mesh("cpu", shape, mesh_dim_names=names)


def distributed(whole, mesh, placements):
    """A DTensor leaf; Partial placements by redistribution, which is differentiable."""
    placements = list(placements)
    leaf = distribute_tensor(whole, mesh, [Replicate() if p.is_partial() else p for p in placements])
    leaf.requires_grad_(whole.is_floating_point())
    return leaf, leaf.redistribute(placements=placements)


def check(f, wholes, mesh, placements):
    """Results and gradients of f on DTensors equal those on wholes."""
    wholes = [w.clone().requires_grad_(w.is_floating_point()) for w in wholes]
    expected = f(*wholes)
    pairs = [distributed(w.detach(), mesh, p) for w, p in zip(wholes, placements, strict=True)]
    got = f(*[used for _, used in pairs])
    assert isinstance(got, DTensor) and got.shape == expected.shape and got.dtype == expected.dtype
    close(got.full_tensor(), expected)
    if not expected.is_floating_point():
        return got
    generator = fb.Generator().manual_seed(5)
    weights = fb.randn(expected.shape, generator=generator)
    (expected * weights).sum().backward()
    (got.full_tensor() * weights).sum().backward()
    for (leaf, _), whole in zip(pairs, wholes, strict=True):
        if whole.grad is not None:
            assert leaf.grad.placements == leaf.placements
            close(leaf.grad.full_tensor(), whole.grad, rtol=1e-4, atol=1e-5)
    return got


ALL = [Replicate(), Shard(0), Shard(1), Partial()]


def data(*shapes):
    generator = fb.Generator().manual_seed(3)
    return [fb.randn(*shape, generator=generator) for shape in shapes]


def moved(x, placements):
    return x.redistribute(placements=placements) if isinstance(x, DTensor) else x


@on_ranks(2)
def test_redistribution_to_and_fro():
    mesh = mesh_of(2)
    for shape in ((4, 6), (5, 3), (1, 2), (0, 3)):
        whole = fb.arange(float(shape[0] * shape[1])).reshape(shape)
        for a, b in itertools.product(ALL, ALL):
            check(lambda x, b=b: moved(x, [b]), [whole], mesh, [[a]])


@on_ranks(4)
def test_redistribution_on_two_dimensions():
    mesh = mesh_of(2, 2)
    whole = fb.arange(35.0).reshape(7, 5)
    for a in itertools.product(ALL, ALL):
        for b in itertools.product(ALL, ALL):
            check(lambda x, b=b: moved(x, b), [whole], mesh, [a])


OPS = {
    "add": (lambda a, b: a + b, [(4, 6), (4, 6)]),
    "add broadcast": (lambda a, b: a - 2 * b, [(4, 6), (1, 6)]),
    "add numbers": (lambda a: 1 - a / 2 + a * 3, [(5, 6)]),
    "nonlinear": (lambda a, b: a.exp() * b.tanh().clamp(min=0.1), [(4, 6), (4, 6)]),
    "matmul": (lambda a, b: a @ b, [(4, 6), (6, 3)]),
    "linear": (lambda x, w, b: F.linear(x, w, b.sum(0)), [(5, 6), (3, 6), (2, 3)]),
    "batched matmul": (lambda a, b: a.unsqueeze(0).expand(2, 4, 6) @ b.t(), [(4, 6), (3, 6)]),
    "sums": (lambda a: a.sum(0) + a.sum(1, keepdim=True) + a.sum() + a.mean(1, keepdim=True) + a.mean(), [(6, 6)]),
    "uneven mean": (lambda a: a.mean(0) + a.mean(), [(5, 7)]),
    "extremes": (lambda a: a.amax(1) - a.max() , [(4, 6)]),
    "softmax": (lambda a: a.softmax(-1) + a.log_softmax(0), [(4, 6)]),
    "layer norm": (lambda a, w: F.layer_norm(a, (6,), w[0], w[1]), [(4, 6), (2, 6)]),
    "views": (lambda a: a.view(2, 2, 2, 3).transpose(0, 1).reshape(4, 6).flatten().view(2, -1).t(), [(4, 6)]),
    "heads": (lambda a: a.view(4, 2, 3).transpose(0, 1).permute(2, 0, 1), [(4, 6)]),
    "pieces": (lambda a: fb.cat(a.chunk(2, dim=1), dim=0).narrow(1, 0, 2) + a[:, 1:3].repeat_interleave(2, dim=0), [(4, 6)]),
    "indexing": (lambda a: fb.stack([a[0], a[-1]]) + a[1, None] + a[fb.tensor([0, 2])], [(4, 6)]),
    "norm": (lambda a: fb.linalg.vector_norm(a) + a.square().sum().sqrt(), [(4, 6)]),
    "activations": (lambda a: F.gelu(a) + F.silu(a) + F.relu(a) + F.leaky_relu(a), [(4, 6)]),
    "where": (lambda a, b: fb.where(a > b, a, b).masked_fill(a > 1, 0.0), [(4, 6), (4, 6)]),
    "mse": (lambda a, b: F.mse_loss(a, b), [(4, 6), (4, 6)]),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(*(x.view(1, 2, 4, 3) for x in (q, k, k + q)), is_causal=True), [(4, 6), (4, 6)]
    ),
    "cast": (lambda a: (a.double() * 2).float(), [(4, 6)]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OPS))
@on_ranks(2)
def test_ops(name):
    f, shapes = OPS[name]
    mesh = mesh_of(2)
    for placements in itertools.product(ALL, repeat=len(shapes)):
        check(f, data(*shapes), mesh, [[p] for p in placements])


@on_ranks(4)
def test_ops_on_two_dimensions():
    mesh = mesh_of(2, 2)
    pairs = list(itertools.product(ALL, ALL))
    for name in ("add", "matmul", "sums", "linear"):
        f, shapes = OPS[name]
        for k, first in enumerate(pairs):
            rest = [pairs[(k * 5 + 3 * j) % len(pairs)] for j in range(1, len(shapes))]
            check(f, data(*shapes), mesh, [first, *rest])


@on_ranks(2)
def test_products_are_cut_where_their_operands_are():
    mesh = mesh_of(2)
    x, w = data((4, 6), (8, 6))

    def placed(a, b):
        return F.linear(distribute_tensor(x, mesh, [a]), distribute_tensor(w, mesh, [b])).placements[0]

    assert placed(Replicate(), Shard(0)) == Shard(1)
    assert placed(Shard(1), Shard(1)) == Partial()
    assert placed(Shard(0), Replicate()) == Shard(0)
    assert placed(Replicate(), Replicate()) == Replicate()
    assert (distribute_tensor(x, mesh, [Shard(0)]) + 1).placements[0] == Shard(0)


@on_ranks(2)
def test_embedding_with_rows_in_two_processes():
    mesh = mesh_of(2)
    table, index = data((5, 3))[0], fb.tensor([[0, 4, 2], [1, 3, 3]])
    for placement in (Shard(0), Shard(1), Replicate()):
        check(lambda t: F.embedding(index, t), [table], mesh, [[placement]])
    assert F.embedding(index, distribute_tensor(table, mesh, [Shard(0)])).redistribute(placements=[Shard(0)]).to_local().shape == (1, 3, 3)


@on_ranks(2)
def test_optimizers_work_on_parts():
    mesh = mesh_of(2)
    for make, fused in itertools.product((fb.optim.SGD, fb.optim.AdamW, fb.optim.Adagrad), (None, False)):
        whole = nn.Parameter(data((5, 4))[0])
        part = nn.Parameter(distribute_tensor(whole.detach(), mesh, [Shard(0)]))
        assert isinstance(part, nn.Parameter) and isinstance(part, DTensor)
        options = {"lr": 0.1, "momentum": 0.9} if make is fb.optim.SGD else {"lr": 0.1}
        if fused is False:
            options["foreach"] = False
        a, b = make([whole], **options), make([part], **options)
        for _ in range(3):
            for p, o in ((whole, a), (part, b)):
                o.zero_grad()
                (p * p).sum().backward() if p is whole else (p * p).sum().backward()
                nn.utils.clip_grad_norm_([p], 0.5)
                o.step()
        close(part.full_tensor(), whole.detach())
        assert part.to_local().shape[0] == 3 - dist.get_rank()
        state = b.state[part]
        assert all(s.shape in ((), (5, 4)) for s in state.values() if s is not None)


@on_ranks(2)
def test_from_local_and_to_local():
    mesh, rank = mesh_of(2), dist.get_rank()
    local = fb.full((2, 3), float(rank)).requires_grad_()
    whole = DTensor.from_local(local, mesh, [Shard(0)])
    assert whole.shape == (4, 3)
    (whole * fb.arange(3.0).sum()).sum().backward()
    close(local.grad, fb.full((2, 3), 3.0))
    assert DTensor.from_local(fb.ones(2 - rank, 1), mesh, [Shard(0)]).shape == (3, 1)
    with pytest.raises(ValueError, match="not cut as chunk"):
        DTensor.from_local(fb.ones(1 + 2 * rank, 1), mesh, [Shard(0)])
    summed = DTensor.from_local(fb.ones(2) * (rank + 1), mesh, [Partial()])
    close(summed.full_tensor(), fb.full((2,), 3.0))
    checked = DTensor.from_local(fb.ones(2) * (rank + 1), mesh, [Replicate()], run_check=True)
    close(checked.to_local(), fb.ones(2))
    x = distribute_tensor(fb.ones(2), mesh, [Replicate()]).requires_grad_()
    (x.to_local(grad_placements=[Partial()]) * (rank + 1)).sum().backward()
    close(x.grad.to_local(), fb.full((2,), 3.0))


@on_ranks(2)
def test_factories_and_random_numbers():
    mesh = mesh_of(2)
    for name in ("zeros", "ones", "rand", "randn"):
        fb.manual_seed(4)
        whole = getattr(fb, name)(5, 3)
        fb.manual_seed(4)
        part = getattr(dt, name)(5, 3, device_mesh=mesh, placements=[Shard(0)])
        assert part.to_local().shape == (3 - dist.get_rank(), 3)
        close(part.full_tensor(), whole)
    assert dt.full((2, 2), 3.0, device_mesh=mesh).full_tensor().sum() == 12 and dt.empty(3, device_mesh=mesh).shape == (3,)


@on_ranks(2)
def test_what_tensors_can_do():
    mesh = mesh_of(2)
    x = distribute_tensor(fb.arange(6.0).reshape(3, 2), mesh, [Shard(0)])
    assert x.sum().item() == 15.0 and float(x.max()) == 5.0 and len(x) == 3 and x.numel() == 6 and x.stride() == (2, 1)
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert "Shard(dim=0)" in repr(x) and x.device.type == "cpu"
    x.mul_(2).add_(1)
    x.copy_(x * 0 + 5)
    with fb.no_grad():
        x.zero_()
        x.copy_(fb.ones(3, 2))
    assert x.sum().item() == 6
    import copy
    import pickle

    twin = copy.deepcopy(nn.Parameter(x))
    assert isinstance(twin, nn.Parameter) and twin.placements == x.placements and twin.requires_grad
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pickle.dumps(x)
    with pytest.raises(TypeError, match="to_local"):
        x.numpy()
    with pytest.raises(ValueError, match="mixed Tensor and DTensor"):
        x + fb.ones(3, 2)
    with pytest.raises(TypeError, match="not available for DTensors"):
        fb.linalg.svd(x)
    with pytest.raises(ValueError, match="out of range"):
        x.redistribute(placements=[Shard(2)])
    with pytest.raises(ValueError, match="one placement for each"):
        x.redistribute(placements=[Shard(0), Shard(0)])
    with pytest.raises(TypeError, match="such as Shard"):
        x.redistribute(placements=[0])
    seen = []
    y = nn.Parameter(x)
    y.register_hook(lambda g: seen.append(g.placements))
    y.register_post_accumulate_grad_hook(lambda t: seen.append(t is y))
    (y * 2).sum().backward()
    assert seen == [(Shard(0),), True]


@on_ranks(2)
def test_distribute_module():
    mesh = mesh_of(2)
    fb.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    x = data((3, 4))[0]
    expected = model(x)

    def cut(name, module, mesh):
        if name == "0":
            for key, p in list(module._parameters.items()):
                module.register_parameter(key, nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])))

    distribute_module(
        model, mesh, cut, lambda m, inputs, mesh: (distribute_tensor(inputs[0], mesh),), lambda m, out, mesh: out.full_tensor()
    )
    assert model[0].weight.placements == (Shard(0),) and model[2].weight.placements == (Replicate(),)
    close(model(x), expected)


@on_ranks(2)
def test_contiguous_and_random_numbers():
    mesh = dist.init_device_mesh("cpu", (2,))
    x = distribute_tensor(fb.arange(12.0).view(4, 3), mesh, [Shard(0)])
    assert fb.equal(x.mT.contiguous().full_tensor(), fb.arange(12.0).view(4, 3).mT)
    for fill in (fb.nn.init.normal_, fb.nn.init.xavier_uniform_, fb.nn.init.trunc_normal_):
        fb.manual_seed(4)
        with fb.no_grad():
            fill(x)
        fb.manual_seed(4)
        assert fb.equal(x.full_tensor(), fill(fb.empty(4, 3)))
