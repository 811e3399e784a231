"""The rule for convolution: examples become part of the batch, of the channels, or of the groups."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import ArgumentError
from flambeau.func._batching import Frame, decomposition, rule


@rule("convolution")
def convolution(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Shapes of an example: input (N, C, …), weight (O, C/groups, …) or, transposed, (C, O/groups, …), bias (O,)."""
    x, weight, bias = (arguments[key] for key in ("input", "weight", "bias"))
    if x.ndim != weight.ndim:
        raise ArgumentError(f"convolution: the input has {x.ndim} dimensions, the weight {weight.ndim}; expected the same inside vmap")
    settings = {key: value for key, value in arguments.items() if key not in ("input", "weight", "bias", "groups")}
    groups = arguments["groups"]

    def run(x: Tensor, weight: Tensor, groups: int) -> Tensor:
        return fb.convolution(x, weight, None, **settings, groups=groups)

    if not frame.is_batched(weight):
        if frame.is_batched(x):
            result = run(x.physical.flatten(0, 1), weight, groups).unflatten(0, (frame.size, x.shape[0]))
        else:
            result = run(x, weight, groups).unsqueeze(0)
    elif frame.is_batched(x):
        # Every example has its own channels and groups.
        wide = x.physical.transpose(0, 1).flatten(1, 2)
        result = run(wide, weight.physical.flatten(0, 1), frame.size * groups)
        result = result.unflatten(1, (frame.size, -1)).transpose(0, 1)
    else:
        result = run(x, _more_outputs(weight.physical, groups, settings["transposed"]), groups)
        # Output channels are (group, example, channel of the group).
        result = result.unflatten(1, (groups, frame.size, -1)).movedim(2, 0).flatten(2, 3)
    if bias is None:
        return result
    shape = (*bias.shape, *(1,) * (x.ndim - 2))
    ready = bias.physical.reshape((frame.size, 1, *shape)) if frame.is_batched(bias) else bias.reshape(shape)
    return result + ready


def _more_outputs(weight: Tensor, groups: int, transposed: bool) -> Tensor:
    """One weight whose output channels are those of all examples, in the order (group, example, channel of the group)."""
    if transposed:
        return weight.transpose(0, 1).flatten(1, 2)
    return weight.unflatten(1, (groups, -1)).transpose(0, 1).flatten(0, 2)


def _spatial(n: int, transposed: bool) -> None:
    """conv1d and others are convolution with other argument names."""

    @decomposition(f"conv_transpose{n}d" if transposed else f"conv{n}d")
    def convolve(input, weight, bias, stride, padding, dilation, groups, output_padding=(0,)):
        x = input.unsqueeze(0) if input.ndim == n + 1 else input
        if isinstance(padding, str):
            gaps = dilation if len(dilation) == n else tuple(dilation) * n
            totals = [g * (k - 1) if padding == "same" else 0 for g, k in zip(gaps, weight.shape[2:], strict=True)]
            if any(t % 2 for t in totals):
                x = fb.constant_pad_nd(x, [side for t in reversed(totals) for side in (0, t % 2)])
            padding = [t // 2 for t in totals]
        result = fb.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return result.squeeze(0) if input.ndim == n + 1 else result


for _n in (1, 2, 3):
    _spatial(_n, False)
    _spatial(_n, True)
