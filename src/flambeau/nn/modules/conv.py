"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from flambeau.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_Sizes = int | Sequence[int]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Parameters and options of a convolution; a subclass says over how many dimensions (`_dims`)."""

    _dims: int
    _functions: tuple
    transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Sizes, stride: _Sizes, padding: str | _Sizes,
        dilation: _Sizes, output_padding: _Sizes, groups: int, bias: bool, padding_mode: str, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, per_dimension = type(self).__name__, _ntuple(self._dims)
        if groups <= 0:
            raise ArgumentError(f"{name}: groups must be a positive integer, got {groups}")
        if in_channels % groups:
            raise ArgumentError(f"{name}: in_channels must be divisible by groups, got {in_channels} and {groups}")
        if out_channels % groups:
            raise ArgumentError(f"{name}: out_channels must be divisible by groups, got {out_channels} and {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ArgumentError(f"{name}: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = per_dimension(kernel_size), per_dimension(stride)
        self.dilation, self.output_padding = per_dimension(dilation), per_dimension(output_padding)
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise ArgumentError(f"{name}: invalid padding string {padding!r}, should be 'valid' or 'same'")
            if padding == "same" and any(step != 1 for step in self.stride):
                raise ArgumentError(
                    f"{name}: padding='same' is not supported for strided convolutions, got {self.stride}"
                )
            self.padding: str | tuple = padding
        else:
            self.padding = per_dimension(padding)
        self._reversed_padding_repeated_twice = self._margins()
        if self.transposed:
            shape = (in_channels, out_channels // groups, *self.kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(fb.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(fb.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _margins(self) -> tuple[int, ...]:
        """The padding as F.pad() wants it, last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        margins: list[int] = []
        for size, step in zip(reversed(self.kernel_size), reversed(self.dilation), strict=True):
            total = step * (size - 1) if self.padding == "same" else 0
            margins += [total // 2, total - total // 2]
        return tuple(margins)

    def reset_parameters(self) -> None:
        """Draws weight and bias from U(-1/√k, 1/√k), with k the number of inputs of one output."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros = (0,) * self._dims
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: str | _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution of this module with another weight and bias."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._functions[0](input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        output_padding: _Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Sizes = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        if padding_mode != "zeros":
            raise ArgumentError(
                f'{type(self).__name__}: only "zeros" is supported as padding_mode, got {padding_mode!r}'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """The output_padding with which the result has the wanted size."""
        if output_size is None:
            return self.output_padding
        name, n = type(self).__name__, self._dims
        wanted = tuple(output_size)
        wanted = wanted[-n:] if len(wanted) == input.ndim else wanted
        if len(wanted) != n:
            raise ArgumentError(f"{name}: output_size must have {n} or {input.ndim} elements (got {len(output_size)})")
        least = [
            (size - 1) * step - 2 * margin + gap * (window - 1) + 1
            for size, step, margin, gap, window in zip(
                input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [low + step - 1 for low, step in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ArgumentError(
                f"{name}: requested an output size of {wanted}, but valid sizes range from {least} to {most} "
                f"(for an input of {tuple(input.shape[-n:])})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._functions[1](
            input, self.weight, self.bias, self.stride, self.padding, self._extra(input, output_size), self.groups,
            self.dilation,
        )  # fmt: skip


class _LazyConv(LazyModuleMixin):
    """A convolution that takes in_channels from its first input."""

    def reset_parameters(self) -> None:
        """Draws the parameters anew, once their shape is known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _wait(self, out_channels: int, bias: bool, device, dtype) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Tensor, *args, **kwargs) -> None:
        """Gives the parameters their shape."""
        if not self.has_uninitialized_params():
            return
        n = self._dims
        if input.ndim not in (n + 1, n + 2):
            raise ArgumentError(
                f"{type(self).__name__}: expected {n + 1}D (unbatched) or {n + 2}D (batched) input, got shape "
                f"{tuple(input.shape)}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups:
            raise ArgumentError(
                f"{type(self).__name__}: in_channels must be divisible by groups, got {self.in_channels} and {self.groups}"
            )
        channels = (self.in_channels, self.out_channels // self.groups)
        if not self.transposed:
            channels = (self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConv, _Conv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: str | _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv, _ConvTranspose):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        output_padding: _Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Sizes = 1,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class Conv1d(_Conv):
    """A convolution over (N, C, L) or (C, L).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.Conv1d(4, 4, 3)(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 6])
    """

    _dims = 1
    _functions = (F.conv1d, F.conv_transpose1d)


class Conv2d(_Conv):
    """A convolution over (N, C, H, W) or (C, H, W).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.Conv2d(4, 4, 3)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 6, 6])
    """

    _dims = 2
    _functions = (F.conv2d, F.conv_transpose2d)


class Conv3d(_Conv):
    """A convolution over (N, C, D, H, W) or (C, D, H, W).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.Conv3d(4, 4, 3)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 6, 6, 6])
    """

    _dims = 3
    _functions = (F.conv3d, F.conv_transpose3d)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution over (N, C, L) or (C, L): it enlarges.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.ConvTranspose1d(4, 4, 3)(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 10])
    """

    _dims = 1
    _functions = (F.conv1d, F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution over (N, C, H, W) or (C, H, W): it enlarges.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.ConvTranspose2d(4, 4, 3)(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 10, 10])
    """

    _dims = 2
    _functions = (F.conv2d, F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transpose of a convolution over (N, C, D, H, W) or (C, D, H, W): it enlarges.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> fb.nn.ConvTranspose3d(4, 4, 3)(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 10, 10, 10])
    """

    _dims = 3
    _functions = (F.conv3d, F.conv_transpose3d)


class LazyConv1d(_LazyForward):
    """A Conv1d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConv1d(4, 3)
        >>> m(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 6])
        >>> m.in_channels
        4
    """

    _dims = 1
    _functions = (F.conv1d, F.conv_transpose1d)
    cls_to_become = Conv1d


class LazyConv2d(_LazyForward):
    """A Conv2d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConv2d(4, 3)
        >>> m(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 6, 6])
        >>> m.in_channels
        4
    """

    _dims = 2
    _functions = (F.conv2d, F.conv_transpose2d)
    cls_to_become = Conv2d


class LazyConv3d(_LazyForward):
    """A Conv3d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: step of the window.
        padding: margin on both sides, or 'same' or 'valid'.
        dilation: distance between taps.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        padding_mode: what margins hold: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConv3d(4, 3)
        >>> m(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 6, 6, 6])
        >>> m.in_channels
        4
    """

    _dims = 3
    _functions = (F.conv3d, F.conv_transpose3d)
    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed):
    """A ConvTranspose1d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConvTranspose1d(4, 3)
        >>> m(fb.zeros(1, 4, 8)).shape
        flambeau.Size([1, 4, 10])
        >>> m.in_channels
        4
    """

    _dims = 1
    _functions = (F.conv1d, F.conv_transpose1d)
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed):
    """A ConvTranspose2d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConvTranspose2d(4, 3)
        >>> m(fb.zeros(1, 4, 8, 8)).shape
        flambeau.Size([1, 4, 10, 10])
        >>> m.in_channels
        4
    """

    _dims = 2
    _functions = (F.conv2d, F.conv_transpose2d)
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed):
    """A ConvTranspose3d that takes in_channels from its first input.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the window.
        stride: distance between windows in the result.
        padding: taken off both sides of the result.
        output_padding: added to one side of the result.
        groups: channels are split into so many independent groups.
        bias: whether there is a bias.
        dilation: distance between taps.
        padding_mode: must be 'zeros'.
        device: where the parameters are.
        dtype: of the parameters.

    Example:
        >>> m = fb.nn.LazyConvTranspose3d(4, 3)
        >>> m(fb.zeros(1, 4, 8, 8, 8)).shape
        flambeau.Size([1, 4, 10, 10, 10])
        >>> m.in_channels
        4
    """

    _dims = 3
    _functions = (F.conv3d, F.conv_transpose3d)
    cls_to_become = ConvTranspose3d
