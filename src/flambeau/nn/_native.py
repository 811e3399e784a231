"""Functions of layers and losses that PyTorch has at its top level too, there with arguments in another order.

A reduction is a number here: 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F

__all__ = [
    "alpha_dropout_", "batch_norm", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "dropout_",
    "embedding", "feature_alpha_dropout_", "gru_cell", "hinge_embedding_loss", "instance_norm", "kl_div", "lstm_cell",
    "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss",
]  # fmt: skip


def _reduction(op: str, number: int) -> str:
    if number not in (0, 1, 2):
        raise ArgumentError(f"{op}: reduction must be 0 (none), 1 (mean) or 2 (sum), got {number!r}")
    return ("none", "mean", "sum")[number]


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of a table; see fb.nn.functional.embedding().

    Example:
        >>> fb.embedding(fb.eye(2), fb.tensor([1, 0]))
        tensor([[0., 1.],
                [1., 0.]])
    """
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Batch normalisation; see fb.nn.functional.batch_norm(). `cudnn_enabled` changes nothing on a CPU.

    Example:
        >>> fb.batch_norm(fb.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, False)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Instance normalisation; see fb.nn.functional.instance_norm(). `cudnn_enabled` changes nothing on a CPU.

    Example:
        >>> fb.instance_norm(fb.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, False)
        tensor([[[-1.,  1.]]])
    """
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """fb.nn.functional.dropout() in place.

    Example:
        >>> fb.dropout_(fb.ones(2), 0.5, False)
        tensor([1., 1.])
    """
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """fb.nn.functional.alpha_dropout() in place.

    Example:
        >>> fb.alpha_dropout_(fb.ones(2), 0.5, False)
        tensor([1., 1.])
    """
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """fb.nn.functional.feature_alpha_dropout() in place.

    Example:
        >>> fb.feature_alpha_dropout_(fb.ones(1, 2), 0.5, False)
        tensor([[1., 1.]])
    """
    return F.feature_alpha_dropout(input, p, train, inplace=True)


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM; see fb.nn.LSTMCell.

    Example:
        >>> x = fb.zeros(1, 2)
        >>> fb.lstm_cell(x, (fb.zeros(1, 3), fb.ones(1, 3)), fb.zeros(12, 2), fb.zeros(12, 3))[1]
        tensor([[0.5000, 0.5000, 0.5000]])
    """
    if len(hx) != 2:
        raise ArgumentError(f"lstm_cell: hx must be two tensors, hidden state and cell state, got {len(hx)}")
    h, c, _ = fb._lstm_cell(F.linear(input, w_ih, b_ih), F.linear(hx[0], w_hh, b_hh), hx[1])
    return h, c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU; see fb.nn.GRUCell.

    Example:
        >>> fb.gru_cell(fb.zeros(1, 2), fb.ones(1, 3), fb.zeros(9, 2), fb.zeros(9, 3))
        tensor([[0.5000, 0.5000, 0.5000]])
    """
    return fb._gru_cell(F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh), hx)[0]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """See fb.nn.functional.ctc_loss().

    Example:
        >>> fb.ctc_loss(fb.full((1, 1, 2), 0.5).log(), fb.tensor([[1]]), [1], [1])
        tensor(0.6931)
    """
    return F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction("ctc_loss", reduction), zero_infinity
    )


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """See fb.nn.functional.binary_cross_entropy_with_logits().

    Example:
        >>> fb.binary_cross_entropy_with_logits(fb.zeros(1), fb.ones(1))
        tensor(0.6931)
    """
    kind = _reduction("binary_cross_entropy_with_logits", reduction)
    return F.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=kind)


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """See fb.nn.functional.kl_div().

    Example:
        >>> fb.kl_div(fb.zeros(2), fb.ones(2), reduction=2)
        tensor(0.)
    """
    return F.kl_div(input, target, reduction=_reduction("kl_div", reduction), log_target=log_target)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """See fb.nn.functional.poisson_nll_loss().

    Example:
        >>> fb.poisson_nll_loss(fb.zeros(1), fb.ones(1), True, False, 1e-8, 1)
        tensor(1.)
    """
    kind = _reduction("poisson_nll_loss", reduction)
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=kind)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See fb.nn.functional.cosine_embedding_loss().

    Example:
        >>> fb.cosine_embedding_loss(fb.ones(1, 2), fb.ones(1, 2), fb.tensor([-1.0]))
        tensor(1.)
    """
    kind = _reduction("cosine_embedding_loss", reduction)
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=kind)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """See fb.nn.functional.hinge_embedding_loss().

    Example:
        >>> fb.hinge_embedding_loss(fb.tensor([0.25]), fb.tensor([-1.0]))
        tensor(0.7500)
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction("hinge_embedding_loss", reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """See fb.nn.functional.margin_ranking_loss().

    Example:
        >>> fb.margin_ranking_loss(fb.zeros(1), fb.ones(1), fb.ones(1))
        tensor(1.)
    """
    kind = _reduction("margin_ranking_loss", reduction)
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=kind)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """See fb.nn.functional.triplet_margin_loss().

    Example:
        >>> x = fb.zeros(1, 2)
        >>> fb.triplet_margin_loss(x, x, x)
        tensor(1.)
    """
    kind = _reduction("triplet_margin_loss", reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=kind)
