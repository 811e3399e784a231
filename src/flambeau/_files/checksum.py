"""Checksums: crc32 for each part of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import flambeau as fb
from flambeau import _C

PARALLEL = 1 << 23


def crc(parts: Iterable[memoryview | bytes]) -> int:
    """The crc32 of the concatenated bytes."""
    total = 0
    for part in parts:
        total = _C.crc32(part, total)
    return total


def crcs(makers: list[Callable[[], Iterable[memoryview | bytes]]], total: int) -> list[int]:
    """The crc32 of each; computed by several threads if there is much to read."""
    threads = fb.get_num_threads()
    if threads < 2 or total < PARALLEL:
        return [crc(make()) for make in makers]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda make: crc(make()), makers))


def labelled(label: str, data_crc: int) -> str:
    """The checksum of data together with its label, so that a flipped dtype or shape is detected too."""
    return f"{_C.crc32(label.encode('utf-8', 'surrogatepass'), data_crc):08x}"
