"""Messages of stores: a request or an answer is a list of byte strings, each preceded by its length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

_LENGTH = struct.Struct("<I")
_LARGEST = 1 << 30  # larger than any value of a store; a larger message is not ours


def pack(parts: Sequence[bytes]) -> bytes:
    """The bytes of a message."""
    body = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return _LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> list[bytes]:
    """The parts of a message, given without its own length prefix."""
    parts, at = [], 0
    while at < len(body):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if at + length > len(body):
            raise ValueError("a message ends too early")
        parts.append(body[at : at + length])
        at += length
    return parts


def split(buffer: bytearray) -> list[list[bytes]]:
    """Removes the complete messages from the front of a buffer."""
    messages = []
    while len(buffer) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(buffer)
        if length > _LARGEST:
            raise ValueError("not a message")
        if len(buffer) < _LENGTH.size + length:
            break
        messages.append(unpack(bytes(buffer[_LENGTH.size : _LENGTH.size + length])))
        del buffer[: _LENGTH.size + length]
    return messages


def receive(connection: socket.socket) -> list[bytes]:
    """Waits for one message; raises EOFError if the other end closed."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > _LARGEST:
        raise ValueError("not a message")
    return unpack(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        more = connection.recv_into(view[got:])
        if not more:
            raise EOFError("the other end closed the connection")
        got += more
    return bytes(data)
