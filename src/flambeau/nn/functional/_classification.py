"""Losses of classification: the negative log likelihood of classes or of probabilities."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError
from flambeau.nn.functional._common import check_reduction, in_core, legacy_reduction, narrow_back, reduced, wide
from flambeau.nn.functional._linear import linear

__all__ = ["cross_entropy", "linear_cross_entropy", "nll_loss"]


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
        ignore_index: a class that does not contribute to the loss.
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
        hint = "; use target.squeeze(1)" if axis and tuple(target.shape) == (input.shape[0], 1, *input.shape[2:]) else ""
        raise ArgumentError(f"{op}: {why} for input of shape {tuple(input.shape)}{hint}")
    if target.dtype not in (fb.int64, fb.uint8):
        raise DTypeError(f"{op}: expected target dtype to be Long or Byte (int64 or uint8), got {target.dtype}; use .long()")
    _check_class_weights(op, weight, classes)
    if weight is not None and weight.dtype != input.dtype:
        found, wanted = (str(dtype).split(".")[-1] for dtype in (weight.dtype, input.dtype))
        raise DTypeError(f"{op}: expected scalar type {wanted} but found {found}, that of weight")
    target = target.long().reshape(expected)
    ignored = target == ignore_index
    safe = target.masked_fill(ignored, 0)
    if classes == 0:
        if not bool(ignored.all()):
            raise OutOfRangeError(f"{op}: target {int(target[~ignored][0])} is out of bounds for 0 classes")
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
        input: unnormalized scores, (C,), (N, C) or (N, C, …).
        target: classes, (), (N,) or (N, …); or probabilities, of the shape of input.
        weight: a weight per class.
        size_average: deprecated.
        ignore_index: a class that counts nothing; for classes only.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        label_smoothing: share of the target distributed evenly over all classes.

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
    if (cut := getattr(input, "_cross_entropy", None)) is not None:  # a DTensor whose classes are sharded
        loss = cut(target, weight, ignore_index, reduction, label_smoothing)
        if loss is not None:
            return loss
    if target.shape == input.shape and not (target.ndim == 1 and not target.is_floating_point()):
        if ignore_index >= 0:
            raise ArgumentError(f"{op}: ignore_index is not supported for floating point target, got {ignore_index}")
        return _soft_cross_entropy(op, input, target, weight, reduction, label_smoothing, axis)
    if target.is_floating_point():
        if axis and target.ndim > 1 and target.shape[0] != input.shape[0]:
            raise ArgumentError(
                f"{op}: Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})"
            )
        raise ArgumentError(
            f"{op}: expected target dtype to be Long or Byte (int64 or uint8) for classes, got {target.dtype}; use .long(); "
            f"probabilities must have the shape of input, {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    if weight is None and _has_rows(input, target):
        return _row_cross_entropy(op, input, target, ignore_index, reduction, label_smoothing)
    return _nll(op, input.log_softmax(axis), target, weight, ignore_index, reduction, label_smoothing)


def _has_rows(input: Tensor, target: Tensor) -> bool:
    """Whether the core's single pass over rows of scores can compute it."""
    if hasattr(target, "__flambeau_dispatch__") or target.dtype != fb.int64 or input.ndim != 2:
        return False
    return input.shape[1] > 0 and tuple(target.shape) == (input.shape[0],) and (
        in_core(input) or input.dtype in (fb.float16, fb.bfloat16)
    )


def _row_cross_entropy(
    op: str, input: Tensor, target: Tensor, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    check_reduction(op, reduction)
    losses = private.cross_entropy(input, target, ignore_index, smoothing).loss
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
    options: Any = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    Args:
        input: (in_features,) or (N, in_features).
        linear_weight: (C, in_features) or (C, …, in_features).
        target: classes or probabilities, as for cross_entropy.
        linear_bias: (C,) or (C, …).
        weight: a weight per class.
        reduction: "mean", "sum" or "none".
        ignore_index: a class that counts nothing, -100 by default; for classes only.
        label_smoothing: share of the target distributed evenly over all classes.
        options: a LinearCrossEntropyOptions to compute in chunks of the batch.

    Example:
        >>> fb.nn.functional.linear_cross_entropy(fb.ones(1, 3), fb.zeros(2, 3), fb.tensor([1]))
        tensor(0.6931)
    """
    op = "linear_cross_entropy"
    if linear_weight.ndim < 2:
        raise ArgumentError(
            f"{op}: expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}: "
            f"shape {tuple(linear_weight.shape)}"
        )
    if input.ndim not in (1, 2):
        raise ArgumentError(
            f"{op}: expected input with dimensionality 1 or 2, got {input.ndim}: shape {tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise ArgumentError(
            f"{op}: expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got {tuple(linear_bias.shape)}"
        )
    if linear_weight.ndim > 2 and input.ndim < 2:
        raise ArgumentError(
            f"{op}: K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched "
            f"input, (N, {linear_weight.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    if input.ndim and input.shape[-1] != linear_weight.shape[-1]:
        raise ArgumentError(
            f"{op}: expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if ignore_index is not None and target.is_floating_point():
        raise ArgumentError(f"{op}: ignore_index cannot be specified when target contains probabilities ({target.dtype})")
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
    """The divisor of a cross entropy's mean: the number of samples, or the sum of their weights."""
    if target.is_floating_point():
        return target.shape[0] * places
    counted = target != ignore_index
    return counted.sum() if weight is None else weight[target[counted]].sum()
