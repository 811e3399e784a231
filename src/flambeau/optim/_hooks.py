"""The handle that registering a hook returns."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any


class RemovableHandle:
    """Takes a hook away again: by `remove()`, or at the end of a `with` block.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)])
        >>> with optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("step")):
        ...     optimizer.step()
        step
        >>> optimizer.step()
    """

    _ids = itertools.count()

    def __init__(self, hooks: OrderedDict[int, Any]) -> None:
        # A handle that outlives its optimizer must not keep it alive.
        self._hooks = weakref.ref(hooks)
        self.id = next(self._ids)

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing.

        Example:
            >>> handle = fb.optim.SGD([fb.zeros(2)]).register_step_pre_hook(print)
            >>> handle.remove()
        """
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
