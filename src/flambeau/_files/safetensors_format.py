"""safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes without gaps.

Information that the format cannot express is in the metadata under "flambeau", as JSON text: the structure of
containers ("tree"), tensors that share memory ("views"), the order of dimensions in memory ("order") and checksums
("crc"). Any reader of safetensors gets the tensors under their names.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable
from typing import Any, cast

import flambeau as fb
from flambeau import _C
from flambeau._files import checksum
from flambeau._files.checksum import labelled
from flambeau._files.layout import Block, blocks, in_order, memory_order, row_major_bytes
from flambeau._files.locations import Mapper
from flambeau._files.problems import MAX_HEADER, FileError, cut_short
from flambeau._files.source import Source
from flambeau._files.target import FileWriter, Writer
from flambeau._files.tree import Decoder, dtype_named

VERSION = 1
DTYPES = {
    fb.bool: "BOOL", fb.uint8: "U8", fb.int8: "I8", fb.int16: "I16", fb.uint16: "U16", fb.int32: "I32", fb.uint32: "U32",
    fb.int64: "I64", fb.uint64: "U64", fb.float16: "F16", fb.bfloat16: "BF16", fb.float32: "F32", fb.float64: "F64",
    fb.complex64: "C64", fb.float8_e4m3fn: "F8_E4M3", fb.float8_e5m2: "F8_E5M2", fb.float8_e8m0fnu: "F8_E8M0",
    fb.float8_e4m3fnuz: "F8_E4M3FNUZ", fb.float8_e5m2fnuz: "F8_E5M2FNUZ",
}  # fmt: skip
BY_CODE = {code: dtype for dtype, code in DTYPES.items()}


@dataclasses.dataclass
class Entry:
    """One tensor of a file, to be written."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    source: fb.Tensor | Block

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def parts(self) -> Iterable[memoryview]:
        """Its bytes."""
        return self.source.parts() if isinstance(self.source, Block) else [row_major_bytes(self.source)]

    def label(self) -> str:
        """What its checksum covers besides the bytes."""
        return label(self.name, DTYPES[self.dtype], self.shape)


def label(name: str, code: str, shape: Iterable[int]) -> str:
    """Name, type and shape as one text."""
    return f"{name}\n{code}\n{list(shape)}"


# ---- writing -------------------------------------------------------------------------------------------------------------


def plan(tensors: dict[str, fb.Tensor]) -> tuple[list[Entry], dict[str, Any]]:
    """The entries to write for these tensors, and additions to the metadata."""
    names = list(tensors)
    entries: list[Entry] = []
    views: dict[str, Any] = {}
    order: dict[str, Any] = {}
    for block in blocks(list(tensors.values())):
        if block.alone:
            name = names[block.members[0]]
            t = tensors[name]
            if t.dtype not in DTYPES:  # complex128: as pairs of float64
                entries.append(Entry(name, fb.float64, (*t.shape, 2), fb.view_as_real(t.detach())))
                views[name] = [name, t.dtype.name, list(t.shape), list(row_major(tuple(t.shape))), 0]
                continue
            entries.append(Entry(name, t.dtype, tuple(t.shape), t))
            found = memory_order(t)
            if found is not None:
                order[name] = found
            continue
        whole = next((i for i in block.members if _is_whole(tensors[names[i]], block)), None)
        if whole is not None:
            base, t = names[whole], tensors[names[whole]]
            entries.append(Entry(base, t.dtype, tuple(t.shape), t))
        else:
            base, count = "shared", 1
            while base in tensors or any(entry.name == base for entry in entries):
                count += 1
                base = f"shared#{count}"
            entries.append(Entry(base, fb.uint8, (block.nbytes,), block))
        for i in block.members:
            if names[i] != base:
                t = tensors[names[i]]
                views[names[i]] = [base, t.dtype.name, list(t.shape), list(t.stride()), block.offset(t)]
    extra: dict[str, Any] = {"views": views, "order": order}
    return entries, {k: v for k, v in extra.items() if v}


