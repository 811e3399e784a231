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
    ScheduleLoopedBFS,
)
from flambeau.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks

dist = fb.distributed
CPU = fb.device("cpu")
SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "LoopedBFS": ScheduleLoopedBFS}


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
    ("LoopedBFS", 2, 3),
])  # fmt: skip
@on_ranks(2)
def test_gradients_are_those_of_the_whole_model(name, stages, parts):
    rank, total = dist.get_rank(), 2 * stages
    whole, model = build(total), build(total)
    x, y, counts = fb.randn(12, 6), fb.randn(12, 6), fb.arange(12)
    own = [PipelineStage(model[i], i, total, CPU) for i in range(rank, total, 2)]
    multi = name in ("Interleaved1F1B", "LoopedBFS")
    schedule = SCHEDULES[name](own if multi else own[0], parts, loss_fn=nn.functional.mse_loss)
    for _ in range(2):  # gradients add up
        expected, expected_loss = whole_step(whole, x, counts, y)
        if rank == 0:
            assert schedule.step(x, counts) is None
        else:
            losses = ["old"]
            result = schedule.step(target=y, losses=losses)
            assert fb.allclose(result, expected, atol=1e-6) and not result.requires_grad
            assert len(losses) == parts and fb.allclose(fb.stack(losses).mean(), expected_loss)
    for stage in own:
        for p, q in zip(stage.submod.parameters(), whole[stage.stage_index].parameters(), strict=True):
            assert fb.allclose(p.grad, q.grad, atol=1e-6)
        assert not stage.inputs and not stage.outputs and not stage.sending


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
