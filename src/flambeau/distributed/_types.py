"""Types of the process group API: backends, reductions, pending work, groups."""

from __future__ import annotations

import collections
import datetime
import threading
from collections.abc import Callable
from typing import Any

from flambeau.distributed._group_calls import GroupCalls
from flambeau.errors import (
    ArgumentError,
    CollectiveMismatch,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    PeerLost,
)
from flambeau.futures import Future

__all__ = [
    "Backend", "CollectiveMismatch", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember",
    "PeerLost", "ProcessGroup", "ReduceOp", "Work", "group",
]  # fmt: skip


class Backend(str):
    """Name of what carries messages between processes, in lower case.

    Example:
        >>> fb.distributed.Backend("GLOO")
        'gloo'
    """

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


class ReduceOp:
    """How values of several processes become one: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM.

    Example:
        >>> fb.distributed.ReduceOp.SUM
        <ReduceOp.SUM>
    """

    SUM: ReduceOp
    AVG: ReduceOp
    PRODUCT: ReduceOp
    MIN: ReduceOp
    MAX: ReduceOp
    BAND: ReduceOp
    BOR: ReduceOp
    BXOR: ReduceOp
    PREMUL_SUM: ReduceOp
    RedOpType: type[ReduceOp]

    def __init__(self, op: str | ReduceOp, factor: Any = None) -> None:
        self.name: str = op.name if isinstance(op, ReduceOp) else op
        self.factor: Any = op.factor if isinstance(op, ReduceOp) and factor is None else factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<ReduceOp.{self.name}>"


for _name in "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM".split():
    setattr(ReduceOp, _name, ReduceOp(_name))
ReduceOp.RedOpType = ReduceOp


class Work:
    """A collective or a message under way.

    Args:
        result: the tensors that it writes, or reads.
        done: whether it has ended already.

    Example:
        >>> fb.distributed.Work([fb.ones(1)]).is_completed()
        True
    """

    def __init__(self, result: Any, *, done: bool = True) -> None:
        self._result = result
        self._error: BaseException | None = None
        self._future: Future[Any] | None = None
        self._done = threading.Event()
        self._lock, self._source = threading.Lock(), -1
        if done:
            self._done.set()

    def _finish(self, error: BaseException | None = None) -> None:
        with self._lock:
            self._error = error
            self._done.set()
            future = self._future
        if future is not None:
            self._resolve(future)

    def _resolve(self, future: Future[Any]) -> None:
        if isinstance(self._error, Exception):
            future.set_exception(self._error)
        else:
            future.set_result(self._result)

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Waits until it is done, and raises if it failed; True.

        Args:
            timeout: how long to wait at most; the timeout of the group holds in any case.
        """
        if not self._done.wait(timeout.total_seconds() if timeout else None):
            assert timeout is not None
            raise DistBackendError(f"Work.wait: not done within {timeout.total_seconds():g} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, with or without an error."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it has ended without an error."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """The error it ended with, if there was one."""
        return self._error

    def result(self) -> Any:
        """The tensors it wrote."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """After irecv: the rank that sent."""
        self.wait()
        return self._source

    def get_future(self) -> Future[Any]:
        """A future whose value is the list of tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            future: Future[Any] = Future()
            self._future = future
            ended = self._done.is_set()
        if ended:
            self._resolve(future)
        return future


class Collected(list[Work]):
    """The calls collected by a _coalescing_manager."""

    def wait(self) -> bool:
        """Waits until all are done."""
        for work in self:
            work.wait()
        return True

    def is_completed(self) -> bool:
        """Whether all have ended."""
        return all(work.is_completed() for work in self)


