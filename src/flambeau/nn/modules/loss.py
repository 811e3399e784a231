"""Losses as modules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules._margin import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
    _Loss,
    _WeightedLoss,
)
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss",
    "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip
__dir__ = __all__.copy


class L1Loss(_Loss):
    """|input - target|, averaged. Shapes that merely broadcast are an error.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.L1Loss()(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)², averaged. Shapes that merely broadcast are an error.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.MSELoss()(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / (2 · beta) where d = |input - target| < beta, else d - beta / 2; averaged.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        beta: where the parabola becomes a line.

    Example:
        >>> fb.nn.SmoothL1Loss()(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(0.7500)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where d = |input - target| < delta, else delta · (d - delta / 2); averaged.

    Args:
        reduction: "mean", "sum" or "none".
        delta: where the parabola becomes a line.

    Example:
        >>> fb.nn.HuberLoss()(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 4.0]))
        tensor(0.7500)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, float | int):
            raise TypeError(f"HuberLoss: delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """target · (log target - input): the divergence of input, given as logarithms, from target.

    Args:
        size_average: deprecated.
        reduce: deprecated.
        reduction: "batchmean", "mean", "sum" or "none".
        log_target: whether target is given as logarithms.

    Example:
        >>> loss = fb.nn.KLDivLoss(reduction="batchmean")
        >>> loss(fb.tensor([[0.5, 0.5]]).log(), fb.tensor([[0.5, 0.5]]))
        tensor(0.)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under a Poisson distribution.

    Args:
        log_input: whether input is the logarithm of the expected counts.
        full: whether Stirling's approximation of log(target!) is added.
        size_average: deprecated.
        eps: keeps the logarithm from 0.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.PoissonNLLLoss()(fb.zeros(2), fb.ones(2))
        tensor(1.)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """(log var + (input - target)² / var) / 2: negative log likelihood under a normal distribution.

    Args:
        full: whether the constant log(2π) / 2 is added.
        eps: the smallest variance.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.GaussianNLLLoss()(fb.zeros(2), fb.ones(2), fb.ones(2))
        tensor(0.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# ---- classification ----------------------------------------------------------------------------------------------------


class NLLLoss(_WeightedLoss):
    """-input[n, target[n]], averaged: negative log likelihood of the true classes.

    Args:
        weight: a weight per class.
        size_average: deprecated.
        ignore_index: a class that does not contribute to the loss.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.NLLLoss()(fb.tensor([[-0.5, -2.0]]), fb.tensor([0]))
        tensor(0.5000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """NLLLoss of images, under an older name.

    Args:
        weight: a weight per class.
        size_average: deprecated.
        ignore_index: a class that does not contribute to the loss.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.NLLLoss2d()(-fb.ones(1, 2, 1, 1), fb.zeros(1, 1, 1, dtype=fb.int64))
        tensor(1.)
    """


class CrossEntropyLoss(_WeightedLoss):
    """Negative log likelihood of the true classes under softmax(input).

    Args:
        weight: a weight per class.
        size_average: deprecated.
        ignore_index: a class that does not contribute to the loss.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        label_smoothing: share of the target distributed evenly over all classes.

    Example:
        >>> fb.nn.CrossEntropyLoss()(fb.zeros(1, 2), fb.tensor([1]))
        tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


@dataclass
class LinearCrossEntropyOptions:
    """How LinearCrossEntropyLoss is computed.

    Args:
        allow_retain_graph: accepted; a graph can always be kept.
        batch_chunk_size: rows whose scores are computed at a time; all by default.
        chunking_method: accepted; chunks are taken of the batch.
        acc_policy: accepted; sums are accumulated in at least float32.
        acc_dtype: accepted; sums are accumulated in at least float32.

    Example:
        >>> options = fb.nn.LinearCrossEntropyOptions(batch_chunk_size=1)
        >>> fb.nn.functional.linear_cross_entropy(
        ...     fb.ones(2, 3), fb.zeros(2, 3), fb.tensor([1, 0]), options=options)
        tensor(0.6931)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Module):
    """Cross entropy of a linear layer's output.

    Args:
        in_features: size of the input.
        num_classes: number of classes C.
        out_features: sizes behind the classes, for a loss in several places.
        bias: whether the linear layer has a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.
        reduction: "mean", "sum" or "none".
        weight: a weight per class.
        ignore_index: a class that does not contribute to the loss.
        label_smoothing: share of the target distributed evenly over all classes.
        options: a LinearCrossEntropyOptions to compute in chunks of the batch.

    Example:
        >>> fb.nn.LinearCrossEntropyLoss(3, 5)(fb.zeros(2, 3), fb.tensor([1, 4])).item()
        1.6094379425048828
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device = None,
        dtype: fb.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ArgumentError(
                f"LinearCrossEntropyLoss: expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing, self.options = label_smoothing, options
        self.register_buffer("weight", weight)
        outputs = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Reinitializes the linear layer."""
        self.linear.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.view(*shape, self.in_features), target,
            linear_bias=None if bias is None else bias.view(shape), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCELoss(_WeightedLoss):
    """-(target · log(input) + (1 - target) · log(1 - input)), averaged.

    Args:
        weight: factors that broadcast to the shape.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".

    Example:
        >>> fb.nn.BCELoss()(fb.tensor([0.5]), fb.tensor([1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of sigmoid(input), computed without overflow.

    Args:
        weight: factors that broadcast to the shape.
        size_average: deprecated.
        reduce: deprecated.
        reduction: "mean", "sum" or "none".
        pos_weight: factors for the positive part.

    Example:
        >>> fb.nn.BCEWithLogitsLoss()(fb.zeros(1), fb.ones(1))
        tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )
