"""Channel shuffle."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["ChannelShuffle"]
__dir__ = __all__.copy


class ChannelShuffle(Module):
    """Channel shuffle: transposes (groups, C / groups) channels into (C / groups, groups).

    Args:
        groups: number of groups, a divisor of C.

    Example:
        >>> fb.nn.ChannelShuffle(2)(fb.arange(4).view(1, 4, 1)).flatten()
        tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
