"""Losses with a margin: ranking, embedding, hinge, triplets."""

from __future__ import annotations

from collections.abc import Callable

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError
from flambeau.nn.functional._activation import logsigmoid, softplus
from flambeau.nn.functional._common import check_reduction, check_same_shape, legacy_reduction, reduced
from flambeau.nn.functional._linear import pairwise_distance

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1; averaged.

    Args:
        input: distances.
        target: 1 or -1, of the same shape.
        margin: how far apart the -1 pairs should be.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.hinge_embedding_loss(fb.tensor([0.5, 0.5]), fb.tensor([1.0, -1.0]), reduction="none")
        tensor([0.5000, 0.5000])
    """
    check_same_shape("hinge_embedding_loss", input, target)
    apart = (margin - input).clamp(min=0).masked_fill(target == 1, 0)
    loss = apart + input.masked_fill(target == -1, 0)
    return reduced("hinge_embedding_loss", loss, legacy_reduction(size_average, reduce, reduction))


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target · input)), averaged.

    Args:
        input: scores.
        target: 1 or -1, of the same shape.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.soft_margin_loss(fb.zeros(2), fb.ones(2))
        tensor(0.6931)
    """
    check_same_shape("soft_margin_loss", input, target)
    loss = softplus(input * -target, threshold=float("inf"))
    return reduced("soft_margin_loss", loss, legacy_reduction(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target · (input1 - input2) + margin), averaged.

    Args:
        input1: scores.
        input2: scores to compare them with.
        target: 1 if the first should be higher, -1 if the second should.
        margin: by how much.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.margin_ranking_loss(fb.tensor([1.0]), fb.tensor([3.0]), fb.tensor([1.0]))
        tensor(2.)
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise ArgumentError(
            f"margin_ranking_loss : All input tensors should have the same number of dimensions, got shapes {tuple(input1.shape)}, "
            f"{tuple(input2.shape)} and {tuple(target.shape)}"
        )
    return _margin_ranking(input1, input2, target, margin, legacy_reduction(size_average, reduce, reduction))


def _margin_ranking(input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    loss = (-target * (input1 - input2) + float(margin)).clamp(min=0)
    return reduced("margin_ranking_loss", loss, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1; averaged.

    Args:
        input1: (N, D) or (D,).
        input2: of the same shape.
        target: 1 or -1, (N,) or ().
        margin: how similar the -1 pairs may be.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.cosine_embedding_loss(fb.ones(1, 2), fb.ones(1, 2), fb.tensor([-1]))
        tensor(1.)
    """
    op = "cosine_embedding_loss"
    shapes = f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
    if target.ndim not in (0, 1):
        raise ArgumentError(f"{op}: 0D or 1D target tensor expected, got {shapes}")
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise ArgumentError(f"{op}: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, got {shapes}")
    # a tiny summand avoids an infinite gradient at the root of a zero vector
    tiny = 1e-12
    dot = (input1 * input2).sum(-1)
    lengths = ((input1.square().sum(-1) + tiny) * (input2.square().sum(-1) + tiny)).sqrt()
    cosine = dot / lengths
    loss = (1 - cosine).masked_fill(target != 1, 0) + (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    return reduced(op, loss, legacy_reduction(size_average, reduce, reduction))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over the other classes of max(0, margin - input[target] + input[i])^p: a hinge for many classes.

    Args:
        input: scores, (N, C) or (C,).
        target: classes, (N,) or ().
        p: 1 or 2.
        margin: required lead of the true class.
        weight: a weight per class.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.multi_margin_loss(fb.tensor([[0.0, 2.0]]), fb.tensor([0]))
        tensor(1.5000)
    """
    op = "multi_margin_loss"
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(op, reduction)
    if p not in (1, 2):
        raise ArgumentError(f"{op}: only p == 1 and p == 2 supported, got {p}")
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ArgumentError(
            f"{op}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    scores = input if input.ndim == 2 else input.reshape(1, -1)
    batch, classes = scores.shape
    if target.ndim > 1 or target.numel() != batch:
        raise ArgumentError(
            f"{op}: inconsistent target size: target tensor should be 1-D with size equal to the number of samples. "
            f"Expected target size [{batch}], but got {list(target.shape)}"
        )
    if weight is not None and weight.ndim != 1:
        raise ArgumentError(f"{op}: weight must be one-dimensional, got shape {tuple(weight.shape)}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ArgumentError(f"{op}: inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    if target.is_floating_point():
        raise DTypeError(f"{op}: expected scalar type Long but found Float: target holds classes, got {target.dtype}")
    truth = target.reshape(-1)
    if truth.numel() and not truth.is_meta and (int(truth.min()) < 0 or int(truth.max()) >= classes):
        raise OutOfRangeError(f"{op}: target out of range for {classes} classes: {target.tolist()}")
    lead = margin - scores.gather(1, truth.unsqueeze(1)) + scores
    terms = lead.clamp(min=0)
    terms = terms.square() if p == 2 else terms
    if weight is not None:
        terms = terms * weight[truth].unsqueeze(1)
    is_truth = fb.arange(classes, device=truth.device).unsqueeze(0) == truth.unsqueeze(1)
    loss = terms.masked_fill(is_truth, 0).sum(1) / classes
    return reduced(op, loss if target.ndim else loss.squeeze(0), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum over true and other classes of max(0, 1 - input[true] + input[other]), divided by the number of classes.

    Args:
        input: scores, (N, C) or (C,).
        target: true classes in the same shape, the first -1 ends the list.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.multilabel_margin_loss(fb.tensor([[0.0, 2.0]]), fb.tensor([[0, -1]]))
        tensor(1.5000)
    """
    op = "multilabel_margin_loss"
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(op, reduction)
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ArgumentError(
            f"{op}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if target.shape != input.shape:
        raise ArgumentError(f"{op}: inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    scores, truth = (t.reshape(1, -1) if t.ndim < 2 else t for t in (input, target))
    classes = scores.shape[1]
    listed = (truth < 0).long().cumsum(1) == 0  # positions before the first -1
    if truth.numel() and not truth.is_meta and (int(truth.min()) < -1 or int(truth.max()) >= classes):
        raise OutOfRangeError(
            f"{op}: target out of range for {classes} classes, got {int(truth.min())} to {int(truth.max())}"
        )
    safe = truth.masked_fill(~listed, 0)
    marks = fb.zeros((scores.shape[0], classes + 1), dtype=fb.bool, device=scores.device)
    marks = marks.scatter(1, truth.masked_fill(~listed, classes), True)[:, :classes]
    lead = (1 - scores.gather(1, safe).unsqueeze(2) + scores.unsqueeze(1)).clamp(min=0)
    counted = listed.unsqueeze(2) & ~marks.unsqueeze(1)
    loss = lead.masked_fill(~counted, 0).sum((1, 2)) / classes
    return reduced(op, loss if input.ndim == 2 else loss.squeeze(0), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of every class, averaged over the classes.

    Args:
        input: scores, (N, C).
        target: 0 or 1, of the same shape.
        weight: a weight per class.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.multilabel_soft_margin_loss(fb.zeros(1, 2), fb.ones(1, 2))
        tensor(0.6931)
    """
    op = "multilabel_soft_margin_loss"
    check_same_shape(op, input, target)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = (loss if weight is None else loss * weight).mean(-1)
    return reduced(op, loss, legacy_reduction(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), averaged; d is the p-norm.

    Args:
        anchor: (N, D) or (D,).
        positive: what should be near.
        negative: what should be far.
        margin: by how much.
        p: order of the norm.
        eps: keeps the gradient of the norm finite.
        swap: whether to use the distance of positive and negative if it is smaller.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.triplet_margin_loss(fb.zeros(1, 1), fb.ones(1, 1), fb.ones(1, 1))
        tensor(1.)
    """
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    return _triplet(
        "triplet_margin_loss", anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps),
        margin, swap, legacy_reduction(size_average, reduce, reduction),
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a custom distance function.

    Args:
        anchor: (N, …).
        positive: what should be near.
        negative: what should be far.
        distance_function: of two tensors; pairwise_distance by default.
        margin: by how much.
        swap: whether to use the distance of positive and negative if it is smaller.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.functional.triplet_margin_with_distance_loss(fb.zeros(1, 1), fb.ones(1, 1), fb.ones(1, 1))
        tensor(1.)
    """
    op = "triplet_margin_with_distance_loss"
    if margin <= 0:
        raise ArgumentError(f"{op}: margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(op, anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    op: str, anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable[[Tensor, Tensor], Tensor],
    margin: float, swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    check_reduction(op, reduction)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ArgumentError(
            f"{op}: The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = fb.minimum(far, distance(positive, negative))
    return reduced(op, (margin + near - far).clamp(min=0), reduction)
