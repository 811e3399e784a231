"""A multi-layer perceptron learns to tell spirals apart."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


def spirals(rng, points, classes=3):
    label = rng.integers(0, classes, points)
    radius = rng.uniform(0.1, 1.0, points)
    angle = 4 * radius + 2 * np.pi * label / classes + rng.normal(0, 0.1, points)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    return torch.from_numpy(x).float(), torch.from_numpy(label).long()


class MLP(nn.Module):
    def __init__(self, width, classes=3):
        super(MLP, self).__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(inplace=True), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, classes)
        )

    def forward(self, x):
        return self.layers(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(args.seed)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")

    rng = np.random.default_rng(args.seed)
    x, y = (t.to(device) for t in spirals(rng, 600))
    model = MLP(args.width).to(device)
    for p in model.parameters():
        bound = 1 / np.sqrt(p.shape[-1])
        p.data.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(p.shape))))

    use_amp = device.type == "cuda"
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        with torch.cuda.amp.autocast(enabled=use_amp):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0 or step == args.steps - 1:
            accuracy = (model(x).argmax(1) == y).float().mean().item()
            print("step {:4d} loss {:.6f} accuracy {:.3f}".format(step, loss.item(), accuracy))


if __name__ == "__main__":
    main()
