"""Convolution modules."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _check_sizes, _ntuple, _reverse_repeat_tuple
from flambeau.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip
__dir__ = __all__.copy


class _ConvNd(Module):
    """The base of all convolutions; a subclass sets the number of spatial dimensions (`_dims`) and the function."""

    bias: Parameter | None

    _dims: int
    _transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        output_padding: Any, groups: int, bias: bool, padding_mode: str, device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        _check_sizes(self, in_channels=in_channels, out_channels=out_channels)
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name}: {what} must be divisible by groups, got {channels} and {groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"{name}: padding_mode must be one of zeros, reflect, replicate and circular, got {padding_mode!r}"
            )
        tuple_of = _ntuple(self._dims)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.dilation = tuple_of(kernel_size), tuple_of(stride), tuple_of(dilation)
        for size in self.kernel_size:
            _check_sizes(self, kernel_size=size)
        self.padding: Any = padding if isinstance(padding, str) else tuple_of(padding)
        self.transposed, self.output_padding = self._transposed, tuple_of(output_padding)
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._margins(name)
        shape = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(fb.empty((*shape, *self.kernel_size), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(fb.empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _margins(self, name: str) -> list[int]:
        """Padding in the form of F.pad(): (before, after) from the last dimension to the first."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        if self.padding not in ("same", "valid"):
            raise ValueError(f"{name}: Invalid padding string {self.padding!r}; padding must be numbers, 'same' or 'valid'")
        if self.padding == "valid":
            return [0, 0] * self._dims
        if any(s != 1 for s in self.stride):
            raise ValueError(
                f"{name}: padding='same' is not supported for strided convolutions, got stride {self.stride}"
            )
        margins = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = d * (k - 1)
            margins += [total // 2, total - total // 2]
        return margins

    def reset_parameters(self) -> None:
        """Draws weight and bias from U(-bound, bound), bound = 1 / sqrt(elements of one filter)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._dims:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    """A convolution, not transposed.

    Args:
        in_channels: channels C of the input.
        out_channels: channels of the output.
        kernel_size: size of the window.
        stride: its step.
        padding: on both sides, or "valid" or "same".
        dilation: spacing between the kernel's elements.
        groups: number of channel groups.
        bias: whether to add a learned bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: device of the parameters.
        dtype: dtype of the parameters.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), 0
        function = (F.conv1d, F.conv2d, F.conv3d)[self._dims - 1]
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution.

    Args:
        in_channels: channels C of the input.
        out_channels: channels of the output.
        kernel_size: size of the window.
        stride: upsampling factor of the result.
        padding: number of elements removed on both sides.
        output_padding: number of elements added to one side of the result.
        groups: number of channel groups.
        bias: whether to add a learned bias.
        dilation: spacing between the kernel's elements.
        padding_mode: "zeros".
        device: device of the parameters.
        dtype: dtype of the parameters.
    """

    _transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Device = None, dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'{type(self).__name__}: only "zeros" padding mode is supported, got {padding_mode!r}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The amount to add to the smallest possible result to get a size."""
        if output_size is None:
            return self.output_padding
        dims = self._dims
        sizes = tuple(output_size)
        if len(sizes) == dims + 2 or len(sizes) == input.ndim:
            sizes = sizes[-dims:]
        if len(sizes) != dims:
            raise ValueError(
                f"{type(self).__name__}: output_size must have {dims} or {input.ndim} numbers, got {sizes}"
            )
        extra = []
        for d in range(dims):
            n = input.shape[input.ndim - dims + d]
            least = (n - 1) * self.stride[d] - 2 * self.padding[d] + self.dilation[d] * (self.kernel_size[d] - 1) + 1
            if not least <= sizes[d] <= least + self.stride[d] - 1:
                raise ArgumentError(
                    f"{type(self).__name__}: requested an output size of {sizes}, but dimension {d} can be from {least} to "
                    f"{least + self.stride[d] - 1} for input of shape {tuple(input.shape)}"
                )
            extra.append(sizes[d] - least)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._dims - 1]
        extra = self._output_padding(input, output_size)
        return function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


@inherit_args
class Conv1d(_Conv):
    """A convolution of signals, (N, C, L) or (C, L).

    Example:
        >>> fb.nn.Conv1d(2, 3, 3)(fb.zeros(1, 2, 5)).shape
        flambeau.Size([1, 3, 3])
    """

    _dims = 1


