"""Muon."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import LR, WEIGHT_DECAY, Number, Option, not_negative
from flambeau.optim._update import GroupOptimizer, plain, zeros
from flambeau.optim.optimizer import ParamsT

__all__ = ["Muon", "muon"]

_ADJUSTMENTS = (None, "original", "match_rms_adamw", "spectral_unclamped")


def _check_adjustment(optimizer: str, option: str, value: Any) -> None:
    if value not in _ADJUSTMENTS:
        raise errors.ArgumentError(
            f"{optimizer}: Adjust learning rate function {value} is not supported; expected one of {_ADJUSTMENTS}"
        )


class Muon(GroupOptimizer):
    """Muon: momentum whose direction is made orthogonal, for the matrices of hidden layers.

    With G the gradient and B the momentum, which begins with zero::

        B ← momentum · B + (1 - momentum) · G
        U ← the nearest orthogonal matrix to B, by Newton-Schulz iterations in bfloat16
            (with nesterov, to momentum · B + (1 - momentum) · G)
        p ← p · (1 - lr · weight_decay) - lr · a · U

    where a = √max(1, rows / columns), 0.2 · √max(rows, columns) with `adjust_lr_fn="match_rms_adamw"`, or
    √(rows / columns) with `"spectral_unclamped"`.

    Args:
        params: matrices, named matrices or parameter groups of matrices.
        lr: learning rate.
        weight_decay: weight decay coefficient.
        momentum: momentum factor.
        nesterov: whether to use Nesterov momentum.
        ns_coefficients: coefficients of x, x³ and x⁵ in an iteration.
        eps: smallest norm by which a matrix is divided.
        ns_steps: number of iterations, less than 100.
        adjust_lr_fn: how steps are scaled by the shape: None or `"original"`, `"match_rms_adamw"`, or
            `"spectral_unclamped"`.

    Example:
        >>> p = fb.eye(2).requires_grad_()
        >>> optimizer = fb.optim.Muon([p], lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach().diag() < 1
        tensor([True, True])
    """

    _options = (
        LR, WEIGHT_DECAY, not_negative("momentum"), Option("nesterov"), Option("ns_coefficients"), Option("eps"),
        Option("ns_steps"), Option("adjust_lr_fn", _check_adjustment),
    )  # fmt: skip
    _states = ("momentum_buffer",)

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, locals())
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise errors.ArgumentError(
                        f"Muon only supports 2D parameters, got shape {tuple(p.shape)}; give the others to another optimizer"
                    )

    def _check_parameter(self, param: Tensor, group: dict[str, Any]) -> None:
        if param.is_complex():
            raise errors.StateError("Muon does not support complex parameters; give them to another optimizer")

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros(grad)}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        muon(params, grads, *self._lists(states), has_complex=False, **self._arguments(group))


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: Number,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of Muon on lists of matrices.

    Example:
        >>> p, buffer = fb.zeros(2, 2), fb.zeros(2, 2)
        >>> fb.optim._muon.muon([p], [fb.eye(2)], [buffer], lr=0.1, weight_decay=0.0, momentum=0.5, nesterov=False,
        ...                     ns_coefficients=(1.5, -0.5, 0.0), ns_steps=20, eps=1e-7, adjust_lr_fn=None,
        has_complex=False)
        >>> p.round(decimals=2)
        tensor([[-0.1000,  0.0000],
                [ 0.0000, -0.1000]])
    """
    if foreach:
        raise errors.StateError("muon: foreach=True is not supported; leave it out")
    if has_complex:
        raise errors.ArgumentError("muon: expected real parameters, got has_complex=True")
    rate: Any = plain(lr)
    for param, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        if grad.dim() != 2:
            raise errors.ArgumentError(f"muon: gradients must be matrices, got shape {tuple(grad.shape)}")
        if grad.numel() == 0:
            continue
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if nesterov else buffer
        update = _orthogonalized(update, ns_coefficients, ns_steps, eps)
        param.mul_(1 - rate * weight_decay).add_(
            update, alpha=-rate * _scale(param.shape[0], param.shape[1], adjust_lr_fn)
        )


def _scale(rows: int, columns: int, adjust_lr_fn: str | None) -> float:
    """The factor of a matrix's learning rate."""
    if adjust_lr_fn == "match_rms_adamw":
        return 0.2 * max(rows, columns) ** 0.5
    ratio = rows / columns
    return (ratio if adjust_lr_fn == "spectral_unclamped" else max(1.0, ratio)) ** 0.5


def _orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Pushes all singular values towards one: X ← a X + (b X Xᵀ + c (X Xᵀ)²) X, repeated."""
    if steps >= 100:
        raise errors.ArgumentError(f"muon: ns_steps must be less than 100, got {steps}")
    if len(coefficients) != 3:
        raise errors.ArgumentError(f"muon: ns_coefficients must be three numbers, got {len(coefficients)}")
    a, b, c = coefficients
    # The wide orientation has the smaller product X Xᵀ.
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        polynomial = fb.addmm(gram, gram, gram, beta=b, alpha=c)
        x = fb.addmm(x, polynomial, x, beta=a)
    return x.T if tall else x
