"""Shared memory: reference-counted blocks in a few large files per process, reused, and never left behind.

A process allocates blocks in segments, unnamed files (memfd) that vanish with the last process that maps them. A
message contains the position of a block; its receiver opens the segment through /proc and maps it once. Each block has
a reference count in its header, for tensors of any process and messages in flight. The owner reuses a block when its
count is zero, without being notified. A process that ends while messages are in flight leaves those blocks in a file
for the receiver.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import glob
import hashlib
import mmap
import multiprocessing
import os
import secrets
import tempfile
import threading
import time
import weakref
from multiprocessing import util
from typing import Any

from flambeau import _C
from flambeau.errors import OutOfMemoryError, StateError

HEADER = 64  # of a segment and of a block; keeps the data aligned to cache lines
_IN_FLIGHT, _GENERATION = 8, 16  # offsets in a block's header; the reference count comes first
_FIRST_SEGMENT, _LARGEST_SEGMENT = 4 << 20, 1 << 30
_IDLE = 64 << 20  # bytes of unused blocks that a process keeps for reuse
_OLD = 24 * 3600  # seconds after which a file is no longer needed
_ADVICE = "free memory, raise the limit (ulimit -f, the container's memory), or send less at a time"

_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
_held: dict[int, int] = {}  # of this process: id of a Block -> address of its header


class Segment:
    """One mapped file. `fd` is only kept by the process that allocates in it."""

    __slots__ = ("token", "nbytes", "address", "mapping", "fd", "used", "__weakref__")

    def __init__(self, token: bytes, nbytes: int, fd: int) -> None:
        self.token, self.nbytes, self.fd, self.used = token, nbytes, fd, HEADER
        self.address: int
        self.mapping: Any
        self.address, self.mapping = _C.shared_map(fd, nbytes)


class Block:
    """A piece of a segment, with a reference held by this process; released when the object is destroyed."""

    __slots__ = ("segment", "address", "nbytes", "__weakref__")

    def __init__(self, segment: Segment, address: int, nbytes: int) -> None:
        self.segment, self.address, self.nbytes = segment, address, nbytes
        _held[id(self)] = address
        _by_data[address + HEADER] = self

    @property
    def data(self) -> int:
        """Address of the first byte after the header."""
        return self.address + HEADER

    def __del__(self, held: Any = _held, add: Any = _C.shared_add) -> None:
        if held.pop(id(self), None) is not None:
            add(self.address, -1)


_by_data: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
_attached: weakref.WeakValueDictionary[bytes, Segment] = weakref.WeakValueDictionary()
_recent: collections.deque[Segment] = collections.deque(maxlen=8)  # kept mapped for the next message


def _rounded(nbytes: int) -> int:
    """The size class: four steps per power of two, at least 256 bytes."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 6)
    return -(-nbytes // step) * step


class Arena:
    """The segments this process allocates from."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        # Every block by size class, (segment, offset); the least recently used ones are on the left.
        self.blocks: dict[int, collections.deque[tuple[Segment, int]]] = {}
        self.reserved, self.trim_at = 0, 4 * _IDLE
        self.discarded: set[tuple[int, int]] = set()
        self.lock = threading.RLock()
        self.heirs = True  # whether a process waits for the messages in flight when this one ends

    def allocate(self, nbytes: int) -> Block:
        """A block of at least nbytes, referenced by this process."""
        size = _rounded(nbytes)
        with self.lock:
            known = self.blocks.setdefault(size, collections.deque())
            for _ in range(min(len(known), 4)):
                segment, offset = known[0]
                known.rotate(-1)
                address = segment.address + offset
                if _C.shared_add(address, 0) == 0:
                    if (segment.address, offset) in self.discarded:
                        self._reserve(segment, offset, size)
                        self.discarded.discard((segment.address, offset))
                    return self._give(segment, address, size)
            if self.reserved + size > self.trim_at:
                self.trim()
            segment = self._segment_with_room(HEADER + size)
            offset = segment.used
            self._reserve(segment, offset, size)
            segment.used += HEADER + size
            known.append((segment, offset))
            return self._give(segment, segment.address + offset, size)

    @staticmethod
    def _give(segment: Segment, address: int, size: int) -> Block:
        _C.shared_add(address + _GENERATION, 1)
        _C.shared_add(address, 1)
        return Block(segment, address, size)

    def _segment_with_room(self, nbytes: int) -> Segment:
        if self.segments and self.segments[-1].used + nbytes <= self.segments[-1].nbytes:
            return self.segments[-1]
        size = min(_FIRST_SEGMENT << len(self.segments), _LARGEST_SEGMENT)
        size = max(size, -(-(nbytes + HEADER) // mmap.PAGESIZE) * mmap.PAGESIZE)
        token = secrets.token_bytes(16)
        fd = -1
        try:
            fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
            os.ftruncate(fd, size)
            os.pwrite(fd, token, 8)
            segment = Segment(token, size, fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise explained(error, f"a segment of {size} bytes of shared memory cannot be made") from None
        self.segments.append(segment)
        _attached[token] = segment
        return segment

    def _reserve(self, segment: Segment, offset: int, size: int) -> None:
        """Reserves the pages now: touching a page that the system cannot provide would kill the process later."""
        try:
            os.posix_fallocate(segment.fd, offset, HEADER + size)
        except OSError as error:
            raise explained(error, f"no room for {size} bytes of shared memory") from None
        self.reserved += size

    def trim(self, keep: int = _IDLE) -> None:
        """Returns pages of unused blocks to the system, except `keep` bytes."""
        idle = 0
        for size, known in self.blocks.items():
            for segment, offset in known:
                place = (segment.address, offset)
                if place in self.discarded or _C.shared_add(segment.address + offset, 0) != 0:
                    continue
                idle += size
                start = -(-(segment.address + offset + HEADER) // mmap.PAGESIZE) * mmap.PAGESIZE
                end = (segment.address + offset + HEADER + size) // mmap.PAGESIZE * mmap.PAGESIZE
                if idle > keep and end > start:
                    _C.shared_discard(start, end - start)
                    self.discarded.add(place)
                    self.reserved -= size
        self.trim_at = max(4 * _IDLE, 2 * self.reserved)

    def leave(self) -> None:
        """At the end of the process: writes blocks in flight to a file for the receiver."""
        for segment in self.segments if self.heirs else ():
            if _C.shared_add(segment.address, 0) <= 0:
                continue
            view = memoryview(
                _C.from_address("share", segment.address, _C.uint8, (segment.nbytes,), (1,), segment, False)
            )
            with contextlib.suppress(OSError), open(_left_behind(segment.token), "wb") as file:
                os.ftruncate(file.fileno(), segment.nbytes)
                os.pwrite(file.fileno(), view[:HEADER], 0)
                for size, known in self.blocks.items():
                    for owner, offset in known:
                        if owner is segment and _C.shared_add(segment.address + offset + _IN_FLIGHT, 0) > 0:
                            os.pwrite(file.fileno(), view[offset : offset + HEADER + size], offset)


arena = Arena()


def explained(error: OSError, what: str) -> Exception:
    """The error of a system call, with what was attempted and a way out."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OSError(error.errno, f"share_memory_: {what}: too many open files; raise the limit (ulimit -n)")
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.ENOMEM):
        return OutOfMemoryError(f"share_memory_: {what}: {os.strerror(error.errno)}; {_ADVICE}")
    return OSError(error.errno, f"share_memory_: {what}: {os.strerror(error.errno or 0)}")


