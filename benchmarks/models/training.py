"""Runs a model: the same weights and data in every library, training steps, losses and inference."""

from __future__ import annotations

import math
import zlib
from typing import Any

import models

LAYOUT, COMPILED = "torch-channels-last", "torch-compile"  # the seats in which PyTorch is asked for more than defaults


class Training:
    """A network with its batch and optimizer, in one library.

    Args:
        lib: flambeau or torch, as a module.
        name: one of models.NAMES.
        small: take the model's SMALL sizes.
        seat: how PyTorch runs it; other values change nothing.
        dropout: False switches dropout off, so that libraries with other random numbers agree.
        autocast: forward and loss in bfloat16 where the library thinks it is precise enough.
    """

    def __init__(
        self, lib: Any, name: str, small: bool = False, seat: str = "", dropout: bool = True, autocast: bool = False
    ) -> None:
        import numpy as np

        self.lib, self.model, self.autocast = lib, models.load(name), autocast
        self.size = self.model.SMALL if small else self.model.FULL
        self.net = self.model.build(lib, **self.size)
        fill(lib, self.net)
        if not dropout:
            for module in self.net.modules():
                if isinstance(module, lib.nn.Dropout):
                    module.p = 0.0
        arrays = self.model.batch(np.random.default_rng(zlib.crc32(name.encode())), **self.size)
        *self.inputs, target = (lib.from_numpy(array) for array in arrays)
        self.targets = (target,)
        if seat == LAYOUT:
            self.net = self.net.to(memory_format=lib.channels_last)
            self.inputs = [x.to(memory_format=lib.channels_last) if x.dim() == 4 else x for x in self.inputs]
        self.optimiser = self.model.optimiser(lib, self.net)
        self.parameters = list(self.net.parameters())
        if seat == COMPILED:
            self.net = lib.compile(self.net)

    def step(self) -> Any:
        """Forward, loss, backward, optimizer step; returns the loss."""
        self.optimiser.zero_grad()
        with self.lib.autocast("cpu", dtype=self.lib.bfloat16, enabled=self.autocast):
            loss = self.model.loss(self.lib, self.net(*self.inputs), self.targets)
        loss.backward()
        if hasattr(self.model, "CLIP"):
            self.lib.nn.utils.clip_grad_norm_(self.parameters, self.model.CLIP)
        self.optimiser.step()
        return loss.detach()

    def losses(self, steps: int) -> list[float]:
        """The loss of each of the next steps."""
        return [float(self.step()) for _ in range(steps)]

    def infer(self) -> Any:
        """The output for the batch, without gradients and with layers in evaluation mode."""
        if self.net.training:
            self.net.eval()
        with self.lib.no_grad():
            return self.net(*self.inputs)


def fill(lib: Any, net: Any) -> None:
    """Draw every parameter with NumPy, seeded by its name: matrices scaled by their inputs, scales 1, biases 0."""
    import numpy as np

    with lib.no_grad():
        for name, parameter in net.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) == 1:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
                continue
            gain = 2.0 if len(shape) == 4 else 1.0
            values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype="float32")
            values *= math.sqrt(gain / math.prod(shape[1:]))
            parameter.copy_(lib.from_numpy(values))
