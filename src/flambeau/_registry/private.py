"""Private ops of the core, for use inside the library: `private.lstm_cell` is the op `_lstm_cell`."""

from __future__ import annotations

from typing import Any

from flambeau import _C


def __getattr__(name: str) -> Any:
    found = _C.namespaces[""].get(f"_{name}")
    if found is None:
        raise AttributeError(f"the op table has no op '_{name}'")
    globals()[name] = found  # looked up once
    return found
