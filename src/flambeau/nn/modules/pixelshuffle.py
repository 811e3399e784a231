"""Channels to pixels and back."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]
__dir__ = __all__.copy


class PixelShuffle(Module):
    """(…, C · r², H, W) to (…, C, H · r, W · r).

    Args:
        upscale_factor: r.

    Example:
        >>> fb.nn.PixelShuffle(2)(fb.zeros(4, 1, 1)).shape
        flambeau.Size([1, 2, 2])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(…, C, H · r, W · r) to (…, C · r², H, W).

    Args:
        downscale_factor: r.

    Example:
        >>> fb.nn.PixelUnshuffle(2)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([4, 1, 1])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
