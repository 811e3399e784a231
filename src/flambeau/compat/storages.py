"""What `torch.storage` offers: the bytes under tensors. Typed storages are not here."""

from __future__ import annotations

import flambeau as fb

__all__ = ["UntypedStorage"]

UntypedStorage = fb.UntypedStorage


def __getattr__(name: str):
    from flambeau.compat import absent

    if name in ("TypedStorage", "_LegacyStorage"):
        return absent.placeholder(f"torch.storage.{name}")
    raise AttributeError(f"module 'torch.storage' has no attribute '{name}'")
