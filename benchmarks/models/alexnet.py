"""AlexNet in one column: Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014)."""

from __future__ import annotations

from typing import Any

from models.images import ITEMS as ITEMS
from models.images import batch as batch
from models.images import items as items
from models.images import loss as loss
from models.images import optimiser as optimiser

TITLE = "AlexNet"
FULL = {"images": 32, "side": 224, "classes": 1000, "hidden": 4096}
SMALL = {"images": 2, "side": 224, "classes": 10, "hidden": 64}
MULTIPLICATIONS = 714_188_480  # of the forward pass, per image at full size


def build(lib: Any, images: int, side: int, classes: int, hidden: int) -> Any:
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
                nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
                nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            )  # fmt: skip
            self.classifier = nn.Sequential(
                nn.Dropout(0.5), nn.Linear(256 * 6 * 6, hidden), nn.ReLU(inplace=True),
                nn.Dropout(0.5), nn.Linear(hidden, hidden), nn.ReLU(inplace=True),
                nn.Linear(hidden, classes),
            )  # fmt: skip

        def forward(self, x):
            return self.classifier(self.features(x).flatten(1))

    return Net()