def _is_whole(t: fb.Tensor, block: Block) -> bool:
    """Whether the block's bytes are exactly this tensor's elements in order."""
    return t.dtype in DTYPES and t.is_contiguous() and block.offset(t) == 0 and t.numel() * t.itemsize == block.nbytes


def described(tree: Any, extra: dict[str, Any]) -> dict[str, str]:
    """The metadata: ours under one name with its checksum; "format" is what other readers expect."""
    text = json.dumps({"version": VERSION, "tree": tree, **extra}, separators=(",", ":"), allow_nan=False)
    return {"format": "pt", "flambeau": text, "flambeau_crc": labelled(text, 0)}


def write(writer: Writer, entries: list[Entry], tree: Any, extra: dict[str, Any]) -> None:
    """Writes a file."""
    # Wide elements first: without gaps, that keeps every tensor aligned.
    placed = sorted(entries, key=lambda entry: -entry.dtype.itemsize)
    total = sum(entry.nbytes for entry in entries)
    if isinstance(writer, FileWriter) and total >= len(entries) << 16:
        # The header holds the checksums, which are known after everything is written; its length is known before.
        nothing = dict.fromkeys((entry.name for entry in entries), 0)
        begin = writer.leave_room(len(_header(entries, placed, nothing, tree, extra)))
        sums = {entry.name: writer.write_summed(entry.parts()) for entry in placed}
        writer.fill(begin, _header(entries, placed, sums, tree, extra))
        return
    found = checksum.crcs([entry.parts for entry in entries], total)
    sums = {entry.name: crc for entry, crc in zip(entries, found, strict=True)}
    writer.write(_header(entries, placed, sums, tree, extra))
    for entry in placed:
        for part in entry.parts():
            writer.write(part)


