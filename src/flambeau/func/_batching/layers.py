"""Rules for pooling, recurrence and losses of the core: the examples become part of the op's own batch."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau._registry import private
from flambeau.func._batching import Frame, call, decomposition, named_rule, rule

# Each with the number of its window dimensions; None: as many as output_size has.
_POOLS: dict[str, int | None] = {
    **{f"{space}max_pool{n}d{tail}": n for space in ("", "nn.functional.") for n in (1, 2, 3) for tail in ("", "_with_indices")},
    "avg_pool1d": 1, "nn.functional.avg_pool2d": 2, "nn.functional.avg_pool3d": 3, "adaptive_avg_pool1d": 1,
    "adaptive_max_pool1d": 1, "_nn.adaptive_avg_pool": None, "_nn.adaptive_max_pool": None, "_nn.max_unpool": None,
    "_nn.fractional_max_pool": None,
}  # fmt: skip


def _split(result: Any, size: int) -> Any:
    """Results whose first dimension holds examples and batch together."""
    if isinstance(result, Tensor):
        return result.unflatten(0, (size, -1) if result.shape[0] else (size, 0))
    return type(result)([_split(part, size) for part in result])


@named_rule(*_POOLS)
def pool(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """An example is (C, …) or (N, C, …): its batch dimension, if any, is merged with the examples."""
    x, n = arguments["input"], _POOLS[name]
    n = len(arguments["output_size"]) if n is None else n
    physical = {key: frame.physical(value) for key, value in arguments.items() if isinstance(value, Tensor)}
    if x.ndim == n + 1:
        return call(name, {**arguments, **physical})
    merged = {key: value.flatten(0, 1) for key, value in physical.items()}
    return _split(call(name, {**arguments, **merged}), frame.size)


@named_rule("_lstm_cell", "_gru_cell", "_cross_entropy")
def rows(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Every tensor has one row per element of an example's batch."""
    merged = {key: frame.physical(value).flatten(0, 1) for key, value in arguments.items() if isinstance(value, Tensor)}
    return _split(call(name, {**arguments, **merged}), frame.size)


@decomposition("_nn.lstm")
def lstm(gates, weight, h, c, reverse):
    """Step by step, since every example may have a weight of its own; gates: (T, N, 4 H)."""
    outputs = []
    steps = range(gates.shape[0])
    for t in reversed(steps) if reverse else steps:
        h, c, _ = private.lstm_cell(gates[t], h @ weight.t(), c)
        outputs.append(h)
    return [fb.stack(outputs[::-1] if reverse else outputs), h, c]


@decomposition("_nn.gru")
def gru(gates, weight, bias, h, reverse):
    """Step by step, as lstm."""
    outputs = []
    steps = range(gates.shape[0])
    for t in reversed(steps) if reverse else steps:
        hidden = h @ weight.t()
        h = private.gru_cell(gates[t], hidden if bias is None else hidden + bias, h)[0]
        outputs.append(h)
    return [fb.stack(outputs[::-1] if reverse else outputs), h]


@decomposition("_nn.batch_norm_relu")
def batch_norm_relu(**arguments):
    """Two layers, each of which has a rule."""
    return call("_nn.batch_norm", arguments).relu()


@decomposition("_squared_error")
def squared_error(input, target):
    """The difference, squared."""
    return (input - target).square()


def _grown(frame: Frame, arguments: dict[str, Any]) -> dict[str, Any]:
    """(N, heads, L, E): the batch dimension is merged with the examples."""
    given = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
    batch, heads = arguments["query"].shape[:2]
    merged = {}
    for key, value in given.items():
        physical = frame.physical(value)
        if key == "mask":
            physical = physical.expand((frame.size, batch, heads if value.shape[1] > 1 else 1, *value.shape[2:]))
        merged[key] = physical.flatten(0, 1)
    return {**arguments, **merged}


@rule("_attention")
def attention(frame: Frame, arguments: dict[str, Any]) -> Any:
    return _split(call("_attention", _grown(frame, arguments)), frame.size)


@rule("_attention_backward")
def attention_backward(frame: Frame, arguments: dict[str, Any]) -> Any:
    return _split(call("_attention_backward", _grown(frame, arguments)), frame.size)


@rule("_ctc_loss")
def ctc_loss(frame: Frame, arguments: dict[str, Any]) -> Any:
    """log_probs (T, N, C), targets (N, S) or in one row: the lengths are those of each example's batch, again for every example."""
    scores, targets, size = frame.physical(arguments["log_probs"]), arguments["targets"], frame.size
    new = {
        **arguments, "log_probs": scores.movedim(0, 1).flatten(1, 2), "targets": frame.physical(targets).flatten(0, 1),
        "input_lengths": tuple(arguments["input_lengths"]) * size, "target_lengths": tuple(arguments["target_lengths"]) * size,
    }  # fmt: skip
    return _split(call("_ctc_loss", new), size)
