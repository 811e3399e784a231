"""NAdam."""

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
    LR,
    MAXIMIZE,
    WEIGHT_DECAY,
    Number,
    not_negative,
)
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    fusable,
    moments,
    move_,
    plain,
    step_count,
    step_dtype,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]
__dir__ = __all__.copy


class NAdam(GroupOptimizer):
    """Adam with Nesterov's momentum.

    With g the gradient, t the number of the step, μ(t) = beta1 · (1 - 0.96^(t · momentum_decay) / 2), M the product of
    all μ so far and m, v averages as in Adam::

        d ← √(v / (1 - beta2^t)) + eps
        p ← p - lr · (1 - μ(t)) / (1 - M) · g / d - lr · μ(t + 1) / (1 - M · μ(t + 1)) · m / d

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: weight decay coefficient.
        momentum_decay: how fast μ approaches beta1.
        decoupled_weight_decay: apply weight decay to the parameters directly, as AdamW does, instead of through the
            gradient.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        capturable: has an effect on accelerators only.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.NAdam([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.8944, 0.8944])
    """

    _options = (
        LR, BETAS, EPS, WEIGHT_DECAY, not_negative("momentum_decay"), DECOUPLED, MAXIMIZE, FOREACH, CAPTURABLE,
        DIFFERENTIABLE,
    )  # fmt: skip
    _states = ("exp_avg", "exp_avg_sq", "mu_product", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for of_p in self.state.values():
            if "mu_product" in of_p and not isinstance(of_p["mu_product"], Tensor):
                of_p["mu_product"] = fb.tensor(float(of_p["mu_product"]), dtype=step_dtype())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(0.0, param, group),
            "mu_product": step_count(1.0, param, group),
            "exp_avg": zeros(param),
            "exp_avg_sq": zeros(param),
        }

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        nadam(params, grads, *self._lists(states), **self._arguments(group))


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Number,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of NAdam on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, m, v, mu, t = fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(1.0), fb.tensor(0.0)
        >>> fb.optim.nadam.nadam([p], [fb.ones(2)], [m], [v], [mu], [t], beta1=0.9, beta2=0.999, lr=0.1,
        ...                      weight_decay=0, momentum_decay=4e-3, eps=1e-8)
        >>> t
        tensor(1.)
    """
    check_path("NAdam", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    if not all(isinstance(product, Tensor) for product in mu_products):
        raise errors.StateError("nadam: mu_products must be tensors with one element, got numbers")
    lr, weight_decay = plain(lr, weight_decay)
    if fusable(params, None, foreach, differentiable, lr, weight_decay):
        states = (exp_avgs, exp_avg_sqs, mu_products, state_steps)
        rates = (lr, beta1, beta2, weight_decay, momentum_decay, eps)
        private.fused_nadam(params, grads, *states, *rates, decoupled_weight_decay, maximize)
        return
    rows = moments(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, lr=lr, betas=(beta1, beta2), weight_decay=weight_decay,
        decoupled=decoupled_weight_decay, maximize=maximize,
    )  # fmt: skip
    for i, (t, param, grad, exp_avg, exp_avg_sq) in enumerate(rows):
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        mu_products[i] *= mu
        product = mu_products[i] if differentiable else mu_products[i].item()
        denominator = exp_avg_sq.div(1 - beta2**t).sqrt().add(eps)
        along_grad = lr * (1.0 - mu) / (1.0 - product)
        along_average = lr * mu_next / (1.0 - product * mu_next)
        if differentiable:
            move_(param, grad / denominator, along_grad)
            move_(param, exp_avg.clone() / denominator, along_average)
        else:
            param.addcdiv_(grad, denominator, value=-along_grad)
            param.addcdiv_(exp_avg, denominator, value=-along_average)
