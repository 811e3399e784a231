"""Under `torch.nn.parallel._functions`: moving tensors between the accelerators of one process.

Libraries with a synchronised batch normalisation of their own import these names and use them only for a model spread over
several accelerators. As in PyTorch, they refuse tensors on the CPU.

Example:
    >>> with fb.compat.torch():
    ...     from torch.nn.parallel._functions import Broadcast
    >>> Broadcast.__name__
    'Broadcast'
"""

from __future__ import annotations

from typing import Any

from flambeau.errors import StateError

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class _BetweenAccelerators:
    """What the four have in common: an `apply` that needs accelerators, of which there are none."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Refuses: there is no accelerator to go to or come from."""
        raise StateError(
            f"{cls.__name__}: moves tensors between accelerators, and there is only the CPU; call the module without DataParallel"
        )


class Broadcast(_BetweenAccelerators):
    """Copies tensors to several accelerators: `apply(target_gpus, *inputs)`."""


class Gather(_BetweenAccelerators):
    """Joins tensors of several accelerators: `apply(target_device, dim, *inputs)`."""


class ReduceAddCoalesced(_BetweenAccelerators):
    """Sums tensors of several accelerators: `apply(destination, num_inputs, *grads)`."""


class Scatter(_BetweenAccelerators):
    """Shares a tensor out to several accelerators: `apply(target_gpus, chunk_sizes, dim, input)`."""
