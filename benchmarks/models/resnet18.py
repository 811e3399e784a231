"""ResNet-18: He et al., "Deep residual learning for image recognition" (2015); data-parallel rows use it."""

from __future__ import annotations

from typing import Any

TITLE = "ResNet-18"
ITEMS = "images"
FULL = {"images": 4, "side": 112, "classes": 1000}
SMALL = {"images": 2, "side": 48, "classes": 10}


def batch(rng: Any, images: int, side: int, classes: int) -> tuple[Any, ...]:
    """Images and their classes."""
    return rng.standard_normal((images, 3, side, side), dtype="float32"), rng.integers(0, classes, images)


def items(images: int, **_: int) -> int:
    return images


def build(lib: Any, images: int, side: int, classes: int) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, ins, outs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outs)
            self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(outs)
            self.short = nn.Sequential()
            if stride > 1 or ins != outs:
                self.short = nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

        def forward(self, x):
            y = functional.relu(self.norm1(self.conv1(x)))
            return functional.relu(self.norm2(self.conv2(y)) + self.short(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage in range(4):
        for i in range(2):
            layers.append(Block(width, 64 << stage, 2 if stage and not i else 1))
            width = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def loss(lib: Any, output: Any, targets: tuple[Any, ...]) -> Any:
    return lib.nn.functional.cross_entropy(output, targets[0])


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
