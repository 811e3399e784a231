"""Where bytes come from: a path, an open file or an object with read(); read at once or mapped."""

from __future__ import annotations

import errno
import io
import mmap as _mmap
import os
import stat
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, cast

import flambeau as fb
from flambeau import _C
from flambeau._files.problems import FileError, cut_short
from flambeau.errors import ArgumentError

PARALLEL = 1 << 23  # from this many bytes on, several threads read
shared_maps = False  # serialization.set_default_mmap_options()


def name_of(f: Any) -> str:
    """The name of the file for errors."""
    if isinstance(f, (str, os.PathLike)):
        return f"'{os.fspath(f)}'"
    known = getattr(f, "name", None)
    return f"'{known}'" if isinstance(known, str) else "a file object"


def open_regular(path: Any, links: bool = True) -> Any:
    """Opens a file for reading, unbuffered. Rejects pipes, which could block for ever, and endless devices."""
    # Without O_NONBLOCK the call itself blocks until someone opens the pipe for writing.
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    descriptor = -1
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise FileError(f"load: {name_of(path)} is a symbolic link, which is not followed here") from None
        if error.errno != errno.ENXIO:  # a socket
            raise
    if descriptor < 0 or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        directory = descriptor >= 0 and stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if descriptor >= 0:
            os.close(descriptor)
        if directory:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise FileError(
            f"load: {name_of(path)} is not a regular file but a pipe, socket or device; to read from one, give an open file: "
            "with open(path, 'rb') as f: load(f)"
        )
    return os.fdopen(descriptor, "rb", buffering=0)


class Source:
    """Bytes at offsets 0 to size, from a descriptor or from memory.

    Args:
        f: a path, or an object with read(); what is read starts at its present position.
        mapped: map the file instead of reading it: bytes are fetched when used, and writes stay in this process.
        summed: compute checksums while reading.
        links: whether a path may be a symbolic link.
    """

    def __init__(self, f: Any, mapped: bool = False, summed: bool = True, links: bool = True) -> None:
        self.name = name_of(f)
        self._descriptor: int | None = None
        self._map: Any = None
        self._start, self._summed = 0, summed
        self._file: Any = None
        if isinstance(f, (str, bytes, os.PathLike)):
            with open_regular(f, links) as stream:
                self._from_object(stream)
            self._file = None
        elif hasattr(f, "read"):
            self._from_object(f)
        else:
            raise TypeError(f"load: expected a path or an object with read(), got {type(f).__name__}")
        if mapped and self._descriptor is None:
            raise ArgumentError(f"load: mmap=True needs a path or an open file on disk, got {self.name}")
        self._given = f
        if mapped:
            self.map()

    def map(self) -> None:
        """Maps the file from now on, if it is a file on disk."""
        if self._descriptor is not None and self.size:
            self._map = self._mapping(self._given)

    def _mapping(self, f: Any) -> Any:
        end = self._start + self.size
        if not shared_maps:  # private: a write to a tensor copies the page, the file does not change
            return _mmap.mmap(self._descriptor or 0, end, access=_mmap.ACCESS_COPY)
        if not isinstance(f, (str, bytes, os.PathLike)):
            raise ArgumentError(f"load: a map shared with the file (set_default_mmap_options(MAP_SHARED)) needs a path, got {self.name}")
        descriptor = os.open(f, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not os.path.samestat(os.fstat(descriptor), os.fstat(self._descriptor or 0)):
                raise FileError("the file was replaced while it was being opened; load it again")
            return _mmap.mmap(descriptor, end, access=_mmap.ACCESS_WRITE)
        finally:
            os.close(descriptor)

    def _is_regular(self) -> bool:
        return self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def _from_object(self, f: Any) -> None:
        try:
            start = f.tell()
        except (AttributeError, OSError, ValueError):  # without a position
            self._keep(f.read())
            return
        # Others have a descriptor but read something else from it: gzip.GzipFile returns decompressed data.
        plain = getattr(f, "file", f) if isinstance(f, tempfile._TemporaryFileWrapper) else f
        raw = getattr(plain, "raw", plain)
        try:
            descriptor = os.dup(raw.fileno()) if type(raw) is io.FileIO else -1
        except (OSError, ValueError):
            descriptor = -1
        if descriptor < 0:
            self._keep(f.read())
            self._start, self._file = start, f if hasattr(f, "seek") else None
            return
        self._descriptor, self._start = descriptor, start
        if isinstance(f, io.TextIOBase) or not self._is_regular():
            os.close(descriptor)
            self._descriptor = None
            self._keep(f.read())
            return
        self.size = max(os.fstat(descriptor).st_size - start, 0)
        self._file = f

    def _keep(self, data: Any) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"load: the file object must give bytes, got {type(data).__name__}; open it with mode 'rb'")
        self._memory, self.size, self._start = memoryview(data), len(data), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def mapped(self) -> bool:
        """Whether tensors are maps of the file."""
        return self._map is not None

    def leave_at(self, offset: int) -> None:
        """Moves the caller's file object past what was read."""
        if self._file is not None:
            self._file.seek(self._start + offset)

    def read(self, offset: int, count: int, what: str = "the file") -> bytes:
        """Reads these bytes; raises an error if they are missing."""
        self.check(offset, count, what)
        if self._descriptor is None:
            return bytes(self._memory[offset : offset + count])
        parts, at = [], offset
        while at < offset + count:
            part = os.pread(self._descriptor, offset + count - at, self._start + at)
            if not part:
                raise cut_short(what, offset + count - at)
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def check(self, offset: int, count: int, what: str) -> None:
        """Raises an error unless these bytes exist."""
        if offset < 0 or count < 0:
            raise FileError(f"{what}: a negative position or length")
        if offset + count > self.size:
            raise cut_short(what, offset + count - self.size)

    def tensor(self, offset: int, count: int, what: str, itemsize: int = 8) -> tuple[fb.Tensor, int | None]:
        """The bytes as a uint8 tensor with its own storage, and their crc32 (None if not requested or not read).

        Bytes of a map that are not aligned to a multiple of the item size are copied.
        """
        self.check(offset, count, what)
        if count == 0:
            return fb.empty(0, dtype=fb.uint8), 0
        if self._map is not None and (self._start + offset) % min(itemsize, 8) == 0:
            import numpy as np

            view = np.frombuffer(self._map, dtype=np.uint8, count=count, offset=self._start + offset)
            address = view.__array_interface__["data"][0]
            return _C.from_address("load", address, fb.uint8, (count,), (1,), view, False), None
        room = fb.empty(count, dtype=fb.uint8)
        return room, self._fill(memoryview(cast(Any, room)), offset, what)

    def _fill(self, room: memoryview, offset: int, what: str) -> int | None:
        if self._descriptor is None:
            room[:] = self._memory[offset : offset + len(room)]
            return _C.crc32(room) if self._summed else None
        done, total = _C.read_summed(self._descriptor, room, self._start + offset, self._summed)
        if done < len(room):
            raise cut_short(what, len(room) - done)
        return total if self._summed else None

    def tensors(self, regions: dict[Any, tuple[int, int, str, int]]) -> dict[Any, tuple[fb.Tensor, int | None]]:
        """tensor() for many regions at once, by several threads if that pays."""
        threads = fb.get_num_threads()
        total = sum(region[1] for region in regions.values())
        if threads < 2 or total < PARALLEL or self.mapped or threading.current_thread() is not threading.main_thread():
            return {key: self.tensor(*region) for key, region in regions.items()}
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda region: self.tensor(*region), regions.values())
            return dict(zip(regions, parts, strict=True))
