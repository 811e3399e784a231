"""Losses that compare elements, and classification."""

from __future__ import annotations

import math
import warnings

import flambeau as fb
from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError
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
from flambeau.nn.functional._linear import linear

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "gaussian_nll_loss", "huber_loss", "kl_div",
    "l1_loss", "linear_cross_entropy", "mse_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


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
        target: of the same shape; shapes that merely broadcast are an error.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        weight: a weight for every element.

    Example:
        >>> fb.nn.functional.mse_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(2.)
    """
    check_same_shape("mse_loss", input, target)
    loss = (input - target).square()
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
        target: of the same shape; shapes that merely broadcast are an error.
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
        target: of the same shape; shapes that merely broadcast are an error.
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
    distance = (input - target).abs()
    if beta > 0:
        distance = fb.where(distance < beta, 0.5 * distance.square() / beta, distance - 0.5 * beta)
    return reduced("smooth_l1_loss", distance, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where d = |input - target| < delta, else delta · (d - delta / 2); averaged.

    Args:
        input: predictions.
        target: of the same shape; shapes that merely broadcast are an error.
        reduction: "mean", "sum" or "none".
        delta: where the parabola becomes a line.
        weight: a weight for every element.

    Example:
        >>> fb.nn.functional.huber_loss(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(0.7500)
    """
    check_same_shape("huber_loss", input, target)
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    distance = (input - target).abs()
    loss = fb.where(distance < delta, 0.5 * distance.square(), delta * (distance - 0.5 * delta))
    return _elementwise("huber_loss", input, loss, weight, reduction)


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
    check_same_shape("kl_div", input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction='mean' divides by all elements; 'batchmean' is the mathematical one", stacklevel=2
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
            raise ArgumentError(f"{op}: var has negative entries: {var}")
        var = input.new_full(input.shape, var)
    elif var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or [v for n, v in zip(input.shape, var.shape, strict=True) if n != v] != [1]:
            raise ArgumentError(
                f"{op}: var of shape {tuple(var.shape)} does not fit input of shape {tuple(input.shape)}; expected the same, "
                f"with one size 1, or without the last size"
            )
    if bool((var < 0).any()):
        raise ArgumentError(f"{op}: var has negative entries")
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
            f"{op}: target size {tuple(target.shape)} is different to the input size {tuple(input.shape)}; they must agree"
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
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return -(target * x.log().clamp(min=-100.0) + (1 - target) * (1 - x).log().clamp(min=-100.0))

    @staticmethod
    def backward(ctx, grad):
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
        input: unnormalised scores.
        target: of the same shape, between 0 and 1.
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
    reduction = legacy_reduction(size_average, reduce, reduction)
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input - positive * logsigmoid(input)
    return reduced(op, loss if weight is None else loss * weight, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[n, target[n]], averaged: negative log likelihood of the true classes.

    Args:
        input: log probabilities, (C,), (N, C) or (N, C, …).
        target: classes, (), (N,) or (N, …).
        weight: a weight for every class; the mean is then a weighted one.
        size_average: deprecated.
        ignore_index: a class that counts nothing.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.nll_loss(fb.tensor([[-0.5, -2.0]]), fb.tensor([0]))
        tensor(0.5000)
    """
    return _nll("nll_loss", input, target, weight, ignore_index, legacy_reduction(size_average, reduce, reduction), 0.0)


def _check_class_weights(op: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ArgumentError(
            f"{op}: weight tensor should be defined either for all {classes} classes or no classes, "
            f"got shape {tuple(weight.shape)}"
        )


def _nll(
    op: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    """Negative log likelihood of classes; smoothing mixes in the mean over all classes."""
    check_reduction(op, reduction)
    if input.ndim == 0:
        raise ArgumentError(f"{op}: expected input of shape (C,), (N, C) or (N, C, …), got a 0-d tensor")
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis]
    expected = tuple(input.shape[:axis]) + tuple(input.shape[axis + 1 :])
    if tuple(target.shape) != expected and not (axis == 0 and target.numel() == 1):
        if axis and target.ndim and target.shape[0] != input.shape[0]:
            why = f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})"
        else:
            why = f"Expected target size {expected}, got {tuple(target.shape)}"
        raise ArgumentError(f"{op}: {why} for input of shape {tuple(input.shape)}")
    if target.dtype not in (fb.int64, fb.uint8):
        raise DTypeError(f"{op}: expected target dtype to be Long or Byte (int64 or uint8), got {target.dtype}")
    _check_class_weights(op, weight, classes)
    if weight is not None and weight.dtype != input.dtype:
        raise DTypeError(f"{op}: expected scalar type {input.dtype} but found {weight.dtype}, that of weight")
    target = target.long().reshape(expected)
    ignored = target == ignore_index
    safe = target.masked_fill(ignored, 0)
    if classes == 0:
        return reduced(op, input.new_zeros(expected), reduction)
    x = wide(input)
    try:
        loss = -x.gather(axis, safe.unsqueeze(axis)).squeeze(axis)
    except IndexError as error:
        bad = int(safe.min()) if int(safe.min()) < 0 else int(safe.max())
        raise OutOfRangeError(f"{op}: target {bad} is out of bounds for {classes} classes") from error
    share = fb.ones_like(loss) if weight is None else wide(weight)[safe]
    share = share.masked_fill(ignored, 0).detach()
    loss = (loss * share if weight is not None else loss).masked_fill(ignored, 0)
    if smoothing:
        spread = x if weight is None else x * wide(weight).view((-1,) + (1,) * (input.ndim - axis - 1))
        uniform = -spread.sum(axis).masked_fill(ignored, 0)
        loss = (1 - smoothing) * loss + (smoothing / classes) * uniform
    if reduction == "mean":
        return narrow_back(loss.sum() / share.sum(), input)
    return narrow_back(reduced(op, loss, reduction), input)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log likelihood of the true classes under softmax(input).

    Args:
        input: unnormalised scores, (C,), (N, C) or (N, C, …).
        target: classes, (), (N,) or (N, …); or probabilities, of the shape of input.
        weight: a weight for every class.
        size_average: deprecated.
        ignore_index: a class that counts nothing; for classes only.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        label_smoothing: the share of the target that is spread evenly over all classes.

    Example:
        >>> fb.nn.functional.cross_entropy(fb.zeros(1, 2), fb.tensor([1]))
        tensor(0.6931)
    """
    op = "cross_entropy"
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"{op}: label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    if input.ndim == 0:
        raise ArgumentError(f"{op}: expected input of shape (C,), (N, C) or (N, C, …), got a 0-d tensor")
    axis = 0 if input.ndim == 1 else 1
    if target.shape == input.shape and not (target.ndim == 1 and not target.is_floating_point()):
        if ignore_index >= 0:
            raise ArgumentError(f"{op}: ignore_index is not supported for floating point target, got {ignore_index}")
        return _soft_cross_entropy(op, input, target, weight, reduction, label_smoothing, axis)
    if target.is_floating_point():
        raise ArgumentError(
            f"{op}: expected target dtype to be Long or Byte (int64 or uint8) for classes, got {target.dtype}; "
            f"probabilities must have the shape of input, {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    if weight is None and _has_rows(input, target):
        return _row_cross_entropy(op, input, target, ignore_index, reduction, label_smoothing)
    return _nll(op, input.log_softmax(axis), target, weight, ignore_index, reduction, label_smoothing)


def _has_rows(input: Tensor, target: Tensor) -> bool:
    """Whether one pass over rows of scores in the core does it."""
    if hasattr(target, "__flambeau_dispatch__") or target.dtype != fb.int64 or input.ndim != 2:
        return False
    return input.shape[1] > 0 and tuple(target.shape) == (input.shape[0],) and in_core(wide(input))


def _row_cross_entropy(
    op: str, input: Tensor, target: Tensor, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    check_reduction(op, reduction)
    losses = fb._cross_entropy(wide(input), target, ignore_index, smoothing).loss
    if reduction == "mean":
        return narrow_back(losses.sum() / (target != ignore_index).sum(), input)
    return narrow_back(reduced(op, losses, reduction), input)


def _soft_cross_entropy(
    op: str, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, axis: int
) -> Tensor:
    if not target.is_floating_point():
        raise ArgumentError(
            f"{op}: Expected floating point type for target with class probabilities (it has the shape of input), "
            f"got {target.dtype}"
        )
    check_reduction(op, reduction)
    classes = input.shape[axis]
    _check_class_weights(op, weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    terms = wide(input).log_softmax(axis) * target
    if weight is not None:
        terms = terms * weight.view((-1,) + (1,) * (input.ndim - axis - 1))
    loss = narrow_back(-terms.sum(axis), input)
    if reduction == "mean":
        # the mean over samples, whatever the weights
        return loss.sum() / max(loss.numel(), 1) if loss.numel() else loss.mean()
    return reduced(op, loss, reduction)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options=None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    Args:
        input: (in_features,) or (N, in_features).
        linear_weight: (C, in_features) or (C, …, in_features).
        target: classes or probabilities, as for cross_entropy.
        linear_bias: (C,) or (C, …).
        weight: a weight for every class.
        reduction: "mean", "sum" or "none".
        ignore_index: a class that counts nothing, -100 by default; for classes only.
        label_smoothing: the share of the target that is spread evenly over all classes.
        options: a LinearCrossEntropyOptions to compute in chunks of the batch.

    Example:
        >>> fb.nn.functional.linear_cross_entropy(fb.ones(1, 3), fb.zeros(2, 3), fb.tensor([1]))
        tensor(0.6931)
    """
    op = "linear_cross_entropy"
    if linear_weight.ndim < 2:
        raise ArgumentError(f"{op}: linear_weight must be (C, …, in_features), got shape {tuple(linear_weight.shape)}")
    if linear_weight.ndim > 2 and input.ndim < 2:
        raise ArgumentError(f"{op}: a linear_weight of shape {tuple(linear_weight.shape)} requires batched input")
    if ignore_index is not None and target.is_floating_point():
        raise ArgumentError(f"{op}: ignore_index applies to classes only, but target is {target.dtype}")
    outputs = tuple(linear_weight.shape[:-1])
    flat_weight = linear_weight.reshape(-1, linear_weight.shape[-1])
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    index = -100 if ignore_index is None else ignore_index

    def loss(rows: Tensor, truth: Tensor, reduction: str) -> Tensor:
        scores = linear(rows, flat_weight, flat_bias).reshape(tuple(rows.shape[:-1]) + outputs)
        return cross_entropy(
            scores, truth, weight, ignore_index=index, reduction=reduction, label_smoothing=label_smoothing
        )

    chunk = getattr(options, "batch_chunk_size", None)
    if not chunk or input.ndim < 2 or chunk >= input.shape[0]:
        return loss(input, target, reduction)
    check_reduction(op, reduction)
    pairs = zip(input.split(chunk), target.split(chunk), strict=True)
    if reduction == "none":
        return fb.cat([loss(*pair, "none") for pair in pairs])
    total = fb.stack([loss(*pair, "sum") for pair in pairs]).sum()
    return total if reduction == "sum" else total / _share_of_all(target, weight, index, math.prod(outputs[1:]))


def _share_of_all(target: Tensor, weight: Tensor | None, ignore_index: int, places: int) -> Tensor | int:
    """What the mean of a cross entropy divides by: samples, or the weights of those that count."""
    if target.is_floating_point():
        return target.shape[0] * places
    counted = target != ignore_index
    return counted.sum() if weight is None else weight[target[counted]].sum()
