"""Flattening and unflattening dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]
__dir__ = __all__.copy


class Flatten(Module):
    """Flattens a range of dimensions into one.

    Args:
        start_dim: the first dimension to flatten.
        end_dim: the last dimension to flatten.

    Example:
        >>> fb.nn.Flatten()(fb.zeros(2, 3, 4)).shape
        flambeau.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits a dimension into several.

    Args:
        dim: the dimension.
        unflattened_size: its new sizes; one may be -1.

    Example:
        >>> fb.nn.Unflatten(1, (3, 4))(fb.zeros(2, 12)).shape
        flambeau.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"Unflatten: dim must be a whole number, dimensions have no names here; got {type(dim).__name__}"
            )
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple of whole numbers, got {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size: Sequence[int] = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
