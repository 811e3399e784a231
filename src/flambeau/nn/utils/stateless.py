"""Calling a module with other parameters than its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["functional_call"]
__dir__ = __all__.copy


@contextmanager
def swapped(
    module: Module, tensors: dict[str, Tensor], tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """Within this block the module has the given tensors in place of its own; tied ones change together."""
    from flambeau.func._modules import replaced

    with replaced(module, tensors, tie_weights, strict):
        yield


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with the given tensors in place of its own parameters and buffers.

    Args:
        module: the module; it is not changed.
        parameters_and_buffers: tensors by their paths.
        args: positional arguments, a tuple, or a single one.
        kwargs: keyword arguments.
        tie_weights: whether parameters that are one tensor in the module stay one.
        strict: whether all parameters and buffers must be given.

    Example:
        >>> m = fb.nn.Linear(2, 1)
        >>> w = {"weight": fb.ones(1, 2), "bias": fb.zeros(1)}
        >>> fb.nn.utils.stateless.functional_call(m, w, fb.ones(2))
        tensor([2.])
    """
    warnings.warn(
        "torch.nn.utils.stateless.functional_call is deprecated as of PyTorch 2.0. Please use `torch.func.functional_call` instead",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, parameters_and_buffers, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))
