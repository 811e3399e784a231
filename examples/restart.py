"""Training on several processes that survives kill -9 and ends with the bits of an undisturbed run.

    python -m flambeau.distributed.run --standalone --nproc-per-node 2 --max-restarts 5 examples/restart.py --kills 3

Every few steps all processes write a checkpoint together: model, optimizer, learning rate, position in the data and random
states. With --kills, so many attempts end by a kill -9 of one process at a random moment. The launcher then ends the others
and starts all again; they go on from the last complete checkpoint. The last line shows a digest of all parameters, which is
the same with any number of kills. It writes to examples/out: restart/ (the checkpoint).
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau import distributed as dist
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, DistributedSampler, TensorDataset


def build():
    return nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10))


def full_state(model, optimizer, schedule, done):
    """What a run needs to go on; random states differ between the processes, so each has a name of its own."""
    of_model, of_optimizer = get_state_dict(model, optimizer)
    random_state = {f"rank {dist.get_rank()}": fb.get_rng_state()}
    return {"model": of_model, "optimizer": of_optimizer, "schedule": schedule, "done": done, "random": random_state}


def resume(folder, model, optimizer, schedule):
    """Loads the last checkpoint, if there is one; answers how many steps were done."""
    if not (folder / "metadata.json").exists():
        return 0
    state = full_state(model, optimizer, schedule, 0)
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    fb.set_rng_state(state["random"][f"rank {dist.get_rank()}"])
    return state["done"]


def kill_at_random():
    """Kills one of the processes within half a second, whatever it is doing then."""
    victim = [random.randrange(dist.get_world_size())]
    dist.broadcast_object_list(victim)
    if victim[0] == dist.get_rank():
        timer = threading.Timer(random.uniform(0.0, 0.5), os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
        print(f"rank {victim[0]} will be killed", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train digits on several processes, with restarts.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--kills", type=int, default=0, help="how many attempts end by a kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out")
    arguments = parser.parse_args()

    dist.init_process_group()
    rank, folder = dist.get_rank(), arguments.output / "restart"
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if attempt == 0 and rank == 0:
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    dist.barrier()

    fb.manual_seed(arguments.seed)
    digits: Any = load_digits()
    data = TensorDataset(fb.tensor(digits.data, dtype=fb.float32) / 16, fb.tensor(digits.target))
    sampler = DistributedSampler(data, seed=arguments.seed, drop_last=True)
    # A generator of its own: what a loader draws when an epoch begins shall not change the numbers for dropout.
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True, generator=fb.Generator())
    model = DistributedDataParallel(build())
    optimizer = fb.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = fb.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps)
    fb.manual_seed(arguments.seed * 1000 + rank)  # dropout differs between the processes

    done = resume(folder, model, optimizer, schedule)
    print(f"rank {rank} starts at step {done}", flush=True)
    progress = tqdm(total=arguments.steps, initial=done, desc="training", disable=rank != 0)
    loss = fb.zeros(())
    while done < arguments.steps:
        epoch, skipped = divmod(done, len(loader))
        sampler.set_epoch(epoch)
        for number, (images, labels) in enumerate(loader):
            if number < skipped or done == arguments.steps:
                continue
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            done += 1
            progress.update()
            if done % arguments.every == 0:
                checkpoint.save(full_state(model, optimizer, schedule, done), checkpoint_id=folder)
                if attempt < arguments.kills:
                    kill_at_random()
    progress.close()

    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    if rank == 0:
        print(f"loss {loss.item():.4f}, parameters {digest.hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
