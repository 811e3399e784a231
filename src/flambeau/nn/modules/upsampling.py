"""Modules that change the resolution of images."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
__dir__ = __all__.copy


class Upsample(Module):
    """Resizes the dimensions behind (N, C); see functional.interpolate().

    Args:
        size: the new sizes.
        scale_factor: scale factors instead of sizes.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether the centers of the corner pixels, and not the corners, stay in place.
        recompute_scale_factor: whether to recompute the factor from the rounded sizes.

    Example:
        >>> fb.nn.Upsample(scale_factor=2)(fb.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        what = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode "nearest", for images.

    Args:
        size: (H, W).
        scale_factor: scale factors instead of sizes.

    Example:
        >>> fb.nn.UpsamplingNearest2d(scale_factor=2)(fb.ones(1, 1, 1, 1)).shape
        flambeau.Size([1, 1, 2, 2])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode "bilinear" and align_corners=True, for images.

    Args:
        size: (H, W).
        scale_factor: scale factors instead of sizes.

    Example:
        >>> fb.nn.UpsamplingBilinear2d(scale_factor=2)(fb.ones(1, 1, 1, 1)).shape
        flambeau.Size([1, 1, 2, 2])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
