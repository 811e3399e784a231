"""The package `functorch`, which comes with PyTorch: `flambeau.func`, and the functional modules of its early days.

Example:
    >>> from flambeau.compat import functorch
    >>> call, weights = functorch.make_functional(fb.nn.Linear(2, 1))
    >>> [weight.shape for weight in weights], call(weights, fb.ones(3, 2)).shape
    ([torch.Size([1, 2]), torch.Size([1])], torch.Size([3, 1]))
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor, nn
from flambeau.errors import ArgumentError
from flambeau.func import functional_call, linearize, replace_all_batch_norm_modules_
from flambeau.func._vmap import chunk_vmap

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "chunk_vmap", "combine_state_for_ensemble", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "make_functional",
    "make_functional_with_buffers", "replace_all_batch_norm_modules_", "vjp", "vmap",
]  # fmt: skip


def _older(new: str) -> Callable[..., Any]:
    """A deprecated alias that names its replacement when called."""

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(
                f"We've integrated functorch into PyTorch: functorch.{function.__name__} is deprecated since PyTorch 2.0. Please "
                f"use `{new}` instead",
                FutureWarning,
                stacklevel=2,
            )
            return function(*args, **kwargs)

        return call

    return decorate


grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp = (
    _older(f"torch.func.{name}")(getattr(fb.func, name))
    for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp")
)
vmap = _older("torch.vmap")(fb.func.vmap)


class FunctionalModule(nn.Module):
    """A module whose parameters are the first argument of each call.

    Args:
        stateless: the module.
        names: the names of its parameters, in the order in which calls give them.
    """

    def __init__(self, stateless: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless
        self.param_names = tuple(names)

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(nn.Module):
    """A module whose parameters and buffers are the first two arguments of each call.

    Args:
        stateless: the module.
        names: the names of its parameters, in the order in which calls give them.
        buffer_names: those of its buffers.
    """

    def __init__(self, stateless: nn.Module, names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless
        self.param_names = tuple(names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True)) | dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def _stateless(model: nn.Module) -> nn.Module:
    """A copy without parameter memory: calls replace the tensors. Names that share a tensor still do."""
    memo: dict[int, Any] = {id(b): b.detach().to("meta") for b in model.buffers()}
    memo |= {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, memo)


def _values(tensors: Any, detach: bool) -> tuple[Tensor, ...]:
    """New leaf tensors with these values."""
    copies = (tensor.detach().clone() for tensor in tensors)
    return tuple(c if detach else c.requires_grad_(t.requires_grad) for c, t in zip(copies, tensors, strict=True))


@_older("torch.func.functional_call")
def make_functional(model: nn.Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module as a function of its parameters, and the parameters.

    Args:
        model: the module; it must have no buffers.
        disable_autograd_tracking: whether the parameters are returned without requiring gradients.
    """
    if next(model.buffers(), None) is not None:
        raise ArgumentError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    names, values = [name for name, _ in model.named_parameters()], _values(list(model.parameters()), disable_autograd_tracking)
    return FunctionalModule(_stateless(model), names), values


@_older("torch.func.functional_call")
def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, its parameters, and its buffers.

    Args:
        model: the module.
        disable_autograd_tracking: whether the parameters are returned without requiring gradients.

    Example:
        >>> call, weights, buffers = make_functional_with_buffers(fb.nn.BatchNorm1d(2))
        >>> len(weights), len(buffers)
        (2, 3)
    """
    names, buffer_names = ([name for name, _ in named] for named in (model.named_parameters(), model.named_buffers()))
    values = _values(list(model.parameters()), disable_autograd_tracking)
    return FunctionalModuleWithBuffers(_stateless(model), names, buffer_names), values, _values(list(model.buffers()), True)


@_older("torch.func.stack_module_state")
def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one class as one function to be called under vmap, their parameters and their buffers, stacked.

    Args:
        models: modules of one class, all training or none.
    """
    if not models:
        raise ArgumentError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(model.training for model in models) or all(not model.training for model in models)):
        raise ArgumentError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise ArgumentError("combine_state_for_ensemble: Expected all models to be of the same class.")
    parts = [make_functional_with_buffers.__wrapped__(model) for model in models]
    stacked = []
    for kind in (1, 2):
        same = zip(*(part[kind] for part in parts), strict=True)
        stacked.append(tuple(fb.stack(each).detach().requires_grad_(each[0].requires_grad) for each in same))
    return parts[0][0], stacked[0], stacked[1]