@inherit_args
class Conv2d(_Conv):
    """A convolution of images, (N, C, H, W) or (C, H, W).

    Example:
        >>> fb.nn.Conv2d(2, 3, 3)(fb.zeros(1, 2, 5, 5)).shape
        flambeau.Size([1, 3, 3, 3])
    """

    _dims = 2


@inherit_args
class Conv3d(_Conv):
    """A convolution of volumes, (N, C, D, H, W) or (C, D, H, W).

    Example:
        >>> fb.nn.Conv3d(2, 3, 3)(fb.zeros(1, 2, 5, 5, 5)).shape
        flambeau.Size([1, 3, 3, 3, 3])
    """

    _dims = 3


@inherit_args
class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution of signals, (N, C, L) or (C, L), which enlarges them.

    Example:
        >>> fb.nn.ConvTranspose1d(2, 3, 2, stride=2)(fb.zeros(1, 2, 2)).shape
        flambeau.Size([1, 3, 4])
    """

    _dims = 1


@inherit_args
class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of a convolution of images, (N, C, H, W) or (C, H, W), which enlarges them.

    Example:
        >>> fb.nn.ConvTranspose2d(2, 3, 2, stride=2)(fb.zeros(1, 2, 2, 2)).shape
        flambeau.Size([1, 3, 4, 4])
    """

    _dims = 2


@inherit_args
class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution of volumes, (N, C, D, H, W) or (C, D, H, W), which enlarges them.

    Example:
        >>> fb.nn.ConvTranspose3d(2, 3, 2, stride=2)(fb.zeros(1, 2, 2, 2, 2)).shape
        flambeau.Size([1, 3, 4, 4, 4])
    """

    _dims = 3


class _LazyConv(LazyModuleMixin, _ConvNd):
    """A convolution that infers in_channels from its first input; it is created with in_channels = groups, to pass the checks."""

    def __init__(self, out_channels: int, kernel_size: Any, **kwargs: Any) -> None:
        bias, device, dtype = kwargs.pop("bias"), kwargs.get("device"), kwargs.get("dtype")
        super().__init__(kwargs["groups"], out_channels, kernel_size, bias=bias, **kwargs)
        self.in_channels = 0
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Reinitializes the parameters once their shape is known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their shape."""
        if not self.has_uninitialized_params():
            return
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ArgumentError(
                f"{type(self).__name__}: expected {self._dims + 1}D or {self._dims + 2}D input, got {tuple(input.shape)}"
            )
        self.in_channels = input.shape[-self._dims - 1]
        if self.in_channels % self.groups:
            raise ArgumentError(
                f"{type(self).__name__}: in_channels must be divisible by groups, got {self.in_channels} and {self.groups}"
            )
        inner, outer = self.in_channels, self.out_channels
        shape = (inner, outer // self.groups) if self.transposed else (outer, inner // self.groups)
        shapes = {"weight": (*shape, *self.kernel_size), "bias": (outer,)}
        for name, parameter in self._parameters.items():
            if isinstance(parameter, UninitializedParameter):
                parameter.materialize(shapes[name])
        self.reset_parameters()


class _LazyConvForward(_LazyConv, _Conv):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, groups=groups, bias=bias,
            padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


class _LazyConvTranspose(_LazyConv, _ConvTransposeNd):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            out_channels, kernel_size, stride=stride, padding=padding, output_padding=output_padding, groups=groups, bias=bias,
            dilation=dilation, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


@inherit_args
class LazyConv1d(_LazyConvForward):
    """A Conv1d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConv1d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = Conv1d
    _dims = 1


@inherit_args
class LazyConv2d(_LazyConvForward):
    """A Conv2d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConv2d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = Conv2d
    _dims = 2


@inherit_args
class LazyConv3d(_LazyConvForward):
    """A Conv3d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConv3d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5, 5, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = Conv3d
    _dims = 3


@inherit_args
class LazyConvTranspose1d(_LazyConvTranspose):
    """A ConvTranspose1d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConvTranspose1d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = ConvTranspose1d
    _dims = 1


@inherit_args
class LazyConvTranspose2d(_LazyConvTranspose):
    """A ConvTranspose2d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConvTranspose2d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = ConvTranspose2d
    _dims = 2


@inherit_args
class LazyConvTranspose3d(_LazyConvTranspose):
    """A ConvTranspose3d that infers in_channels from its first input.

    Example:
        >>> m = fb.nn.LazyConvTranspose3d(3, 3)
        >>> _ = m(fb.zeros(1, 2, 5, 5, 5))
        >>> m.in_channels
        2
    """

    cls_to_become = ConvTranspose3d
    _dims = 3
