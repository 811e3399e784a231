"""Adadelta."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor, errors
from flambeau._registry import private
from flambeau.optim._options import CAPTURABLE, DIFFERENTIABLE, EPS, FOREACH, LR, MAXIMIZE, WEIGHT_DECAY, Number, Option
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

__all__ = ["Adadelta", "adadelta"]
__dir__ = __all__.copy


def _check_rho(optimizer: str, option: str, value: Any) -> None:
    if not 0.0 <= value <= 1.0:
        raise errors.ArgumentError(f"{optimizer}: Invalid {option} value: {value}; expected 0 to 1")


class Adadelta(GroupOptimizer):
    """Adadelta: steps in the units of the parameters, from averages of squared steps and squared gradients.

    With g the gradient and v, u averages that begin with zero::

        g ← g + weight_decay · p
        v ← rho · v + (1 - rho) · g²
        d ← √(u + eps) / √(v + eps) · g
        u ← rho · u + (1 - rho) · d²
        p ← p - lr · d

    Args:
        params: parameters, named parameters or parameter groups.
        lr: factor of the step, a number or a tensor with one element.
        rho: decay rate of the averages.
        eps: added under the roots.
        weight_decay: weight decay coefficient.
        foreach: selects the implementation; the results are the same.
        capturable: has an effect on accelerators only.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.Adadelta([p])
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9968, 0.9968])
    """

    _options = (
        LR, Option("rho", _check_rho), EPS, WEIGHT_DECAY, MAXIMIZE, CAPTURABLE, FOREACH, DIFFERENTIABLE,
    )  # fmt: skip
    _states = ("square_avg", "acc_delta", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": step_count(0.0, param, group), "square_avg": zeros(param), "acc_delta": zeros(param)}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        adadelta(params, grads, *self._lists(states), **self._arguments(group))


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Number,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of Adadelta on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, v, u, t = fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.adadelta.adadelta([p], [fb.ones(2)], [v], [u], [t], lr=1.0, rho=0.0, eps=1.0, weight_decay=0,
        ...                            maximize=False)
        >>> p
        tensor([0.2929, 0.2929])
    """
    check_path("Adadelta", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, None, foreach, differentiable, lr, weight_decay):
        states = (square_avgs, acc_deltas, state_steps)
        private.fused_adadelta(params, grads, *states, lr, rho, eps, weight_decay, maximize)
        return
    for i, param in enumerate(params):
        param, grad, square_avg, acc_delta = real(param, grads[i], square_avgs[i], acc_deltas[i])
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        state_steps[i] += 1
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = acc_delta.add(eps).sqrt() / square_avg.add(eps).sqrt() * grad
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        move_(param, delta, lr)
