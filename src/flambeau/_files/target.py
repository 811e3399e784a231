"""Where bytes go: a path, replaced atomically when everything is on the disk, or an object with write()."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau import _C

WRITE = 1 << 25  # bytes per call of an object's write()
EARLY = 1 << 23  # after this many bytes the disk starts to write them


@functools.cache
def _sync_file_range() -> Any:
    """Linux's call that starts writing pages to the disk without waiting; None elsewhere."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


class Writer:
    """Writes sequentially to an object with write(), and counts."""

    def __init__(self, write: Any) -> None:
        self._write, self.position = write, 0

    def write(self, data: Any) -> None:
        """Writes bytes or a memoryview, however large."""
        view = memoryview(data)
        for at in range(0, len(view), WRITE):
            part = view[at : at + WRITE]
            while len(part):
                done = self._write(part)
                part = part[len(part) if done is None else done :]
        self.position += len(view)


class FileWriter(Writer):
    """Writes to a file of the system. Checksums are computed while writing, so that memory is read once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(None)
        self._descriptor, self._begun = descriptor, 0

    def write(self, data: Any) -> None:
        """Writes bytes or a memoryview, however large."""
        self.write_summed([data])

    def write_summed(self, parts: Iterable[Any]) -> int:
        """Writes consecutive parts; returns the crc32 of them all."""
        total = 0
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), EARLY):
                piece = view[at : at + EARLY]
                total = _C.write_summed(self._descriptor, piece, self.position, total)
                self.position += len(piece)
                self._begin()
        return total

    def _begin(self) -> None:
        """Starts writing to the disk, so that fsync() has little left to wait for."""
        start, ready = _sync_file_range(), self.position - self._begun
        if start is not None and ready >= EARLY:
            start(self._descriptor, self._begun, ready, 2)
            self._begun = self.position

    def leave_room(self, count: int) -> int:
        """Reserves `count` bytes that fill() writes later; returns their position."""
        self.position += count
        return self.position - count

    def fill(self, at: int, data: bytes) -> None:
        """Writes into reserved space."""
        _C.write_summed(self._descriptor, data, at, 0)


def _new_file(folder: str, temporary: str) -> tuple[int, bool]:
    """A descriptor of a new file, and whether it has its temporary name already.

    If the system supports it, the file gets a name only when it is complete: a program killed before that leaves
    nothing behind.
    """
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # some file systems do not support it; other errors recur below
            return os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666), False
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), True


class Staged:
    """Files written under temporary names in the folder of their target; commit() renames them all."""

    def __init__(self) -> None:
        self._files: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def file(self, path: str) -> Iterator[FileWriter]:
        """A writer for the file that will be at path after commit()."""
        target = os.path.realpath(path)
        folder, name = os.path.split(target)
        temporary = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(6)}.tmp")
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder; make it first, say with os.makedirs", folder)
        descriptor, named = _new_file(folder, temporary)
        try:
            if named:
                self._files.append((temporary, target))
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
            yield FileWriter(descriptor)
            os.fsync(descriptor)
            if not named:
                # src_dir_fd is not used, but makes Python follow the link of /proc to the file itself.
                os.link(f"/proc/self/fd/{descriptor}", temporary, src_dir_fd=descriptor, follow_symlinks=True)
                self._files.append((temporary, target))
        finally:
            os.close(descriptor)

    def commit(self) -> None:
        """Renames every file to its target; the last one written comes last."""
        while self._files:
            temporary, path = self._files[0]
            os.replace(temporary, path)
            self._files.pop(0)
            folder = os.open(os.path.dirname(path), os.O_RDONLY)
            try:
                # The rename itself must survive a power failure too.
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Removes what was not committed."""
        for temporary, _ in self._files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        self._files.clear()


@contextlib.contextmanager
def staged() -> Iterator[Staged]:
    """Commits if the block succeeds; leaves nothing behind if it does not."""
    files = Staged()
    try:
        yield files
        files.commit()
    finally:
        files.discard()


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Writer]:
    """A writer for a path (atomic, unless it is a device or pipe) or for an object with write()."""
    if isinstance(f, (str, bytes, os.PathLike)):
        path = os.fsdecode(f)
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb", buffering=0) as stream:
                yield Writer(stream.write)
            return
        with staged() as files, files.file(path) as writer:
            yield writer
    elif hasattr(f, "write"):
        yield Writer(f.write)
        flush = getattr(f, "flush", None)
        if callable(flush):  # so that the file can be opened by name, such as a NamedTemporaryFile
            flush()
    else:
        raise TypeError(f"save: expected a path or an object with write(), got {type(f).__name__}")
