"""Adafactor."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import FOREACH, LR, WEIGHT_DECAY, Number, Option
from flambeau.optim._update import (
    GroupOptimizer,
    check_path,
    plain,
    step_count,
    zeros,
)
from flambeau.optim.optimizer import ParamsT

__all__ = ["Adafactor", "adafactor"]


def _check_beta2_decay(optimizer: str, option: str, value: Any) -> None:
    if not value <= 0.0:
        raise errors.ArgumentError(f"{optimizer}: {option} should be <= 0, got {value}")


def _check_d(optimizer: str, option: str, value: Any) -> None:
    if not value >= 1.0:
        raise errors.ArgumentError(f"{optimizer}: Clipping threshold {option} should be >= 1, got {value}")


def _check_eps(optimizer: str, option: str, values: Any) -> None:
    for i, value in enumerate(values, 1):
        if value is not None and not value >= 0.0:
            raise errors.ArgumentError(f"{optimizer}: epsilon{i} should be >= 0, got {value}")


class Adafactor(GroupOptimizer):
    """Adafactor: for a matrix, the averages of squared gradients are kept per row and per column only.

    With G the gradient, t the number of the step, β = 1 - t^beta2_decay and RMS the root mean square::

        α ← max(eps2, RMS(p)) · min(lr, 1 / √t)
        p ← p · (1 - lr · weight_decay)
        R ← β · R + (1 - β) · mean of G² over each row,   C likewise over each column
        V ← R · C / max(mean R, eps1)         for vectors: V ← β · V + (1 - β) · G²
        U ← G / max(√V, eps1)
        p ← p - α · U / max(1, RMS(U) / d)

    Args:
        params: parameters, named parameters or parameter groups.
        lr: largest relative step and factor of the weight decay, a number or a tensor with one element.
        beta2_decay: power of t, at most 0.
        eps: eps1 keeps denominators from zero (None: the dtype's epsilon), eps2 is the smallest scale of a parameter.
        d: root mean square above which updates are scaled down.
        weight_decay: weight decay coefficient.
        foreach: selects the implementation; the results are the same.
        maximize: maximize the objective instead of minimizing it.

    Example:
        >>> p = fb.ones(2, 2, requires_grad=True)
        >>> optimizer = fb.optim.Adafactor([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([[0.9000, 0.9000],
                [0.9000, 0.9000]])
    """

    _options = (
        LR, Option("beta2_decay", _check_beta2_decay), Option("eps", _check_eps, ("eps1", "eps2")),
        Option("d", _check_d), WEIGHT_DECAY, FOREACH, Option("maximize"),
    )  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def _check_parameter(self, param: Tensor, group: dict[str, Any]) -> None:
        if param.is_complex():
            raise errors.StateError("Adafactor does not support complex parameters; give them to another optimizer")

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        step = step_count(0.0, param, group)
        if grad.dim() < 2:
            return {"step": step, "variance": zeros(grad)}
        *rest, rows, columns = grad.shape
        return {
            "step": step,
            "row_var": grad.new_zeros([*rest, rows, 1]),
            "col_var": grad.new_zeros([*rest, 1, columns]),
        }

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        adafactor(
            params,
            grads,
            [state.get("row_var") for state in states],
            [state.get("col_var") for state in states],
            [state.get("variance") for state in states],
            [state["step"] for state in states],
            **self._arguments(group),
            **self._scaling(),
        )


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: Number,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of Adafactor on lists of tensors; a parameter has either row and column averages or a variance.

    Example:
        >>> p, v, t = fb.ones(2), fb.zeros(2), fb.tensor(0.0)
        >>> fb.optim._adafactor.adafactor([p], [fb.ones(2)], [None], [None], [v], [t], d=1.0, lr=0.5, beta2_decay=-0.8,
        ...                               weight_decay=0.0, eps1=None, eps2=1e-3, maximize=False)
        >>> p
        tensor([0.5000, 0.5000])
    """
    if has_complex:
        raise errors.StateError("adafactor: expected real parameters, got has_complex=True")
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("adafactor: unscale the gradients before the step; grad_scale and found_inf must be None")
    check_path("adafactor", params, state_steps, foreach=foreach)
    lr, weight_decay = plain(lr, weight_decay)
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        floor = fb.finfo(param.dtype).eps if eps1 is None else eps1
        state_steps[i] += 1
        if param.numel() == 0:
            continue
        t = state_steps[i].item()
        new_share = t**beta2_decay
        alpha = max(eps2, _rms(param)) * min(lr, 1 / t**0.5)
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            row_var, col_var = row_vars[i], col_vars[i]
            if row_var is None or col_var is None:
                raise AssertionError("adafactor: a matrix needs row and column averages, got None")
            for average, dim in ((row_var, -1), (col_var, -2)):
                average.lerp_(fb.norm(grad, dim=dim, keepdim=True).square_().div_(grad.size(dim)), new_share)
            variance = (row_var @ col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=floor))
        else:
            old = variances[i]
            if old is None:
                raise AssertionError("adafactor: a vector needs a variance, got None")
            variance = old.lerp_(grad * grad, new_share).clone()
        update = variance.clamp_(min=floor * floor).rsqrt_().mul_(grad)
        param.add_(update, alpha=-alpha / max(1.0, _rms(update) / d))


def _rms(x: Tensor) -> float:
    """Root mean square of all elements."""
    return x.norm(2).item() / x.numel() ** 0.5
