"""Names for annotations, as `torch.types` has them.

Example:
    >>> isinstance(3, fb.types.Number), isinstance("cpu", fb.types.Device)
    (True, True)
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor, device, dtype, layout

__all__ = ["Device", "FileLike", "Number", "Storage"]
__dir__ = __all__.copy

_TensorOrTensors = Tensor | Sequence[Tensor]
_bool, _int, _float, _complex = builtins.bool, builtins.int, builtins.float, builtins.complex
_dtype, _device, _layout, _qscheme = dtype, device, layout, Any
_size = fb.Size | list[builtins.int] | tuple[builtins.int, ...]

Number = builtins.int | builtins.float | builtins.bool
_Number = (builtins.int, builtins.float, builtins.bool)
Device = device | str | builtins.int | None
FileLike = str | os.PathLike[str] | Any
IntLikeType, FloatLikeType, BoolLikeType = builtins.int, builtins.float, builtins.bool
Storage = fb.TypedStorage | fb.UntypedStorage