def _left_behind(token: bytes) -> str:
    return f"{_FOLDER}/flambeau-{_family()}-{token.hex()}"


def _family() -> str:
    """A name shared by the processes of one tree, however they were started."""
    return hashlib.sha256(multiprocessing.current_process().authkey).hexdigest()[:16]


# ---- messages ------------------------------------------------------------------------------------------------------------


def send(block: Block) -> tuple[Any, ...]:
    """The message for a block; it holds a reference until it is received."""
    segment = block.segment
    _C.shared_add(block.address, 1)
    _C.shared_add(block.address + _IN_FLIGHT, 1)
    _C.shared_add(segment.address, 1)
    place = (os.getpid(), segment.fd) if segment.fd >= 0 else _origin[segment.token]
    generation = _C.shared_add(block.address + _GENERATION, 0)
    return segment.token, segment.nbytes, place, block.address - segment.address, block.nbytes, generation


_origin: dict[bytes, tuple[int, int]] = {}  # where received segments were opened


def receive(message: tuple[Any, ...]) -> Block:
    """The block of a message; its reference passes from the message to this process."""
    token, total, place, offset, nbytes, generation = message
    segment = _attached.get(token) or _attach(token, total, place)
    address = segment.address + offset
    if _C.shared_add(address + _GENERATION, 0) != generation or not _C.shared_take(address + _IN_FLIGHT):
        raise StateError("receive: this message was received before; a message with tensors can be unpickled only once")
    left = _C.shared_add(segment.address, -1)
    if left == 0:
        with contextlib.suppress(OSError):  # the file exists only if the sender has ended
            os.unlink(_left_behind(token))
    known = _by_data.get(address + HEADER)
    if known is not None:
        _C.shared_add(address, -1)
        return known
    return Block(segment, address, nbytes)


