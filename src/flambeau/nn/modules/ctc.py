"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["CTCLoss"]
__dir__ = __all__.copy


class CTCLoss(Module):
    """Connectionist temporal classification: the negative log-likelihood of target sequences over all alignments with longer inputs.

    Args:
        blank: index of the blank label.
        reduction: "mean" (of the losses per label), "sum" or "none".
        zero_infinity: whether the loss of targets too long for their input is 0 instead of infinity.

    Example:
        >>> loss = fb.nn.CTCLoss(reduction="sum")
        >>> loss(fb.full((4, 1, 3), 1 / 3).log(), fb.tensor([[1, 2]]), fb.tensor([4]), fb.tensor([2]))
        tensor(1.6864)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
