"""Losses that compare elements."""

from __future__ import annotations

import math
import warnings
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.autograd import Function
from flambeau.errors import ArgumentError, DTypeError
from flambeau.nn.functional._activation import logsigmoid
from flambeau.nn.functional._common import (
    check_reduction,
    check_same_shape,
    in_core,
    legacy_reduction,
    narrow_back,
    reduced,
    wide,
)

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div",
    "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


_squared_error: Any = private.squared_error


def _elementwise(op: str, input: Tensor, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Reduces the loss of all elements; with a weight the mean is a weighted one."""
    if weight is None:
        return reduced(op, loss, reduction)
    if weight.shape != input.shape:
        raise ArgumentError(
            f"{op}: weight of shape {tuple(weight.shape)} must have the shape of input, {tuple(input.shape)}"
        )
    check_reduction(op, reduction)
    weighted = loss * weight
    return weighted.sum() / weight.sum() if reduction == "mean" else reduced(op, weighted, reduction)


def _difference(op: str, input: Tensor, target: Tensor) -> Tensor:
    """input - target as real numbers; a bool target counts as 0 and 1."""
    dtype = fb.result_type(input, target)
    if not dtype.is_floating_point:
        raise DTypeError(f"{op}: not implemented for {dtype}; convert input or target to a floating point dtype")
    return input.to(dtype) - target.to(dtype)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)², averaged.

    Args:
        input: predictions.
        target: the targets, of the same shape; shapes that only broadcast are an error.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        weight: a weight for every element.

    Example:
        >>> fb.nn.functional.mse_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(2.)
    """
    check_same_shape("mse_loss", input, target)
    same = input.dtype == target.dtype and input.shape == target.shape and in_core(input, target)
    loss = _squared_error(input, target) if same else _difference("mse_loss", input, target).square()
    return _elementwise("mse_loss", input, loss, weight, legacy_reduction(size_average, reduce, reduction))


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|, averaged.

    Args:
        input: predictions.
        target: the targets, of the same shape; shapes that only broadcast are an error.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        weight: a weight for every element.

    Example:
        >>> fb.nn.functional.l1_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(1.)
    """
    check_same_shape("l1_loss", input, target)
    loss = (input - target).abs()
    return _elementwise("l1_loss", input, loss, weight, legacy_reduction(size_average, reduce, reduction))


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2 · beta) where d = |input - target| < beta, else d - beta / 2; averaged.

    Args:
        input: predictions.
        target: the targets, of the same shape; shapes that only broadcast are an error.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        beta: where the parabola becomes a line.

    Example:
        >>> fb.nn.functional.smooth_l1_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(0.7500)
    """
    check_same_shape("smooth_l1_loss", input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    error = _difference("smooth_l1_loss", input, target)
    loss = _parabola_then_line(error, beta) / beta if beta > 0 else error.abs()
    return reduced("smooth_l1_loss", loss, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where d = |input - target| < delta, else delta · (d - delta / 2); averaged.

    Args:
        input: predictions.
        target: the targets, of the same shape; shapes that only broadcast are an error.
        reduction: "mean", "sum" or "none".
        delta: where the parabola becomes a line.
        weight: a weight for every element.

    Example:
        >>> fb.nn.functional.huber_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(0.7500)
    """
    check_same_shape("huber_loss", input, target)
    if delta <= 0:
        raise ArgumentError(f"huber_loss does not support non-positive values for delta. Got {delta}")
    loss = _parabola_then_line(_difference("huber_loss", input, target), delta)
    return _elementwise("huber_loss", input, loss, weight, reduction)


def _parabola_then_line(error: Tensor, width: float) -> Tensor:
    """error² / 2 within ±width, width · (|error| - width / 2) beyond: no branch squares a possibly infinite value."""
    near = error.clamp(-width, width)
    return near * (error - 0.5 * near)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target · (log target - input): the divergence of input, given as logarithms, from target.

    Args:
        input: log probabilities.
        target: probabilities, or their logarithms with log_target.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "batchmean" is the mathematical mean; "mean" divides by all elements; "sum" or "none".
        log_target: whether target is given as logarithms.

    Example:
        >>> log_half = fb.tensor([[0.5, 0.5]]).log()
        >>> fb.nn.functional.kl_div(log_half, fb.tensor([[0.5, 0.5]]), reduction="batchmean")
        tensor(0.)
    """
    # Broadcasting a prior over the whole batch is the usual reason to broadcast here.
    check_same_shape("kl_div", input, target, one_may_broadcast=True)
    if not (fb.is_floating_point(input) and fb.is_floating_point(target)):
        raise DTypeError(f"kl_div: Integral inputs not supported, got {input.dtype} and {target.dtype}")
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction='mean' divides by all elements; 'batchmean' is the mathematical one", stacklevel=3
        )
    loss = target.exp() * (target - input) if log_target else fb.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduced("kl_div", loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of counts under a Poisson distribution.

    Args:
        input: the expected counts, as logarithms with log_input.
        target: the counts.
        log_input: whether input is the logarithm: exp(input) - target · input, else input - target · log(input + eps).
        full: whether Stirling's approximation of log(target!) is added.
        size_average: deprecated.
        eps: keeps the logarithm from 0.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.poisson_nll_loss(fb.zeros(2), fb.ones(2))
        tensor(1.)
    """
    check_same_shape("poisson_nll_loss", input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (input - target)² / var) / 2: negative log likelihood under a normal distribution.

    Args:
        input: expected values.
        target: observed values.
        var: variances: like input, with one size 1, without the last dimension, or one number.
        full: whether the constant log(2π) / 2 is added.
        eps: the smallest variance.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.gaussian_nll_loss(fb.zeros(2), fb.ones(2), fb.ones(2))
        tensor(0.5000)
    """
    op = "gaussian_nll_loss"
    check_reduction(op, reduction)
    if isinstance(var, (int, float)):
        if var < 0:
            raise ArgumentError(f"{op}: var has negative entry/entries: {var}")
        var = input.new_full(input.shape, var)
    elif var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or [v for n, v in zip(input.shape, var.shape, strict=True) if n != v] != [1]:
            raise ArgumentError(
                f"{op}: var is of incorrect size: shape {tuple(var.shape)} does not fit input of shape "
                f"{tuple(input.shape)}; expected the same, "
                f"with one size 1, or without the last size"
            )
    if not var.is_meta and bool((var < 0).any()):
        raise ArgumentError(f"{op}: var has negative entry/entries")
    floor = var.detach().clamp(min=eps) - var.detach()
    var = var + floor  # the floor has no gradient, the variance keeps its own
    loss = 0.5 * (var.log() + (input - target).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(op, loss, reduction)


# ---- classification ----------------------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(target · log(input) + (1 - target) · log(1 - input)), averaged; logarithms are at least -100.

    Args:
        input: probabilities.
        target: of the same shape, between 0 and 1.
        weight: factors that broadcast to the shape.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.binary_cross_entropy(fb.tensor([0.5]), fb.tensor([1.0]))
        tensor(0.6931)
    """
    op = "binary_cross_entropy"
    if input.shape != target.shape:
        raise ArgumentError(
            f"{op}: Using a target size ({target.shape}) that is different to the input size ({input.shape}); they must agree"
        )
    reduction = legacy_reduction(size_average, reduce, reduction)
    least, greatest = input.detach().aminmax() if input.numel() else (0, 1)
    if not (least >= 0 and greatest <= 1):
        raise ArgumentError(
            f"{op}: all elements of input should be between 0 and 1; use binary_cross_entropy_with_logits"
        )
    x = wide(input)
    loss = _ProbabilityLoss.apply(x, target)
    return reduced(op, narrow_back(loss if weight is None else loss * weight, input), reduction)


class _ProbabilityLoss(Function):
    """-(t · log(x) + (1 - t) · log(1 - x)) with logarithms of at least -100, and a gradient that stays finite.

    The gradient (x - t) / (x · (1 - x)) would be infinite where a prediction of 0 or 1 is wrong.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, target: Any) -> Any:
        ctx.save_for_backward(x, target)
        return -(target * x.log().clamp(min=-100.0) + (1 - target) * (1 - x).log().clamp(min=-100.0))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, target = ctx.saved_tensors
        by_x = grad * (x - target) / (x * (1 - x)).clamp(min=1e-12) if ctx.needs_input_grad[0] else None
        by_target = grad * ((1 - x).log() - x.log()) if ctx.needs_input_grad[1] else None
        return by_x, by_target


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of sigmoid(input), computed without overflow.

    Args:
        input: unnormalized scores.
        target: of the same shape, between 0 and 1, of a floating dtype, which is also that of the result.
        weight: factors that broadcast to the shape.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        pos_weight: factors for the positive part.

    Example:
        >>> fb.nn.functional.binary_cross_entropy_with_logits(fb.zeros(1), fb.ones(1))
        tensor(0.6931)
    """
    op = "binary_cross_entropy_with_logits"
    if input.shape != target.shape:
        raise ArgumentError(
            f"{op}: target size {tuple(target.shape)} must be the same as input size {tuple(input.shape)}; "
            f"reshape one, for example target.view_as(input)"
        )
    if not (target.is_floating_point() or target.is_complex()):
        raise DTypeError(
            f"{op}: the result has the dtype of target, and a result of {input.dtype} can't be cast to {target.dtype}; "
            f"use target.to(input.dtype)"
        )
    reduction = legacy_reduction(size_average, reduce, reduction)
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input - positive * logsigmoid(input)
    return reduced(op, loss if weight is None else loss * weight, reduction).to(target.dtype)
