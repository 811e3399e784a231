"""Padding as modules."""

from __future__ import annotations

from collections.abc import Sequence

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


class _Pad(Module):
    """Pads the last dimensions; a subclass says how many (`_dims`) and how (`_mode`).

    Args:
        padding: (left, right), then (top, bottom) and (front, back) as dimensions go; or one number for all.
    """

    _dims: int
    _mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)
        if len(self.padding) != 2 * self._dims:
            raise ArgumentError(
                f"{type(self).__name__}: padding must be a number or {2 * self._dims} numbers, got {self.padding}"
            )

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ArgumentError(
                f"{type(self).__name__}: expected {self._dims + 1}D or {self._dims + 2}D input (got {input.ndim}D input)"
            )
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads with one value, whatever the number of dimensions.

    Args:
        padding: (left, right), then (top, bottom) and (front, back) as dimensions go; or one number for all.
        value: the value.
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@inherit_args
class ConstantPad1d(_ConstantPad):
    """Adds margins of one value, to the last dimension.

    Example:
        >>> fb.nn.ConstantPad1d(1, 5.0)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ConstantPad2d(_ConstantPad):
    """Adds margins of one value, to the last two dimensions.

    Example:
        >>> fb.nn.ConstantPad2d(1, 5.0)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ConstantPad3d(_ConstantPad):
    """Adds margins of one value, to the last three dimensions.

    Example:
        >>> fb.nn.ConstantPad3d(1, 5.0)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class ZeroPad1d(_ZeroPad):
    """Adds margins of zeros, to the last dimension.

    Example:
        >>> fb.nn.ZeroPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1


@inherit_args
class ZeroPad2d(_ZeroPad):
    """Adds margins of zeros, to the last two dimensions.

    Example:
        >>> fb.nn.ZeroPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2


@inherit_args
class ZeroPad3d(_ZeroPad):
    """Adds margins of zeros, to the last three dimensions.

    Example:
        >>> fb.nn.ZeroPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3


@inherit_args
class ReflectionPad1d(_Pad):
    """Adds margins that mirror the input at its border, which is not repeated, to the last dimension.

    Example:
        >>> fb.nn.ReflectionPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1
    _mode = "reflect"


@inherit_args
class ReflectionPad2d(_Pad):
    """Adds margins that mirror the input at its border, which is not repeated, to the last two dimensions.

    Example:
        >>> fb.nn.ReflectionPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2
    _mode = "reflect"


@inherit_args
class ReflectionPad3d(_Pad):
    """Adds margins that mirror the input at its border, which is not repeated, to the last three dimensions.

    Example:
        >>> fb.nn.ReflectionPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3
    _mode = "reflect"


@inherit_args
class ReplicationPad1d(_Pad):
    """Adds margins that repeat the border, to the last dimension.

    Example:
        >>> fb.nn.ReplicationPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1
    _mode = "replicate"


@inherit_args
class ReplicationPad2d(_Pad):
    """Adds margins that repeat the border, to the last two dimensions.

    Example:
        >>> fb.nn.ReplicationPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2
    _mode = "replicate"


@inherit_args
class ReplicationPad3d(_Pad):
    """Adds margins that repeat the border, to the last three dimensions.

    Example:
        >>> fb.nn.ReplicationPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3
    _mode = "replicate"


@inherit_args
class CircularPad1d(_Pad):
    """Adds margins taken from the opposite side, to the last dimension.

    Example:
        >>> fb.nn.CircularPad1d(1)(fb.zeros(1, 2)).shape
        flambeau.Size([1, 4])
    """

    _dims = 1
    _mode = "circular"


@inherit_args
class CircularPad2d(_Pad):
    """Adds margins taken from the opposite side, to the last two dimensions.

    Example:
        >>> fb.nn.CircularPad2d(1)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 4, 4])
    """

    _dims = 2
    _mode = "circular"


@inherit_args
class CircularPad3d(_Pad):
    """Adds margins taken from the opposite side, to the last three dimensions.

    Example:
        >>> fb.nn.CircularPad3d(1)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 4, 4, 4])
    """

    _dims = 3
    _mode = "circular"
