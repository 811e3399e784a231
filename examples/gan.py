"""A generative adversarial network: one network generates handwritten digits, the other learns to tell them from real ones.

    python examples/gan.py --epochs 40

It writes to examples/out: gan_curve.png (losses of both), gan.png (the same noise turned into digits as training goes
on, and real digits to compare) and gan.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F

NOISE = 32


class Generator(nn.Module):
    """Noise to 64 small feature maps of 2 x 2, doubled in size twice."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NOISE, 64 * 2 * 2),
            nn.Unflatten(1, (64, 2, 2)),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.layers(noise)


class Discriminator(nn.Module):
    """One number per image: above zero for real, below for generated."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 4 * 4, 1),
        )

    def forward(self, images):
        return self.layers(images).squeeze(1)


def judge(logits, real, target=1.0):
    """Cross entropy against the same target for all images; a target of 0.9 keeps the discriminator from being overconfident."""
    return F.binary_cross_entropy_with_logits(logits, fb.full_like(logits, target if real else 0.0))


def draw_curve(path, history):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for name in ("discriminator", "generator"):
        axis.plot(range(1, len(history) + 1), [row[name] for row in history], label=name)
    axis.set_xlabel("epoch")
    axis.set_ylabel("loss")
    axis.set_title("Losses of the two networks")
    axis.legend()
    figure.savefig(path, dpi=100)


def tile(images, rows, columns):
    """A sheet of rows x columns images, with a white line around each."""
    framed = F.pad(images.reshape(rows, columns, 8, 8), (1, 1, 1, 1), value=-1.0)
    return framed.transpose(1, 2).reshape(10 * rows, 10 * columns)


def draw_samples(path, snapshots, real):
    figure = Figure(figsize=(4 * (len(snapshots) + 1), 4.4), layout="constrained")
    sheets = [(f"forged after {epoch} epoch(s)", images) for epoch, images in snapshots] + [("real digits", real)]
    for axis, (title, images) in zip(figure.subplots(1, len(sheets)), sheets, strict=True):
        axis.imshow(tile(images, 8, 8), cmap="gray_r", vmin=-1, vmax=1)
        axis.set_title(title)
        axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40, help="passes over the digits (default 40)")
    parser.add_argument("--batch-size", type=int, default=64, help="digits per step (default 64)")
    parser.add_argument("--lr", type=float, default=5e-4, help="learning rate of both networks (default 0.0005)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, noise and batches (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.epochs < 1 or args.batch_size < 2:
        parser.error("--epochs must be at least 1 and --batch-size at least 2")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    digits: Any = load_digits()
    images = fb.from_numpy(digits.images).float().unsqueeze(1) / 8 - 1
    generator, discriminator = Generator(), Discriminator()
    # A smaller first beta than usual: each network chases a moving target, so old gradients are bad advice.
    generator_step = fb.optim.Adam(generator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    discriminator_step = fb.optim.Adam(discriminator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    fixed_noise = fb.randn(64, NOISE)

    history, snapshots = [], []
    progress = tqdm(range(1, args.epochs + 1), desc="gan", unit="epoch")
    for epoch in progress:
        totals = fb.zeros(3)
        batches = images[fb.randperm(len(images))].split(args.batch_size)
        for real in batches:
            forged = generator(fb.randn(len(real), NOISE))

            # Detached: the discriminator's loss must not teach the generator.
            on_real, on_forged = discriminator(real), discriminator(forged.detach())
            discriminator_loss = judge(on_real, True, target=0.9) + judge(on_forged, False)
            discriminator_step.zero_grad()
            discriminator_loss.backward()
            discriminator_step.step()

            generator_loss = judge(discriminator(forged), True)
            generator_step.zero_grad()
            generator_loss.backward()
            generator_step.step()

            caught = 0.5 * ((on_real > 0).float().mean() + (on_forged < 0).float().mean())
            totals += fb.stack([discriminator_loss.detach(), generator_loss.detach(), caught]) / len(batches)
        history.append(dict(zip(("discriminator", "generator", "caught"), totals.tolist(), strict=True)))
        progress.set_postfix({name: f"{value:.2f}" for name, value in history[-1].items()})
        if epoch in {1, max(1, args.epochs // 4), args.epochs}:
            generator.eval()
            with fb.no_grad():
                snapshots.append((epoch, generator(fixed_noise)))
            generator.train()

    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"gan{end}" for end in ("_curve.png", ".png", ".pt"))
    draw_curve(curve, history)
    draw_samples(picture, snapshots, images[:64])
    parts: dict[str, Any] = {"generator": generator, "discriminator": discriminator,
             "generator_step": generator_step, "discriminator_step": discriminator_step}
    fb.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": args.epochs}, checkpoint)
    print(f"losses: discriminator {history[-1]['discriminator']:.3f}, generator {history[-1]['generator']:.3f}; the "
          f"discriminator is right {history[-1]['caught']:.0%} of the time; {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
