"""A denoising autoencoder that can be stopped and resumed."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


def save_checkpoint(path, model, optimizer, scheduler, step):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
            "step": step,
        },
        path,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint", default="autoencoder.pt")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-after", type=int, default=None, help="save a checkpoint after this step and end")
    args = parser.parse_args()

    data = torch.tensor(load_digits().data, dtype=torch.float32).div_(16.0)
    rng = np.random.RandomState(8)
    model = AutoEncoder()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(rng.normal(0, 0.15, tuple(p.shape))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
    criterion = nn.MSELoss()
    start = 0
    if args.resume:
        if not os.path.isfile(args.checkpoint):
            raise SystemExit(f"no checkpoint found at {args.checkpoint!r}")
        checkpoint = torch.load(args.checkpoint, map_location=torch.device("cpu"))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        torch.set_rng_state(checkpoint["rng"])
        start = checkpoint["step"] + 1
    for step in range(start, args.steps):
        noise = np.random.RandomState(step)
        clean = data[torch.from_numpy(noise.randint(0, len(data), 64))]
        noisy = clean + 0.1 * torch.from_numpy(noise.standard_normal(clean.shape)).to(clean.dtype)
        loss = criterion(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.8f}")
        if step == args.stop_after:
            save_checkpoint(args.checkpoint, model, optimizer, scheduler, step)
            return


if __name__ == "__main__":
    main()
