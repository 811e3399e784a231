"""Names for annotations: numbers, and what stands for a device."""

from __future__ import annotations

import builtins
from typing import TypeAlias

from flambeau._C import device as _device

__all__ = ["Device", "Number"]

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = _device | builtins.str | builtins.int | None
