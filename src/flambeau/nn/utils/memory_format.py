"""The order of a convolution's weights in memory."""

from __future__ import annotations

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]
__dir__ = __all__.copy


def _convert(module: Any, memory_format: Any, ndim: int) -> Any:
    names = {"Conv2d", "ConvTranspose2d"} if ndim == 4 else {"Conv3d", "ConvTranspose3d"}
    for part in module.modules():
        if any(kind.__name__ in names for kind in type(part).__mro__):
            part.weight.data = part.weight.data.contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Converts the weights of all 2-d convolutions of a module.

    Args:
        module: the module.
        memory_format: for example fb.channels_last.

    Example:
        >>> fb.nn.utils.convert_conv2d_weight_memory_format(fb.nn.ReLU(), fb.channels_last)
        ReLU()
    """
    return _convert(module, memory_format, 4)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Converts the weights of all 3-d convolutions of a module.

    Args:
        module: the module.
        memory_format: for example fb.channels_last_3d.

    Example:
        >>> fb.nn.utils.convert_conv3d_weight_memory_format(fb.nn.ReLU(), fb.channels_last_3d)
        ReLU()
    """
    return _convert(module, memory_format, 5)
