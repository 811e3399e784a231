"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.errors import ArgumentError, DTypeError
from flambeau.nn.functional._common import check_reduction

__all__ = ["ctc_loss"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification: the negative log-likelihood of target sequences over all alignments with longer inputs.

    Args:
        log_probs: log probabilities of the classes at each step, (T, N, C) or (T, C).
        targets: labels, (N, S), (S,), or all targets one after the other.
        input_lengths: how many steps each sequence has, (N,) or ().
        target_lengths: how many labels each target has, (N,) or ().
        blank: index of the blank label.
        reduction: "mean" (of the losses per label), "sum" or "none".
        zero_infinity: whether the loss of targets too long for their input is 0 instead of infinity.

    Example:
        >>> log_probs = fb.full((4, 1, 3), 1 / 3).log()
        >>> fb.nn.functional.ctc_loss(log_probs, fb.tensor([[1, 2]]), [4], [2], reduction="sum")
        tensor(1.6864)
    """
    op = "ctc_loss"
    check_reduction(op, reduction)
    if log_probs.dtype not in (fb.float32, fb.float64):
        raise DTypeError(f"{op}: expected log_probs of dtype float32 or float64, got {log_probs.dtype}")
    if targets.dtype not in (fb.int32, fb.int64):
        raise DTypeError(f"{op}: expected targets of dtype int32 or int64, got {targets.dtype}")
    if log_probs.ndim not in (2, 3):
        raise ArgumentError(f"{op}: expected log_probs of shape (T, N, C) or (T, C), got {tuple(log_probs.shape)}")
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    inputs, labels = _lengths(op, "input_lengths", input_lengths), _lengths(op, "target_lengths", target_lengths)
    losses = private.ctc_loss(log_probs, targets, inputs, labels, blank, zero_infinity).loss
    if zero_infinity:
        losses = losses.masked_fill(losses == fb.inf, 0)
    if reduction == "mean":
        return (losses / fb.tensor(labels, dtype=losses.dtype, device=losses.device).clamp(min=1)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _lengths(op: str, name: str, lengths: Tensor | Sequence[int]) -> list[int]:
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex():
            raise ArgumentError(f"{op}: {name} must be integers, got {lengths.dtype}")
        return lengths.reshape(-1).tolist()
    if not isinstance(lengths, Iterable) or isinstance(lengths, str) or not all(hasattr(n, "__index__") for n in lengths):
        raise TypeError(f"{op}: {name} must be a Tensor or a sequence of whole numbers, got {lengths!r}")
    return [int(length) for length in lengths]
