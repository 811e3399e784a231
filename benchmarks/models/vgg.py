"""VGG-19, configuration E: Simonyan and Zisserman, "Very deep convolutional networks" (2014)."""

from __future__ import annotations

from typing import Any

from models.images import ITEMS as ITEMS
from models.images import batch as batch
from models.images import items as items
from models.images import loss as loss
from models.images import optimiser as optimiser

TITLE = "VGG-19"
FULL = {"images": 4, "side": 224, "classes": 1000, "hidden": 4096}
SMALL = {"images": 2, "side": 64, "classes": 10, "hidden": 64}
MULTIPLICATIONS = 19_632_062_464

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels and convolutions between two poolings


def build(lib: Any, images: int, side: int, classes: int, hidden: int) -> Any:
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers, channels = [], 3
            for width, count in STAGES:
                for _ in range(count):
                    layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                    channels = width
                layers.append(nn.MaxPool2d(2, 2))
            self.features = nn.Sequential(*layers)
            self.classifier = nn.Sequential(
                nn.Linear(channels * (side // 32) ** 2, hidden), nn.ReLU(inplace=True), nn.Dropout(0.5),
                nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(0.5),
                nn.Linear(hidden, classes),
            )  # fmt: skip

        def forward(self, x):
            return self.classifier(self.features(x).flatten(1))

    return Net()
