"""A gradient of one's own, a data set of one's own, and the loader around it."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable
from torch.utils.data import DataLoader, Dataset, Sampler


class Swish(Function):
    @staticmethod
    def forward(ctx, x, beta):
        s = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, s)
        ctx.beta = beta
        return x * s

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return (grad_output * (s + ctx.beta * x * s * (1 - s)) if ctx.needs_input_grad[0] else None), None


class Waves(Dataset):
    """Short pieces of sine waves of different lengths; the target is the frequency."""

    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.frequency = rng.uniform(1, 4, count)
        self.length = rng.integers(12, 20, count)
        self.phase = rng.uniform(0, 2 * np.pi, count)

    def __len__(self):
        return len(self.frequency)

    def __getitem__(self, i):
        t = np.arange(self.length[i]) / 8
        wave = np.sin(self.frequency[i] * t + self.phase[i])
        return torch.from_numpy(wave).float(), torch.tensor(self.frequency[i], dtype=torch.float32)


class SeededSampler(Sampler):
    def __init__(self, data, seed):
        self.data, self.rng = data, np.random.default_rng(seed)

    def __iter__(self):
        return iter(self.rng.permutation(len(self.data)).tolist())

    def __len__(self):
        return len(self.data)


def pad(batch):
    waves, targets = zip(*batch)
    return nn.utils.rnn.pad_sequence(waves, batch_first=True), torch.stack(targets)


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inner, self.outer = nn.Linear(20, width), nn.Linear(width, 1)

    def forward(self, x):
        x = nn.functional.pad(x, (0, 20 - x.shape[1]))
        return self.outer(Swish.apply(self.inner(x), 1.5)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()

    probe = torch.linspace(-2, 2, 7, dtype=torch.double, requires_grad=True)
    print("gradcheck", gradcheck(lambda x: Swish.apply(x, 1.5), (probe,)))
    data = Waves(args.samples)
    loader = DataLoader(data, batch_size=32, sampler=SeededSampler(data, 9), collate_fn=pad, num_workers=args.workers)
    rng, net = np.random.default_rng(10), Net()
    for p in net.parameters():
        p.data.copy_(torch.from_numpy(rng.normal(0, 0.2, tuple(p.shape))))
    optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for i, (waves, target) in enumerate(loader):
            loss = nn.functional.smooth_l1_loss(net(waves), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} batch {i} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
