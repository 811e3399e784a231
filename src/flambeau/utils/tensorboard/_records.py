"""Protocol buffer fields and TensorBoard's record files, as far as events need them.

A record is its length (8 bytes), a checksum of the length, the bytes, a checksum of the bytes; checksums are CRC-32C,
rotated and shifted so that data which contains checksums itself stays distinguishable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

# ---- CRC-32C -------------------------------------------------------------------------------------------------------------


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _make_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum of bytes."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """The checksum in the form stored in a record."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """Bytes framed by their length and checksums."""
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


# ---- fields: each function returns one encoded field of a message
# ----------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are sent as 64 bits
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """An int32, int64, enum or bool."""
    return _varint(field << 3) + _varint(int(value))


def double(field: int, value: float) -> bytes:
    """A double."""
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A float; values too large become infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed


def message(field: int, value: bytes | str) -> bytes:
    """A message, bytes or string."""
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def doubles(field: int, values: Iterable[float]) -> bytes:
    """A list of doubles, packed."""
    numbers = [float(value) for value in values]
    return message(field, struct.pack(f"<{len(numbers)}d", *numbers))
