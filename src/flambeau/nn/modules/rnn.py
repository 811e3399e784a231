"""Recurrent layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules._recurrence import State, Step, backwards, forwards, gru_step, lstm_step, rnn_step, whole_layer
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]
__dir__ = __all__.copy

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Parameters and loops of RNN, LSTM and GRU.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: number of stacked layers.
        bias: whether to add learned biases.
        batch_first: whether tensors are (N, L, features) instead of (L, N, features).
        dropout: dropout probability between the layers during training.
        bidirectional: whether to add a second pass in the reverse direction.
        proj_size: size of the projected state, for LSTM.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> isinstance(fb.nn.LSTM(2, 3), fb.nn.RNNBase)
        True
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _GATES:
            raise ValueError(f"{name}: unrecognized RNN mode: {mode}")
        if not isinstance(dropout, float | int) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout should be a number in range [0, 1], got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout acts after all but the last layer, so dropout={dropout} has no effect with num_layers=1",
                stacklevel=3,
            )
        for option, value, wanted in (
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
            ("num_layers", num_layers, int),
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
        ):
            if not isinstance(value, wanted):
                raise TypeError(f"{name}: {option} should be of type {wanted.__name__}, got: {type(value).__name__}")
            if wanted is int and value <= 0:
                raise ValueError(f"{name}: {option} must be greater than zero, got {value}")
        if proj_size < 0 or proj_size >= hidden_size:
            raise ValueError(
                f"{name}: proj_size must be at least 0 and smaller than hidden_size {hidden_size}, got {proj_size}"
            )
        if proj_size and mode != "LSTM":
            raise ValueError(f"{name}: proj_size is for LSTM only, got {proj_size}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size

        gates = _GATES[mode] * hidden_size
        state_size = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        for layer, suffix in self._places():
            features = input_size if layer == 0 else state_size * directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, features), "weight_hh": (gates, state_size)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for kind, shape in shapes.items():
                setattr(self, f"{kind}_{suffix}", Parameter(fb.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _places(self) -> Iterator[tuple[int, str]]:
        """Layers and directions, with the suffix of their parameters' names."""
        for layer in range(self.num_layers):
            yield layer, f"l{layer}"
            if self.bidirectional:
                yield layer, f"l{layer}_reverse"

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-1/√hidden_size, 1/√hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: parameters need not lie in one piece of memory here.

        Example:
            >>> fb.nn.LSTM(2, 3).flatten_parameters()
        """

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[p for _, p in self._of_place(suffix)] for _, suffix in self._places()]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [parameter for place in self.all_weights for parameter in place]

    def _of_place(self, suffix: str) -> Iterator[tuple[str, Parameter]]:
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"):
            if hasattr(self, f"{kind}_{suffix}"):
                yield kind, getattr(self, f"{kind}_{suffix}")

    def _step(self, weights: Mapping[str, Tensor]) -> Step:
        hidden, bias = weights["weight_hh"], weights.get("bias_hh")
        if self.mode == "LSTM":
            return lstm_step(hidden, bias, weights.get("weight_hr"))
        if self.mode == "GRU":
            return gru_step(hidden, bias)
        return rnn_step(hidden, bias, fb.tanh if self.mode == "RNN_TANH" else fb.relu)

    def _run_place(
        self, rows: Tensor, weights: dict[str, Parameter], sizes: list[int], start: State, reverse: bool
    ) -> tuple[Tensor, State]:
        """One layer in one direction."""
        whole = whole_layer(self.mode, rows, weights, sizes, start, reverse)
        if whole is not None:
            return whole
        gates = F.linear(rows, weights["weight_ih"], weights.get("bias_ih"))
        return (backwards if reverse else forwards)(self._step(weights), gates, sizes, start)

    def _run(self, rows: Tensor, sizes: list[int], start: State) -> tuple[Tensor, State]:
        """All layers over packed rows; start and the returned state are (layers · directions, N, size) each."""
        ends: list[State] = []
        directions = 2 if self.bidirectional else 1
        outputs: list[Tensor] = []
        for place, (layer, suffix) in enumerate(self._places()):
            weights = dict(self._of_place(suffix))
            output, end = self._run_place(
                rows, weights, sizes, tuple(s[place] for s in start), bool(place % directions)
            )
            outputs.append(output)
            ends.append(end)
            if len(outputs) == directions:
                rows = outputs[0] if directions == 1 else fb.cat(outputs, 1)
                outputs = []
                if self.dropout and layer < self.num_layers - 1:
                    rows = F.dropout(rows, self.dropout, self.training)
        return rows, tuple(fb.stack([end[i] for end in ends]) for i in range(len(start)))

    # ---- shapes --------------------------------------------------------------------------------------------------------

    def _expected_state(self, batch: int) -> tuple[tuple[int, int, int], ...]:
        places = self.num_layers * (2 if self.bidirectional else 1)
        shapes = ((places, batch, self.proj_size or self.hidden_size),)
        return (*shapes, (places, batch, self.hidden_size)) if self.mode == "LSTM" else shapes

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape that h_0 must have."""
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return self._expected_state(batch)[0]

    def _start(self, given: Any, batch: int, like: Tensor, batched: bool) -> State:
        """The initial state: the given one, checked, or zeros."""
        shapes = self._expected_state(batch)
        if given is None:
            return tuple(fb.zeros(shape, dtype=like.dtype, device=like.device) for shape in shapes)
        state = tuple(given) if self.mode == "LSTM" else (given,)
        if len(state) != len(shapes):
            raise ArgumentError(f"{type(self).__name__}: expected hx to be a pair (h_0, c_0), got {len(state)} tensors")
        for name, tensor, shape in zip(("h_0", "c_0"), state, shapes, strict=False):
            expected = shape if batched else (shape[0], shape[2])
            if tuple(tensor.shape) != expected:
                raise ArgumentError(
                    f"{type(self).__name__}: Expected hidden state {name} of size {expected}, got {tuple(tensor.shape)}"
                )
        return state if batched else tuple(s.unsqueeze(1) for s in state)

    def _check_features(self, input: Tensor) -> None:
        if not input.is_floating_point() or input.dtype != self.weight_ih_l0.dtype:
            raise ArgumentError(
                f"{type(self).__name__}: RNN input dtype {input.dtype} does not match weight dtype {self.weight_ih_l0.dtype}. "
                f"Convert input: input.to({self.weight_ih_l0.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise ArgumentError(
                f"{type(self).__name__}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ArgumentError(f"{type(self).__name__}: expected input to be 2D or 3D, got {input.ndim}D instead")
        self._check_features(input)
        batched = input.ndim == 3
        steps = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            steps = steps.transpose(0, 1)
        length, batch, _ = steps.shape
        if length == 0:
            raise ArgumentError(f"{type(self).__name__}: expected sequence length to be larger than 0")
        rows, end = self._run(
            steps.reshape(length * batch, steps.shape[2]), [batch] * length, self._start(hx, batch, input, batched)
        )
        output = rows.view(length, batch, rows.shape[1])
        if not batched:
            return output.squeeze(1), self._state_as_given(tuple(s.squeeze(1) for s in end))
        return output.transpose(0, 1) if self.batch_first else output, self._state_as_given(end)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, back = input
        self._check_features(data)
        sizes = batch_sizes.tolist()
        start = self._start(hx, sizes[0], data, True)
        if hx is not None and order is not None:
            start = tuple(s.index_select(1, order) for s in start)
        rows, end = self._run(data, sizes, start)
        if back is not None:
            end = tuple(s.index_select(1, back) for s in end)
        return PackedSequence(rows, batch_sizes, order, back), self._state_as_given(end)

    def _state_as_given(self, state: State) -> Any:
        return state if self.mode == "LSTM" else state[0]

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its sequences in another order."""
        if permutation is None:
            return hx
        if self.mode == "LSTM":
            return tuple(h.index_select(1, permutation) for h in hx)
        return hx.index_select(1, permutation)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return text + f", bidirectional={self.bidirectional}" if self.bidirectional is not False else text


class RNN(RNNBase):
    """h' = tanh(W x + b + W' h + b') over a sequence.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: number of stacked layers.
        nonlinearity: "tanh" or "relu".
        bias: whether to add learned biases.
        batch_first: whether tensors are (N, L, features) instead of (L, N, features).
        dropout: dropout probability between the layers during training.
        bidirectional: whether to add a second pass in the reverse direction.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> output, h = fb.nn.RNN(2, 3)(fb.zeros(5, 4, 2))
        >>> output.shape, h.shape
        (flambeau.Size([5, 4, 3]), flambeau.Size([1, 4, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


@inherit_args
class LSTM(RNNBase):
    """Long short-term memory over a sequence.

    Example:
        >>> output, (h, c) = fb.nn.LSTM(2, 3, batch_first=True)(fb.zeros(4, 5, 2))
        >>> output.shape, h.shape, c.shape
        (flambeau.Size([4, 5, 3]), flambeau.Size([1, 4, 3]), flambeau.Size([1, 4, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
        )  # fmt: skip

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape that c_0 must have."""
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return self._expected_state(batch)[1]


@inherit_args
class GRU(RNNBase):
    """Gated recurrent units over a sequence.

    Example:
        >>> output, h = fb.nn.GRU(2, 3, num_layers=2)(fb.zeros(5, 4, 2))
        >>> output.shape, h.shape
        (flambeau.Size([5, 4, 3]), flambeau.Size([2, 4, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Device = None, dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip


# ---- single steps ------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """Parameters of a single step.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add learned biases.
        num_chunks: number of gates.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> isinstance(fb.nn.GRUCell(2, 3), fb.nn.RNNCellBase)
        True
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        shapes = {
            "weight_ih": (gates, input_size),
            "weight_hh": (gates, hidden_size),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
        }
        for name, shape in shapes.items():
            wanted = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(fb.empty(shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-1/√hidden_size, 1/√hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _check_state(self, name: str, state: Tensor, expected: tuple[int, ...]) -> None:
        if tuple(state.shape) == expected:
            return
        if state.ndim not in (1, 2):
            why = f"Expected {name} to be 1D or 2D, got {state.ndim}D instead"
        elif state.shape[-1] != self.hidden_size:
            why = f"hidden0 has inconsistent hidden_size: got {state.shape[-1]}, expected {self.hidden_size}"
        elif state.ndim == len(expected):
            why = f"Input batch size {expected[0]} doesn't match hidden0 batch size {state.shape[0]}"
        else:
            why = f"hidden state must be {expected}, got {tuple(state.shape)}"
        raise ArgumentError(f"{type(self).__name__}: {why}")

    def _advance(self, step: Step, input: Tensor, state: Any, parts: int) -> State:
        """One step for (N, input_size) or (input_size,); the state is zeros if none is given."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ArgumentError(f"{name}: expected input to be 1D or 2D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise ArgumentError(
                f"{name}: input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}"
            )
        rows = input if input.ndim == 2 else input.unsqueeze(0)
        shape = (rows.shape[0], self.hidden_size)
        if state is None:
            state = tuple(fb.zeros(shape, dtype=input.dtype, device=input.device) for _ in range(parts))
        else:
            for i, s in enumerate(state):
                self._check_state("hidden" if parts == 1 else f"hx[{i}]", s, shape[2 - input.ndim :])
            state = tuple(s if input.ndim == 2 else s.unsqueeze(0) for s in state)
        state = step(F.linear(rows, self.weight_ih, self.bias_ih), state)
        return state if input.ndim == 2 else tuple(s.squeeze(0) for s in state)


class RNNCell(RNNCellBase):
    """h' = tanh(W x + b + W' h + b').

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add learned biases.
        nonlinearity: "tanh" or "relu".
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> fb.nn.RNNCell(2, 3)(fb.zeros(4, 2)).shape
        flambeau.Size([4, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNNCell: unknown nonlinearity: {self.nonlinearity}")
        activation = fb.tanh if self.nonlinearity == "tanh" else fb.relu
        step = rnn_step(self.weight_hh, self.bias_hh, activation)
        return self._advance(step, input, None if hx is None else (hx,), 1)[0]


@inherit_args
class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Example:
        >>> h, c = fb.nn.LSTMCell(2, 3)(fb.zeros(4, 2))
        >>> h.shape, c.shape
        (flambeau.Size([4, 3]), flambeau.Size([4, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: fb.dtype | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._advance(lstm_step(self.weight_hh, self.bias_hh), input, hx, 2)  # type: ignore[return-value]  # two parts were asked for


@inherit_args
class GRUCell(RNNCellBase):
    """One step of a GRU.

    Example:
        >>> fb.nn.GRUCell(2, 3)(fb.zeros(4, 2)).shape
        flambeau.Size([4, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: fb.dtype | None = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._advance(gru_step(self.weight_hh, self.bias_hh), input, None if hx is None else (hx,), 1)[0]
