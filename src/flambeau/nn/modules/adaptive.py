"""Adaptive softmax over many classes, with clusters of rare classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError, OutOfRangeError
from flambeau.nn import functional as F
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]
__dir__ = __all__.copy


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax for classes sorted by frequency: the head decides on frequent classes and on clusters of the rest.

    Args:
        in_features: size of the input.
        n_classes: number of classes.
        cutoffs: where the head and each cluster end.
        div_value: factor by which the size of the projections shrinks from cluster to cluster.
        head_bias: whether the head has a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> m = fb.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
        >>> out = m(fb.randn(4, 8), fb.tensor([0, 3, 7, 19]))
        >>> out.output.shape
        flambeau.Size([4])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if (
            not cutoffs
            or any(not isinstance(c, int) or not 0 < c < n_classes for c in cutoffs)
            or sorted(set(cutoffs)) != cutoffs
        ):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be a sequence of unique, increasing integers between 1 and "
                f"n_classes - 1, got {cutoffs}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        self.head.reset_parameters()
        for layer in self.tail.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        if target.ndim not in (0, 1) or input.ndim != target.ndim + 1 or input.shape[:-1] != target.shape:
            raise ArgumentError(
                "AdaptiveLogSoftmaxWithLoss: Input and target should have the same size in the batch dimension: expected input "
                f"(N, in_features) with target (N,), or without N, got "
                f"{tuple(input.shape)} and {tuple(target.shape)}"
            )
        if target.numel() and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):
            raise OutOfRangeError(
                f"AdaptiveLogSoftmaxWithLoss: target values should be in [0, {self.n_classes - 1}], got values from "
                f"{int(target.min())} to {int(target.max())}"
            )
        x, truth = (input, target) if target.ndim else (input.unsqueeze(0), target.unsqueeze(0))
        head = F.log_softmax(self.head(x), 1)
        # frequent classes have their own entry in the head, the others their cluster's
        place = truth
        for i in range(self.n_clusters):
            inside = (truth >= self.cutoffs[i]) & (truth < self.cutoffs[i + 1])
            place = place.masked_fill(inside, self.shortlist_size + i)
        output = head.gather(1, place.unsqueeze(1)).squeeze(1)
        for i in range(self.n_clusters):
            rows = ((truth >= self.cutoffs[i]) & (truth < self.cutoffs[i + 1])).nonzero().squeeze(1)
            if rows.numel():
                within = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
                chosen = within.gather(1, (truth.index_select(0, rows) - self.cutoffs[i]).unsqueeze(1)).squeeze(1)
                output = output.index_add(0, rows, chosen)
        loss = (-output).mean()
        return _ASMoutput(output if target.ndim else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Logarithms of the probabilities of all classes, (N, n_classes).

        Example:
            >>> fb.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5]).log_prob(fb.randn(4, 8)).shape
            flambeau.Size([4, 20])
        """
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return fb.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample.

        Example:
            >>> fb.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5]).predict(fb.randn(4, 8)).shape
            flambeau.Size([4])
        """
        return self.log_prob(input).argmax(1)
