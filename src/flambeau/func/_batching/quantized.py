"""Quantized weights: the rows of all examples times one weight; batched weights are converted to float first."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau.func._batching import Frame, rule


def _rows(frame: Frame, arguments: dict[str, Any]) -> list[Any]:
    """The parts of the weight, with the rows of all examples concatenated."""
    parts = [arguments[key] for key in ("weight", "scale", "zero")]
    return [None if x is None else frame.physical(x).flatten(0, 1) for x in parts]


@rule("_nn.dequantize")
def dequantize(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The weights of all examples as floats, batch first: each row is converted separately."""
    rest = [arguments[key] for key in ("format", "group", "columns")]
    return _C.namespaces["_nn"]["dequantize"](*_rows(frame, arguments), *rest).unflatten(0, (frame.size, -1))


@rule("_nn.quantized_linear")
def quantized_linear(frame: Frame, arguments: dict[str, Any]) -> Any:
    """An unbatched weight serves all examples; of a batched one, each example uses its own."""
    bias = arguments["bias"]
    if any(frame.is_batched(arguments[key]) for key in ("weight", "scale", "zero")):
        weight = dequantize(frame, arguments)
        x = frame.physical(arguments["input"])
        vector = x.ndim == 2
        wide = x.unsqueeze(1) if vector else x.flatten(1, -2)
        product = (wide.to(weight.dtype) @ weight.mT).to(x.dtype).reshape(*x.shape[:-1], weight.shape[1])
    else:
        rest = {key: value for key, value in arguments.items() if key not in ("input", "bias")}
        product = _C.namespaces["_nn"]["quantized_linear"](frame.physical(arguments["input"]), **rest, bias=None)
    return product if bias is None else product + frame.aligned(bias, product.ndim - 1)
