"""Padding modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip
__dir__ = __all__.copy


class _PadNd(Module):
    """Pads by `padding`, which a subclass sets, in the mode `_mode`. Classes outside the library derive from these."""

    padding: Sequence[int]
    _mode: str

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"


class _ConstantPadNd(_PadNd):
    """Pads with one value, whatever the number of dimensions.

    Args:
        value: the value.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _sides(module: Any, padding: int | Sequence[int]) -> tuple[int, ...]:
    """Two numbers for each of the module's dimensions."""
    sides = _ntuple(2 * module._dims)(padding)
    if len(sides) != 2 * module._dims:
        raise ArgumentError(f"{type(module).__name__}: padding must be a number or {2 * module._dims} numbers, got {sides}")
    return sides


class _Pad(_PadNd):
    """Pads the last dimensions; a subclass says how many (`_dims`).

    Args:
        padding: (left, right), then (top, bottom) and (front, back) as dimensions go; or one number for all.
    """

    _dims: int

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _sides(self, padding)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ArgumentError(
                f"{type(self).__name__}: expected {self._dims + 1}D or {self._dims + 2}D input (got {input.ndim}D input)"
            )
        return super().forward(input)


class _ConstantPad(_ConstantPadNd):
    """Pads with one value.

    Args:
        padding: (left, right), then (top, bottom) and (front, back) as dimensions go; or one number for all.
        value: the value.
    """

    _dims: int

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(value)
        self.padding = _sides(self, padding)


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@inherit_args
class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with a constant value.

    Example:
        >>> fb.nn.ConstantPad1d(1, 5.0)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with a constant value.

    Example:
        >>> fb.nn.ConstantPad2d(1, 5.0)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with a constant value.

    Example:
        >>> fb.nn.ConstantPad3d(1, 5.0)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros.

    Example:
        >>> fb.nn.ZeroPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros.

    Example:
        >>> fb.nn.ZeroPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros.

    Example:
        >>> fb.nn.ZeroPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class ReflectionPad1d(_Pad, _ReflectionPadNd):
    """Pads the last dimension by reflecting the input at its border, which is not repeated.

    Example:
        >>> fb.nn.ReflectionPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ReflectionPad2d(_Pad, _ReflectionPadNd):
    """Pads the last two dimensions by reflecting the input at its border, which is not repeated.

    Example:
        >>> fb.nn.ReflectionPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ReflectionPad3d(_Pad, _ReflectionPadNd):
    """Pads the last three dimensions by reflecting the input at its border, which is not repeated.

    Example:
        >>> fb.nn.ReflectionPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class ReplicationPad1d(_Pad, _ReplicationPadNd):
    """Pads the last dimension by replicating the border.

    Example:
        >>> fb.nn.ReplicationPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ReplicationPad2d(_Pad, _ReplicationPadNd):
    """Pads the last two dimensions by replicating the border.

    Example:
        >>> fb.nn.ReplicationPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ReplicationPad3d(_Pad, _ReplicationPadNd):
    """Pads the last three dimensions by replicating the border.

    Example:
        >>> fb.nn.ReplicationPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class CircularPad1d(_Pad, _CircularPadNd):
    """Pads the last dimension with values from the opposite side.

    Example:
        >>> fb.nn.CircularPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class CircularPad2d(_Pad, _CircularPadNd):
    """Pads the last two dimensions with values from the opposite side.

    Example:
        >>> fb.nn.CircularPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class CircularPad3d(_Pad, _CircularPadNd):
    """Pads the last three dimensions with values from the opposite side.

    Example:
        >>> fb.nn.CircularPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3
