"""Tools around tensors and models; each submodule loads when first used.

Example:
    >>> x = fb.ones(2, requires_grad=True)
    >>> fb.utils.checkpoint.checkpoint(fb.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
"""

import importlib as _importlib
import importlib.util as _finder
import sys as _sys


def __getattr__(name: str):
    if not name.startswith("__") and _finder.find_spec(f"{__name__}.{name}"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=_sys.modules[__name__])


def __dir__():
    import pkgutil

    return sorted({*globals(), *(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")})
