"""ZIP archives as .pt files use them: records stored as they are, each at a multiple of 64 bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from flambeau._files import checksum
from flambeau._files.problems import FileError
from flambeau._files.source import Source
from flambeau._files.target import FileWriter, Writer

LOCAL, CENTRAL, END, END64, LOCATOR64 = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
ALIGN = 64
MAX_RECORDS = 1 << 20
MAX_DIRECTORY = 1 << 28
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
with_sums = True  # serialization.set_crc32_options(); without them 0 is stored


class Archive:
    """The records of an archive: {name: (offset of the bytes, their number, crc32)}.

    Only stored records count, the others are `packed`: PyTorch does not compress the records we read, so nothing is
    inflated, and there is no risk of a decompression bomb.
    """

    def __init__(self, source: Source, verify: bool = True) -> None:
        self._source, self._verify = source, verify
        count, size, start = self._find_directory()
        if count > MAX_RECORDS or size > MAX_DIRECTORY:
            raise FileError(f"an archive with {count} records; at most {MAX_RECORDS} are read")
        directory = source.read(start, size, "the archive's directory")
        self.records: dict[str, tuple[int, int, int]] = {}
        self.packed: set[str] = set()
        at, spans = 0, []
        for _ in range(count):
            fixed = directory[at : at + 46]
            if len(fixed) < 46 or fixed[:4] != CENTRAL:
                raise FileError("the archive's directory is damaged")
            flags, method, _, _, crc, packed, plain, n, x, c, _, _, _, offset = struct.unpack("<HHHHIIIHHHHHII", fixed[8:])
            name_bytes = directory[at + 46 : at + 46 + n]
            extra = directory[at + 46 + n : at + 46 + n + x]
            at += 46 + n + x + c
            if at > len(directory):
                raise FileError("the archive's directory is damaged")
            name = name_bytes.decode("utf-8")
            plain, packed, offset = _wide(extra, plain, packed, offset)
            self._check_name(name)
            data = self._data_offset(name, name_bytes, offset)
            source.check(data, packed, f"record '{name}'")
            spans.append((offset, data + packed, name))
            if method != 0 or flags & 1 or plain != packed:
                self.packed.add(name)
            else:
                self.records[name] = (data, plain, crc)
        if at != size:
            raise FileError(f"the archive's directory holds {size - at} bytes too many")
        end = 0
        for begin, stop, name in sorted(spans):
            if begin < end:
                raise FileError(f"record '{name}' overlaps another")
            end = stop
        if end > start:
            raise FileError("the archive's directory overlaps a record")

    def __contains__(self, name: str) -> bool:
        return name in self.records or name in self.packed

    def names(self) -> list[str]:
        """Every record, readable or not."""
        return [*self.records, *self.packed]

    def where(self, name: str) -> tuple[int, int, int]:
        """Offset, size and crc32 of a record's bytes; raises an error if it cannot be read."""
        if name in self.packed:
            raise FileError(
                f"record '{name}' is compressed or encrypted; PyTorch stores records as they are: save the file again with it"
            )
        if name not in self.records:
            raise FileError(f"record '{name}' is missing")
        return self.records[name]

    def _check_name(self, name: str) -> None:
        if name in self:
            raise FileError(f"record '{name}' occurs twice")
        parts = name.split("/")
        if not name or "\\" in name or "\0" in name or ".." in parts or parts[0] == "" or ":" in parts[0]:
            raise FileError(f"record {name!r} has a name that leads out of the archive")

    def _find_directory(self) -> tuple[int, int, int]:
        """Number of records, size and offset of the directory, from the end of the file."""
        size = self._source.size
        tail_size = min(size, 22 + 0xFFFF)
        tail = self._source.read(size - tail_size, tail_size)
        at = tail.rfind(END)
        if at < 0 or len(tail) - at < 22:
            raise FileError("the archive's directory is missing: the file is cut short; copy or download it again")
        _, _, here, count, length, start, comment = struct.unpack("<HHHHIIH", tail[at + 4 : at + 22])
        if len(tail) - at - 22 != comment:
            raise FileError("bytes after the end of the archive")
        if here != count and count != _FULL16:
            raise FileError("an archive in several volumes")
        end = size - tail_size + at
        locator = self._source.read(end - 20, 20) if end >= 76 else b""
        if locator[:4] == LOCATOR64:
            end = struct.unpack("<Q", locator[8:16])[0]
            wide = self._source.read(end, 56, "the archive's directory")
            if wide[:4] != END64:
                raise FileError("the archive's directory is damaged")
            count, length, start = struct.unpack("<QQQ", wide[32:56])
        if start + length != end:
            raise FileError("the archive's directory is not where the end of the file says")
        return count, length, start

    def _data_offset(self, name: str, name_bytes: bytes, offset: int) -> int:
        """The start of a record's bytes; its own header must have the same name."""
        head = self._source.read(offset, 30, f"record '{name}'")
        n, x = struct.unpack("<HH", head[26:30])
        if head[:4] != LOCAL or self._source.read(offset + 30, n) != name_bytes:
            raise FileError(f"record '{name}' is not where the archive's directory says")
        return offset + 30 + n + x

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a small record, checked."""
        offset, size, crc = self.where(name)
        if size > limit:
            raise FileError(f"record '{name}' has {size} bytes; at most {limit} are read")
        data = self._source.read(offset, size, f"record '{name}'")
        if self._verify and crc and checksum.crc([data]) != crc:
            raise FileError(f"record '{name}' does not match its checksum: the file is damaged; copy it again")
        return data


def _wide(extra: bytes, plain: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The 64-bit sizes and offset of a record whose 32-bit fields are full."""
    at = 0
    while at + 4 <= len(extra):
        tag, size = struct.unpack("<HH", extra[at : at + 4])
        if tag == 1:
            body = extra[at + 4 : at + 4 + size]
            found = iter(struct.unpack(f"<{len(body) // 8}Q", body[: len(body) // 8 * 8]))
            plain = next(found) if plain == _FULL32 else plain
            packed = next(found) if packed == _FULL32 else packed
            offset = next(found) if offset == _FULL32 else offset
        at += 4 + size
    return plain, packed, offset


Record = tuple[str, int, Callable[[], Iterable[memoryview | bytes]]]


def _fields(crc: int, size: int) -> bytes:
    """Version 4.5, UTF-8 name, stored, midnight of 1 January 1980: the same object gives the same file."""
    return struct.pack("<HHHHHIII", 45, 0x0800, 0, 0, 0x21, crc, size, size)


def write(writer: Writer, records: list[Record]) -> None:
    """Writes an archive of (name, size, function that gives the bytes) records."""
    total = sum(record[1] for record in records)
    # When writing to a system file, checksums are computed on the fly, and a record's header is written after its
    # bytes.
    late = isinstance(writer, FileWriter)
    sums = [0] * len(records) if late or not with_sums else checksum.crcs([record[2] for record in records], total)
    base, directory = writer.position, []
    for (name, size, parts), crc in zip(records, sums, strict=True):
        offset = writer.position - base
        big = size >= _FULL32 or offset >= _FULL32
        text = name.encode()
        wide = struct.pack("<HHQQ", 1, 16, size, size) if big else b""
        # An extra field of zeros moves the bytes to the next multiple of 64.
        pad = -(offset + 30 + len(text) + len(wide) + 4) % ALIGN
        filler = struct.pack("<HH", 0x4246, pad) + bytes(pad)
        shown = _FULL32 if big else size
        lengths = struct.pack("<HH", len(text), len(wide) + len(filler))
        if isinstance(writer, FileWriter):
            begin = writer.leave_room(30 + len(text) + len(wide) + len(filler))
            crc = writer.write_summed(parts())
            fields = _fields(crc if with_sums else 0, shown)
            writer.fill(begin, LOCAL + fields + lengths + text + wide + filler)
        else:
            fields = _fields(crc, shown)
            writer.write(LOCAL + fields + lengths + text + wide + filler)
            for part in parts():
                writer.write(part)
        wide = struct.pack("<HHQQQ", 1, 24, size, size, offset) if big else b""
        where = _FULL32 if big else offset
        ends = struct.pack("<HHHHHII", len(text), len(wide), 0, 0, 0, 0, where)
        directory.append(CENTRAL + struct.pack("<H", 45) + fields + ends + text + wide)
    start = writer.position - base
    body = b"".join(directory)
    writer.write(body)
    end, count = writer.position - base, len(records)
    if count >= _FULL16 or start >= _FULL32 or len(body) >= _FULL32:
        writer.write(END64 + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(body), start))
        writer.write(LOCATOR64 + struct.pack("<IQI", 0, end, 1))
        count, body_size, start = min(count, _FULL16), min(len(body), _FULL32), min(start, _FULL32)
    else:
        body_size = len(body)
    writer.write(END + struct.pack("<HHHHIIH", 0, 0, count, count, body_size, start, 0))
