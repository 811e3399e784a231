"""AdamW."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.optim._options import Number
from flambeau.optim.adam import Adam, adam
from flambeau.optim.optimizer import ParamsT

__all__ = ["AdamW", "adamw"]
__dir__ = __all__.copy


class AdamW(Adam):
    """Adam with decoupled weight decay: parameters shrink by `1 - lr · weight_decay` per step, independently of the gradient.

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        betas: decay rates of the two averages, both numbers or both tensors with one element.
        eps: added to the denominator.
        weight_decay: weight decay coefficient.
        amsgrad: whether to divide by the maximum of the averages so far (AMSGrad).
        maximize: maximize the objective instead of minimizing it.
        foreach, fused: select the implementation; the results are the same.
        capturable: has an effect on accelerators only.
        differentiable: record the step, so that it can be differentiated.
        master_weights: keep a float32 copy of bfloat16 and float16 parameters, and the state in float32. Steps too small
            for the parameter's own digits then add up; the parameter is the copy, rounded.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.AdamW([p], lr=0.1, weight_decay=0.5)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.8500, 0.8500])

    See also: `fb.optim.Adam`, which has the update rule.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        betas: tuple[Number, Number] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        master_weights: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
            master_weights=master_weights,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Checkpoints written before Adam had the option lack it, and other optimizers' may have it off.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(
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
    **options: Any,
) -> None:
    """One step of AdamW on lists of tensors; the options are those of `adam`.

    Example:
        >>> p, g, m, v, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim.adamw.adamw([p], [g], [m], [v], [], [t], amsgrad=False, beta1=0.9, beta2=0.999, lr=0.5,
        ...                      weight_decay=0.5, eps=1e-8, maximize=False)
        >>> p
        tensor([0.2500, 0.2500])
    """
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        foreach,
        capturable,
        differentiable,
        fused,
        grad_scale,
        found_inf,
        has_complex,
        decoupled_weight_decay=True,
        **options,
    )
