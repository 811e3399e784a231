"""Weights stored as small integers with scales, and products that read them directly.

Example:
    >>> model = fb.nn.Sequential(fb.nn.Linear(64, 32), fb.nn.ReLU(), fb.nn.Linear(32, 8))
    >>> fb.quantize_(model, "int8")
    >>> model[0]
    QuantizedLinear(in_features=64, out_features=32, bias=True, format=int8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["FORMATS", "QuantizedTensor", "quantize", "quantize_"]
__dir__ = __all__.copy

_core = fb._C.namespaces["_nn"]
_GROUPS = (32, 64, 128)

# Numbers and bytes per block. int8 and int4 have scales in separate tensors; the others are GGUF's formats.
FORMATS: dict[str, tuple[int, int]] = {
    "int8": (1, 1), "int4": (2, 1), "q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24),
    "q2_k": (256, 84), "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210),
}  # fmt: skip


class QuantizedTensor:
    """A matrix (or a stack of them) of numbers that are kept as small integers with scales.

    Args:
        data: the bytes, one row after the other: int8 for "int8", else uint8.
        format: a key of FORMATS.
        scale: for "int8" and "int4", what the integers are multiplied with: bfloat16 of shape (rows, columns /
            group_size), or float32 of shape (rows,) without groups.
        zero: for "int4", what is subtracted from the products, like scale.
        group_size: how many numbers of a row share a scale: 32, 64, 128, or 0 for all of them.

    Example:
        >>> w = fb.quantization.quantize(fb.tensor([[1.0, -2.0, 0.5]]), "int8")
        >>> w, w.nbytes
        (QuantizedTensor(shape=(1, 3), format='int8'), 7)
        >>> w.dequantize()
        tensor([[ 1.0079, -2.0000,  0.5039]])
    """

    def __init__(
        self, data: Tensor, format: str, scale: Tensor | None = None, zero: Tensor | None = None, group_size: int = 0
    ) -> None:
        if format not in FORMATS:
            raise ArgumentError(f"QuantizedTensor: unknown format {format!r}; expected one of {', '.join(FORMATS)}")
        if data.ndim < 1:
            raise ArgumentError("QuantizedTensor: expected data with at least one dim, got a 0-d tensor")
        numbers, size = FORMATS[format]
        if data.shape[-1] % size:
            raise ArgumentError(f"QuantizedTensor: rows of {data.shape[-1]} bytes are not whole blocks of {size} bytes of {format}")
        self.data, self.format, self.scale, self.zero, self.group_size = data, format, scale, zero, group_size
        self.shape = fb.Size((*data.shape[:-1], data.shape[-1] // size * numbers))

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def dtype(self) -> fb.dtype:
        """The dtype of dequantize() by default."""
        return fb.float32

    @property
    def device(self) -> fb.device:
        """The device of the bytes."""
        return self.data.device

    @property
    def nbytes(self) -> int:
        """Its size in bytes, scales included."""
        return sum(part.numel() * part.itemsize for part in (self.data, self.scale, self.zero) if part is not None)

    def numel(self) -> int:
        """The number of weights."""
        return self.shape.numel()

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        return self.shape if dim is None else self.shape[dim]

    def _arguments(self, data: Tensor, scale: Tensor | None, zero: Tensor | None) -> tuple[Any, ...]:
        return data, scale, zero, self.format, self.group_size, self.shape[-1]

    def dequantize(self, dtype: fb.dtype = fb.float32) -> Tensor:
        """The numbers as a plain tensor."""
        rows = self.data.reshape(fb.Size(self.data.shape[:-1]).numel(), self.data.shape[-1])
        return _core["dequantize"](*self._arguments(rows, self.scale, self.zero)).reshape(self.shape).to(dtype)

    def linear(self, input: Tensor, bias: Tensor | None = None) -> Tensor:
        """input · selfᵀ + bias, for a matrix. Gradients reach input and bias."""
        return _core["quantized_linear"](input, *self._arguments(self.data, self.scale, self.zero), bias)

    def rows(self, index: Tensor, dtype: fb.dtype = fb.float32) -> Tensor:
        """The rows of a matrix at these indices, as an embedding looks them up."""
        if self.ndim != 2:
            raise ArgumentError(f"rows: expected a matrix, got shape {tuple(self.shape)}")
        flat = index.reshape(-1)
        scale, zero = (part if part is None else part[flat] for part in (self.scale, self.zero))
        return _core["dequantize"](*self._arguments(self.data[flat], scale, zero)).reshape(*index.shape, self.shape[-1]).to(dtype)

    def __getitem__(self, index: Any) -> QuantizedTensor:
        """Indexes all dims but the last, which stays whole."""
        if self.scale is not None and self.ndim != 2:
            raise ArgumentError("QuantizedTensor: only matrices can be indexed when scales are apart")
        kept = index if isinstance(index, tuple) else (index,)
        data = self.data[kept]
        if len(kept) >= self.ndim or data.ndim < 1 or data.shape[-1] != self.data.shape[-1]:
            raise ArgumentError(f"QuantizedTensor: an index must leave whole rows, got {index!r} for shape {tuple(self.shape)}")
        scale, zero = (part if part is None else part[kept] for part in (self.scale, self.zero))
        return QuantizedTensor(data, self.format, scale, zero, self.group_size)

    def to(self, device: Any) -> QuantizedTensor:
        """The same on another device."""
        data, scale, zero = (part if part is None else part.to(device=device) for part in (self.data, self.scale, self.zero))
        assert data is not None
        return QuantizedTensor(data, self.format, scale, zero, self.group_size)

    def __repr__(self) -> str:
        group = f", group_size={self.group_size}" if self.group_size else ""
        return f"QuantizedTensor(shape={tuple(self.shape)}, format='{self.format}'{group})"


def quantize(weight: Tensor, format: str = "int8", group_size: int | None = None) -> QuantizedTensor:
    """The nearest numbers that a format can hold.

    Args:
        weight: a floating point matrix.
        format: "int8" (symmetric) or "int4" (16 steps between the extremes of a group).
        group_size: how many numbers of a row share a scale: 32, 64 or 128, a divisor of the columns. None stands for
            whole rows with "int8" and for 128 with "int4".

    Example:
        >>> w = fb.linspace(-1, 1, 64).reshape(1, 64)
        >>> (fb.quantization.quantize(w, "int4", 32).dequantize() - w).abs().max() < 0.04
        tensor(True)
    """
    group = _checked(format, group_size)
    if weight.ndim != 2 or not weight.is_floating_point():
        raise ArgumentError(f"quantize: expected a floating point matrix, got {weight.dtype} of shape {tuple(weight.shape)}")
    rows, columns = weight.shape
    if group and columns % group:
        raise ArgumentError(
            f"quantize: rows of {columns} numbers are not whole groups of {group}; choose a group_size among {_GROUPS} that divides them"
        )
    with fb.no_grad():
        w = weight.detach().to(fb.float32)
        if not w.isfinite().all():
            raise ArgumentError("quantize: the weight has NaN or infinite elements")
        if format == "int8":
            grouped = w.reshape(rows, columns // group, group) if group else w
            scale = (grouped.abs().amax(-1) if columns else fb.zeros(rows)) / 127
            scale = scale.to(fb.bfloat16) if group else scale
            q = (grouped / _divisor(scale)).round().clamp(-128, 127).to(fb.int8)
            return QuantizedTensor(q.reshape(rows, columns), format, scale, None, group)
        return _int4(w.reshape(rows, columns // group, group), group)


def _checked(format: str, group_size: int | None) -> int:
    if format not in ("int8", "int4"):
        raise ArgumentError(f"quantize: unknown format {format!r}; expected 'int8' or 'int4'")
    group = (128 if format == "int4" else 0) if group_size is None else group_size
    if group not in _GROUPS and (group != 0 or format == "int4"):
        raise ArgumentError(f"quantize: expected a group_size of 32, 64 or 128 for {format}, got {group_size!r}")
    return group


def _divisor(scale: Tensor) -> Tensor:
    """The divisor of the numbers: 1 if all of them are zero."""
    wide = scale.to(fb.float32).unsqueeze(-1)
    return fb.where(wide == 0, 1.0, wide)


def _int4(w: Tensor, group: int) -> QuantizedTensor:
    """Chooses among several ranges the one with the smallest squared error, since large numbers are rare."""
    rows = w.shape[0]
    low, high = w.amin(-1), w.amax(-1)
    best: list[Tensor] = []
    for part in (1.0, 0.94, 0.88, 0.82, 0.76):
        zero = (-low * part).to(fb.bfloat16)
        scale = ((high - low) * part / 15).to(fb.bfloat16)
        step, start = _divisor(scale), zero.to(fb.float32).unsqueeze(-1)
        q = ((w + start) / step).round().clamp(0, 15)
        found = [(q * step - start - w).square().sum(-1), q.to(fb.uint8), scale, zero]
        if best:
            better = found[0] < best[0]
            best = [fb.where(better if new.ndim == 2 else better.unsqueeze(-1), new, old) for new, old in zip(found, best, strict=True)]
        else:
            best = found
    _, q, scale, zero = best
    half = min(group, 64) // 2
    pairs = q.reshape(rows, -1, 2, half)
    packed = pairs[:, :, 0] | pairs[:, :, 1] << 4
    return QuantizedTensor(packed.reshape(rows, -1), "int4", scale.contiguous(), zero.contiguous(), group)


def quantize_(
    model: fb.nn.Module,
    format: str = "int8",
    *,
    group_size: int | None = None,
    filter_fn: Callable[[fb.nn.Module, str], bool] | None = None,
) -> None:
    """Replaces the linear layers of a model by ones whose weights are stored as small integers.

    An embedding whose table is the weight of such a layer (tied weights) is replaced too, so that they still share it.

    Args:
        model: changed in place. It must not be a linear layer itself.
        format: "int8", "int4", or "int8_dynamic", with which the inputs of a layer are rounded to int8 as well, each
            row by its largest number.
        group_size: as in quantize().
        filter_fn: which layers: a function of a module and its name. By default all nn.Linear.

    Example:
        >>> model = fb.nn.Sequential(fb.nn.Linear(128, 64), fb.nn.Linear(64, 8))
        >>> fb.quantize_(model, "int4", group_size=32, filter_fn=lambda module, name: name == "0")
        >>> model
        Sequential(
          (0): QuantizedLinear(in_features=128, out_features=64, bias=True, format=int4, group_size=32)
          (1): Linear(in_features=64, out_features=8, bias=True)
        )
    """
    from flambeau.nn import Embedding, Linear, QuantizedEmbedding, QuantizedLinear

    dynamic = format == "int8_dynamic"
    if dynamic and group_size:
        raise ArgumentError("quantize_: int8_dynamic has one scale per row; leave out group_size")
    kind = "int8" if dynamic else format
    _checked(kind, group_size)
    if isinstance(model, Linear):
        raise ArgumentError("quantize_: the model is a single Linear, which cannot be replaced in place; use QuantizedLinear.from_float()")
    done: dict[int, tuple[Tensor, QuantizedTensor]] = {}  # keeps the old weights alive: their ids must not be reused
    tied: list[tuple[fb.nn.Module, str, Embedding]] = []
    for path, parent in list(model.named_modules()):
        for name, child in list(parent.named_children()):
            full = f"{path}.{name}" if path else name
            if isinstance(child, Embedding):
                tied.append((parent, name, child))
            if type(child) is not Linear or not (filter_fn is None or filter_fn(child, full)):
                continue
            if id(child.weight) not in done:
                try:
                    done[id(child.weight)] = child.weight, quantize(child.weight, kind, group_size)
                except ArgumentError as error:
                    raise ArgumentError(f"quantize_: layer '{full}': {error}; or leave the layer out with filter_fn") from None
            layer = QuantizedLinear.from_weight(done[id(child.weight)][1], child.bias, dynamic=dynamic)
            setattr(parent, name, layer.train(child.training))
    for parent, name, child in tied:
        if id(child.weight) in done:
            made = QuantizedEmbedding.from_weight(done[id(child.weight)][1], child.padding_idx, dtype=child.weight.dtype)
            setattr(parent, name, made.train(child.training))


def _weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """PyTorch's product of a matrix with rows of int8 that have one scale each: torch._weight_int8pack_mm."""
    if input.ndim != 2 or mat2.ndim != 2 or scales.ndim != 1:
        shapes = tuple(input.shape), tuple(mat2.shape), tuple(scales.shape)
        raise ArgumentError(f"_weight_int8pack_mm: expected two matrices and a vector, got the shapes {shapes}")
    return QuantizedTensor(mat2, "int8", scales.to(fb.float32)).linear(input)
