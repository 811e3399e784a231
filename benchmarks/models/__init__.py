"""The models of the benchmark, each written once as a function of the library that runs it.

A model's module has a TITLE, the sizes FULL and SMALL, and five functions: `build(lib, ...)` makes the network,
`batch(rng, ...)` draws synthetic data as NumPy arrays (inputs, then targets), `loss(lib, output, targets)`,
`optimiser(lib, net)`, and `items(...)` says how many ITEMS (images, tokens, samples) a step handles. The `lib` is
flambeau or torch; nothing else differs, so both do the same work. `training.Training` runs any of them.
"""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = ("alexnet", "vgg", "resnet", "mobilenet", "gnmt", "ncf", "gpt", "vit")
PAPER = NAMES[:6]  # the six models of the paper on PyTorch (Paszke et al., 2019)


def load(name: str) -> ModuleType:
    """The module of a model, by its name in NAMES."""
    return importlib.import_module(f"models.{name}")
