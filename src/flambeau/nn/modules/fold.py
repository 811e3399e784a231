"""Sliding blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]
__dir__ = __all__.copy


class Fold(Module):
    """Adds columns of blocks up to an image; the adjoint of Unfold.

    Args:
        output_size: (H, W) of the image.
        kernel_size: size of a block.
        dilation: spacing between a block's elements.
        padding: margin that is cut off on each side.
        stride: distance between blocks.

    Example:
        >>> fb.nn.Fold((1, 3), (1, 2))(fb.ones(1, 2, 2))
        tensor([[[[1., 2., 1.]]]])
    """

    def __init__(
        self,
        output_size: Any,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] | None = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Sliding blocks of an image as columns.

    Args:
        kernel_size: size of a block.
        dilation: spacing between a block's elements.
        padding: zeros on each side.
        stride: distance between blocks.

    Example:
        >>> fb.nn.Unfold(2)(fb.zeros(1, 3, 4, 4)).shape
        flambeau.Size([1, 12, 9])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] | None = 1,
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
