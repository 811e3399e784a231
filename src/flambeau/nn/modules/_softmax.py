"""Softmax modules."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.module import Module


class _AlongDim(Module):
    """A function along a dimension.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


@inherit_args
class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along a dimension.

    Example:
        >>> fb.nn.Softmax(dim=0)(fb.zeros(2))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


@inherit_args
class Softmin(_AlongDim):
    """softmax(-x) along a dimension.

    Example:
        >>> fb.nn.Softmin(dim=0)(fb.zeros(2))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


@inherit_args
class LogSoftmax(_AlongDim):
    """log(softmax(x)) along a dimension.

    Example:
        >>> fb.nn.LogSoftmax(dim=0)(fb.zeros(2))
        tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.Softmax2d()(fb.zeros(2, 1, 1)).flatten()
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ArgumentError(f"Softmax2d: expected input to be 3D or 4D, got shape {tuple(input.shape)}")
        return F.softmax(input, -3)
