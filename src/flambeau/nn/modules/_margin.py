"""The base of losses, and losses with a margin."""

from __future__ import annotations

from collections.abc import Callable

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.functional._common import legacy_reduction
from flambeau.nn.modules.distance import PairwiseDistance
from flambeau.nn.modules.module import Module


class _Loss(Module):
    """A loss and how it is reduced: "mean", "sum" or "none"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with weights, which move with the module but are not learned."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class HingeEmbeddingLoss(_Loss):
    """input where target is 1, max(0, margin - input) where it is -1; averaged.

    Args:
        margin: how far apart the -1 pairs should be.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.HingeEmbeddingLoss()(fb.tensor([0.5]), fb.tensor([-1.0]))
        tensor(0.5000)
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Sum over true and other classes of max(0, 1 - input[true] + input[other]), divided by C.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.MultiLabelMarginLoss()(fb.tensor([[0.0, 2.0]]), fb.tensor([[0, -1]]))
        tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target · input)), averaged.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.SoftMarginLoss()(fb.zeros(2), fb.ones(2))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of every class, averaged over the classes.

    Args:
        weight: a weight per class.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.MultiLabelSoftMarginLoss()(fb.zeros(1, 2), fb.ones(1, 2))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Mean over the other classes of max(0, margin - input[target] + input[i])^p.

    Args:
        p: 1 or 2.
        margin: required lead of the true class.
        weight: a weight per class.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.MultiMarginLoss()(fb.tensor([[0.0, 2.0]]), fb.tensor([0]))
        tensor(1.5000)
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, got {p}")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1; averaged.

    Args:
        margin: how similar the -1 pairs may be.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.CosineEmbeddingLoss()(fb.ones(1, 2), fb.ones(1, 2), fb.tensor([-1]))
        tensor(1.)
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, -target · (input1 - input2) + margin), averaged.

    Args:
        margin: required lead of the better one.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.MarginRankingLoss()(fb.tensor([1.0]), fb.tensor([3.0]), fb.tensor([1.0]))
        tensor(2.)
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), averaged; d is the p-norm.

    Args:
        margin: required additional distance of the negative.
        p: order of the norm.
        eps: keeps the gradient of the norm finite.
        swap: whether to use the distance of positive and negative if it is smaller.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.TripletMarginLoss()(fb.zeros(1, 1), fb.ones(1, 1), fb.ones(1, 1))
        tensor(1.)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin}")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a custom distance function.

    Args:
        distance_function: of two tensors; PairwiseDistance by default.
        margin: required additional distance of the negative.
        swap: whether to use the distance of positive and negative if it is smaller.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.TripletMarginWithDistanceLoss()(fb.zeros(1, 1), fb.ones(1, 1), fb.ones(1, 1))
        tensor(1.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin}")
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip
