"""What the image classifiers share: random pictures with random labels, cross entropy, and SGD with momentum."""

from __future__ import annotations

from typing import Any

ITEMS = "images"


def batch(rng: Any, images: int, side: int, classes: int, **_: int) -> tuple[Any, ...]:
    """Pictures as standard normal numbers, batch × 3 × side × side, and a label for each."""
    return rng.standard_normal((images, 3, side, side), dtype="float32"), rng.integers(0, classes, images)


def items(images: int, **_: int) -> int:
    return images


def loss(lib: Any, output: Any, targets: tuple[Any, ...]) -> Any:
    return lib.nn.functional.cross_entropy(output, *targets)


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.SGD(net.parameters(), lr=2e-4, momentum=0.9, weight_decay=1e-4)
