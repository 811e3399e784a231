"""Hogwild: processes train one model together, in shared memory and without locks.

Each process has its own part of the data and its own optimizer; all write to the same parameters. Updates may
overwrite each other, which stochastic gradient descent tolerates.

    python examples/hogwild.py --processes 2 --epochs 3
"""

import argparse

import flambeau as fb
import flambeau.multiprocessing as mp
from flambeau import nn
from flambeau.utils.data import DataLoader, DistributedSampler, TensorDataset


def two_moons(count, seed):
    """Points of two interleaved half circles, with noise, and to which of them they belong."""
    generator = fb.Generator().manual_seed(seed)
    angle = fb.rand(count, generator=generator) * fb.pi
    which = fb.arange(count) % 2
    side = which.float()
    x = fb.where(which == 1, 1 - angle.cos(), angle.cos())
    y = fb.where(which == 1, 0.5 - angle.sin(), angle.sin())
    noise = fb.randn(count, 2, generator=generator) * 0.1
    return fb.stack([x, y], 1) + noise, side


def make_model():
    """A small network with one output, the score of the second moon."""
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def train(rank, model, processes, epochs):
    """What each process does."""
    fb.manual_seed(rank)
    data = TensorDataset(*two_moons(2000, seed=0))
    sampler = DistributedSampler(data, processes, rank)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    optimizer = fb.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for points, side in loader:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(points)[:, 0], side)
            loss.backward()
            optimizer.step()
        print(f"process {rank}  epoch {epoch + 1}  loss {loss.item():.3f}", flush=True)


def main():
    """Trains, then tests on held-out points."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    fb.manual_seed(0)
    model = make_model()
    model.share_memory()
    mp.spawn(train, (model, options.processes, options.epochs), nprocs=options.processes)
    points, side = two_moons(1000, seed=1)
    with fb.no_grad():
        right = ((model(points)[:, 0] > 0) == (side > 0.5)).float().mean().item()
    print(f"accuracy {100 * right:.1f}%")


if __name__ == "__main__":
    main()
