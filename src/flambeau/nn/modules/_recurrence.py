"""The computation of recurrent layers, step by step.

Sequences are packed: the concatenated rows of all steps, with the number of rows of each step, which never increases. A
padded batch is the case where all steps have the same number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.nn import functional as F
from flambeau.nn.functional._common import in_core

_core = fb._C.namespaces["_nn"]

State = tuple[Tensor, ...]
# maps (the inputs' contribution to the gates, the state) to the new state
Step = Callable[[Tensor, State], State]


def rnn_step(weight: Tensor, bias: Tensor | None, activation: Callable[[Tensor], Tensor]) -> Step:
    """h' = activation(W x + b + W' h + b')."""

    def step(x: Tensor, state: State) -> State:
        return (activation(x + F.linear(state[0], weight, bias)),)

    return step


def lstm_step(weight: Tensor, bias: Tensor | None, projection: Tensor | None = None) -> Step:
    """c' = f · c + i · g and h' = o · tanh(c'), with the gates i, f, g, o; h' is projected if a projection matrix is given."""

    def step(x: Tensor, state: State) -> State:
        h, c = state
        hidden = F.linear(h, weight, bias)
        if in_core(x, hidden, c):
            h, c, _ = private.lstm_cell(x, hidden, c)
        else:
            i, f, g, o = (x + hidden).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return (h if projection is None else F.linear(h, projection), c)

    return step


def gru_step(weight: Tensor, bias: Tensor | None) -> Step:
    """h' = (1 - z) · n + z · h, with n = tanh(W x + r · (W' h)) and the gates r and z."""

    def step(x: Tensor, state: State) -> State:
        h = state[0]
        hidden = F.linear(h, weight, bias)
        if in_core(x, hidden, h):
            return (private.gru_cell(x, hidden, h)[0],)
        xr, xz, xn = x.chunk(3, 1)
        hr, hz, hn = hidden.chunk(3, 1)
        z = (xz + hz).sigmoid()
        n = (xn + (xr + hr).sigmoid() * hn).tanh()
        return (n + z * (h - n),)

    return step


def forwards(step: Step, gates: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """All steps from first to last: the outputs, packed, and the last state of each sequence."""
    outputs, ended = [], []
    for n, x in zip(sizes, gates.split(sizes), strict=True):
        if n < state[0].shape[0]:  # shorter sequences have ended
            ended.append(tuple(s[n:] for s in state))
            state = tuple(s[:n] for s in state)
        state = step(x, state)
        outputs.append(state[0])
    if ended:
        state = tuple(fb.cat([s, *(e[i] for e in reversed(ended))]) for i, s in enumerate(state))
    return fb.cat(outputs), state


def backwards(step: Step, gates: Tensor, sizes: list[int], start: State) -> tuple[Tensor, State]:
    """All steps from last to first; a sequence begins at its own last step."""
    outputs = []
    state = tuple(s[: sizes[-1]] for s in start)
    for n, x in zip(reversed(sizes), reversed(gates.split(sizes)), strict=True):
        have = state[0].shape[0]
        if n > have:
            state = tuple(fb.cat([s, s0[have:n]]) for s, s0 in zip(state, start, strict=True))
        state = step(x, state)
        outputs.append(state[0])
    return fb.cat(outputs[::-1]), state


def whole_layer(
    mode: str, rows: Tensor, weights: Mapping[str, Tensor], sizes: list[int], start: State, reverse: bool
) -> tuple[Tensor, State] | None:
    """All steps in one op of the core, if all sequences are equally long; None if there is no such op."""
    if mode not in ("LSTM", "GRU") or "weight_hr" in weights or sizes[0] != sizes[-1]:
        return None
    if not in_core(rows, *start, *weights.values()):
        return None
    bias, hidden_bias = weights.get("bias_ih"), weights.get("bias_hh")
    if mode == "LSTM" and bias is not None and hidden_bias is not None:
        bias = bias + hidden_bias
    gates = F.linear(rows, weights["weight_ih"], bias)
    if gates.dtype != start[0].dtype:  # autocast
        return None
    gates = gates.view(len(sizes), sizes[0], gates.shape[1])
    if mode == "LSTM":
        output, *end = _core["lstm"](gates, weights["weight_hh"], *start, reverse)
    else:
        output, *end = _core["gru"](gates, weights["weight_hh"], hidden_bias, *start, reverse)
    return output.flatten(0, 1), tuple(end)
