"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.optim._options import (
    CAPTURABLE,
    DIFFERENTIABLE,
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
    decayed,
    move_,
    plain,
    real,
    shrink_,
    step_count,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]
__dir__ = __all__.copy


class ASGD(GroupOptimizer):
    """Averaged stochastic gradient descent: the state `ax` holds the average of a parameter's values.

    With g the gradient, t the number of the step, η = lr and μ = 1 at first::

        g ← g + weight_decay · p
        p ← p · (1 - lambd · η) - η · g
        ax ← ax + μ · (p - ax)
        η ← lr / (1 + lambd · lr · t)^alpha
        μ ← 1 / max(1, t - t0)

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element.
        lambd: decay coefficient.
        alpha: exponent of the learning rate's decay.
        t0: step after which averaging begins.
        weight_decay: weight decay coefficient.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.
        capturable: has an effect on accelerators only.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.ASGD([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.8000, 0.8000])
    """

    _options = (
        LR, not_negative("lambd"), not_negative("alpha"), Option("t0"), WEIGHT_DECAY, FOREACH, MAXIMIZE,
        DIFFERENTIABLE, CAPTURABLE,
    )  # fmt: skip
    _states = ("ax", "mu", "eta", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for p in group["params"]:
                of_p = self.state.get(p, {})
                for key in ("eta", "mu"):
                    if key in of_p and not isinstance(of_p[key], Tensor):
                        of_p[key] = step_count(float(of_p[key]), p, group)

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(0.0, param, group),
            "eta": step_count(float(group["lr"]), param, group),
            "mu": step_count(1.0, param, group),
            "ax": zeros(param),
        }

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        asgd(params, grads, *self._lists(states), **self._arguments(group))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: Number,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of averaged SGD on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, ax, mu, eta, t = fb.ones(2), fb.zeros(2), fb.tensor(1.0), fb.tensor(0.5), fb.tensor(0.0)
        >>> fb.optim.asgd.asgd([p], [fb.ones(2)], [ax], [mu], [eta], [t], lambd=0.0, lr=0.5, t0=1e6, alpha=0.75,
        ...                    weight_decay=0)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("ASGD", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    weight_decay = plain(weight_decay)
    for i, param in enumerate(params):
        param, grad, ax = real(param, grads[i], axs[i])
        grad = decayed(-grad if maximize else grad, param, weight_decay)
        state_steps[i] += 1
        t = state_steps[i].item()
        eta, mu = plain(etas[i], mus[i])
        shrink_(param, 1 - lambd * eta)
        move_(param, grad, eta)
        if isinstance(mu, Tensor) or mu != 1:
            ax.add_(param.sub(ax).mul_(mu))
        else:
            ax.copy_(param)
        rate = plain(lr)
        new_eta = rate / (1 + lambd * rate * t) ** alpha
        etas[i].copy_(new_eta) if isinstance(new_eta, Tensor) else etas[i].fill_(new_eta)
        mus[i].fill_(1 / max(1, t - t0))
