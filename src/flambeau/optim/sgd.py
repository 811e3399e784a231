"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau._registry import private
from flambeau.optim._options import FOREACH, LR, MASTER, MAXIMIZE, WEIGHT_DECAY, Number, Option, not_negative
from flambeau.optim._update import (
    GroupOptimizer,
    decayed,
    fusable,
    move_,
    plain,
    unscaled,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]
__dir__ = __all__.copy


class SGD(GroupOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    With g the gradient, b the momentum buffer (g at the first step) and p the parameter::

        g ← g + weight_decay · p
        b ← momentum · b + (1 - dampening) · g
        p ← p - lr · b                       with nesterov: p ← p - lr · (g + momentum · b)

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        momentum: momentum factor.
        dampening: dampening of the momentum.
        weight_decay: weight decay coefficient.
        nesterov: whether to use Nesterov momentum; requires momentum and no dampening.
        maximize: maximize the objective instead of minimizing it.
        foreach, fused: select the implementation; the results are the same.
        differentiable: record the step, so that it can be differentiated.
        master_weights: keep a float32 copy of bfloat16 and float16 parameters, and the state in float32. Steps too small
            for the parameter's own digits then add up; the parameter is the copy, rounded.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.SGD([p], lr=0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     (p * p).sum().backward()
        ...     optimizer.step()
        >>> p.detach()
        tensor([0.4600, 0.4600])
    """

    _options = (
        LR, not_negative("momentum"), Option("dampening"), WEIGHT_DECAY, Option("nesterov", before=False), MAXIMIZE,
        FOREACH, Option("differentiable", passed=(), before=False), Option("fused", before=False), MASTER,
    )  # fmt: skip

    takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Number = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        master_weights: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise errors.ArgumentError(
                f"SGD: Nesterov momentum requires a momentum and zero dampening, got {momentum} and {dampening}"
            )
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": None} if group["momentum"] != 0 else {}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        buffers = [state.get("momentum_buffer") for state in states]
        sgd(params, grads, buffers, **self._arguments(group), **self._scaling())
        if group["momentum"] != 0:
            for state, buffer in zip(states, buffers, strict=True):
                state["momentum_buffer"] = buffer


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: Number,
    momentum: float,
    lr: Number,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of SGD on lists of tensors; entries of `momentum_buffer_list` that are None are filled in.

    `has_sparse_grad` is a hint that changes nothing.

    Example:
        >>> p = fb.ones(2)
        >>> fb.optim.sgd.sgd([p], [fb.ones(2)], [None], weight_decay=0, momentum=0, lr=0.5, dampening=0,
        ...                  nesterov=False, maximize=False)
        >>> p
        tensor([0.5000, 0.5000])
    """
    if not unscaled("SGD", d_p_list, fused, grad_scale, found_inf):
        return
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, fused, foreach, False, lr, weight_decay):
        _fused(params, d_p_list, momentum_buffer_list, lr, momentum, dampening, weight_decay, nesterov, maximize)
        return
    for i, (param, grad) in enumerate(zip(params, d_p_list, strict=True)):
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = grad.clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
        move_(param, grad, lr)


def _fused(
    params: list[Tensor], grads: list[Tensor], buffers: list[Tensor | None], lr: Number, momentum: float,
    dampening: float, *flags: Any,
) -> None:  # fmt: skip
    """The same in one pass; parameters without a momentum buffer in a separate pass."""
    if momentum == 0:
        private.fused_sgd(params, grads, [], False, lr, momentum, dampening, *flags)
        return
    parts = {first: [i for i, buffer in enumerate(buffers) if (buffer is None) == first] for first in (True, False)}
    for i in parts[True]:
        buffers[i] = fb.empty_like(params[i].detach(), memory_format=fb.preserve_format)
    for first, part in parts.items():
        if part:
            lists = [[column[i] for i in part] for column in (params, grads, buffers)]
            private.fused_sgd(*lists, first, lr, momentum, dampening, *flags)
