"""Tensor parallelism, alone and under fully_shard and DistributedDataParallel, against one process."""

import copy

import pytest
from rank_pool import on_ranks
from test_data_parallel import close

import flambeau as fb
from flambeau import distributed as dist
from flambeau import nn
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import DTensor, Replicate, Shard
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)  # fmt: skip

F = nn.functional


class Block(nn.Module):
    """A transformer's block; the number of heads follows from what the projections give."""

    def __init__(self, width=8, head=2):
        super().__init__()
        self.head = head
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (f(h).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)

    def forward(self, i):
        x = self.embed(i)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


PLAN = {"layers.*.[qkv]": ColwiseParallel, "layers.*.out": RowwiseParallel,
        "layers.*.up": ColwiseParallel, "layers.*.down": RowwiseParallel,
        "embed": RowwiseParallel}  # fmt: skip


def plan():
    return {name: style() for name, style in PLAN.items()} | {"head": ColwiseParallel(output_layouts=Replicate())}


def tokens(rows=4):
    return fb.arange(rows * 6).reshape(rows, 6) * 7 % 11


def loss_of(model, i):
    return F.cross_entropy(model(i).flatten(0, 1), (i * 3 % 11).flatten())


def full(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def check(model, alone, sum_gradients=None):
    for (name, p), q in zip(model.named_parameters(), alone.named_parameters(), strict=True):
        close(full(p.detach()), q[1].detach(), rtol=1e-4, atol=1e-5)
        grad = full(p.grad)
        if sum_gradients is not None:
            sum_gradients(grad)
        assert q[0] == name
        close(grad, q[1].grad, rtol=1e-3, atol=1e-5)


@on_ranks(2)
def test_a_transformer():
    fb.manual_seed(1)
    alone, mesh = Model(), dist.init_device_mesh("cpu", (2,))
    model = parallelize_module(copy.deepcopy(alone), mesh, plan())
    assert model.layers[0].q.weight.to_local().shape == (4, 8) and model.layers[0].down.weight.to_local().shape == (8, 16)
    assert model.embed.weight.to_local().shape == (6 - dist.get_rank(), 8)
    # Not Adam: the gradient of k's bias is zero but for rounding, which Adam would scale up.
    optimizers = [fb.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, alone)]
    for _ in range(3):
        for some, optimizer in zip((model, alone), optimizers, strict=True):
            optimizer.zero_grad()
            loss = loss_of(some, tokens())
            loss.backward()
            optimizer.step()
    check(model, alone)


@on_ranks(2)
def test_sequence_parallel():
    """Between the products, each rank has half of the sequence."""
    fb.manual_seed(1)
    alone, mesh = Model(), dist.init_device_mesh("cpu", (2,))
    shapes = []

    class Watched(nn.LayerNorm):
        def forward(self, x):
            shapes.append(x.to_local().shape if isinstance(x, DTensor) else x.shape)
            return super().forward(x)

    model = copy.deepcopy(alone)
    for layer in model.layers:
        layer.norm1.__class__ = layer.norm2.__class__ = Watched
    styles = {
        "embed": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "layers.*.norm[12]": SequenceParallel(), "norm": SequenceParallel(),
        "layers.*.[qkv]": ColwiseParallel(input_layouts=Shard(1)),
        "layers.*.out": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }  # fmt: skip
    parallelize_module(model, mesh, styles)
    for some in (model, alone):
        loss_of(some, tokens()).backward()
    assert set(shapes) == {(4, 3, 8)}
    check(model, alone)


@on_ranks(4)
def test_under_fully_shard():
    """Two processes share a layer, and two of those pairs the pieces of their parameters."""
    fb.manual_seed(1)
    alone = Model()
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(copy.deepcopy(alone), mesh["model"], plan())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    weight = model.layers[0].q.weight
    assert weight.shape == (8, 8) and weight.to_local().shape == (2, 8)
    optimizers = [fb.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, alone)]
    part = tokens(4).chunk(2)[mesh["data"].get_local_rank()]
    for _ in range(2):
        for some, i, optimizer in ((model, part, optimizers[0]), (alone, tokens(4), optimizers[1])):
            optimizer.zero_grad()
            loss_of(some, i).backward()
            optimizer.step()
    check(model, alone)


@on_ranks(2)
def test_inputs_and_outputs_are_moved():
    mesh, rank = dist.init_device_mesh("cpu", (2,)), dist.get_rank()

    class Twice(nn.Module):
        def forward(self, x, y=None):
            assert x.shape[0] == 4 and (y is None or y.shape == (2, 2))
            return x * 2, x.shape[0]

    whole, named = fb.arange(8.0).reshape(4, 2), fb.ones(2, 2)
    mine = whole.chunk(2)[rank]
    style = PrepareModuleInput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), input_kwarg_layouts={"y": Replicate()},
        desired_input_kwarg_layouts={"y": Replicate()}, use_local_output=True,
    )  # fmt: skip
    out, _ = parallelize_module(Twice(), mesh, style)(mine, y=named)
    close(out, whole * 2)
    back = PrepareModuleOutput(output_layouts=(Replicate(), None), desired_output_layouts=(Shard(0), None))
    both = nn.Sequential(Twice())
    out, _ = parallelize_module(both, mesh, {"0": back})(whole)
    close(out, (whole * 2).chunk(2)[rank])
    class One(Twice):
        def forward(self, x):
            return super().forward(x)[0]

    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_input=True, output_layouts=Replicate(),
        desired_output_layouts=Shard(0),
    )  # fmt: skip
    close(parallelize_module(One(), mesh, style)(mine), mine * 2)
    with pytest.raises(ValueError, match="Linear and Embedding"):
        parallelize_module(nn.ReLU(), mesh, ColwiseParallel())
    with pytest.raises(ValueError, match="mesh of one dimension"):
        parallelize_module(nn.Linear(1, 1), dist.init_device_mesh("cpu", (2, 1)), ColwiseParallel())
    with pytest.warns(UserWarning, match="no module is named"):
        parallelize_module(nn.Linear(1, 1), mesh, {"nothing": ColwiseParallel()})
    with pytest.raises(ValueError, match="same length"):
        PrepareModuleInput(input_layouts=(Shard(0), None), desired_input_layouts=Replicate())
