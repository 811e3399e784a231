"""Creating modules without initialising their parameters."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["skip_init"]
__dir__ = __all__.copy


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are left as memory was, without the time to draw them.

    Args:
        module_cls: the class; its __init__ must take `device`.
        args: for its __init__.
        kwargs: for its __init__.

    Example:
        >>> fb.nn.utils.skip_init(fb.nn.Linear, 3, 2)
        Linear(in_features=3, out_features=2, bias=True)
    """
    from flambeau.nn.modules.module import Module

    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a Module class, got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:  # type: ignore[arg-type]  # a class, as just checked
        raise RuntimeError(f"skip_init: {module_cls.__name__} must take a device to have its initialisation skipped")
    # an instance of a subclass whose reset_parameters does nothing, converted to the class itself
    quiet = type(module_cls.__name__, (module_cls,), {"reset_parameters": _nothing, "_reset_parameters": _nothing})
    module = quiet(*args, **kwargs)
    module.__class__ = module_cls
    return module


def _nothing(self: Any) -> None:
    """Leaves the parameters as they are."""
