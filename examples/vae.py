"""A variational autoencoder that encodes handwritten digits as two numbers and draws new ones.

    python examples/vae.py --epochs 60

The encoder turns a digit into a small Gaussian cloud on a plane, the decoder turns a point of that plane back into a
digit. It writes to examples/out: vae_curve.png (learning curve), vae.png (reconstructions, the plane, where each digit
lives on it) and vae.pt (checkpoint).
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

PIXELS = 8 * 8


class VAE(nn.Module):
    def __init__(self, hidden=256, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, PIXELS)
        )

    def encode(self, images):
        """Mean and log-variance of the cloud that stands for each image."""
        return self.encoder(images).chunk(2, dim=1)

    def decode(self, points):
        """Images, with pixels between 0 and 1."""
        return self.decoder(points).sigmoid()

    def losses(self, images):
        """Mean over the images of the cost of reconstruction and of the distance from a standard Gaussian."""
        mean, log_variance = self.encode(images)
        # A random point written as mean + noise * deviation, so gradients reach the encoder.
        points = mean + fb.randn_like(mean) * (0.5 * log_variance).exp()
        logits = self.decoder(points)
        reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum") / len(images)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum() / len(images)
        return reconstruction, divergence


def draw_curve(path, history):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    epochs = range(1, len(history) + 1)
    axis.plot(epochs, [row["train"] for row in history], label="training")
    axis.plot(epochs, [row["test"] for row in history], label="test")
    axis.set_xlabel("epoch")
    axis.set_ylabel("negative evidence bound, nats per digit")
    axis.set_title("Variational autoencoder on digits")
    axis.legend()
    figure.savefig(path, dpi=100)


def tile(images):
    """A sheet of images of shape (rows, columns, 8, 8), with a white line around each."""
    rows, columns = images.shape[:2]
    return F.pad(images, (1, 1, 1, 1)).transpose(1, 2).reshape(10 * rows, 10 * columns)


@fb.no_grad()
def draw_plane(path, model, images, labels, side=16):
    figure = Figure(figsize=(16, 5.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)

    mean, _ = model.encode(images)
    # Rows of eight originals and their reconstructions in turn.
    pairs = fb.stack([images[:40].reshape(5, 8, 8, 8), model.decode(mean[:40]).reshape(5, 8, 8, 8)], dim=1)
    left.imshow(tile(pairs.flatten(0, 1)), cmap="gray_r")
    left.set_title("Test digits, each row above its reconstruction")
    left.set_axis_off()

    # Equal steps of probability rather than of distance: every point of the grid is as likely as the others.
    steps = fb.special.ndtri(fb.linspace(0.02, 0.98, side))
    grid = fb.cartesian_prod(steps.flip(0), steps).flip(1)
    middle.imshow(tile(model.decode(grid).reshape(side, side, 8, 8)), cmap="gray_r")
    middle.set_title("What the decoder draws across the plane")
    middle.set_axis_off()

    points = right.scatter(mean[:, 0], mean[:, 1], c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=12)
    figure.colorbar(points, ax=right, ticks=range(10))
    right.set_title("Where test digits live (labels were not used in training)")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training digits (default 60)")
    parser.add_argument("--batch-size", type=int, default=64, help="digits per step (default 64)")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of Adam (default 0.002)")
    parser.add_argument("--seed", type=int, default=0, help="seed of split, weights and noise (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.epochs < 1 or args.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    digits: Any = load_digits()
    order = fb.randperm(len(digits.target))
    images = (fb.from_numpy(digits.data).float() / 16)[order]
    labels = fb.from_numpy(digits.target)[order]
    train, test, test_labels = images[:-360], images[-360:], labels[-360:]

    model = VAE()
    optimizer = fb.optim.Adam(model.parameters(), lr=args.lr)
    history = []
    progress = tqdm(range(args.epochs), desc="vae", unit="epoch")
    for _ in progress:
        total = 0.0
        for batch in train[fb.randperm(len(train))].split(args.batch_size):
            reconstruction, divergence = model.losses(batch)
            loss = reconstruction + divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        with fb.no_grad():
            reconstruction, divergence = (part.item() for part in model.losses(test))
        history.append({"train": total / len(train), "test": reconstruction + divergence})
        progress.set_postfix({name: f"{value:.2f}" for name, value in history[-1].items()})

    args.output.mkdir(parents=True, exist_ok=True)
    curve, picture, checkpoint = (args.output / f"vae{end}" for end in ("_curve.png", ".png", ".pt"))
    draw_curve(curve, history)
    draw_plane(picture, model, test, test_labels)
    fb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": args.epochs}, checkpoint)
    print(f"test bound {history[-1]['test']:.2f} nats per digit (first epoch {history[0]['test']:.2f}): reconstruction "
          f"{reconstruction:.2f}, divergence {divergence:.2f}; {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
