"""Calls of users' formulas and kernels: arguments, devices, and gradients by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau.errors import ArgumentError


def bind(op: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments in order, with defaults."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{op}: {error}; expected {op}{signature}") from None
    bound.apply_defaults()
    return tuple(bound.arguments.values())


def records(values: Sequence[Any]) -> bool:
    """Whether autograd or a transform such as vmap must see the call."""
    tensors = [value for value in values if isinstance(value, _C.Tensor)]
    return any(hasattr(type(t), "__flambeau_function__") or t.requires_grad for t in tensors)


def common_device(op: str, tensors: Mapping[str, Any], numbers: bool = True) -> Any:
    """The device of all tensors; 0-d ones on the CPU are accepted with any device if they count as numbers."""
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if not (numbers and tensor.dim() == 0 and tensor.device.type == "cpu"):
            found[name] = tensor.device
    if not found:
        return next(iter(tensors.values())).device
    (first, device), *others = found.items()
    for name, other in others:
        if other != device:
            raise ArgumentError(
                f"{op}: argument '{first}' is on '{device}', argument '{name}' on '{other}'; move one with .to('{device}')"
            )
    return device


def call_by_name(op: str, function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Calls a function with the values that its parameters name."""
    names = getattr(function, "arguments", None)
    if names is None:
        names = tuple(inspect.signature(function).parameters)
    if missing := [name for name in names if name not in known]:
        raise TypeError(f"{op}: a function given to it asks for {', '.join(missing)}; it may ask for {', '.join(known)}")
    return function(**{name: known[name] for name in names})


def gradients_of(
    op: str, function: Callable[..., Any], known: Mapping[str, Any], values: Sequence[Any], needed: Sequence[bool]
) -> list[Any]:
    """The gradients returned by a gradient function, one per value of a call."""
    made = call_by_name(f"{op}, gradient", function, known)
    tensors = [i for i, value in enumerate(values) if isinstance(value, _C.Tensor)]
    grads = list(made) if isinstance(made, tuple | list) else [made]
    if len(grads) != len(tensors):
        raise TypeError(f"{op}: the gradient function gave {len(grads)} results; expected one for each of {len(tensors)} tensors")
    result: list[Any] = [None] * len(values)
    for i, grad in zip(tensors, grads, strict=True):
        if grad is not None and not isinstance(grad, _C.Tensor):
            raise TypeError(f"{op}: the gradient function gave a {type(grad).__name__}; expected tensors or None")
        if grad is not None and grad.shape != values[i].shape:
            grad = grad.sum_to_size(values[i].shape)
        result[i] = grad if needed[i] else None
    return result