def _header(entries: list[Entry], placed: list[Entry], sums: dict[str, int], tree: Any, extra: dict[str, Any]) -> bytes:
    """The bytes before the tensors; `placed` are the entries in the order of their bytes, `sums` their checksums."""
    at, where = 0, {}
    for entry in placed:
        where[entry.name] = [at, at + entry.nbytes]
        at += entry.nbytes
    checks = {entry.name: labelled(entry.label(), sums[entry.name]) for entry in entries}
    header: dict[str, Any] = {"__metadata__": described(tree, {**extra, "crc": checks})}
    for entry in entries:
        header[entry.name] = {"dtype": DTYPES[entry.dtype], "shape": entry.shape, "data_offsets": where[entry.name]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise fb.errors.ArgumentError(f"save: the names and shapes need {len(text)} bytes, a safetensors header has at most {MAX_HEADER}")
    return len(text).to_bytes(8, "little") + text


# ---- reading -------------------------------------------------------------------------------------------------------------


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FileError("a name occurs twice in the header")
    return made


def parse(text: str | bytes) -> Any:
    """JSON without repeated names."""
    return json.loads(text, object_pairs_hook=_unique)


def looks_like(head: bytes) -> bool:
    """Whether a file may be safetensors, judging by its first nine bytes."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER


class File:
    """The checked header of a safetensors file, and its tensors."""

    def __init__(self, source: Source, mapper: Mapper, verify: bool) -> None:
        self._source, self._mapper, self._verify = source, mapper, verify
        length = int.from_bytes(source.read(0, 8, "the header's length"), "little")
        if length > MAX_HEADER:
            raise FileError(f"a header of {length} bytes; at most {MAX_HEADER} are read")
        header = parse(source.read(8, length, "the header"))
        if not isinstance(header, dict):
            raise FileError("the header is not a JSON object")
        self._begin = 8 + length
        metadata = header.pop("__metadata__", None) or {}
        if not isinstance(metadata, dict):
            raise FileError("the metadata is not a JSON object")
        self.ours = read_ours(metadata)
        self.metadata = {k: v for k, v in metadata.items() if not k.startswith("flambeau")}
        self.entries: dict[str, tuple[str, Any, tuple[int, ...], int, int]] = {}
        for name, known in header.items():
            self.entries[name] = self._entry(name, known)
        end = 0
        for name, (_, _, _, start, stop) in sorted(self.entries.items(), key=lambda item: (item[1][3], item[1][4])):
            if start != end:
                raise FileError(f"tensor '{name}' begins at byte {start} of the data, the one before it ends at {end}")
            end = stop
        extra = source.size - self._begin - end
        if extra < 0:
            raise cut_short("the tensors", -extra)
        if extra > 0:
            raise FileError(f"{extra} bytes after the last tensor that belong to none")

    def _entry(self, name: str, known: Any) -> tuple[str, Any, tuple[int, ...], int, int]:
        code, shape, where = known["dtype"], known["shape"], known["data_offsets"]
        if code not in BY_CODE:
            raise FileError(f"tensor '{name}' has the dtype {code}, which flambeau does not have")
        dtype = BY_CODE[code]
        numbers = [*shape, *where]
        if len(where) != 2 or any(type(n) is not int or not 0 <= n < 1 << 62 for n in numbers):
            raise FileError(f"tensor '{name}' has the shape {shape} and the offsets {where}")
        need = math.prod(shape) * dtype.itemsize
        if where[1] - where[0] != need:
            raise FileError(f"tensor '{name}' of shape {shape} and dtype {code} needs {need} bytes, the header gives {where[1] - where[0]}")
        return code, dtype, tuple(shape), where[0], where[1]

    def read(self) -> dict[str, fb.Tensor]:
        """Every entry, verified if it has a checksum (for a mapped file only on request: that reads everything)."""
        regions = {}
        for name, (_, dtype, _, start, stop) in self.entries.items():
            regions[name] = (self._begin + start, stop - start, f"tensor '{name}'", dtype.itemsize)
        checks = self.ours.get("crc", {})
        made: dict[str, fb.Tensor] = {}
        for name, (raw, crc) in self._source.tensors(regions).items():
            code, dtype, shape, _, _ = self.entries[name]
            if self._verify and name in checks:
                crc = checksum.crc([memoryview(cast(Any, raw))]) if crc is None else crc
                if labelled(label(name, code, shape), crc) != checks[name]:
                    raise FileError(f"tensor '{name}' does not match its checksum: the file is damaged; copy it again")
            raw = self._mapper.place(raw, "cpu")
            made[name] = _C.over_storage(raw, dtype, shape, row_major(shape), 0)
        return made


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def read_ours(metadata: dict[str, Any]) -> dict[str, Any]:
    """Our part of the metadata, checked; empty for files of other libraries."""
    text, crc = metadata.get("flambeau"), metadata.get("flambeau_crc")
    if text is None and crc is None:
        return {}
    if type(text) is not str or labelled(text, 0) != crc:
        raise FileError("the header does not match its checksum: the file is damaged; copy it again")
    ours = parse(text)
    if ours.get("version") != VERSION:
        raise FileError(f"version {ours.get('version')} of the structure; this flambeau reads version {VERSION}")
    return ours


def assemble(entries: dict[str, fb.Tensor], ours: dict[str, Any]) -> Any:
    """Rebuilds the saved object from the entries of its file or files."""
    if "tree" not in ours:
        return entries
    views, order = ours.get("views", {}), ours.get("order", {})

    @functools.cache
    def tensor(name: str) -> fb.Tensor:
        if name in views:
            base, kind, shape, strides, offset = views[name]
            return _C.over_storage(entries[base], dtype_named(kind), tuple(shape), tuple(strides), offset)
        if name not in entries:
            raise FileError(f"tensor '{name}' is missing")
        return in_order(entries[name], tuple(order[name])) if name in order else entries[name]

    return Decoder(tensor).decode(ours["tree"])
