"""Dropout modules."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
__dir__ = __all__.copy


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError(f"{type(self).__name__}: dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to 0 with probability p and scales the rest by 1 / (1 - p), in training.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.Dropout(0.5).eval()(fb.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Sets whole channels of (N, C, L) or (C, L) to 0 with probability p, in training.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.Dropout1d().eval()(fb.ones(1, 2))
        tensor([[1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Sets whole channels of (N, C, H, W) to 0 with probability p, in training.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.Dropout2d().eval()(fb.ones(1, 1, 1, 2))
        tensor([[[[1., 1.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Sets whole channels of (N, C, D, H, W) or (C, D, H, W) to 0 with probability p, in training.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.Dropout3d().eval()(fb.ones(1, 1, 1, 2))
        tensor([[[[1., 1.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout for networks of SELUs: keeps mean 0 and variance 1.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.AlphaDropout().eval()(fb.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Alpha dropout of whole channels.

    Args:
        p: probability of setting an element (or channel) to zero.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.FeatureAlphaDropout().eval()(fb.ones(1, 1, 2))
        tensor([[[1., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
