"""What `torch.storage` offers: the memory under tensors."""

from __future__ import annotations

from flambeau._storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
