"""The group of processes, which is one, and what it says of itself."""

from __future__ import annotations

import os
from typing import Any

from flambeau.errors import ArgumentError, StateError


class ReduceOp:
    """How a collective combines the tensors of the processes.

    Example:
        >>> fb.distributed.ReduceOp.SUM
        'SUM'
    """

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"


class Backend(str):
    """The name of a way to communicate, in lower case.

    Example:
        >>> fb.distributed.Backend("GLOO")
        'gloo'
    """

    GLOO, NCCL, MPI, UNDEFINED = "gloo", "nccl", "mpi", "undefined"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Processes that talk to each other: here, this one.

    Example:
        >>> fb.distributed.ProcessGroup().size()
        1
    """

    def __init__(self, backend: str = "gloo") -> None:
        self._backend = Backend(backend)

    def rank(self) -> int:
        """The number of this process in the group: 0."""
        return 0

    def size(self) -> int:
        """How many processes there are: 1."""
        return 1

    def name(self) -> str:
        """The name of the way to communicate."""
        return str(self._backend)


class Work:
    """What a collective with async_op=True returns; with one process it is done at once.

    Example:
        >>> fb.distributed.Work().wait()
        True
    """

    def wait(self, timeout: Any = None) -> bool:
        """Returns when the collective is done."""
        return True

    def is_completed(self) -> bool:
        """Whether the collective is done."""
        return True

    def is_success(self) -> bool:
        """Whether it went well."""
        return True


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _world


class group(metaclass=_Group):
    """group.WORLD is the group of all processes, None before init_process_group().

    Example:
        >>> fb.distributed.group.WORLD is None
        True
    """


_world: ProcessGroup | None = None


def is_available() -> bool:
    """False: processes cannot be joined in this version. Groups of one can be made nevertheless.

    Example:
        >>> fb.distributed.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """Whether init_process_group() was called.

    Example:
        >>> fb.distributed.is_initialized()
        False
    """
    return _world is not None


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
    store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Makes the group of all processes, which must be one.

    Args:
        backend: its name is remembered; one process needs no way to communicate.
        init_method: where the processes would meet; with env://, the default, size and rank are read from WORLD_SIZE and RANK.
        timeout: how long collectives would wait; they never do.
        world_size: the number of processes: 1.
        rank: the number of this process: 0.
        store: where the processes would meet.
        group_name: without effect.
        pg_options: without effect.
        device_id: without effect.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.get_rank(), fb.distributed.get_world_size()
        (0, 1)
        >>> fb.distributed.destroy_process_group()
    """
    global _world
    if _world is not None:
        raise ArgumentError("init_process_group: there is a group already; call destroy_process_group() first")
    by_environment = store is None and (init_method is None or init_method.startswith("env://"))
    if world_size < 0:
        world_size = _from_environment("WORLD_SIZE", by_environment)
    if rank < 0:
        rank = _from_environment("RANK", by_environment)
    if world_size != 1:
        raise StateError(
            f"init_process_group: {world_size} processes were asked for, but this version has groups of one process only; "
            "start the script as one process, with WORLD_SIZE=1"
        )
    if rank != 0:
        raise ArgumentError(f"init_process_group: rank {rank} is out of range for 1 process; expected 0")
    _world = ProcessGroup(backend or "gloo")


def _from_environment(name: str, allowed: bool) -> int:
    if not allowed or name not in os.environ:
        raise ArgumentError(f"init_process_group: environment variable {name} expected, but not set; or pass world_size and rank")
    return int(os.environ[name])


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without an argument, the group of all processes.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.destroy_process_group()
        >>> fb.distributed.is_initialized()
        False
    """
    global _world
    here = _need("destroy_process_group", None)
    if group is None or group is here:
        _world = None


def _need(op: str, group: ProcessGroup | None) -> ProcessGroup:
    if _world is None:
        raise ArgumentError(f"{op}: Default process group has not been initialized; call init_process_group() first")
    if group is not None and not isinstance(group, ProcessGroup):
        raise TypeError(f"{op}: expected a process group, got {type(group).__name__}")
    return group or _world


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group: 0.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.get_rank()
        0
        >>> fb.distributed.destroy_process_group()
    """
    return _need("get_rank", group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in a group: 1.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.get_world_size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    return _need("get_world_size", group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name that the group was made with.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.get_backend()
        'gloo'
        >>> fb.distributed.destroy_process_group()
    """
    return _need("get_backend", group).name()


def new_group(ranks: Any = None, timeout: Any = None, backend: str | None = None, pg_options: Any = None, **options: Any) -> ProcessGroup:
    """A group of some of the processes: of this one.

    Args:
        ranks: None or [0].
        timeout: how long collectives would wait; they never do.
        backend: the name of a way to communicate, that of all processes by default.
        pg_options: without effect.
        options: without effect.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.new_group([0]).size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    world = _need("new_group", None)
    if ranks is not None and list(ranks) != [0]:
        raise ArgumentError(f"new_group: ranks {list(ranks)} are not all in a group of 1 process; expected [0]")
    return ProcessGroup(backend or world.name())


def is_nccl_available() -> bool:
    """False: NCCL needs CUDA.

    Example:
        >>> fb.distributed.is_nccl_available()
        False
    """
    return False


def is_gloo_available() -> bool:
    """False: this build has no Gloo.

    Example:
        >>> fb.distributed.is_gloo_available()
        False
    """
    return False


def is_mpi_available() -> bool:
    """False: this version does not use MPI.

    Example:
        >>> fb.distributed.is_mpi_available()
        False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's elastic launcher started this process.

    Example:
        >>> fb.distributed.is_torchelastic_launched()
        False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ
