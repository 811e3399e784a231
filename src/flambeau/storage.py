"""Storages: the memory under tensors."""

from flambeau._storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
