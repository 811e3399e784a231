"""MobileNet, version 1: Howard et al., "MobileNets: efficient convolutional neural networks" (2017), width 1.0."""

from __future__ import annotations

from typing import Any

from models.images import ITEMS as ITEMS
from models.images import batch as batch
from models.images import items as items
from models.images import loss as loss
from models.images import optimiser as optimiser

TITLE = "MobileNet"
FULL = {"images": 16, "side": 224, "classes": 1000}
SMALL = {"images": 2, "side": 64, "classes": 10}
MULTIPLICATIONS = 568_740_352

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


def build(lib: Any, images: int, side: int, classes: int) -> Any:
    nn = lib.nn

    def unit(inputs, outputs, kernel, stride, groups=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers, channels = unit(3, 32, 3, 2), 32
            for width, stride in BLOCKS:  # depthwise 3 × 3, then pointwise 1 × 1
                layers += unit(channels, channels, 3, stride, groups=channels) + unit(channels, width, 1, 1)
                channels = width
            self.features = nn.Sequential(*layers)
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(channels, classes)

        def forward(self, x):
            return self.head(self.pool(self.features(x)).flatten(1))

    return Net()
