"""Adam for gradients of which most rows are zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import BETAS, EPS, LR, MAXIMIZE, Number, checked
from flambeau.optim._update import plain, zeros
from flambeau.optim.optimizer import Optimizer, ParamsT, R

__all__ = ["SparseAdam"]
__dir__ = __all__.copy


class SparseAdam(Optimizer):
    """Adam that leaves rows without a gradient alone: neither they nor their averages change.

    Meant for embeddings. Gradients may be sparse or dense; a row of which all elements of a dense one are zero counts
    as
    one that the step has nothing to say about.

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, a number or a tensor with one element, above 0.
        betas: decay rates of the two averages.
        eps: added to the denominator, above 0.
        maximize: maximize the objective instead of minimizing it.

    Example:
        >>> table = fb.ones(3, 2, requires_grad=True)
        >>> optimizer = fb.optim.SparseAdam([table], lr=0.1)
        >>> table[1].sum().backward()
        >>> optimizer.step()
        >>> table.detach()
        tensor([[1.0000, 1.0000],
                [0.9000, 0.9000],
                [1.0000, 1.0000]])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = checked("SparseAdam", (LR, BETAS, EPS, MAXIMIZE), locals())
        for called, value in (("learning rate", lr), ("epsilon value", eps)):
            if not value > 0.0:
                raise errors.ArgumentError(f"SparseAdam: Invalid {called}: {value}; expected more than 0")
        super().__init__(params, defaults)
        for group in self.param_groups:
            for i, p in enumerate(group["params"]):
                if p.layout is not fb.strided:
                    raise errors.ArgumentError(
                        f"SparseAdam requires dense parameter tensors, got a sparse one at index {i}"
                    )
                if p.is_complex():
                    raise errors.ArgumentError(f"SparseAdam does not support complex parameters, got one at index {i}")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], R]) -> R: ...
    @fb.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the rows that have a gradient.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.

        Returns:
            What the closure returned, or None.

        Example:
            >>> table = fb.ones(2, requires_grad=True)
            >>> table[0].backward()
            >>> fb.optim.SparseAdam([table], lr=0.5).step()
            >>> table.detach()
            tensor([0.5000, 1.0000])
        """
        loss = None
        if closure is not None:
            with fb.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=zeros(p), exp_avg_sq=zeros(p))
                state["step"] += 1
                _update_rows(p, -p.grad if group.get("maximize") else p.grad, state, group)
        return loss


def _update_rows(param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    if param.dim() == 0:
        raise errors.ArgumentError("SparseAdam: expected parameters with rows, got one without dimensions")
    beta1, beta2 = group["betas"]
    rows: Any  # an index: the rows, or everything that a sparse gradient stores
    if grad.is_sparse:
        kept = grad.coalesce()
        rows, new = tuple(kept.indices()), kept.values()
    else:
        rows = (grad != 0).reshape(grad.shape[0], -1).any(1).nonzero().squeeze(1)
        new = grad[rows]
    if new.numel() == 0:
        return
    exp_avg = state["exp_avg"][rows].lerp_(new, 1 - beta1)
    exp_avg_sq = state["exp_avg_sq"][rows].lerp_(new * new, 1 - beta2)
    state["exp_avg"][rows] = exp_avg
    state["exp_avg_sq"][rows] = exp_avg_sq
    t = state["step"]
    step_size = plain(group["lr"]) * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
    param[rows] = param[rows].addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-step_size)
