"""Views that are copied: what the rows of the views say, in memory of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .spec import T, bad
from .specs_shape import VIEWS, X, calls, copy

BY_NAME = {row.name: row for row in VIEWS}


def _copied(name, **changes):
    changes = {"function": True, "method": False, "view": False, "out": True, **changes}
    return replace(BY_NAME[name], name=f"{name}_copy", **changes)


def _unsafe(name, **changes):
    return replace(BY_NAME[name], name=f"unsafe_{name}", **changes)


def _slice(x, dim=0, start=None, end=None, step=1):
    return np.moveaxis(np.moveaxis(x, dim, 0)[start:end:step], 0, dim)


# fmt: off
ROWS = [
    copy("alias_copy", lambda x: x, calls(()), method=False, out=True),
    copy("detach_copy", lambda x: x, calls(()), method=False, out=True),
    copy("slice_copy", _slice, calls((), (1, 1), (0, -2, None), (1, 0, 4, 3), (-1, 1, 1), {"dim": 1, "end": 2}),
         bad("a step of zero", RuntimeError, X, 0, 0, 2, 0), bad("a 0-d tensor", RuntimeError, T(1.0, "float32")),
         bad("a dim out of range", IndexError, X, 2), method=False, out=True),
    *(_copied(name) for name in ("as_strided", "diagonal", "permute", "select", "squeeze", "t", "transpose", "unfold",
      "unsqueeze", "view_as_complex", "view_as_real")),
    _copied("expand", samples=calls(((3, 4),), ((2, -1, -1),), shape=(3, 1))),
    _copied("view", samples=calls(((4, 6),), ((-1,),), ((3, -1, 1),))),
    _copied("split", samples=calls((2,), (3, 1)), errors=(bad("a negative size", RuntimeError, X, -1),), out=False),
    *(_copied(name, out=False) for name in ("split_with_sizes", "unbind")),
    *(_unsafe(name) for name in ("chunk", "split", "split_with_sizes")),
]
