"""ResNet-50: He et al., "Deep residual learning" (2015), with the stride in the 3 × 3 convolution of a block."""

from __future__ import annotations

from typing import Any

from models.images import ITEMS as ITEMS
from models.images import batch as batch
from models.images import items as items
from models.images import loss as loss
from models.images import optimiser as optimiser

TITLE = "ResNet-50"
FULL = {"images": 8, "side": 224, "classes": 1000}
SMALL = {"images": 4, "side": 96, "classes": 10}
MULTIPLICATIONS = 4_089_184_256

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # inner width, blocks, stride of the first block


def build(lib: Any, images: int, side: int, classes: int) -> Any:
    nn = lib.nn

    class Bottleneck(nn.Module):
        """1 × 1 down to `width`, 3 × 3, 1 × 1 up to four times the width, added to the input."""

        def __init__(self, channels, width, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or channels != 4 * width:
                project = nn.Conv2d(channels, 4 * width, 1, stride=stride, bias=False)
                self.shortcut = nn.Sequential(project, nn.BatchNorm2d(4 * width))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
            self.stem = nn.Sequential(stem, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
            blocks, channels = [], 64
            for width, count, first_stride in STAGES:
                for place in range(count):
                    blocks.append(Bottleneck(channels, width, first_stride if place == 0 else 1))
                    channels = 4 * width
            self.blocks = nn.Sequential(*blocks)
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(channels, classes)

        def forward(self, x):
            return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))

    return Net()
