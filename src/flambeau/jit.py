"""PyTorch's TorchScript, as pass-through: functions and modules stay what they are and run as plain Python.

Scripting and tracing change neither results nor gradients in PyTorch, so code that uses them runs the same here,
without
being compiled. A scripted model is saved by its `state_dict()`.

Example:
    >>> @fb.jit.script
    ... def double(x: fb.Tensor):
    ...     return x * 2
    >>> double(fb.ones(2))
    tensor([2., 2.])
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from typing import Final as Final

from flambeau.errors import StateError
from flambeau.futures import Future
from flambeau.nn.modules.module import Module as ScriptModule

__all__ = [
    "Attribute", "ScriptModule", "annotate", "export", "freeze", "fork", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
__dir__ = __all__.copy

T = TypeVar("T")


_isinstance = isinstance


def script(
    obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> T:
    """Returns a function, class or module unchanged.

    Example:
        >>> fb.jit.script(fb.nn.Linear(2, 3)).weight.shape
        flambeau.Size([3, 2])
    """
    return obj


def trace(func: T, example_inputs: Any = None, **options: Any) -> T:
    """Runs a function or module once on the example, so that mistakes show here, and returns it unchanged.

    Python's control flow stays alive, where PyTorch would freeze the path that the example took.

    Args:
        func: function or module.
        example_inputs: a tensor, or a tuple of arguments; None does not run it.
        options: PyTorch's options about checking, strictness and optimization; without effect.

    Example:
        >>> fb.jit.trace(fb.exp, fb.zeros(2))(fb.zeros(1))
        tensor([1.])
    """
    from flambeau import no_grad

    keywords = options.get("example_kwarg_inputs") or {}
    if example_inputs is not None or keywords:
        several = _isinstance(example_inputs, (tuple, list))
        arguments = () if example_inputs is None else tuple(example_inputs) if several else (example_inputs,)
        with no_grad():
            func(*arguments, **keywords)  # type: ignore[operator]  # a function or a module
    return func


def trace_module(mod: T, inputs: dict[str, Any], **options: Any) -> T:
    """Runs methods of a module once on their examples and returns the module unchanged.

    Example:
        >>> fb.jit.trace_module(fb.nn.ReLU(), {"forward": fb.ones(2)})
        ReLU()
    """
    for method, example in inputs.items():
        trace(getattr(mod, method), example)
    return mod


def script_if_tracing(fn: T) -> T:
    """Returns a function unchanged.

    Example:
        >>> fb.jit.script_if_tracing(fb.exp) is fb.exp
        True
    """
    return fn


def script_method(fn: T) -> T:
    """Returns a method unchanged.

    Example:
        >>> fb.jit.script_method(fb.exp) is fb.exp
        True
    """
    return fn


def export(fn: T) -> T:
    """Returns a method unchanged; in PyTorch it marks one to be compiled.

    Example:
        >>> fb.jit.export(fb.exp) is fb.exp
        True
    """
    return fn


def interface(obj: T) -> T:
    """Returns a class unchanged; in PyTorch it marks one that compiled code may use.

    Example:
        >>> fb.jit.interface(fb.nn.ReLU) is fb.nn.ReLU
        True
    """
    return obj


def unused(fn: T) -> T:
    """Returns a method unchanged; in PyTorch it marks one that compiled code must not call.

    Example:
        >>> fb.jit.unused(fb.exp) is fb.exp
        True
    """
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """A decorator that changes nothing, used as `@ignore` or `@ignore(drop=True)`; PyTorch would leave the function in Python.

    Example:
        >>> fb.jit.ignore(fb.exp) is fb.exp, fb.jit.ignore(drop=True)(fb.exp) is fb.exp
        (True, True)
    """
    return drop if callable(drop) else lambda fn: fn


def freeze(mod: T, preserved_attrs: Any = None, optimize_numerics: bool = True) -> T:
    """Returns a module unchanged; it must be in evaluation mode, as in PyTorch.

    Example:
        >>> fb.jit.freeze(fb.nn.ReLU().eval())
        ReLU()
    """
    if getattr(mod, "training", False):
        raise RuntimeError("freeze: the module is in training mode; call eval() first")
    return mod


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """Returns a module in evaluation mode, otherwise unchanged.

    Example:
        >>> fb.jit.optimize_for_inference(fb.nn.ReLU()).training
        False
    """
    return mod.eval()  # type: ignore[attr-defined]  # a module


def is_scripting() -> bool:
    """False: code always runs as plain Python.

    Example:
        >>> fb.jit.is_scripting()
        False
    """
    return False


def is_tracing() -> bool:
    """False: calls are not recorded.

    Example:
        >>> fb.jit.is_tracing()
        False
    """
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """Returns the value; the type is for PyTorch's compiler.

    Example:
        >>> fb.jit.annotate(list[int], [])
        []
    """
    return the_value


def Attribute(value: T, type: Any) -> T:
    """Returns the value; the type is for PyTorch's compiler.

    Example:
        >>> fb.jit.Attribute(3, int)
        3
    """
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance() that also understands `list[int]` and similar types, of which it checks the container and the first level.

    Example:
        >>> fb.jit.isinstance([1, 2], list[int]), fb.jit.isinstance([1, "a"], list[int])
        (True, False)
    """
    from typing import Union, get_args, get_origin

    if _isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    origin, inner = get_origin(target_type), get_args(target_type)
    if origin is None:
        return _isinstance(obj, target_type)
    if origin is Union:
        return any(isinstance(obj, one) for one in inner)
    if not _isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple and not (len(inner) == 2 and inner[1] is ...):
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return all(isinstance(item, inner[0]) for item in obj)


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Calls a function at once; wait() of the future returns its result.

    Example:
        >>> fb.jit.wait(fb.jit.fork(fb.exp, fb.zeros(1)))
        tensor([1.])
    """
    future: Future[T] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """What a function given to fork() answered.

    Example:
        >>> fb.jit.wait(fb.jit.fork(fb.exp, fb.zeros(1)))
        tensor([1.])
    """
    if future is None:
        raise StateError("wait: Future can't be None")
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block that changes nothing.

    Example:
        >>> with fb.jit.optimized_execution(False):
        ...     x = fb.ones(2)
    """
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Takes PyTorch's list of (kind, depth) and returns the one in force: none, as nothing is fused.

    Example:
        >>> fb.jit.set_fusion_strategy([("DYNAMIC", 3)])
        []
    """
    return []


def onednn_fusion_enabled() -> bool:
    """False: nothing is fused.

    Example:
        >>> fb.jit.onednn_fusion_enabled()
        False
    """
    return False