def _attach(token: bytes, total: int, place: tuple[int, int]) -> Segment:
    pid, number = place
    fd = -1
    for path in (f"/proc/{pid}/fd/{number}", _left_behind(token)):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise explained(error, "a tensor was sent here, but its memory cannot be opened") from None
            continue
        if os.fstat(fd).st_size == total and os.pread(fd, 16, 8) == token:
            break
        os.close(fd)  # the pid of an ended process was reused
        fd = -1
    if fd < 0:
        raise StateError(
            f"receive: the process that sent this tensor (pid {pid}) was killed before the tensor was received, or could "
            "not leave its memory behind; keep the sender alive until the receiver has the tensor"
        )
    try:
        segment = Segment(token, total, fd)
    except OSError as error:
        raise explained(error, f"{total} bytes cannot be mapped") from None
    finally:
        os.close(fd)
    segment.fd = -1
    _attached[token] = segment
    _recent.append(segment)
    _origin[token] = (pid, number)
    weakref.finalize(segment, _origin.pop, token, None)
    return segment


def detach() -> None:
    """Unmaps segments of other processes without referenced blocks."""
    _recent.clear()


# ---- processes that fork and end -----------------------------------------------------------------------------------------


def _before_fork() -> None:
    arena.lock.acquire()
    for address in list(_held.values()):
        _C.shared_add(address, 1)  # on behalf of the child, whose tensors are these too


def _after_fork_in_child() -> None:
    global arena
    for segment in arena.segments:
        _origin[segment.token] = (os.getppid(), segment.fd)
        os.close(segment.fd)
        segment.fd = -1
    arena = Arena()
    _at_exit()


def _leave() -> None:
    held = list(_held.values())
    _held.clear()
    for address in held:
        _C.shared_add(address, -1)
    arena.leave()
    if multiprocessing.parent_process() is None:
        for path in glob.glob(f"{_FOLDER}/flambeau-*"):
            with contextlib.suppress(OSError):
                # Those of this tree of processes, and old ones of killed trees.
                if f"-{_family()}-" in path or time.time() - os.stat(path).st_mtime > _OLD:
                    os.unlink(path)


def _at_exit(_=None) -> None:
    # After the threads that feed queues have been joined (their priority is -5): then all messages are known.
    util.Finalize(None, _leave, exitpriority=-50)


os.register_at_fork(
    before=_before_fork, after_in_parent=lambda: arena.lock.release(), after_in_child=_after_fork_in_child
)
util.register_after_fork(Arena, _at_exit)
_at_exit()
