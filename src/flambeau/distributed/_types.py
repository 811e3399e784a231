"""What the functions of process groups speak of: backends, reductions, work under way, the groups themselves."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["Backend", "GroupMember", "ProcessGroup", "ReduceOp", "Work", "group"]


class Backend(str):
    """Name of what carries messages between processes, in lower case.

    Example:
        >>> fb.distributed.Backend("GLOO")
        'gloo'
    """

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


class ReduceOp:
    """How values of several processes become one: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR.

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

    def __init__(self, op: str | ReduceOp) -> None:
        self.name: str = op.name if isinstance(op, ReduceOp) else op

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<ReduceOp.{self.name}>"


for _name in "SUM AVG PRODUCT MIN MAX BAND BOR BXOR".split():
    setattr(ReduceOp, _name, ReduceOp(_name))


class Work:
    """A collective under way; with one process it is done when it is returned.

    Example:
        >>> fb.distributed.Work(None).is_completed()
        True
    """

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Waits until it is done; True."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True

    def is_success(self) -> bool:
        """Whether it ended without an error."""
        return True

    def exception(self) -> None:
        """The error it ended with: none."""
        return None

    def result(self) -> Any:
        """The tensors it wrote."""
        return self._result


class ProcessGroup:
    """Processes that communicate: in this version, this process alone.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.group.WORLD.size(), fb.distributed.group.WORLD.rank()
        (1, 0)
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(self, backend: str, name: str, description: str = "") -> None:
        self._backend, self.group_name, self.group_desc = Backend(backend), name, description

    def rank(self) -> int:
        """Number of this process in the group."""
        return 0

    def size(self) -> int:
        """Number of processes."""
        return 1

    def name(self) -> str:
        """Name of the backend."""
        return self._backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name!r} of 1 process, backend {self._backend}>"


class World:
    """The default group, if there is one, and the groups made since."""

    default: ProcessGroup | None = None
    groups: list[ProcessGroup] = []


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
    """What new_group answers to processes outside of a group: GroupMember.NON_GROUP_MEMBER.

    Example:
        >>> fb.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    NON_GROUP_MEMBER = -100
