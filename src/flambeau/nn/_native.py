"""Functions of layers and losses that PyTorch has at its top level too, there with arguments in another order.

A reduction is a number here: 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.functional._margin import _margin_ranking
from flambeau.nn.modules.rnn import _GATES, RNNBase

__all__ = [
    "alpha_dropout_", "batch_norm", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "dropout_",
    "embedding", "embedding_bag", "feature_alpha_dropout_", "gru", "gru_cell", "hinge_embedding_loss", "instance_norm", "kl_div",
    "lstm", "lstm_cell", "margin_ranking_loss", "poisson_nll_loss", "rnn_relu", "rnn_tanh", "triplet_margin_loss",
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


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, means or maxima of rows of a table; see fb.nn.functional.embedding_bag().

    Args:
        weight: the table.
        indices: rows of all bags, one after the other.
        offsets: where each bag begins.
        scale_grad_by_freq: as for the function; PyTorch's too has no use for it with maxima.
        mode: 0 for sums, 1 for means, 2 for maxima.
        sparse: whether the gradient of the weight is a sparse tensor, of the rows in use only.
        per_sample_weights: a factor for each row, with sums only.
        include_last_offset: whether offsets end with the number of indices.
        padding_idx: a row that is skipped.

    Returns:
        The result, then the bag of each index, how many rows each bag has, and (for maxima) which rows they came from.

    Example:
        >>> fb.embedding_bag(fb.eye(2), fb.tensor([0, 1, 1]), fb.tensor([0, 2]))[0]
        tensor([[1., 1.],
                [0., 1.]])
    """
    if mode not in (0, 1, 2):
        raise ArgumentError(f"embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {mode!r}")
    result = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=("sum", "mean", "max")[mode], sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    bag_of = fb.bucketize(fb.arange(indices.numel()), starts, right=True) - 1
    counted = fb.ones_like(bag_of) if padding_idx is None else (indices != padding_idx % weight.shape[0]).to(fb.int64)
    sizes = fb.zeros(starts.numel(), dtype=fb.int64).index_add(0, bag_of, counted)
    rows = sizes
    if mode == 2:
        # the rows with the maxima: among a bag's indices, the first whose entry equals the result's
        hit = (weight.detach()[indices] == result.detach()[bag_of]) & counted.bool().unsqueeze(1)
        where = fb.where(hit, fb.arange(indices.numel()).unsqueeze(1), indices.numel())
        first = fb.full(result.shape, indices.numel(), dtype=fb.int64)
        first = first.scatter_reduce(0, bag_of.unsqueeze(1).expand_as(where), where, "amin")
        rows = fb.cat([indices, indices.new_zeros(1)])[first]
    return result, bag_of, sizes, rows


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
    h, c, _ = private.lstm_cell(F.linear(input, w_ih, b_ih), F.linear(hx[0], w_hh, b_hh), hx[1])
    return h, c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU; see fb.nn.GRUCell.

    Example:
        >>> fb.gru_cell(fb.zeros(1, 2), fb.ones(1, 3), fb.zeros(9, 2), fb.zeros(9, 3))
        tensor([[0.5000, 0.5000, 0.5000]])
    """
    return private.gru_cell(F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh), hx)[0]


def _recurrent(mode: str, *args: Any) -> tuple[Tensor, Any]:
    """A stack of recurrent layers with the given parameters. The packed form has its batch sizes as the second argument."""
    op = mode.lower()
    batch_first, batch_sizes = False, None
    if isinstance(args[3], (list, tuple)):
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional = args
        data = fb.nn.utils.rnn.PackedSequence(data, batch_sizes)
    else:
        data, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first = args
    places = num_layers * (2 if bidirectional else 1)
    each = len(params) // places if places > 0 else 0
    sizes = {2: (False, False), 3: (False, True), 4: (True, False), 5: (True, True)}  # parameters: biases, projection
    if each * places != len(params) or each not in sizes or sizes[each][0] != bool(has_biases):
        raise ArgumentError(
            f"{op}: {len(params)} parameters do not fit {num_layers} layers in {2 if bidirectional else 1} directions with "
            f"has_biases={has_biases}; expected {places * (4 if has_biases else 2)}"
        )
    hidden, projected = params[1].shape[0] // _GATES[mode], params[1].shape[1] if sizes[each][1] else 0
    layer = RNNBase(
        mode, params[0].shape[1], hidden, num_layers, bool(has_biases), bool(batch_first), float(dropout), bool(bidirectional),
        projected, device="meta", dtype=params[0].dtype,
    ).train(bool(train))  # fmt: skip
    named = dict(zip((name for name, _ in layer.named_parameters()), params, strict=True))
    output, state = fb.func.functional_call(layer, named, (data, tuple(hx) if mode == "LSTM" else hx))
    return output.data if batch_sizes is not None else output, state


def lstm(
    input: Tensor, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any, train: Any, bidirectional: Any,
    batch_first: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A stack of LSTM layers with parameters of the caller's; see fb.nn.LSTM.

    Rows of a packed sequence come with their batch sizes, and without batch_first:
    lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional).

    Args:
        input: (L, N, features), or (N, L, features) with batch_first.
        hx: hidden state and cell state.
        params: weight_ih, weight_hh, and biases and projection where there are any, for each layer and direction.
        has_biases: whether there are biases among them.
        num_layers: number of stacked layers.
        dropout: dropout probability between the layers during training.
        train: whether this is training.
        bidirectional: whether to add a second pass in the reverse direction.
        batch_first: whether the batch is the first dimension.

    Example:
        >>> layer, start = fb.nn.LSTM(2, 3), (fb.zeros(1, 4, 3), fb.zeros(1, 4, 3))
        >>> output, h, c = fb.lstm(fb.zeros(5, 4, 2), start, list(layer.parameters()), True, 1, 0.0, True, False, False)
        >>> output.shape
        flambeau.Size([5, 4, 3])
    """
    output, (h, c) = _recurrent("LSTM", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return output, h, c


def _of_one_state(mode: str, name: str, layer: str) -> Any:
    def function(
        input: Tensor, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any, train: Any, bidirectional: Any,
        batch_first: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return _recurrent(mode, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""A stack of layers as fb.nn.{layer} has them, with parameters of the caller's; arguments as for fb.lstm().

    Example:
        >>> layer = fb.nn.{layer}
        >>> output, h = fb.{name}(fb.zeros(5, 4, 2), fb.zeros(1, 4, 3), list(layer.parameters()), True, 1, 0.0, True, False, False)
        >>> output.shape, h.shape
        (flambeau.Size([5, 4, 3]), flambeau.Size([1, 4, 3]))
    """
    return function


gru = _of_one_state("GRU", "gru", "GRU(2, 3)")
rnn_tanh = _of_one_state("RNN_TANH", "rnn_tanh", "RNN(2, 3)")
rnn_relu = _of_one_state("RNN_RELU", "rnn_relu", "RNN(2, 3, nonlinearity='relu')")


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
    """See fb.nn.functional.margin_ranking_loss(); here inputs of different dimensions broadcast, as in PyTorch.

    Example:
        >>> fb.margin_ranking_loss(fb.zeros(1), fb.ones(1), fb.ones(1))
        tensor(1.)
    """
    return _margin_ranking(input1, input2, target, margin, _reduction("margin_ranking_loss", reduction))


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
