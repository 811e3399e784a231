"""A variational autoencoder on digits; logs for TensorBoard with --logdir."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, hidden=64, latent=8):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 64)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise):
        mu, logvar = self.encode(x)
        std = torch.exp(0.5 * logvar)
        self.steps += 1
        return self.decode(mu + noise * std), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--samples", type=int, default=1797)
    parser.add_argument("--logdir", default=None)
    args = parser.parse_args()

    rng = np.random.default_rng(4)
    data = torch.from_numpy((load_digits().data[: args.samples] / 16).astype(np.float32))
    model = VAE()
    for p in model.parameters():
        p.data = torch.from_numpy(rng.normal(0, 0.1, tuple(p.shape)).astype(np.float32))
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    writer = None
    if args.logdir:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(args.logdir)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in torch.split(data[torch.from_numpy(rng.permutation(len(data)))], args.batch_size):
            noise = torch.from_numpy(rng.standard_normal((len(batch), 8)).astype(np.float32))
            optimizer.zero_grad()
            recon, mu, logvar = model(batch, noise)
            loss = loss_function(recon, batch, mu, logvar)
            loss.backward()
            total += loss.item()
            optimizer.step()
            print(f"step {model.steps.item():3d} loss {loss.item() / len(batch):.6f}")
        if writer:
            writer.add_scalar("loss/train", total / len(data), epoch)
            writer.add_histogram("fc21/weight", model.fc21.weight, epoch)
            with torch.no_grad():
                samples = model.decode(torch.zeros(16, 8)).view(16, 1, 8, 8)
            writer.add_images("samples", samples, epoch)
        print(f"epoch {epoch} average loss {total / len(data):.5f}")
    if writer:
        writer.close()


if __name__ == "__main__":
    main()
