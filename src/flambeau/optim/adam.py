"""Adam."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau._registry import private
from flambeau.optim._options import (
    BETAS,
    CAPTURABLE,
    DECOUPLED,
    DIFFERENTIABLE,
    EPS,
    FOREACH,
    FUSED,
    LR,
    MASTER,
    MAXIMIZE,
    WEIGHT_DECAY,
    Number,
    Option,
    check_betas,
)
from flambeau.optim._update import (
    GroupOptimizer,
    blend_,
    check_path,
    column,
    decayed,
    fusable,
    plain,
    real,
    shrink_,
    step_count,
    unscaled,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]
__dir__ = __all__.copy


class Adam(GroupOptimizer):
    """Adam: steps of the average gradient over the root of the average squared gradient.

    With g the gradient, t the number of the step and m, v averages that begin with zero::

        g ← g + weight_decay · p             decoupled: p ← p · (1 - lr · weight_decay)
        m ← beta1 · m + (1 - beta1) · g
        v ← beta2 · v + (1 - beta2) · g²     with amsgrad the largest v so far is used below
        p ← p - lr · m / (1 - beta1^t) / (√(v / (1 - beta2^t)) + eps)

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        betas: decay rates of the two averages, both numbers or both tensors with one element.
        eps: added to the denominator.
        weight_decay: weight decay coefficient.
        amsgrad: whether to divide by the maximum of the averages so far (AMSGrad).
        foreach, fused: select the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        capturable: has an effect on accelerators only.
        differentiable: record the step, so that it can be differentiated.
        decoupled_weight_decay: apply weight decay to the parameters directly, as AdamW does, instead of through the
            gradient.
        master_weights: keep a float32 copy of bfloat16 and float16 parameters, and the state in float32. Steps too small
            for the parameter's own digits then add up; the parameter is the copy, rounded.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.Adam([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9000, 0.9000])
    """

    _options = (
        LR, BETAS, EPS, WEIGHT_DECAY, Option("amsgrad", before=False), MAXIMIZE, FOREACH, CAPTURABLE, DIFFERENTIABLE,
        FUSED, DECOUPLED, MASTER,
    )  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        betas: tuple[Number, Number] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        master_weights: bool = False,
    ) -> None:
        name = type(self).__name__
        check_betas(name, "betas", betas)
        kinds = {Tensor if isinstance(beta, Tensor) else type(beta) for beta in betas}
        if kinds not in ({float}, {Tensor}):
            raise errors.ArgumentError(f"{name}: betas must be either both floats or both Tensors, got {betas}")
        for option, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, Tensor) and foreach and not capturable:
                raise errors.ArgumentError(
                    f"{name}: {option} as a Tensor is not supported for capturable=False and foreach=True; leave foreach out"
                )
            if isinstance(value, Tensor) and value.numel() != 1:
                raise errors.ArgumentError(f"{name}: Tensor {option} must be 1-element, got {value.numel()} elements")
        betas = tuple(beta.squeeze() if isinstance(beta, Tensor) else beta for beta in betas)  # type: ignore[assignment]
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": step_count(0.0, param, group), "exp_avg": zeros(param), "exp_avg_sq": zeros(param)}
        return state | {"max_exp_avg_sq": zeros(param)} if group["amsgrad"] else state

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        steps = column(states, "step")
        if group["differentiable"] and any(step.requires_grad for step in steps):
            raise errors.StateError(f"{type(self).__name__}: step counts cannot require a gradient")
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise errors.StateError(f"{type(self).__name__}: lr as a tensor does not go with foreach=True")
        adam(
            params,
            grads,
            column(states, "exp_avg"),
            column(states, "exp_avg_sq"),
            column(states, "max_exp_avg_sq") if group["amsgrad"] else [],
            steps,
            **self._arguments(group),
            **self._scaling(),
        )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Number,
    beta2: Number,
    lr: Number,
    weight_decay: Number,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adam on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, g, m, v, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.adam.adam([p], [g], [m], [v], [], [t], amsgrad=False, beta1=0.9, beta2=0.999, lr=0.5,
        ...                    weight_decay=0, eps=1e-8, maximize=False)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("Adam", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    if not unscaled("Adam", grads, fused, grad_scale, found_inf):
        return
    lr, beta1, beta2, weight_decay = plain(lr, beta1, beta2, weight_decay)
    if fusable(params, fused, foreach, differentiable, lr, beta1, beta2, weight_decay):
        states = (exp_avgs, exp_avg_sqs, max_exp_avg_sqs if amsgrad else [], state_steps)
        private.fused_adam(
            params, grads, *states, lr, beta1, beta2, weight_decay, eps, decoupled_weight_decay, maximize
        )
        return
    for i, param in enumerate(params):
        param, grad, exp_avg, exp_avg_sq = real(param, grads[i], exp_avgs[i], exp_avg_sqs[i])
        grad = -grad if maximize else grad
        state_steps[i] += 1
        t = state_steps[i].item()
        if decoupled_weight_decay:
            if weight_decay != 0:
                shrink_(param, 1 - lr * weight_decay)
        else:
            grad = decayed(grad, param, weight_decay)
        blend_(exp_avg, grad, 1 - beta1)
        if isinstance(beta2, Tensor):
            blend_(exp_avg_sq, grad.square(), 1 - beta2)
        else:
            exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        second = exp_avg_sq
        if amsgrad:
            (second,) = real(max_exp_avg_sqs[i])
            if differentiable:
                second.copy_(fb.maximum(second.clone(), exp_avg_sq.clone()))
            else:
                fb.maximum(second, exp_avg_sq, out=second)
        step_size: Any = lr / (1 - beta1**t)
        denominator = (second.sqrt() / (1 - beta2**t) ** 0.5).add_(eps)
        if differentiable:
            # The average changes again at the next step, but the gradient needs its current value.
            param.sub_(exp_avg.clone() / denominator * step_size)
        else:
            param.addcdiv_(exp_avg, denominator, value=-step_size)
