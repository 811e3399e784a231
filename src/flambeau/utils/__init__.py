"""Tools around tensors and models; each submodule loads when first used.

Example:
    >>> x = fb.ones(2, requires_grad=True)
    >>> fb.utils.checkpoint.checkpoint(fb.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
"""

import importlib as _importlib
import importlib.util as _finder


def __getattr__(name: str):
    if not name.startswith("__") and _finder.find_spec(f"{__name__}.{name}"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
