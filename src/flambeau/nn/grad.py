"""Gradients of convolutions with respect to their input and weight, as functions.

Example:
    >>> g = fb.nn.grad.conv1d_weight(fb.ones(1, 1, 4), (1, 1, 2), fb.ones(1, 1, 3))
    >>> g
    tensor([[[3., 3.]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
__dir__ = __all__.copy


def _gradient(spatial: int, of: str, sizes: Sequence[int], other: Tensor, grad_output: Tensor, window: tuple[Any, ...]) -> Tensor:
    """The gradient of `of` ("input" or "weight"), whose shape is `sizes`, for a convolution with the other tensor."""
    op = f"conv{spatial}d_{of}"
    if len(sizes) != spatial + 2:
        raise ArgumentError(f"{op}: {of}_size must have {spatial + 2} numbers, got {tuple(sizes)}")
    # The gradient does not depend on the values of its own tensor.
    place = fb.zeros(tuple(sizes), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
    convolve = getattr(fb.nn.functional, f"conv{spatial}d")
    with fb.enable_grad():
        stride, padding, dilation, groups = window
        pair = (place, other) if of == "input" else (other, place)
        result = convolve(*pair, None, stride, padding, dilation, groups)
    if result.shape != grad_output.shape:
        raise ArgumentError(
            f"{op}: expected grad_output of shape {tuple(result.shape)} for these sizes, got {tuple(grad_output.shape)}"
        )
    # Recorded only if higher-order gradients may be requested.
    record = fb.is_grad_enabled() and (grad_output.requires_grad or other.requires_grad)
    return fb.autograd.grad(result, place, grad_output, create_graph=record)[0]


def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of convolution() with respect to input, weight and bias, None where output_mask says so (an op of `ops.aten`)."""
    record = fb.is_grad_enabled() and any(t.requires_grad for t in (grad_output, input, weight))
    with fb.enable_grad():
        places = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in (input, weight)]
        result = fb.convolution(places[0], places[1], None, stride, padding, dilation, transposed, output_padding, groups)
    asked = [place for place, wanted in zip(places, output_mask[:2], strict=True) if wanted]
    grads = iter(fb.autograd.grad(result, asked, grad_output, create_graph=record) if asked else ())
    others = [d for d in range(grad_output.dim()) if d != grad_output.dim() - weight.dim() + 1]
    bias = grad_output.sum(others) if output_mask[2] else None
    return (next(grads) if output_mask[0] else None, next(grads) if output_mask[1] else None, bias)


_ARGS = """
    Args:
        {first}
        grad_output: the gradient of the result.
        stride: step of the window.
        padding: zeros on each side.
        dilation: distance between the taps of the window.
        groups: how many groups of channels are convolved apart.

    Example:
        >>> {example}
        {shown}
"""
_FIRST = {
    "input": "input_size: shape of the input.\n        weight: the weight.",
    "weight": "input: the input.\n        weight_size: shape of the weight.",
}


def _input_gradient(spatial: int) -> Any:
    def function(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Tensor:
        return _gradient(spatial, "input", input_size, weight, grad_output, (stride, padding, dilation, groups))

    return _described(function, spatial, "input")


def _weight_gradient(spatial: int) -> Any:
    def function(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Tensor:
        return _gradient(spatial, "weight", weight_size, input, grad_output, (stride, padding, dilation, groups))

    return _described(function, spatial, "weight")


def _described(function: Any, spatial: int, of: str) -> Any:
    small, large = "1, 1" + ", 1" * spatial, "1, 1" + ", 2" * spatial
    tensors = f"({large}), fb.ones({small}), fb.ones({large})" if of == "input" else f"fb.ones({large}), ({small}), fb.ones({large})"
    name = f"conv{spatial}d_{of}"
    example = f"fb.nn.grad.{name}({tensors}).shape"
    shown = f"flambeau.Size([{large if of == 'input' else small}])"
    head = f"The gradient of conv{spatial}d with respect to its {of}.\n"
    function.__doc__ = head + _ARGS.format(first=_FIRST[of], example=example, shown=shown)
    function.__name__ = function.__qualname__ = name
    return function


conv1d_input, conv2d_input, conv3d_input = (_input_gradient(spatial) for spatial in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (_weight_gradient(spatial) for spatial in (1, 2, 3))
