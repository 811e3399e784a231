"""Layers as functions that PyTorch has at its top level only: cells, dropout with its mask, convolution over time."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F

__all__ = [
    "affine_grid_generator", "conv_tbc", "embedding_renorm_", "feature_dropout", "feature_dropout_", "native_channel_shuffle",
    "native_dropout", "rnn_relu_cell", "rnn_tanh_cell",
]  # fmt: skip


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a recurrent layer with tanh; see fb.nn.RNNCell.

    Example:
        >>> fb.rnn_tanh_cell(fb.zeros(1, 2), fb.ones(1, 3), fb.zeros(3, 2), fb.zeros(3, 3))
        tensor([[0., 0., 0.]])
    """
    return fb.tanh(F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a recurrent layer with relu; see fb.nn.RNNCell.

    Example:
        >>> fb.rnn_relu_cell(fb.ones(1, 2), fb.ones(1, 1), fb.ones(1, 2), fb.ones(1, 1))
        tensor([[3.]])
    """
    return fb.relu(F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))


def _whole_channels(op: str, input: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    if input.ndim < 2:
        raise ArgumentError(f"Feature dropout requires at least 2 dimensions in the input: {op} got shape {tuple(input.shape)}")
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}: {op}")
    if not train or p == 0 or input.numel() == 0:
        return input
    kept = fb.empty((*input.shape[:2], *(1,) * (input.ndim - 2)), dtype=input.dtype, device=input.device)
    factor = kept.bernoulli_(1 - p).div_(1 - p) if p < 1 else kept.zero_()
    return input.mul_(factor) if inplace else input * factor


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Sets whole channels to zero, each with probability p, and scales the others; see fb.nn.Dropout2d.

    Example:
        >>> fb.feature_dropout(fb.ones(1, 2, 2), 1.0, True).sum()
        tensor(0.)
    """
    return _whole_channels("feature_dropout", input, p, train, False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """fb.feature_dropout() in place.

    Example:
        >>> fb.feature_dropout_(fb.ones(1, 2), 0.5, False)
        tensor([[1., 1.]])
    """
    return _whole_channels("feature_dropout_", input, p, train, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout that returns its mask too: the result, and True where elements were kept.

    Example:
        >>> fb.native_dropout(fb.ones(2), 0.0, True)
        (tensor([1., 1.]), tensor([True, True]))
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}: native_dropout")
    if train is False or input.numel() == 0:
        return input, fb.ones_like(input, dtype=fb.bool)
    if p == 1:
        return fb.zeros_like(input), fb.zeros_like(input, dtype=fb.bool)
    mask = fb.empty_like(input, dtype=fb.bool).bernoulli_(1 - p)
    return input * mask * (1 / (1 - p)), mask


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves the channels of groups; see fb.nn.ChannelShuffle.

    Example:
        >>> fb.native_channel_shuffle(fb.arange(4.0).view(1, 4, 1, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    return F.channel_shuffle(input, groups)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Where an affine map takes the pixels of an image; see fb.nn.functional.affine_grid().

    Example:
        >>> fb.affine_grid_generator(fb.eye(2, 3).unsqueeze(0), (1, 1, 1, 2), True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    return F.affine_grid(theta, size, align_corners)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows of a table that are named to a norm of at most max_norm, in place.

    Example:
        >>> fb.embedding_renorm_(fb.tensor([[3.0, 4.0], [3.0, 4.0]]), fb.tensor([1]), 1.0, 2.0)
        tensor([[3.0000, 4.0000],
                [0.6000, 0.8000]])
    """
    with fb.no_grad():
        rows = indices.reshape(-1).unique()
        chosen = weight[rows]
        norms = fb.linalg.vector_norm(chosen, norm_type, 1, keepdim=True)
        weight[rows] = fb.where(norms > max_norm, chosen * (max_norm / (norms + 1e-7)), chosen)
    return weight


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution over time of sequences of shape (time, batch, channels).

    Args:
        input: (time, batch, channels in).
        weight: (window, channels in, channels out).
        bias: (channels out).
        pad: zeros on each side of the time.

    Example:
        >>> fb.conv_tbc(fb.ones(3, 1, 2), fb.ones(2, 2, 1), fb.zeros(1)).flatten()
        tensor([4., 4.])
    """
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        shapes = f"{tuple(input.shape)}, {tuple(weight.shape)} and {tuple(bias.shape)}"
        raise ArgumentError(f"conv_tbc: Input must have 3 dims: time, batch, in_channel, weight 3 and bias 1; got shapes {shapes}")
    result = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1).contiguous()
