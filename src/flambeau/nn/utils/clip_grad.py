"""Limiting gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
__dir__ = __all__.copy


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(tensors, Module):
        raise TypeError(f"clip_grad: expected tensors, got the module {type(tensors).__name__}; pass its parameters()")
    if isinstance(tensors, Tensor):
        return [tensors]
    if not isinstance(tensors, Iterable) or isinstance(tensors, str):
        raise TypeError(f"clip_grad: expected a tensor or several, got {type(tensors).__name__}; pass model.parameters()")
    return list(tensors)


def _number(op: str, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{op}: {name} must be a number, got {value!r}") from None


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The norm of all tensors, as if their elements were one vector.

    Args:
        tensors: one or several.
        norm_type: which norm; inf for the largest absolute value.
        error_if_nonfinite: whether a norm of NaN or infinity is an error.
        foreach: accepted without effect; there is one implementation.

    Example:
        >>> fb.nn.utils.get_total_norm([fb.tensor([3.0]), fb.tensor([4.0])])
        tensor(5.)
    """
    with fb.no_grad():
        norms = [fb.linalg.vector_norm(t, float(norm_type)) for t in _listed(tensors)]
        if not norms:
            return fb.tensor(0.0)
        total = fb.linalg.vector_norm(fb.stack(norms), float(norm_type))
        if error_if_nonfinite and not bool(fb.isfinite(total)):
            raise RuntimeError(
                f"get_total_norm: the norm of order {norm_type} is {total.item()}; pass error_if_nonfinite=False to go on"
            )
        return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: Any = None
) -> None:
    """Scales the gradients by max_norm / total_norm if that is below 1.

    Args:
        parameters: whose gradients to scale, in place.
        max_norm: the norm they may have.
        total_norm: the norm they have.
        foreach: accepted without effect; there is one implementation.

    Example:
        >>> p = fb.nn.Parameter(fb.zeros(1))
        >>> p.grad = fb.tensor([4.0])
        >>> fb.nn.utils.clip_grads_with_norm_([p], 2.0, fb.tensor(4.0))
        >>> p.grad
        tensor([2.0000])
    """
    with fb.no_grad():
        # always multiplied, by at most 1, so that nothing has to wait for the value
        factor = (_number("clip_grad_norm_", "max_norm", max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.detach().mul_(factor.to(parameter.grad.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """Scales the gradients of all parameters so that their norm together is at most max_norm.

    Args:
        parameters: whose gradients to scale, in place.
        max_norm: the norm they may have.
        norm_type: which norm; inf for the largest absolute value.
        error_if_nonfinite: whether a norm of NaN or infinity is an error.
        foreach: accepted without effect; there is one implementation.

    Returns:
        The norm before clipping.

    Example:
        >>> p = fb.nn.Parameter(fb.zeros(2))
        >>> p.grad = fb.tensor([3.0, 4.0])
        >>> fb.nn.utils.clip_grad_norm_(p, 1.0)
        tensor(5.)
        >>> p.grad
        tensor([0.6000, 0.8000])
    """
    is_generator = not hasattr(parameters, "__len__")
    parameters = _listed(parameters)
    if is_generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value].

    Args:
        parameters: whose gradients to limit, in place.
        clip_value: the limit.
        foreach: accepted without effect; there is one implementation.

    Example:
        >>> p = fb.nn.Parameter(fb.zeros(2))
        >>> p.grad = fb.tensor([3.0, -0.5])
        >>> fb.nn.utils.clip_grad_value_(p, 1.0)
        >>> p.grad
        tensor([ 1.0000, -0.5000])
    """
    limit = _number("clip_grad_value_", "clip_value", clip_value)
    with fb.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.detach().clamp_(-limit, limit)


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The deprecated name of clip_grad_norm_()."""
    warnings.warn("clip_grad_norm is deprecated in favor of clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(*args, **kwargs)
