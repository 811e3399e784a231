"""Rprop."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import CAPTURABLE, DIFFERENTIABLE, FOREACH, MAXIMIZE, Number, Option, check_lr
from flambeau.optim._update import GroupOptimizer, check_path, plain, real, step_count, zeros
from flambeau.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]
__dir__ = __all__.copy


def _check_etas(optimizer: str, option: str, value: Any) -> None:
    if not 0.0 < value[0] < 1.0 < value[1]:
        raise errors.ArgumentError(
            f"{optimizer}: Invalid eta values: {value[0]}, {value[1]}; expected a factor between 0 and 1 and one above 1"
        )


class Rprop(GroupOptimizer):
    """Resilient backpropagation: every element has its own step size, and only the signs of gradients are used.

    An element's step grows by `etas[1]` while its gradient keeps its sign and shrinks by `etas[0]` when the sign
    changes, in which case the element is not updated for one step.

    Args:
        params: parameters, named parameters or parameter groups.
        lr: initial step size, a number or a tensor with one element.
        etas: factors by which steps shrink and grow.
        step_sizes: smallest and largest step.
        capturable: has an effect on accelerators only.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.
        differentiable: record the step, so that it can be differentiated.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.Rprop([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.9000, 0.9000])
    """

    _options = (
        Option("lr", check_lr, passed=()), Option("etas", _check_etas, ("etaminus", "etaplus")),
        Option("step_sizes", passed=("step_size_min", "step_size_max")), FOREACH, MAXIMIZE, DIFFERENTIABLE,
        CAPTURABLE,
    )  # fmt: skip
    _states = ("prev", "step_size", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        size = plain(group["lr"])
        if param.is_complex():
            size = complex(size, size)
        return {
            "step": step_count(0.0, param, group),
            "prev": zeros(param),
            "step_size": fb.full_like(grad.detach(), size),
        }

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        rprop(params, grads, *self._lists(states), **self._arguments(group))


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of Rprop on lists of tensors.

    `has_complex` is a hint that changes nothing: complex tensors are recognised.

    Example:
        >>> p, before, size, t = fb.ones(2), fb.zeros(2), fb.full((2,), 0.5), fb.tensor(0.0)
        >>> fb.optim.rprop.rprop([p], [fb.ones(2)], [before], [size], [t], step_size_min=0.1, step_size_max=1.0,
        ...                      etaminus=0.5, etaplus=1.2)
        >>> p
        tensor([0.5000, 0.5000])
    """
    check_path("Rprop", params, state_steps, foreach=foreach, capturable=capturable, differentiable=differentiable)
    for i, param in enumerate(params):
        param, grad, prev, step_size = real(param, grads[i], prevs[i], step_sizes[i])
        grad = -grad if maximize else grad
        state_steps[i] += 1
        agreement = grad * prev
        flipped = agreement < 0
        factor = fb.ones_like(grad.detach()).masked_fill_(agreement > 0, etaplus).masked_fill_(flipped, etaminus)
        step_size.mul_(factor).clamp_(step_size_min, step_size_max)
        grad = grad.masked_fill(flipped, 0)
        param.addcmul_(grad.sign(), step_size.clone() if differentiable else step_size, value=-1)
        prev.copy_(grad)
