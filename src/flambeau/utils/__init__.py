"""Tools around tensors and models; each submodule loads when first used.

Example:
    >>> x = fb.ones(2, requires_grad=True)
    >>> fb.utils.checkpoint.checkpoint(fb.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
"""

import copyreg as _copyreg
import importlib.util as _finder
import sys as _sys
import typing as _typing
import weakref as _weakref

from flambeau import Tensor as _Tensor
from flambeau._registry.lazy import load as _load
from flambeau.errors import StateError as _StateError

__all__ = ["swap_tensors"]


def swap_tensors(t1: _Tensor, t2: _Tensor) -> None:
    """Exchanges two tensors: each keeps its identity and gets all else of the other, class, gradient and attributes included.

    Args:
        t1, t2: tensors without views or weak references, which no recorded computation that may still run backward keeps.

    Example:
        >>> a, b = fb.zeros(2), fb.nn.Parameter(fb.ones(3))
        >>> fb.utils.swap_tensors(a, b)
        >>> a.tolist(), type(b).__name__
        ([1.0, 1.0, 1.0], 'Tensor')
    """
    for t, name in ((t1, "t1"), (t2, "t2")):
        if _weakref.getweakrefs(t):
            raise _StateError(f"swap_tensors: Cannot swap {name} because it has weakref associated with it; drop the weak references first")
    slots = set(_copyreg._slotnames(type(t1)))  # type: ignore[attr-defined]
    if slots != set(_copyreg._slotnames(type(t2))):  # type: ignore[attr-defined]
        raise _StateError(
            f"swap_tensors: Cannot swap t1 and t2 if they have different slots, got a {type(t1).__name__} and a {type(t2).__name__}"
        )
    if t1 is t2:
        return
    _check_unshared(t1, "t1")
    _check_unshared(t2, "t2")
    t1.__class__, t2.__class__ = type(t2), type(t1)
    for name in ("__dict__", *slots):
        kept = [getattr(t, name, _MISSING) for t in (t2, t1)]
        for t, value in zip((t1, t2), kept, strict=True):
            if value is not _MISSING:
                setattr(t, name, value)
            elif hasattr(t, name):
                delattr(t, name)
    t1._swap_impl(t2)  # type: ignore[attr-defined]


_MISSING = object()


def _check_unshared(t: _Tensor, name: str) -> None:
    """Raises if anything in the core shares the tensor; a leaf's accumulator is replaced by one that raises."""
    from flambeau.autograd.graph import get_gradient_edge

    count = t._use_count()  # type: ignore[attr-defined]
    if count == 1:
        return
    if count == 2 and t.is_leaf and t.requires_grad:
        node = get_gradient_edge(t).node
        if t._use_count() == 2:  # type: ignore[attr-defined]
            node.register_prehook(_refuse_gradient)
            return
    raise _StateError(
        f"swap_tensors: Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {count}: views of it, or "
        "recorded computations that saved it, are alive; drop them first, or swap before they are made"
    )


def _refuse_gradient(gradients: _typing.Any) -> _typing.NoReturn:
    raise _StateError(
        "backward: Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the leaf was exchanged after this graph "
        "was recorded, for example by a conversion of its module between forward and backward; convert before forward or after backward"
    )


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
    from flambeau.utils import module_tracker as module_tracker
    from flambeau.utils import selftest as selftest
    from flambeau.utils import tensorboard as tensorboard
else:

    def __getattr__(name: str) -> _typing.Any:
        if not name.startswith("__") and _finder.find_spec(f"{__name__}.{name}"):
            return _load(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=_sys.modules[__name__])

    def __dir__() -> list[str]:
        import pkgutil

        return sorted({*__all__, *(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")})