class _Queue:
    """A thread that runs the asynchronous calls of a group in their order."""

    def __init__(self, name: str) -> None:
        self._name, self._changed = name, threading.Condition()
        self._calls: collections.deque[tuple[Callable[[], Any], Work]] = collections.deque()
        self._running: threading.Thread | None = None

    def idle(self) -> bool:
        return not self._calls

    def add(self, call: Callable[[], Any], work: Work) -> None:
        with self._changed:
            self._calls.append((call, work))
            if self._running is None:
                self._running = threading.Thread(target=self._run, name=f"flambeau-{self._name}", daemon=True)
                self._running.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._calls:
                    if not self._changed.wait(5.0) and not self._calls:  # an idle group needs no thread
                        self._running = None
                        return
                call, work = self._calls[0]
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:  # raised in wait()
                error = raised
            with self._changed:
                self._calls.popleft()
            work._finish(error)
            del call, work


class ProcessGroup(GroupCalls):
    """Processes that communicate.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.group.WORLD.size(), fb.distributed.group.WORLD.rank()
        (1, 0)
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, backend: str, name: str, description: str, engine: Any, ranks: list[int], timeout: datetime.timedelta
    ) -> None:
        self._backend, self.group_name, self.group_desc = Backend(backend), name, description
        self._engine, self._ranks, self._timeout = engine, ranks, timeout
        self._queue = _Queue(name)
        self._collected: Collected | None = None  # while a _coalescing_manager is active
        self.bound_device_id = None

    def rank(self) -> int:
        """Number of this process in the group."""
        return int(self._engine.rank)

    def size(self) -> int:
        """Number of processes."""
        return int(self._engine.size)

    def name(self) -> str:
        """Name of the backend."""
        return self._backend

    def _run(self, call: Callable[[], Any], result: Any, async_op: bool) -> Work | None:
        """Makes a call: at once, or, if it is asynchronous or others are pending, in the queue."""
        if not async_op and self._collected is None and self._queue.idle():
            call()
            return None
        work = Work(result, done=False)
        self._queue.add(call, work)
        if self._collected is not None:
            self._collected.append(work)
            return work if async_op else None
        if async_op:
            return work
        work.wait()
        return None

    def _root(self, op: str, which: str, rank: int | None, group_rank: int | None, default: int | None = None) -> int:
        """The rank in this group, given as a rank of the default group or of this one."""
        if rank is not None and group_rank is not None:
            raise ArgumentError(f"{op}: give {which} or group_{which}, not both")
        if rank is None and group_rank is None:
            if default is None:
                raise ArgumentError(f"{op}: {which} is missing; give {which} or group_{which}")
            return default
        given, known = (rank, self._ranks) if rank is not None else (group_rank, list(range(self.size())))
        if isinstance(given, bool) or not isinstance(given, int):
            raise TypeError(f"{op}: {which} must be an int, got {type(given).__name__}")
        if given not in known:
            raise ArgumentError(f"{op}: {which} {given} is out of range; the ranks of the group are {_short(known)}")
        return known.index(given)

    def __repr__(self) -> str:
        count = "1 process" if self.size() == 1 else f"{self.size()} processes"
        return f"<ProcessGroup {self.group_name!r} of {count}, backend {self._backend}>"


def _short(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks)) if len(ranks) <= 16 else f"{ranks[0]}, {ranks[1]}, ..., {ranks[-1]}"


class World:
    """The default group, the groups created since, and the connections between their processes."""

    default: ProcessGroup | None = None
    groups: list[ProcessGroup] = []
    network: Any = None  # a Network, in a program of several processes
    store: Any = None
    made = 0  # number of groups created by all processes
    local: dict[str, int] = {}  # groups created only by their members


class _GroupNames(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group; None before init_process_group()."""
        return World.default


class group(metaclass=_GroupNames):
    """The default group is group.WORLD.

    Example:
        >>> fb.distributed.group.WORLD is None
        True
    """


class GroupMember(metaclass=_GroupNames):
    """The result of new_group in processes outside of a group: GroupMember.NON_GROUP_MEMBER.

    Example:
        >>> fb.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    NON_GROUP_MEMBER = -100
