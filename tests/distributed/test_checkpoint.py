"""Distributed checkpoints: saved under one layout, loaded under others; valid at every moment."""

import json
import os

import pytest
from rank_pool import on_ranks
from test_data_parallel import DDP, batches, close, halves, network, train
from test_fsdp import shard_all

import flambeau as fb
from flambeau import distributed as dist
from flambeau.distributed import checkpoint as dcp
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)  # fmt: skip
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor


def values(model, optimizer):
    """What decides how training goes on: parameters and averages, whole."""

    def full(t):
        return t.detach().full_tensor() if hasattr(t, "full_tensor") else t.detach()

    return [full(t) for p in model.parameters() for t in (p, *(optimizer.state[p][k] for k in sorted(optimizer.state[p])))]


def trained(model, share=lambda x: x, steps=3):
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.05)
    train(model, batches(), steps, share, optimizer)
    return optimizer


def body_save(folder, kind):
    fb.manual_seed(1)
    model = network()
    model = {"ddp": DDP, "fsdp": shard_all}[kind](model)
    optimizer = trained(model, halves)
    scheduler = fb.optim.lr_scheduler.StepLR(optimizer, 2)
    scheduler.step()
    of_model, of_optimizer = get_state_dict(model, optimizer)
    rank = str(dist.get_rank())
    state = {"model": of_model, "optim": of_optimizer, "scheduler": scheduler, "rng": {rank: fb.get_rng_state()}, "epoch": 7}
    dcp.save(state, checkpoint_id=folder)
    sizes = [os.path.getsize(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.startswith("part-")]
    assert len(sizes) == dist.get_world_size() and max(sizes) < 2 * min(sizes), sizes
    if dist.get_rank() == 0:
        fb.save({"values": values(model, optimizer), "lr": optimizer.param_groups[0]["lr"]}, folder + "/../expected.safetensors")
    else:
        values(model, optimizer)


def body_load(folder, kind):
    fb.manual_seed(9)
    model = network()
    model = {"ddp": DDP, "fsdp": shard_all, "alone": lambda m: m}[kind](model)
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.9)
    scheduler = fb.optim.lr_scheduler.StepLR(optimizer, 5)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optim": of_optimizer, "scheduler": scheduler, "epoch": 0, "rng": {"1": None}}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    expected = fb.load(folder + "/../expected.safetensors")
    for a, b in zip(values(model, optimizer), expected["values"], strict=True):
        assert a.equal(b)
    assert state["epoch"] == 7 and scheduler.step_size == 2 and optimizer.param_groups[0]["lr"] == expected["lr"]
    assert state["rng"]["1"].dtype == fb.uint8


@on_ranks(2)
def test_save_in_two(folder, kind):
    body_save(folder, kind)


@on_ranks(4)
def test_load_in_four(folder, kind):
    body_load(folder, kind)


@on_ranks(2)
def test_load_in_two(folder, kind):
    body_load(folder, kind)


SAVE, IN_FOUR, IN_TWO = test_save_in_two, test_load_in_four, test_load_in_two
test_save_in_two.__test__ = test_load_in_four.__test__ = test_load_in_two.__test__ = False


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_any_layout_loads_what_any_other_saved(tmp_path, kind):
    folder = str(tmp_path / "checkpoint")
    SAVE(folder=folder, kind=kind)
    for other in ("ddp", "fsdp"):
        IN_TWO(folder=folder, kind=other)
    body_load(folder, "alone")
    if kind == "fsdp":
        IN_FOUR(folder=folder, kind="fsdp")


