"""RAdam."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau._registry import private
from flambeau.optim._options import (
    BETAS,
    CAPTURABLE,
    DECOUPLED,
    DIFFERENTIABLE,
    EPS,
    FOREACH,
    LR,
    MAXIMIZE,
    WEIGHT_DECAY,
    Number,
)
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    fusable,
    moments,
    move_,
    plain,
    step_count,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]
__dir__ = __all__.copy


class RAdam(GroupOptimizer):
    """Adam that trusts the average squared gradient only when enough steps have been averaged.

    With m, v averages as in Adam, t the number of the step, ρ∞ = 2 / (1 - beta2) - 1 and
    ρ = ρ∞ - 2 · t · beta2^t / (1 - beta2^t)::

        p ← p - lr · m / (1 - beta1^t) · r · √(1 - beta2^t) / (√v + eps)      if ρ > 5
        p ← p - lr · m / (1 - beta1^t)                                        otherwise

    where r = √((ρ - 4) (ρ - 2) ρ∞ / ((ρ∞ - 4) (ρ∞ - 2) ρ)).

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: weight decay coefficient.
        decoupled_weight_decay: apply weight decay to the parameters directly, as AdamW does, instead of through the
            gradient.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        capturable: has an effect on accelerators only.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.RAdam([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.8000, 0.8000])
    """

    _options = (
        LR, BETAS, EPS, WEIGHT_DECAY, MAXIMIZE, FOREACH, CAPTURABLE, DECOUPLED, DIFFERENTIABLE,
    )  # fmt: skip
    _states = ("exp_avg", "exp_avg_sq", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": step_count(0.0, param, group), "exp_avg": zeros(param), "exp_avg_sq": zeros(param)}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        radam(params, grads, *self._lists(states), **self._arguments(group))


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Number,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, m, v, t = fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.radam.radam([p], [fb.ones(2)], [m], [v], [t], beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0, eps=1e-8)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("RAdam", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, None, foreach, differentiable, lr, weight_decay):
        states = (exp_avgs, exp_avg_sqs, state_steps)
        private.fused_radam(
            params, grads, *states, lr, beta1, beta2, weight_decay, eps, decoupled_weight_decay, maximize
        )
        return
    rho_inf = 2 / (1 - beta2) - 1
    rows = moments(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, lr=lr, betas=(beta1, beta2), weight_decay=weight_decay,
        decoupled=decoupled_weight_decay, maximize=maximize,
    )  # fmt: skip
    for t, param, _, exp_avg, exp_avg_sq in rows:
        direction = exp_avg / (1 - beta1**t)
        bias_correction2 = 1 - beta2**t
        rho = rho_inf - 2 * t * beta2**t / bias_correction2
        if rho > 5.0:
            rectified = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            direction = direction / exp_avg_sq.sqrt().add(eps) * (bias_correction2**0.5 * rectified)
        move_(param, direction, lr)
