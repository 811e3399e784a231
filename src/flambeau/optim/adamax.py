"""Adamax."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.optim._options import BETAS, CAPTURABLE, DIFFERENTIABLE, EPS, FOREACH, LR, MAXIMIZE, WEIGHT_DECAY, Number
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    decayed,
    fusable,
    move_,
    plain,
    real,
    step_count,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]
__dir__ = __all__.copy


class Adamax(GroupOptimizer):
    """Adam with the largest gradient, decayed, in place of the average squared gradient.

    With g the gradient, t the number of the step and m, u beginning with zero::

        g ← g + weight_decay · p
        m ← beta1 · m + (1 - beta1) · g
        u ← max(beta2 · u, |g| + eps)
        p ← p - lr / (1 - beta1^t) · m / u

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        betas: decay rates of the average and of the largest gradient.
        eps: added to the size of the gradient.
        weight_decay: weight decay coefficient.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.
        capturable: has an effect on accelerators only.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.Adamax([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9000, 0.9000])
    """

    _options = (
        LR, BETAS, EPS, WEIGHT_DECAY, FOREACH, MAXIMIZE, DIFFERENTIABLE, CAPTURABLE,
    )  # fmt: skip
    _states = ("exp_avg", "exp_inf", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": step_count(0.0, param, group), "exp_avg": zeros(param), "exp_inf": zeros(param)}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        adamax(params, grads, *self._lists(states), **self._arguments(group))


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: Number,
    weight_decay: float,
) -> None:
    """One step of Adamax on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, m, u, t = fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.adamax.adamax([p], [fb.ones(2)], [m], [u], [t], eps=1e-8, beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("Adamax", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, None, foreach, differentiable, lr, weight_decay):
        states = (exp_avgs, exp_infs, state_steps)
        private.fused_adamax(params, grads, *states, lr, beta1, beta2, weight_decay, eps, maximize)
        return
    for i, param in enumerate(params):
        param, grad, exp_avg, exp_inf = real(param, grads[i], exp_avgs[i], exp_infs[i])
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        state_steps[i] += 1
        step_size: Any = lr / (1 - beta1 ** state_steps[i].item())
        exp_avg.lerp_(grad, 1 - beta1)
        size = grad.abs().add_(eps)
        if differentiable:
            exp_inf.copy_(fb.maximum(exp_inf * beta2, size))
            move_(param, exp_avg.clone() / exp_inf.clone(), step_size)
        else:
            fb.maximum(exp_inf.mul_(beta2), size, out=exp_inf)
            param.addcdiv_(exp_avg, exp_inf, value=-step_size)
