"""Sequences of different lengths in one batch: padded, or packed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip
__dir__ = __all__.copy


class _PackedSequence(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_PackedSequence):
    """The rows of all steps of several sequences, without padding; longest sequences first.

    Made by pack_padded_sequence() and pack_sequence().

    Args:
        data: the rows: those of all sequences' first step, then of their second, and so on.
        batch_sizes: the number of rows of each step.
        sorted_indices: the order in which the sequences were taken.
        unsorted_indices: the way back to their own order.

    Example:
        >>> packed = fb.nn.utils.rnn.pack_sequence([fb.tensor([1, 2, 3]), fb.tensor([4])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:  # fmt: skip
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The sequence with its data converted, as Tensor.to() does.

        Example:
            >>> packed = fb.nn.utils.rnn.pack_sequence([fb.tensor([1.0])])
            >>> packed.to(fb.float64).data.dtype
            flambeau.float64
        """
        data = self.data.to(*args, **kwargs)
        return (
            self
            if data is self.data
            else type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
        )

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The sequence on the CPU.

        Example:
            >>> fb.nn.utils.rnn.pack_sequence([fb.tensor([1.0])]).cpu().data
            tensor([1.])
        """
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Raises: this build has no CUDA backend."""
        self.data.cuda(*args, **kwargs)
        return self

    def double(self) -> Self:
        """The sequence in float64."""
        return self.to(dtype=fb.float64)

    def float(self) -> Self:
        """The sequence in float32."""
        return self.to(dtype=fb.float32)

    def half(self) -> Self:
        """The sequence in float16."""
        return self.to(dtype=fb.float16)

    def short(self) -> Self:
        """The sequence in int16."""
        return self.to(dtype=fb.int16)

    def char(self) -> Self:
        """The sequence in int8."""
        return self.to(dtype=fb.int8)

    def byte(self) -> Self:
        """The sequence in uint8."""
        return self.to(dtype=fb.uint8)

    def long(self) -> Self:
        """The sequence in int64."""
        return self.to(dtype=fb.int64)

    def int(self) -> Self:
        """The sequence in int32."""
        return self.to(dtype=fb.int32)

    def pin_memory(self) -> Self:
        """The sequence with its data in pinned memory, which needs an accelerator."""
        return type(self)(self.data.pin_memory(), self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another.

    Example:
        >>> fb.nn.utils.rnn.invert_permutation(fb.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    return fb.empty_like(permutation).scatter_(0, permutation, fb.arange(permutation.numel()))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch.

    Args:
        input: (L, N, …), or (N, L, …) with batch_first.
        lengths: of the sequences.
        batch_first: whether the batch is the first dimension.
        enforce_sorted: whether the lengths must descend already; otherwise the sequences are sorted.

    Example:
        >>> fb.nn.utils.rnn.pack_padded_sequence(fb.tensor([[1, 4], [2, 0]]), [2, 1]).data
        tensor([1, 4, 2])
    """
    op = "pack_padded_sequence"
    lengths = fb.as_tensor(lengths, dtype=fb.int64)
    if enforce_sorted:
        order = None
    else:
        lengths, order = fb.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    if steps.ndim < 2 or steps.numel() == 0:
        raise ArgumentError(f"{op}: cannot pack empty tensors, got shape {tuple(input.shape)}")
    if lengths.ndim != 1 or lengths.numel() != steps.shape[1]:
        raise ArgumentError(
            f"{op}: expected len(lengths) to be equal to batch size {steps.shape[1]}, got {lengths.numel()}"
        )
    sizes = lengths.tolist()
    if min(sizes) <= 0:
        raise ArgumentError(f"{op}: length of all samples has to be greater than 0, got {min(sizes)}")
    if sizes != sorted(sizes, reverse=True):
        raise ArgumentError(
            f"{op}: `lengths` must be sorted in decreasing order when `enforce_sorted` is True, got {sizes}. "
            "You can pass `enforce_sorted=False` to have the sequences sorted"
        )
    if sizes[0] > steps.shape[0]:
        raise ArgumentError(f"{op}: a length of {sizes[0]} is more than the {steps.shape[0]} steps of the input")
    batch_sizes = [sum(n > t for n in sizes) for t in range(sizes[0])]
    rows = fb.cat([steps[t, :n] for t, n in enumerate(batch_sizes)])
    return PackedSequence(rows, fb.tensor(batch_sizes), order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Inverts pack_padded_sequence(): returns the padded batch and the lengths.

    Args:
        sequence: what to unpack.
        batch_first: whether the batch is to be the first dimension.
        padding_value: of the padding.
        total_length: the number of steps of the result, at least that of the longest sequence.

    Example:
        >>> packed = fb.nn.utils.rnn.pack_sequence([fb.tensor([1, 2]), fb.tensor([4])])
        >>> fb.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [4, 0]]), tensor([2, 1]))
    """
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"pad_packed_sequence: expected a PackedSequence, got {type(sequence).__name__}")
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.tolist()
    steps = len(sizes)
    if not sizes:
        raise ArgumentError("pad_packed_sequence: cannot unpack a PackedSequence without steps; batch_sizes is empty")
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "pad_packed_sequence: Expected total_length to be at least the length of the longest sequence in input, "
                f"{steps}, got {total_length}"
            )
        steps = total_length
    lengths = fb.tensor([sum(n > i for n in sizes) for i in range(sizes[0])])
    rest = tuple(data.shape[1:])
    parts = []
    for part in data.split(sizes):
        missing = sizes[0] - part.shape[0]
        parts.append(fb.cat([part, part.new_full((missing, *rest), padding_value)]) if missing else part)
    padded = fb.stack(parts + [data.new_full((sizes[0], *rest), padding_value)] * (steps - len(sizes)))
    padded = padded.transpose(0, 1) if batch_first else padded
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of different lengths as one padded batch.

    Args:
        sequences: tensors (L, …) that differ in their length only.
        batch_first: whether the result is (N, L, …) and not (L, N, …).
        padding_value: of the padding.
        padding_side: "right" or "left".

    Example:
        >>> fb.nn.utils.rnn.pad_sequence([fb.tensor([1, 2]), fb.tensor([4])], batch_first=True)
        tensor([[1, 2],
                [4, 0]])
    """
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type {type(sequences).__name__}; pass a list of "
            "tensors"
        )
    tensors = list(sequences)
    if not tensors:
        raise ArgumentError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side should be either 'right' or 'left', got {padding_side!r}")
    if any(t.ndim == 0 for t in tensors):
        raise ArgumentError("pad_sequence: expected sequences of shape (L, …), got 0-d tensors; pass a list of tensors")
    rest = tuple(tensors[0].shape[1:])
    if any(tuple(t.shape[1:]) != rest for t in tensors):
        raise ArgumentError(
            f"pad_sequence: sequences may differ in their first size only, got {[tuple(t.shape) for t in tensors]}"
        )
    longest = max(t.shape[0] for t in tensors)

    def padded(t: Tensor) -> Tensor:
        missing = longest - t.shape[0]
        margins = [missing, 0] if padding_side == "left" else [0, missing]
        return fb.constant_pad_nd(t, [0, 0] * len(rest) + margins, padding_value) if missing else t

    return fb.stack([padded(t) for t in tensors], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Inverts pad_sequence().

    Args:
        padded_sequences: the padded batch.
        lengths: of the sequences.
        batch_first: whether the batch is the first dimension.

    Example:
        >>> fb.nn.utils.rnn.unpad_sequence(fb.tensor([[1, 2], [4, 0]]), fb.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([4])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[: int(n)] for sequence, n in zip(batch.unbind(0), lengths, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths.

    Args:
        sequences: tensors (L, …).
        enforce_sorted: whether the lengths must descend already; otherwise the sequences are sorted.

    Example:
        >>> fb.nn.utils.rnn.pack_sequence([fb.tensor([1, 2]), fb.tensor([4])]).data
        tensor([1, 4, 2])
    """
    lengths = fb.tensor([s.shape[0] for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Inverts pack_sequence().

    Example:
        >>> packed = fb.nn.utils.rnn.pack_sequence([fb.tensor([1, 2]), fb.tensor([4])])
        >>> fb.nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
