"""GGUF files: a header of typed fields, a table of tensors, and the tensors' bytes at multiples of an alignment.

Nothing in a file is trusted: every count, length and offset is checked against the file's size before it is used.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau._files.locations import Mapper
from flambeau._files.problems import FileError, cut_short, short
from flambeau._files.safetensors_format import row_major
from flambeau._files.source import Source
from flambeau.quantization import FORMATS, QuantizedTensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 4
MAX_NESTED = 4  # arrays in arrays
MAX_NAME = 1 << 16  # bytes of a key or of a tensor's name

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_BOOL, _TEXT, _ARRAY = 7, 8, 9
_PLAIN = {
    0: fb.float32, 1: fb.float16, 24: fb.int8, 25: fb.int16, 26: fb.int32, 27: fb.int64, 28: fb.float64, 30: fb.bfloat16,
}  # fmt: skip
_BLOCKS = {2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k"}
# For errors: types that are not supported.
_OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


class _Reader:
    """Reads consecutive values at the beginning of a file."""

    def __init__(self, source: Source) -> None:
        self._source, self.at, self._begin, self._buffer = source, 0, 0, b""

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        self._source.check(self.at, count, what)
        start = self.at - self._begin
        if start + count > len(self._buffer):  # read ahead: fields are small and many
            ahead = min(max(count, 1 << 20), self._source.size - self.at)
            self._begin, self._buffer, start = self.at, self._source.read(self.at, ahead, what), 0
        self.at += count
        return self._buffer[start : start + count]

    def number(self, code: str, what: str) -> Any:
        """The next number."""
        return struct.unpack("<" + code, self.take(struct.calcsize(code), what))[0]

    def count(self, smallest: int, what: str) -> int:
        """A number of items to follow, each of which takes at least `smallest` bytes."""
        n = self.number("Q", what)
        left = self._source.size - self.at
        if n * smallest > left:
            raise cut_short(f"{what} ({n} of at least {smallest} bytes)", n * smallest - left)
        return n

    def text(self, what: str, most: int | None = None) -> str:
        """The next string."""
        length = self.count(1, f"the length of {what}")
        if most is not None and length > most:
            raise FileError(f"{what} has {length} bytes; at most {most} are read")
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError as error:
            raise FileError(f"{what} is not UTF-8: {error}") from None

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        """The next value of a type."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind], what)
        if kind == _BOOL:
            return self.number("B", what) != 0
        if kind == _TEXT:
            return self.bytes_or_text(what)
        if kind != _ARRAY:
            raise FileError(f"{what} has the unknown type {kind}")
        if depth == MAX_NESTED:
            raise FileError(f"{what}: arrays nested deeper than {MAX_NESTED} levels")
        kind = self.number("I", f"the type of {what}")
        if kind in _NUMBERS:
            code = _NUMBERS[kind]
            n = self.count(struct.calcsize(code), what)
            return list(struct.unpack(f"<{n}{code}", self.take(n * struct.calcsize(code), what)))
        if kind == _BOOL:
            return [byte != 0 for byte in self.take(self.count(1, what), what)]
        n = self.count(8 if kind == _TEXT else 12, what)
        return [self.value(kind, what, depth + 1) for _ in range(n)]

    def bytes_or_text(self, what: str) -> str | bytes:
        """A string; bytes if a vocabulary contains partial characters."""
        raw = self.take(self.count(1, f"the length of {what}"), what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw


def read(source: Source, mapper: Mapper) -> tuple[dict[str, Any], dict[str, fb.Tensor | QuantizedTensor]]:
    """The fields and the tensors of a file."""
    reader = _Reader(source)
    if reader.take(4, "the header") != MAGIC:
        raise FileError("not a GGUF file")
    version = reader.number("I", "the version")
    if version not in VERSIONS:
        if version & 0xFFFF == 0:
            raise FileError("a big-endian GGUF file; only little-endian ones are read")
        raise FileError(f"version {version} of GGUF; versions {' and '.join(map(str, VERSIONS))} are read")
    tensors = reader.number("Q", "the number of tensors")
    fields = reader.count(13, "fields")
    metadata: dict[str, Any] = {}
    for _ in range(fields):
        key = reader.text("a key", MAX_NAME)
        if key in metadata:
            raise FileError(f"the key {short(key)} occurs twice")
        metadata[key] = reader.value(reader.number("I", f"the type of {short(key)}"), f"field {short(key)}")
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise FileError(f"general.alignment is {short(alignment)}; expected a power of two")
    if tensors * 24 > source.size - reader.at:
        raise cut_short(f"the table of {tensors} tensors", tensors * 24 - (source.size - reader.at))
    table = [_entry(reader, alignment) for _ in range(tensors)]
    return metadata, _tensors(source, mapper, table, -(-reader.at // alignment) * alignment)


def _entry(reader: _Reader, alignment: int) -> tuple[str, tuple[int, ...], int, int, int]:
    """Name, shape, type, offset and bytes of a tensor."""
    name = reader.text("a tensor's name", MAX_NAME)
    what = f"tensor {short(name)}"
    dims = reader.number("I", f"the dims of {what}")
    if dims > MAX_DIMS:
        raise FileError(f"{what} has {dims} dims; at most {MAX_DIMS} are possible")
    # the file stores the columns first
    shape = tuple(reader.number("Q", f"the shape of {what}") for _ in range(dims))[::-1]
    kind, offset = reader.number("I", f"the type of {what}"), reader.number("Q", f"the offset of {what}")
    if any(size >= 1 << 40 for size in shape):
        raise FileError(f"{what} has the shape {shape}")
    if offset % alignment:
        raise FileError(f"{what} begins at {offset}, which is not a multiple of the alignment {alignment}")
    if kind in _PLAIN:
        return name, shape, kind, offset, math.prod(shape) * _PLAIN[kind].itemsize
    if kind not in _BLOCKS:
        known = ", ".join(["F32", "F16", "BF16", *(_BLOCKS[code].upper() for code in _BLOCKS)])
        raise FileError(f"{what} has the type {_OTHERS.get(kind, kind)}, which is not read; known are {known}")
    numbers, size = FORMATS[_BLOCKS[kind]]
    if not shape or shape[-1] % numbers:
        raise FileError(f"{what} of shape {shape} does not consist of whole blocks of {numbers}, which {_BLOCKS[kind].upper()} has")
    return name, shape, kind, offset, math.prod(shape) // numbers * size


def _tensors(
    source: Source, mapper: Mapper, table: list[tuple[str, tuple[int, ...], int, int, int]], begin: int
) -> dict[str, fb.Tensor | QuantizedTensor]:
    end, before = 0, ""
    for name, _, _, offset, size in sorted(table, key=lambda entry: (entry[3], entry[4])):
        if size and offset < end:
            raise FileError(f"tensor {short(name)} begins at {offset}, within tensor {short(before)}")
        if begin + offset + size > source.size:
            raise cut_short(f"tensor {short(name)}", begin + offset + size - source.size)
        end, before = max(end, offset + size), name
    made: dict[str, fb.Tensor | QuantizedTensor] = {}
    for name, shape, kind, offset, size in table:
        if name in made:
            raise FileError(f"the tensor {short(name)} occurs twice")
        raw, _ = source.tensor(begin + offset, size, f"tensor {short(name)}", _PLAIN[kind].itemsize if kind in _PLAIN else 1)
        raw = mapper.place(raw, "cpu")
        if kind in _PLAIN:
            made[name] = _C.over_storage(raw, _PLAIN[kind], shape, row_major(shape), 0)
            continue
        numbers, block = FORMATS[_BLOCKS[kind]]
        rows = (*shape[:-1], shape[-1] // numbers * block)
        made[name] = QuantizedTensor(_C.over_storage(raw, fb.uint8, rows, row_major(rows), 0), _BLOCKS[kind])
    return made
