"""RMSprop."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau._registry import private
from flambeau.optim._options import (
    CAPTURABLE,
    DIFFERENTIABLE,
    EPS,
    FOREACH,
    LR,
    MAXIMIZE,
    WEIGHT_DECAY,
    Number,
    Option,
    not_negative,
)
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    column,
    decayed,
    fusable,
    move_,
    plain,
    real,
    step_count,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]
__dir__ = __all__.copy


class RMSprop(GroupOptimizer):
    """RMSprop: the gradient over the root of its average square.

    With g the gradient and v, a, b beginning with zero::

        g ← g + weight_decay · p
        v ← alpha · v + (1 - alpha) · g²
        d ← √v + eps                          centered: a ← alpha · a + (1 - alpha) · g,  d ← √(v - a²) + eps
        p ← p - lr · g / d                    with momentum: b ← momentum · b + g / d,  p ← p - lr · b

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        alpha: decay rate of the averages.
        eps: added to the denominator.
        weight_decay: weight decay coefficient.
        momentum: momentum factor.
        centered: divide by the estimated standard deviation instead of the root mean square.
        capturable: has an effect on accelerators only.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.RMSprop([p], lr=0.01)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9000, 0.9000])
    """

    _options = (
        LR, not_negative("momentum", before=0), not_negative("alpha"), EPS, Option("centered", before=False),
        WEIGHT_DECAY, CAPTURABLE, FOREACH, MAXIMIZE, DIFFERENTIABLE,
    )  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": step_count(0.0, param, group), "square_avg": zeros(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros(param)
        if group["centered"]:
            state["grad_avg"] = zeros(param)
        return state

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        rmsprop(
            params,
            grads,
            column(states, "square_avg"),
            column(states, "grad_avg") if group["centered"] else [],
            column(states, "momentum_buffer") if group["momentum"] > 0 else [],
            column(states, "step"),
            **self._arguments(group),
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: Number,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of RMSprop on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, v, t = fb.ones(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.rmsprop.rmsprop([p], [fb.ones(2)], [v], [], [], [t], lr=0.5, alpha=0.0, eps=0.0, weight_decay=0,
        ...                          momentum=0, centered=False)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("RMSprop", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    step_size, weight_decay = plain(lr, weight_decay)
    if fusable(params, None, foreach, differentiable, step_size, weight_decay):
        states = (square_avgs, grad_avgs if centered else [], momentum_buffer_list if momentum > 0 else [], state_steps)
        private.fused_rmsprop(params, grads, *states, step_size, alpha, eps, weight_decay, momentum, maximize)
        return
    for i, param in enumerate(params):
        param, grad, square_avg = real(param, grads[i], square_avgs[i])
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        state_steps[i] += 1
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if centered:
            (grad_avg,) = real(grad_avgs[i])
            grad_avg.lerp_(grad, 1 - alpha)
            mean = grad_avg.clone() if differentiable else grad_avg
            denominator = square_avg.addcmul(mean, mean, value=-1).sqrt().add(eps)
        else:
            denominator = square_avg.sqrt().add(eps)
        if momentum > 0:
            (buffer,) = real(momentum_buffer_list[i])
            buffer.mul_(momentum).addcdiv_(grad, denominator)
            move_(param, buffer, step_size)
        elif differentiable:
            move_(param, grad / denominator, step_size)
        else:
            param.addcdiv_(grad, denominator, value=-step_size)
