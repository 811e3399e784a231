"""Layers whose weights are stored as small integers (flambeau.quantization)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.sparse import Embedding
from flambeau.nn.parameter import Parameter
from flambeau.quantization import FORMATS, QuantizedTensor, quantize

__all__ = ["QuantizedEmbedding", "QuantizedLinear"]
__dir__ = __all__.copy


class _Quantized(Module):
    """Stores a QuantizedTensor in buffers: `weight`, `scale`, `zero`, and its format's number in `format_code`."""

    weight: Tensor
    scale: Tensor | None
    zero: Tensor | None
    format_code: Tensor

    def _keep(self, weight: QuantizedTensor) -> None:
        if weight.ndim != 2:
            raise ArgumentError(f"{type(self).__name__}: expected a matrix, got shape {tuple(weight.shape)}")
        self.format, self.group_size = weight.format, weight.group_size
        self.register_buffer("weight", weight.data)
        self.register_buffer("scale", weight.scale)
        self.register_buffer("zero", weight.zero)
        # GGUF formats can have rows of the same length: the state dict distinguishes them.
        self.register_buffer("format_code", fb.tensor(list(FORMATS).index(weight.format), dtype=fb.uint8))

    def quantized_weight(self) -> QuantizedTensor:
        """The weight with its scales."""
        return QuantizedTensor(self.weight, self.format, self.scale, self.zero, self.group_size)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Moves with the model, but integers and scales keep their dtypes.
        dtypes = {name: buffer.dtype for name, buffer in self._buffers.items() if buffer is not None}
        kept = {name: self._buffers[name] for name in dtypes}
        super()._apply(fn, recurse)
        for name, dtype in dtypes.items():
            moved, old = self._buffers[name], kept[name]
            assert moved is not None and old is not None
            if moved.dtype != dtype:
                self._buffers[name] = old.to(moved.device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        code = state_dict.get(f"{prefix}format_code")
        if code is not None and not code.is_meta and not self.format_code.is_meta and int(code) != int(self.format_code):
            names = list(FORMATS)
            found = names[int(code)] if int(code) < len(names) else f"number {int(code)}"
            raise ArgumentError(
                f"load_state_dict: '{prefix}weight' has the format {found}, the {type(self).__name__} has {self.format}; "
                f"make the module with format={found!r}"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _described(self) -> str:
        return f"format={self.format}" + (f", group_size={self.group_size}" if self.group_size else "")


def _zeros(rows: int, columns: int, format: str, group_size: int | None, device: Device) -> QuantizedTensor:
    """A weight of zeros, to be filled by load_state_dict()."""
    if format in ("int8", "int4"):
        return quantize(fb.zeros(rows, columns), format, group_size).to(device or "cpu")
    if format not in FORMATS:
        raise ArgumentError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    numbers, size = FORMATS[format]
    if columns % numbers or group_size:
        raise ArgumentError(
            f"{format} has blocks of {numbers} numbers, and scales among them; got rows of {columns} and group_size {group_size}"
        )
    return QuantizedTensor(fb.zeros(rows, columns // numbers * size, dtype=fb.uint8, device=device), format)


class QuantizedLinear(_Quantized):
    """x · weightᵀ + bias with a weight stored as small integers.

    The integers are read directly and multiplied with x in one pass; the weight is never converted as a whole.
    Gradients reach x and the bias, not the weight.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether to add a bias.
        format: a key of quantization.FORMATS.
        group_size: how many numbers of a row share a scale, for "int8" and "int4"; see quantization.quantize().
        dynamic: round the rows of the input to int8 too; needs "int8" without groups.
        device: device of the buffers.
        dtype: dtype of the bias.

    Example:
        >>> layer = fb.nn.QuantizedLinear.from_float(fb.nn.Linear(64, 3), "int8")
        >>> layer(fb.zeros(5, 64)).shape
        flambeau.Size([5, 3])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, format: str = "int8", group_size: int | None = None,
        dynamic: bool = False, device: Device = None, dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fill(
            _zeros(out_features, in_features, format, group_size, device),
            Parameter(fb.zeros(out_features, device=device, dtype=dtype)) if bias else None,
            dynamic,
        )

    def _fill(self, weight: QuantizedTensor, bias: Tensor | None, dynamic: bool) -> None:
        if dynamic and (weight.format != "int8" or weight.group_size):
            raise ArgumentError(f"QuantizedLinear: dynamic needs 'int8' without groups, got {weight}")
        self.out_features, self.in_features = weight.shape
        self.dynamic = dynamic
        self._keep(weight)
        self.register_parameter("bias", bias if bias is None or isinstance(bias, Parameter) else Parameter(bias))

    @classmethod
    def from_weight(cls, weight: QuantizedTensor, bias: Tensor | None = None, dynamic: bool = False) -> Self:
        """A layer around a weight, which is not copied."""
        made = cls.__new__(cls)
        Module.__init__(made)
        made._fill(weight, bias, dynamic)
        return made

    @classmethod
    def from_float(cls, layer: Linear, format: str = "int8", group_size: int | None = None, dynamic: bool = False) -> Self:
        """A layer with a Linear's weights, rounded to the format, and its bias."""
        return cls.from_weight(quantize(layer.weight, format, group_size), layer.bias, dynamic)

    def forward(self, input: Tensor) -> Tensor:
        kept = self._buffers  # looked up directly: this runs for every layer and token
        return _linear(
            input, kept["weight"], kept["scale"], kept["zero"], self.format, self.group_size, self.in_features,
            self._parameters["bias"], self.dynamic,
        )  # fmt: skip

    def extra_repr(self) -> str:
        dynamic = ", dynamic=True" if self.dynamic else ""
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}, {self._described()}{dynamic}"


class QuantizedEmbedding(_Quantized):
    """A lookup table of vectors stored as small integers.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of a row.
        padding_idx: kept for its users: the table is not trained.
        format: a key of quantization.FORMATS.
        group_size: as in QuantizedLinear.
        device: device of the buffers.
        dtype: dtype of the result.

    Example:
        >>> layer = fb.nn.QuantizedEmbedding.from_float(fb.nn.Embedding(10, 32), "int8")
        >>> layer(fb.tensor([[1, 2]])).shape
        flambeau.Size([1, 2, 32])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, format: str = "int8",
        group_size: int | None = None, device: Device = None, dtype: fb.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fill(_zeros(num_embeddings, embedding_dim, format, group_size, device), padding_idx, dtype)

    def _fill(self, weight: QuantizedTensor, padding_idx: int | None, dtype: fb.dtype | None) -> None:
        self._result: Tensor
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = padding_idx
        self._keep(weight)
        # An empty tensor that .to(dtype) converts, like floating point parameters of other layers.
        self.register_buffer("_result", fb.empty(0, dtype=dtype or fb.get_default_dtype()), persistent=False)

    @classmethod
    def from_weight(cls, weight: QuantizedTensor, padding_idx: int | None = None, dtype: fb.dtype | None = None) -> Self:
        """A table around a weight, which is not copied."""
        made = cls.__new__(cls)
        Module.__init__(made)
        made._fill(weight, padding_idx, dtype)
        return made

    @classmethod
    def from_float(cls, layer: Embedding, format: str = "int8", group_size: int | None = None) -> Self:
        """A table with an Embedding's numbers, rounded to the format."""
        if layer.max_norm is not None:
            raise ArgumentError("QuantizedEmbedding: an Embedding with max_norm changes its table when used; expected max_norm=None")
        return cls.from_weight(quantize(layer.weight, format, group_size), layer.padding_idx, layer.weight.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        result = fn(self._result)
        super()._apply(fn, recurse)
        self._buffers["_result"] = result
        return self

    def forward(self, input: Tensor) -> Tensor:
        return self.quantized_weight().rows(input, self._result.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._described()}"


_linear = fb._C.namespaces["_nn"]["quantized_linear"]
