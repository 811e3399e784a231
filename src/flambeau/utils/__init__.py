"""Tools around tensors and models; each submodule loads when first used.

Example:
    >>> x = fb.ones(2, requires_grad=True)
    >>> fb.utils.checkpoint.checkpoint(fb.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
"""

import importlib.util as _finder
import sys as _sys
import typing as _typing

from flambeau import Tensor as _Tensor
from flambeau._registry.lazy import load as _load

__all__ = ["swap_tensors"]


def swap_tensors(t1: _Tensor, t2: _Tensor) -> None:
    """Exchanges two tensors: each keeps its identity and gets all else of the other, class, gradient and attributes included.

    Args:
        t1, t2: leaves, such as parameters, that no recorded computation has used.

    Example:
        >>> a, b = fb.zeros(2), fb.nn.Parameter(fb.ones(3))
        >>> fb.utils.swap_tensors(a, b)
        >>> a.tolist(), type(b).__name__
        ([1.0, 1.0, 1.0], 'Tensor')
    """
    from flambeau.errors import StateError

    both = (t1, t2)
    if not (t1.is_leaf and t2.is_leaf):
        raise StateError("swap_tensors: a tensor that an operation made belongs to its graph; detach() it first")
    kept = [(t.data, t.requires_grad, t.grad, dict(t.__dict__), type(t)) for t in both]
    for t, (data, records, grad, attributes, kind) in zip(both, reversed(kept), strict=True):
        t.grad = None
        t.requires_grad_(False)
        t.__class__ = kind
        t.data = data
        t.requires_grad_(records)
        t.grad = grad
        t.__dict__.clear()
        t.__dict__.update(attributes)


if _typing.TYPE_CHECKING:
    from flambeau.utils import benchmark as benchmark
    from flambeau.utils import checkpoint as checkpoint
    from flambeau.utils import collect_env as collect_env
    from flambeau.utils import data as data
    from flambeau.utils import deterministic as deterministic
    from flambeau.utils import dlpack as dlpack
    from flambeau.utils import file_baton as file_baton
    from flambeau.utils import flop_counter as flop_counter
    from flambeau.utils import hooks as hooks
    from flambeau.utils import model_zoo as model_zoo
    from flambeau.utils import tensorboard as tensorboard
else:

    def __getattr__(name: str) -> _typing.Any:
        if not name.startswith("__") and _finder.find_spec(f"{__name__}.{name}"):
            return _load(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=_sys.modules[__name__])

    def __dir__() -> list[str]:
        import pkgutil

        return sorted({*__all__, *(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")})