@on_ranks(2)
def body_pieces(folder):
    rank, mesh = dist.get_rank(), dist.init_device_mesh("cpu", (2,))
    whole = fb.arange(35.0).reshape(5, 7)
    saved = {"x": distribute_tensor(whole, mesh, [Shard(0)]), "y": [fb.ones(2), {"z": fb.tensor(3)}], "only": {rank: rank}}
    metadata = dcp.save(saved, checkpoint_id=folder)
    assert [p.sizes for p in metadata.tensors["x"][2]] == [(3, 7), (2, 7)]
    for placement in (Shard(1), Shard(0), Replicate()):
        x = distribute_tensor(fb.zeros(5, 7), mesh, [placement])
        target = {"x": x, "y": [fb.zeros(2), {"z": fb.tensor(0)}], "only": {0: 5, 1: 5}}
        dcp.load(target, checkpoint_id=folder)
        close(target["x"].full_tensor(), whole)
        assert target["y"][0].sum() == 2 and target["y"][1]["z"] == 3 and target["only"] == {0: 0, 1: 1}
    plain = {"x": fb.zeros(5, 7, dtype=fb.float64)}
    dcp.load(plain, checkpoint_id=folder)
    close(plain["x"], whole.double())
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict.*nothing"):
        dcp.load({"nothing": fb.zeros(1)}, checkpoint_id=folder)
    dcp.load({"nothing": fb.zeros(1)}, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    with pytest.raises(ValueError, match=r"x has shape \(7, 5\), in the checkpoint \(5, 7\)"):
        dcp.load({"x": fb.zeros(7, 5)}, checkpoint_id=folder)
    with pytest.raises(RuntimeError, match="rank 1: .*Missing key" if rank == 0 else "Missing key"):
        dcp.load({"x": plain["x"]} | ({"no": fb.zeros(1)} if rank else {}), checkpoint_id=folder)
    # A second checkpoint replaces the first; nothing of that is left.
    dcp.save({"w": fb.ones(1)}, checkpoint_id=folder)
    assert len(os.listdir(folder)) == 3
    future = dcp.async_save({"w": plain["x"], "n": [1]}, checkpoint_id=folder)
    plain["x"].zero_()  # what is saved is what was there at the call
    future.result(timeout=30)
    dist.barrier()
    again = {"w": fb.zeros(5, 7), "n": None}
    dcp.load(again, storage_reader=dcp.FileSystemReader(folder))
    close(again["w"], whole)
    assert again["n"] == [1]


def test_pieces(tmp_path):
    body_pieces(folder=str(tmp_path))


def test_interrupted_and_damaged_checkpoints(tmp_path, monkeypatch):
    folder = str(tmp_path)
    dcp.save({"x": fb.ones(2)}, checkpoint_id=folder)
    from flambeau.distributed.checkpoint import _save

    monkeypatch.setattr(_save._Plan, "write_file", lambda self: (_ for _ in ()).throw(OSError("disk is full")))
    with pytest.raises(RuntimeError, match="not written: rank 0: OSError: disk is full"):
        dcp.save({"x": fb.zeros(2)}, checkpoint_id=folder)
    with pytest.raises(OSError, match="disk is full"):
        dcp.async_save({"x": fb.zeros(2)}, checkpoint_id=folder).result(timeout=10)
    monkeypatch.undo()
    target = {"x": fb.zeros(2)}
    dcp.load(target, checkpoint_id=folder)
    assert target["x"].sum() == 2
    path = os.path.join(folder, "metadata.json")
    good = open(path).read()
    for bad, message in (
        ("{", "damaged"), (good.replace("part-", "../part-"), "no name of a file"),
        (good.replace('"sizes": [2]', '"sizes": [9]'), "outside"),
        (good.replace('"flambeau_checkpoint": 1', '"flambeau_checkpoint": 9'), "version 9"), (good.replace("[2]", "[-2]"), "no size"),
        (json.dumps([1]), "damaged"),
    ):  # fmt: skip
        with open(path, "w") as file:
            file.write(bad)
        with pytest.raises(RuntimeError, match=message):
            dcp.load({"x": fb.zeros(2)}, checkpoint_id=folder)
    os.unlink(path)
    with pytest.raises(RuntimeError, match="not a checkpoint, or one whose saving was interrupted"):
        dcp.load({"x": fb.zeros(2)}, checkpoint_id=folder)
    with pytest.raises(ValueError, match="no folder was given"):
        dcp.save({})


@on_ranks(2)
def test_states_by_name():
    fb.manual_seed(1)
    alone = network()
    plain = trained(alone)
    model = shard_all(network())
    optimizer = fb.optim.AdamW(model.parameters(), lr=0.9)
    full = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    of_model, of_optimizer = get_state_dict(alone, plain) if dist.get_rank() == 0 else ({}, {})
    set_model_state_dict(model, of_model, options=full)
    set_optimizer_state_dict(model, optimizer, of_optimizer, options=full)
    for a, b in zip(values(model, optimizer), values(alone, plain), strict=True):
        close(a, b)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert all(type(v) is fb.Tensor for v in whole.values()) and list(whole) == list(alone.state_dict())
    rank0_only = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert len(rank0_only) == (6 if dist.get_rank() == 0 else 0)
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    assert "state.0.weight.exp_avg" in flat and flat["param_groups.0.weight.lr"] == 0.05
    other = fb.optim.AdamW(model.parameters(), lr=0.9)
    set_optimizer_state_dict(model, other, flat)
    for a, b in zip(values(model, other), values(alone, plain), strict=True):
        close(a, b)
    assert other.param_groups[0]["lr"] == 0.05
    wrapped = DDP(network())
    assert list(get_model_state_dict(wrapped)) == list(alone.state_dict())
    with pytest.raises(ValueError, match="not in the model"):
        get_optimizer_state_dict(network(), optimizer)
