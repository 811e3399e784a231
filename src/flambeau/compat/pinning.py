"""torch.utils.data._utils.pin_memory: without an accelerator there is no pinned memory; data is unchanged."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._tensor.pinning import pin_all

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """The data with its tensors in pinned memory; the data itself without an accelerator.

    Args:
        data: tensors, or containers of them.
        device: which accelerator the memory would be pinned for.

    Example:
        >>> from flambeau.compat.pinning import pin_memory
        >>> pin_memory([fb.ones(1)])
        [tensor([1.])]
    """
    return pin_all(data, device) if device is not None or fb.accelerator.is_available() else data
