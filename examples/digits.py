"""A convolutional network that reads handwritten digits.

    python examples/digits.py --epochs 20

trains on 80 % of the 1,797 digits (8 x 8 pixels) that come with scikit-learn and tests on the others. It writes to
examples/out: digits_curve.png (learning curve), digits_predictions.png (test digits, mistakes in red) and
digits.pt (checkpoint).
"""

import argparse
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import flambeau as fb
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau.utils.data import DataLoader, TensorDataset


class DigitNet(nn.Module):
    """A convolution at full size, two at half size, then a linear classifier."""

    def __init__(self, channels=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * channels * 4 * 4, 10))

    def forward(self, images):
        return self.classifier(self.features(images))


def load_data(seed):
    """Images of shape (n, 1, 8, 8) in 0..1 and labels; a fifth of each digit is kept for the test."""
    digits: Any = load_digits()
    images = fb.from_numpy(digits.images).float().unsqueeze(1) / 16
    labels = fb.from_numpy(digits.target).long()
    train, test = train_test_split(range(len(labels)), test_size=0.2, stratify=digits.target, random_state=seed)
    return images[train], labels[train], images[test], labels[test]


def jitter(images):
    """Shifts every image by up to one pixel in each direction, as data augmentation."""
    n, _, height, width = images.shape
    padded = F.pad(images, (1, 1, 1, 1))
    rows = fb.randint(0, 3, (n, 1, 1)) + fb.arange(height).reshape(1, height, 1)
    columns = fb.randint(0, 3, (n, 1, 1)) + fb.arange(width)
    return padded[fb.arange(n).reshape(n, 1, 1), 0, rows, columns].unsqueeze(1)


def train_epoch(model, optimizer, scheduler, loader):
    """One pass over the training digits in random order; returns the mean loss."""
    model.train()
    total = 0.0
    for images, labels in loader:
        loss = F.cross_entropy(model(jitter(images)), labels, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@fb.no_grad()
def predict(model, images):
    """The most likely digit of each image and its probability."""
    model.eval()
    confidence, digit = model(images).softmax(dim=1).max(dim=1)
    return digit, confidence


def draw_curve(path, losses, accuracies):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    epochs = range(1, len(losses) + 1)
    left.plot(epochs, losses, color="tab:blue")
    left.set_xlabel("epoch")
    left.set_ylabel("training loss", color="tab:blue")
    right = left.twinx()
    right.plot(epochs, [100 * accuracy for accuracy in accuracies], color="tab:orange")
    right.set_ylabel("test accuracy, %", color="tab:orange")
    left.set_title(f"Digits: {accuracies[-1]:.1%} of the test digits read correctly")
    figure.savefig(path, dpi=100)


def draw_predictions(path, images, labels, predicted, confidence):
    """40 test digits: the mistakes, marked in red, then the least confident predictions."""
    wrong = predicted != labels
    order = (confidence - 2 * wrong).argsort()[:40]
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for axis, i in zip(figure.subplots(4, 10).flat, order.tolist(), strict=True):
        axis.imshow(images[i, 0], cmap="gray_r")
        axis.set_xticks([])
        axis.set_yticks([])
        title = f"{predicted[i]} ({confidence[i].item():.0%})"
        if wrong[i]:
            title = f"{predicted[i]}, is {labels[i]}"
            axis.spines[:].set(color="red", linewidth=3)
        axis.set_title(title, color="red" if wrong[i] else "black", fontsize=10)
    figure.suptitle(f"Mistakes ({wrong.sum()} of {len(labels)} test digits), then the least sure predictions")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training digits (default 20)")
    parser.add_argument("--batch-size", type=int, default=64, help="digits per step (default 64)")
    parser.add_argument("--lr", type=float, default=0.01, help="highest learning rate (default 0.01)")
    parser.add_argument("--seed", type=int, default=0, help="seed of split, weights and batches (default 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.epochs < 1 or args.batch_size < 2:
        parser.error("--epochs must be at least 1 and --batch-size at least 2")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    train_images, train_labels, test_images, test_labels = load_data(args.seed)
    loader = DataLoader(TensorDataset(train_images, train_labels), batch_size=args.batch_size, shuffle=True)
    model = DigitNet()
    optimizer = fb.optim.AdamW(model.parameters(), weight_decay=1e-2)
    scheduler = fb.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(loader)
    )
    print(f"{len(train_labels)} digits to learn from, {len(test_labels)} to test, "
          f"{sum(p.numel() for p in model.parameters())} parameters, {fb.get_num_threads()} thread(s)")

    losses, accuracies = [], []
    progress = tqdm(range(args.epochs), desc="digits", unit="epoch")
    for _ in progress:
        losses.append(train_epoch(model, optimizer, scheduler, loader))
        predicted, _ = predict(model, test_images)
        accuracies.append((predicted == test_labels).float().mean().item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", test=f"{accuracies[-1]:.1%}")

    args.output.mkdir(parents=True, exist_ok=True)
    checkpoint = args.output / "digits.pt"
    fb.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": args.epochs}, checkpoint)

    # The predictions come from a network read back from the file: what was saved is what was trained.
    restored = DigitNet()
    restored.load_state_dict(fb.load(checkpoint)["model"])
    predicted, confidence = predict(restored, test_images)
    accuracy = (predicted == test_labels).float().mean().item()

    curve, picture = args.output / "digits_curve.png", args.output / "digits_predictions.png"
    draw_curve(curve, losses, accuracies)
    draw_predictions(picture, test_images, test_labels, predicted, confidence)
    print(f"test accuracy {accuracy:.2%}, training loss {losses[-1]:.3f}, {time.perf_counter() - start:.1f} s")
    print(f"wrote {curve}\nwrote {picture}\nwrote {checkpoint}")


if __name__ == "__main__":
    main()
