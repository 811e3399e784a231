"""Adagrad."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.optim._options import (
    DIFFERENTIABLE,
    EPS,
    FOREACH,
    FUSED,
    LR,
    MAXIMIZE,
    WEIGHT_DECAY,
    Number,
    not_negative,
)
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    decayed,
    fusable,
    move_,
    plain,
    real,
    step_count,
    unscaled,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]
__dir__ = __all__.copy


class Adagrad(GroupOptimizer):
    """Adagrad: steps shrink with the sum of all squared gradients so far.

    With g the gradient, t the number of the step and s the sum, which begins with `initial_accumulator_value`::

        g ← g + weight_decay · p
        s ← s + g²
        p ← p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps)

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        lr_decay: decay of the learning rate with the number of steps.
        weight_decay: weight decay coefficient.
        initial_accumulator_value: initial value of the sum.
        eps: added to the denominator.
        foreach, fused: select the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.Adagrad([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9000, 0.9000])
    """

    _options = (
        LR, not_negative("lr_decay"), EPS, WEIGHT_DECAY, not_negative("initial_accumulator_value", passed=()),
        FOREACH, MAXIMIZE, DIFFERENTIABLE, FUSED,
    )  # fmt: skip
    _states = ("sum", "step")

    takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals())
        # Unlike other optimizers' states, this one exists before the first step.
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._new_state(p, p, group)

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]
        value = complex(start, start) if param.is_complex() else start
        total = fb.full_like(param.detach(), value, memory_format=fb.preserve_format)
        return {"step": step_count(0.0, param, group), "sum": total}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        adagrad(params, grads, *self._lists(states), **self._arguments(group) | self._scaling())


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Number,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adagrad on lists of tensors.

    `has_sparse_grad` and `has_complex` are hints that change nothing: complex tensors are recognised.

    Example:
        >>> p, s, t = fb.ones(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.adagrad.adagrad([p], [fb.ones(2)], [s], [t], lr=0.5, weight_decay=0, lr_decay=0, eps=1e-10,
        ...                          maximize=False)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("Adagrad", params, state_steps, foreach=foreach, differentiable=differentiable)
    if not unscaled("Adagrad", grads, fused, grad_scale, found_inf):
        return
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, fused, foreach, differentiable, lr, weight_decay):
        private.fused_adagrad(params, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize)
        return
    for i, param in enumerate(params):
        param, grad, total = real(param, grads[i], state_sums[i])
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        state_steps[i] += 1
        step_size: Any = lr / (1 + (state_steps[i].item() - 1) * lr_decay)
        total.addcmul_(grad, grad)
        denominator = total.sqrt().add(eps)
        if differentiable:
            move_(param, grad / denominator, step_size)
        else:
            param.addcdiv_(grad, denominator, value=-step_size)
