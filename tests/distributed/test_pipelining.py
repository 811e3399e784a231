"""Pipelines give the losses, results and gradients of the whole model in one process."""

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import nn
from flambeau.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipe_split,
    pipeline,
)
from flambeau.distributed.pipelining._zero_bubble import simulated
from flambeau.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks

dist = fb.distributed
CPU = fb.device("cpu")
SCHEDULES = {
    "GPipe": ScheduleGPipe, "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble, "ZBVZeroBubble": ScheduleZBVZeroBubble,
}  # fmt: skip


class Two(nn.Module):
    """Takes and gives two tensors, one of integers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, counts):
        return (self.linear(x) * counts.unsqueeze(1)).tanh(), counts + 1


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, counts):
        return self.linear(x) + counts.unsqueeze(1)


def build(count):
    fb.manual_seed(3)
    return nn.ModuleList([Two() for _ in range(count - 1)] + [Last()])


def whole_step(model, x, counts, y):
    h = (x, counts)
    for layer in model:
        h = layer(*h)
    loss = nn.functional.mse_loss(h, y)
    loss.backward()
    return h, loss


@pytest.mark.parametrize(("name", "stages", "parts"), [
    ("GPipe", 1, 4), ("GPipe", 1, 1), ("1F1B", 1, 4), ("1F1B", 1, 2), ("Interleaved1F1B", 2, 4), ("Interleaved1F1B", 3, 6),
    ("LoopedBFS", 2, 3), ("InterleavedZeroBubble", 2, 4), ("InterleavedZeroBubble", 1, 3), ("ZBVZeroBubble", 2, 4),
])  # fmt: skip
@on_ranks(2)
def test_gradients_are_those_of_the_whole_model(name, stages, parts):
    rank, total = dist.get_rank(), 2 * stages
    whole, model = build(total), build(total)
    x, y, counts = fb.randn(12, 6), fb.randn(12, 6), fb.arange(12)
    v = name == "ZBVZeroBubble"  # the first and the last stage are in one process
    own = [PipelineStage(model[i], i, total, CPU) for i in ((rank, total - 1 - rank) if v else range(rank, total, 2))]
    single = name in ("GPipe", "1F1B")
    schedule = SCHEDULES[name](own[0] if single else own, parts, loss_fn=nn.functional.mse_loss)
    for _ in range(2):  # gradients add up
        expected, expected_loss = whole_step(whole, x, counts, y)
        losses = ["old"]
        has_last = rank == (0 if v else 1)
        more = {"target": y, "losses": losses} if has_last else {}
        result = schedule.step(*((x, counts) if rank == 0 else ()), **more)
        if not has_last:
            assert result is None
        else:
            assert fb.allclose(result, expected, atol=1e-6) and not result.requires_grad
            assert len(losses) == parts and fb.allclose(fb.stack(losses).mean(), expected_loss)
    for stage in own:
        for p, q in zip(stage.submod.parameters(), whole[stage.stage_index].parameters(), strict=True):
            assert fb.allclose(p.grad, q.grad, atol=1e-6)
        assert not stage.inputs and not stage.outputs and not stage.sending and not stage.later


@pytest.mark.parametrize("owner", [[0, 1, 1, 0], [0, 1, 0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 3, 2, 1, 0]], ids=str)
def test_orders_of_split_backwards(owner):
    """Every action once, parts in their order, and no more of them held than there are stages."""
    parts, ranks = 10, max(owner) + 1
    for rank, order in enumerate(simulated(ranks, owner, parts)):
        own = [stage for stage, r in enumerate(owner) if r == rank]
        assert len(order) == len(set(order)) == 3 * parts * len(own)
        for kind in "FIW":
            for stage in own:
                assert [a.part for a in order if a.kind == kind and a.stage == stage] == list(range(parts))
        held = 0
        for action in order:
            held += (action.stage == own[0]) * {"F": 1, "I": 0, "W": -1}[action.kind]
            assert held <= len(owner)


@on_ranks(2)
def test_uneven_parts_sums_and_eval():
    rank = dist.get_rank()
    model, whole = build(2), build(2)
    x, y, counts = fb.randn(7, 6), fb.randn(7, 6), fb.arange(7)
    stage = PipelineStage(model[rank], rank, 2, CPU)
    schedule = ScheduleGPipe(stage, 3, loss_fn=nn.MSELoss(reduction="sum"), scale_grads=False)
    expected, _ = whole_step(whole, x, counts, y)
    nn.functional.mse_loss(whole[1](*whole[0](x, counts)), y, reduction="sum").backward()
    with fb.no_grad():
        for p in whole.parameters():
            p.grad.div_(1 + 1 / 42)  # the mean's gradient, 1 / 42 of the sum's, was added before
    args = (x, counts) if rank == 0 else ()
    result = schedule.step(*args, target=None if rank == 0 else y)
    assert rank == 0 or fb.allclose(result, expected, atol=1e-6)
    for p, q in zip(stage.submod.parameters(), whole[rank].parameters(), strict=True):
        assert fb.allclose(p.grad, q.grad, atol=1e-4)
        p.grad = None
    losses = []
    schedule.eval(*args, target=None if rank == 0 else y, losses=losses, return_outputs=False)
    assert len(losses) == 3 * rank and all(p.grad is None for p in stage.submod.parameters())


@on_ranks(2)
def test_data_parallel_layers_send_once_per_batch():
    rank = dist.get_rank()
    layer = nn.Linear(4, 4, bias=False)
    wrapped = nn.parallel.DistributedDataParallel(layer, process_group=dist.new_subgroups(1)[0])
    sums = []
    wrapped.register_comm_hook(None, lambda _, bucket: sums.append(1) or _done(bucket.buffer() * 10))
    schedule = Schedule1F1B(PipelineStage(wrapped, rank, 2, CPU), 4, loss_fn=nn.MSELoss())
    x = fb.ones(8, 4)
    schedule.step(*([x] if rank == 0 else []), target=None if rank == 0 else x)
    assert sums == [1]
    marked = layer.weight.grad.clone()
    assert marked.abs().sum() > 0


def _done(value):
    future = fb.futures.Future()
    future.set_result(value)
    return future


def test_batches_are_cut_and_joined():
    x, y = fb.arange(6).view(3, 2), fb.arange(4)
    args, kwargs = split_args_kwargs_into_chunks((x, 5), {"y": {"inner": y}}, 2, (TensorChunkSpec(1), None))
    assert [a[0].tolist() for a in args] == [[[0], [2], [4]], [[1], [3], [5]]] and args[1][1] == 5
    assert kwargs[1]["y"]["inner"].tolist() == [2, 3]
    assert fb.equal(merge_chunks([a[0] for a in args], TensorChunkSpec(1)), x)
    assert merge_chunks([(fb.ones(1), 2.0), (fb.ones(1), 2.0)])[0].tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"shape \(4,\) cannot be cut into 5 microbatches"):
        split_args_kwargs_into_chunks((y,), {}, 5)


@on_ranks(2)
def test_errors():
    rank = dist.get_rank()
    with pytest.raises(ValueError, match=f"stage {1 - rank} belongs to rank {1 - rank}"):
        PipelineStage(nn.Linear(1, 1), 1 - rank, 2, CPU)
    stage = PipelineStage(nn.Linear(1, 1), rank, 2, CPU)
    with pytest.raises(ValueError, match=r"microbatches \(1\) must be greater than or equal to the number of stages \(2\)"):
        Schedule1F1B(stage, 1)
    with pytest.raises(ValueError, match=r"multiple of the number of rounds \(2\), got 5"):
        ScheduleInterleaved1F1B([stage], 5)
    if rank == 1:
        with pytest.raises(ValueError, match="target is missing in the process of the last stage"):
            ScheduleGPipe(stage, 2, nn.MSELoss()).step()
        with pytest.raises(ValueError, match="positional arguments go to the first stage"):
            ScheduleGPipe(stage, 2, nn.MSELoss()).step(fb.ones(2, 1), target=fb.ones(2, 1))


class Tower(nn.Module):
    """A loop over layers, with a cut that forward names itself."""

    def __init__(self, mark=False):
        super().__init__()
        self.first, self.mark = nn.Linear(4, 6), mark
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)])
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        x = self.first(x)
        for number, layer in enumerate(self.layers):
            if self.mark and number == 1:
                pipe_split()
            x = layer(x)
        return self.head(x)


CUTS = [{"layers.1": SplitPoint.BEGINNING}, {"layers.0": SplitPoint.END}, {"layers.1.0": SplitPoint.END}, None]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@on_ranks(2)
def test_a_model_is_cut_at_modules(cuts):
    fb.manual_seed(3)
    whole = Tower()
    model = Tower(mark=cuts is None)
    model.load_state_dict(whole.state_dict())
    pipe = pipeline(model, (fb.ones(1, 4),), split_spec=cuts)
    names = [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]
    assert len(names) == 2 and names[0] + names[1] == list(whole.state_dict())
    stage = pipe.build_stage(dist.get_rank(), CPU)
    schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
    x, y = fb.randn(4, 4), fb.randn(4, 2)
    nn.functional.mse_loss(whole(x), y).backward()
    schedule.step(*([x] if dist.get_rank() == 0 else []), **({"target": y} if dist.get_rank() == 1 else {}))
    own = dict(stage.submod.named_parameters())
    for name, p in whole.named_parameters():
        if name in own:
            assert fb.allclose(own[name].grad, p.grad, atol=1e-6), name


def test_what_cannot_be_cut():
    class Glue(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.b(self.a(x).relu())

    x = (fb.ones(1, 2),)
    with pytest.raises(ValueError, match="'b' does not get just what the module before it gives"):
        pipeline(Glue(), x, split_spec={"b": SplitPoint.BEGINNING})
    assert pipeline(nn.Sequential(Glue(), Glue()), x, split_spec={"1": SplitPoint.BEGINNING}).num_stages == 2
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="used in two stages"):
        pipeline(nn.Sequential(layer, nn.ReLU(), layer), x, split_spec={"1": SplitPoint.BEGINNING})
    with pytest.raises(ValueError, match="names 'c', which the model does not have"):
        pipeline(Glue(), x, split_spec={"c": SplitPoint.END})
    with pytest.raises(ValueError, match="stage 1 would be empty"):
        pipeline(nn.Sequential(Glue()), x, split_spec={"0": SplitPoint.END})
    with pytest.raises(ValueError, match="split_policy is not supported"):
        pipeline(Glue(), x, split_policy=lambda graph: graph)
