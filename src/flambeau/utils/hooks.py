"""The handle that registering a hook returns."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any, Self

__all__ = ["RemovableHandle", "unserializable_hook"]
__dir__ = __all__.copy


def unserializable_hook(f: Any) -> Any:
    """A decorator for hooks of tensors that are not meant to be sent to other processes; here no hook is, marked or not.

    Example:
        >>> @fb.utils.hooks.unserializable_hook
        ... def note(grad):
        ...     print(grad)
    """
    f.__torch_unserializable__ = True
    return f


class RemovableHandle:
    """Returned by registering a hook: remove() removes the hook; a `with` block removes it at the end.

    Example:
        >>> m = fb.nn.ReLU()
        >>> with m.register_forward_hook(lambda module, args, output: output + 1):
        ...     print(m(fb.zeros(1)))
        tensor([1.])
        >>> m(fb.zeros(1))
        tensor([0.])
    """

    _ids = itertools.count()

    def __init__(self, hooks_dict: OrderedDict[Any, Any], *, extra_dict: Any = None) -> None:
        self.id = next(self._ids)
        self.hooks_dict_ref: weakref.ref[Any] = weakref.ref(hooks_dict)
        extras: Any = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.extra_dict_ref: tuple[weakref.ref[Any], ...] = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Removes the hook; a second call does nothing.

        Example:
            >>> handle = fb.nn.ReLU().register_forward_hook(print)
            >>> handle.remove()
        """
        for table in (self.hooks_dict_ref(), *(extra() for extra in self.extra_dict_ref)):
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: Any) -> None:
        table, self.id = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if table is None else table)
        self.extra_dict_ref = ()
