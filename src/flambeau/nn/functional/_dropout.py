"""Dropout: random zeros in training, the identity otherwise."""

from __future__ import annotations

import math
import warnings

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

# The limit of a SELU for large negative inputs, negated: alpha dropout's replacement for zeros.
_ALPHA = 1.7580993408473766


def _check(op: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ArgumentError(f"{op}: dropout probability has to be between 0 and 1, but got {p}")


def _times(input: Tensor, noise: Tensor, inplace: bool) -> Tensor:
    return input.mul_(noise) if inplace else input * noise


def _keep(input: Tensor, p: float, shape: tuple[int, ...] | None = None) -> Tensor:
    """Ones with probability 1 - p, else zeros."""
    like = input.detach() if shape is None else input.new_empty(shape)
    return fb.bernoulli(like, 1 - p)  # not in place: inside vmap every example may need its own


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets elements to 0 with probability p and scales the rest by 1 / (1 - p), in training.

    Example:
        >>> fb.nn.functional.dropout(fb.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
    """
    _check("dropout", p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return _times(input, input.new_zeros(()), inplace)
    return _times(input, _keep(input, p).div_(1 - p), inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for networks of SELUs: keeps mean 0 and variance 1.

    Example:
        >>> fb.nn.functional.alpha_dropout(fb.ones(3))
        tensor([1., 1., 1.])
    """
    _check("alpha_dropout", p)
    return _alpha_dropout(input, p, training, inplace, None)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels.

    Example:
        >>> fb.nn.functional.feature_alpha_dropout(fb.ones(1, 2, 2))
        tensor([[[1., 1.],
                 [1., 1.]]])
    """
    _check("feature_alpha_dropout", p)
    shape = _channel_shape("feature_alpha_dropout", input) if training else None
    return _alpha_dropout(input, p, training, inplace, shape)


def _alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...] | None) -> Tensor:
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return _times(input, input.new_zeros(()), inplace)
    scale = 1 / math.sqrt((_ALPHA**2 * p + 1) * (1 - p))
    keep = _keep(input, p, shape)
    shift = (keep - 1) * (_ALPHA * scale) + _ALPHA * scale * p
    keep = keep * scale
    return input.mul_(keep).add_(shift) if inplace else input * keep + shift


def _channel_shape(op: str, input: Tensor) -> tuple[int, ...]:
    if input.ndim < 2:
        raise ArgumentError(
            f"{op}: expected at least 2 dimensions (batch, channels, …), got shape {tuple(input.shape)}"
        )
    return (input.shape[0], input.shape[1]) + (1,) * (input.ndim - 2)


def _channel_dropout(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not training or p == 0 or input.numel() == 0:
        return input
    shape = _channel_shape(op, input)
    if p == 1:
        return _times(input, input.new_zeros(()), inplace)
    return _times(input, _keep(input, p, shape).div_(1 - p), inplace)


def _unbatched(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    result = _channel_dropout(op, input.unsqueeze(0), p, training, inplace)
    return input if inplace else result.squeeze(0)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets whole channels of (N, C, L) or (C, L) to 0 with probability p, in training.

    Example:
        >>> fb.nn.functional.dropout1d(fb.ones(1, 1, 2), training=False)
        tensor([[[1., 1.]]])
    """
    _check("dropout1d", p)
    if input.ndim not in (2, 3):
        raise ArgumentError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input, of shape {tuple(input.shape)}")
    if input.ndim == 2:
        return _unbatched("dropout1d", input, p, training, inplace)
    return _channel_dropout("dropout1d", input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets whole channels of (N, C, H, W) to 0 with probability p, in training; (N, C, L) is taken as 1-d.

    Example:
        >>> fb.nn.functional.dropout2d(fb.ones(1, 1, 1, 2), training=False)
        tensor([[[[1., 1.]]]])
    """
    _check("dropout2d", p)
    if input.ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, expected 3 or 4 dimensions: shape {tuple(input.shape)}",
            stacklevel=3,
        )
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired: the shape is read "
            "as (N, C, L); use dropout1d to say so, or unsqueeze(0) for one image",
            stacklevel=3,
        )
    return _channel_dropout("dropout2d", input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets whole channels of (N, C, D, H, W) or (C, D, H, W) to 0 with probability p, in training.

    Example:
        >>> fb.nn.functional.dropout3d(fb.ones(1, 1, 1, 1, 2), training=False)
        tensor([[[[[1., 1.]]]]])
    """
    _check("dropout3d", p)
    if input.ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, expected 4 or 5 dimensions: shape {tuple(input.shape)}",
            stacklevel=3,
        )
    if input.ndim == 4:
        return _unbatched("dropout3d", input, p, training, inplace)
    return _channel_dropout("dropout3d", input, p, training, inplace)
