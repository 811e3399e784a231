"""The opcodes of a pickle: splits its bytes into opcodes and arguments, without executing anything."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from flambeau._files.problems import FileError, cut_short

MAX_INTEGER = 1024  # bytes of one integer

# Opcode byte: (name, form of the argument). Forms: "" none, u1 u2 u4 i4 f8 numbers, s1 s4 s8 text and b1 b4 b8 bytes
# preceded by a length of that many bytes, n1 n4 integers of any size, line and lines text up to the end of one or two
# lines.
TABLE = {
    b"\x80": ("PROTO", "u1"), b"\x95": ("FRAME", "u8"), b".": ("STOP", ""), b"(": ("MARK", ""), b"0": ("POP", ""),
    b"1": ("POP_MARK", ""), b"2": ("DUP", ""), b"N": ("NONE", ""), b"\x88": ("NEWTRUE", ""), b"\x89": ("NEWFALSE", ""),
    b"I": ("INT", "line"), b"J": ("BININT", "i4"), b"K": ("BININT1", "u1"), b"M": ("BININT2", "u2"), b"L": ("LONG", "line"),
    b"\x8a": ("LONG1", "n1"), b"\x8b": ("LONG4", "n4"), b"F": ("FLOAT", "line"), b"G": ("BINFLOAT", "f8"),
    b"S": ("STRING", "line"), b"T": ("BINSTRING", "b4"), b"U": ("SHORT_BINSTRING", "b1"), b"V": ("UNICODE", "line"),
    b"X": ("BINUNICODE", "s4"), b"\x8c": ("SHORT_BINUNICODE", "s1"), b"\x8d": ("BINUNICODE8", "s8"),
    b"B": ("BINBYTES", "b4"), b"C": ("SHORT_BINBYTES", "b1"), b"\x8e": ("BINBYTES8", "b8"), b"\x96": ("BYTEARRAY8", "b8"),
    b")": ("EMPTY_TUPLE", ""), b"t": ("TUPLE", ""), b"\x85": ("TUPLE1", ""), b"\x86": ("TUPLE2", ""), b"\x87": ("TUPLE3", ""),
    b"]": ("EMPTY_LIST", ""), b"l": ("LIST", ""), b"a": ("APPEND", ""), b"e": ("APPENDS", ""), b"}": ("EMPTY_DICT", ""),
    b"d": ("DICT", ""), b"s": ("SETITEM", ""), b"u": ("SETITEMS", ""), b"\x8f": ("EMPTY_SET", ""), b"\x90": ("ADDITEMS", ""),
    b"\x91": ("FROZENSET", ""), b"c": ("GLOBAL", "lines"), b"\x93": ("STACK_GLOBAL", ""), b"R": ("REDUCE", ""),
    b"\x81": ("NEWOBJ", ""), b"b": ("BUILD", ""), b"P": ("PERSID", "line"), b"Q": ("BINPERSID", ""), b"p": ("PUT", "line"),
    b"q": ("BINPUT", "u1"), b"r": ("LONG_BINPUT", "u4"), b"\x94": ("MEMOIZE", ""), b"g": ("GET", "line"),
    b"h": ("BINGET", "u1"), b"j": ("LONG_BINGET", "u4"),
    # Known, but rejected by the machine.
    b"i": ("INST", "lines"), b"o": ("OBJ", ""), b"\x92": ("NEWOBJ_EX", ""), b"\x82": ("EXT1", "u1"), b"\x83": ("EXT2", "u2"),
    b"\x84": ("EXT4", "u4"), b"\x97": ("NEXT_BUFFER", ""), b"\x98": ("READONLY_BUFFER", ""),
}  # fmt: skip
_BY_NUMBER = {code[0]: entry for code, entry in TABLE.items()}
_NUMBERS = {"u1": "<B", "u2": "<H", "u4": "<I", "u8": "<Q", "i4": "<i", "f8": ">d"}


def tokens(data: bytes, start: int = 0, whole: bool = True) -> Iterator[tuple[str, Any, int]]:
    """(opcode, argument, end position) for each opcode up to STOP.

    Args:
        data: bytes that contain the pickle.
        start: where it begins.
        whole: False when data is the beginning of something larger, so that its end is a limit and not a cut.
    """
    at, end = start, len(data)

    def need(count: int) -> None:
        if at + count > end:
            if not whole:
                raise FileError(f"a pickle of more than {end} bytes")
            raise cut_short("the pickle", at + count - end)

    while True:
        need(1)
        entry = _BY_NUMBER.get(data[at])
        if entry is None:
            raise FileError(f"byte 0x{data[at]:02x} at position {at} of the pickle is not an opcode")
        name, form = entry
        at += 1
        argument: Any = None
        if form in _NUMBERS:
            size = int(form[1])
            need(size)
            (argument,) = struct.unpack_from(_NUMBERS[form], data, at)
            at += size
        elif form in ("line", "lines"):
            found = []
            for _ in range(2 if form == "lines" else 1):
                stop = data.find(b"\n", at, at + 65536)
                if stop < 0:
                    need(65536)
                    raise FileError(f"a line of more than 65536 bytes at position {at} of the pickle")
                found.append(data[at:stop])
                at = stop + 1
            argument = found[0] if form == "line" else found
        elif form:
            width = int(form[1])
            need(width)
            size = int.from_bytes(data[at : at + width], "little")
            at += width
            need(size)
            body = data[at : at + size]
            at += size
            if form[0] == "s":
                argument = body.decode("utf-8", "surrogatepass")
            elif form[0] == "b":
                argument = body
            else:
                if size > MAX_INTEGER:
                    raise FileError(f"an integer of {size} bytes; at most {MAX_INTEGER} are read")
                argument = int.from_bytes(body, "little", signed=True)
        yield name, argument, at
        if name == "STOP":
            return


def end_of(data: bytes, start: int, whole: bool) -> int:
    """Where the pickle that begins at start ends."""
    at = start
    for _, _, position in tokens(data, start, whole):
        at = position
    return at


def names(data: bytes, start: int) -> Iterator[tuple[str, str]]:
    """(module, name) of every global that a pickle names, without building anything."""
    texts: list[str] = []  # the last texts pushed: STACK_GLOBAL takes two from the stack
    memo: dict[int, str] = {}
    for opcode, argument, _ in tokens(data, start):
        if opcode in ("GLOBAL", "INST"):
            yield argument[0].decode(), argument[1].decode()
        elif opcode == "STACK_GLOBAL" and len(texts) >= 2:
            yield texts[-2], texts[-1]
        elif opcode.endswith(("UNICODE", "UNICODE8")):
            texts.append(argument if isinstance(argument, str) else argument.decode("raw-unicode-escape"))
        elif opcode in ("BINPUT", "LONG_BINPUT") and texts:
            memo[argument] = texts[-1]
        elif opcode == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif opcode in ("BINGET", "LONG_BINGET") and argument in memo:
            texts.append(memo[argument])
