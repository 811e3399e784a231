"""Process groups: creation, queries and destruction."""

from __future__ import annotations

import datetime
import importlib.util
import os
import sys
import time
from typing import Any

import flambeau as fb
from flambeau.distributed import _mpi, _rendezvous
from flambeau.distributed._engine import Alone
from flambeau.distributed._network import Network
from flambeau.distributed._store import HashStore, PrefixStore
from flambeau.distributed._types import Backend, GroupMember, ProcessGroup, ReduceOp, World
from flambeau.errors import ArgumentError, DistNetworkError, StateError

__all__ = [
    "default_pg_timeout", "destroy_process_group", "get_backend", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "new_group", "supports_complex",
]  # fmt: skip

default_pg_timeout = datetime.timedelta(minutes=30)


# ---- queries -------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether processes can communicate: True.

    Example:
        >>> fb.distributed.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Whether init_process_group() has been called.

    Example:
        >>> fb.distributed.is_initialized()
        False
    """
    return World.default is not None


def is_nccl_available() -> bool:
    """False: NCCL needs CUDA.

    Example:
        >>> fb.distributed.is_nccl_available()
        False
    """
    return False


def is_gloo_available() -> bool:
    """True: "gloo" is the usual name for groups of CPU processes, which flambeau's own engine carries.

    Example:
        >>> fb.distributed.is_gloo_available()
        True
    """
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, which backend "mpi" uses.

    Example:
        >>> isinstance(fb.distributed.is_mpi_available(), bool)
        True
    """
    return importlib.util.find_spec("mpi4py") is not None


def is_backend_available(backend: str) -> bool:
    """Whether a backend itself is available, not only its name.

    Example:
        >>> fb.distributed.is_backend_available("gloo"), fb.distributed.is_backend_available("nccl")
        (True, False)
    """
    return Backend(backend) == Backend.GLOO or Backend(backend) == Backend.MPI and is_mpi_available()


def is_torchelastic_launched() -> bool:
    """Whether a launcher such as `python -m flambeau.distributed.run` started this process.

    Example:
        >>> fb.distributed.is_torchelastic_launched()
        False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def member(group: Any, op: str) -> ProcessGroup:
    """The group an op runs in; raises an error if there is none."""
    chosen = World.default if group is None else group
    if chosen is None:
        raise _Uninitialized(
            f"{op}: the default process group has not been initialized; call init_process_group() first"
        )
    if not isinstance(chosen, ProcessGroup) or chosen not in World.groups:
        raise ArgumentError(f"{op}: expected a process group that this process is part of, got {chosen!r}")
    return chosen


class _Uninitialized(StateError, ValueError):
    """PyTorch raises ValueError here."""


def get_rank(group: Any = None) -> int:
    """Number of this process, or -1 when it is not in the group.

    Args:
        group: the default group if not given.

    Example:
        >>> fb.distributed.get_rank() if fb.distributed.is_initialized() else "alone"
        'alone'
    """
    return -1 if group == GroupMember.NON_GROUP_MEMBER else member(group, "get_rank").rank()


def get_world_size(group: Any = None) -> int:
    """Number of processes, or -1 when this one is not in the group.

    Args:
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.get_world_size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    return -1 if group == GroupMember.NON_GROUP_MEMBER else member(group, "get_world_size").size()


def get_backend(group: Any = None) -> Backend:
    """Name of a group's backend.

    Args:
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_backend()
        'gloo'
        >>> fb.distributed.destroy_process_group()
    """
    return member(group, "get_backend")._backend


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors on a device; those on an accelerator are copied to the CPU to be sent.

    Example:
        >>> fb.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = fb.device(device).type
    if kind == "meta":
        raise ArgumentError("get_default_backend_for_device: tensors on the meta device have no elements to send")
    return "gloo"



def get_global_rank(group: Any, group_rank: int) -> int:
    """Rank in the default group of a process of another group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_global_rank(fb.distributed.new_group([0]), 0)
        0
        >>> fb.distributed.destroy_process_group()
    """
    chosen = member(group, "get_global_rank")
    return chosen._ranks[chosen._root("get_global_rank", "rank", None, group_rank)]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Rank in a group of a process of the default group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_group_rank(fb.distributed.group.WORLD, 0)
        0
        >>> fb.distributed.destroy_process_group()
    """
    return member(group, "get_group_rank")._root("get_group_rank", "global_rank", global_rank, None)


def get_process_group_ranks(group: Any) -> list[int]:
    """Ranks in the default group of all processes of a group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_process_group_ranks(None)
        [0]
        >>> fb.distributed.destroy_process_group()
    """
    return list(member(group, "get_process_group_ranks")._ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Number of this process on its machine, from the environment variable LOCAL_RANK.

    Args:
        fallback_rank: the answer without that variable; an error if not given.

    Example:
        >>> fb.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise StateError("get_node_local_rank: LOCAL_RANK is not in the environment; set it or pass fallback_rank")
    return int(fallback_rank)


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether complex tensors can be reduced so.

    Example:
        >>> fb.distributed.supports_complex(fb.distributed.ReduceOp.MAX)
        False
    """
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


# ---- creation and destruction --------------------------------------------------------------------------------------

_noticed = False


def _backend(op: str, name: str | None) -> Backend:
    """A backend's name. All names select the same engines, which is reported once in a program of several processes."""
    if name is None:
        return Backend(Backend.GLOO)
    parts = [part.split(":")[-1] for part in str(name).lower().split(",")]  # "cpu:gloo,cuda:nccl"
    for part in parts:
        if part not in Backend.backend_list[1:]:
            raise ArgumentError(
                f"{op}: backend {name!r} is not known, expected one of {', '.join(Backend.backend_list[1:])}"
            )
    return Backend(str(name).lower() if len(parts) > 1 else parts[0])


def _notice(backend: Backend, rank: int) -> None:
    global _noticed
    if not _noticed and rank == 0 and backend != Backend.GLOO and not _by_mpi(backend):
        _noticed = True
        why = ", as mpirun did not start this program" if backend == Backend.MPI else ""
        print(
            f"flambeau: backend {str(backend)!r} is carried by flambeau's own engine (shared memory and TCP){why}", file=sys.stderr
        )


def _by_mpi(backend: Backend) -> bool:
    """Whether a backend uses MPI."""
    return backend == Backend.MPI and _mpi.started_by_mpi()


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the default group, of all processes of the program.

    Args:
        backend: "gloo", "nccl" and other names of PyTorch's give flambeau's engine: shared memory on one host, TCP between
            hosts. "mpi" gives MPI by mpi4py, in programs that mpirun has started.
        init_method: how processes find each other: "env://" by environment variables that the launcher sets,
            "tcp://host:port" at an address of rank 0, "file:///path" by a new file that all can write to.
        timeout: how long calls wait for others; 30 minutes if not given. All processes must have started within 60 s,
            or the seconds in the environment variable FLAMBEAU_START_TIMEOUT.
        world_size: the number of processes; from the environment if not given.
        rank: the number of this one; from the environment if not given.
        store: the store for rendezvous, in place of init_method.
        group_name: not used, as in PyTorch.
        pg_options: options of a backend; not supported.
        device_id: a device that tensors will be on; tensors on any device can be sent.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.is_initialized()
        True
        >>> fb.distributed.destroy_process_group()
    """
    if World.default is not None:
        raise ArgumentError("init_process_group: there is a group already; destroy_process_group() ends it")
    if pg_options is not None:
        raise ArgumentError("init_process_group: pg_options is not supported; leave it at None")
    chosen = _backend("init_process_group", backend)
    limit = timeout or default_pg_timeout
    given = store
    store, rank, world_size = _rendezvous.join(init_method, rank, world_size, given, limit)
    World.made, ranks = 0, list(range(world_size))
    if world_size == 1:
        engine: Any = Alone()
        World.store = store if store is not None else HashStore()
    else:
        _notice(chosen, rank)
        engine = _connect(store, rank, world_size, limit, _by_mpi(chosen))
    World.default = ProcessGroup(chosen, "default_pg", "default_pg", engine, ranks, limit)
    World.groups = [World.default]


def _connect(store: Any, rank: int, world_size: int, limit: datetime.timedelta, mpi: bool) -> Any:
    """Connects all processes; returns the engine of the default group."""
    end = time.monotonic() + _rendezvous.start_timeout()
    while True:
        try:
            World.network = Network(_rendezvous.own_part(store, rank), rank, world_size, limit)
            break
        except DistNetworkError:
            # The store belonged to rank 0's previous group, which has just ended.
            if rank == 0 or not _rendezvous.reconnect(store) or time.monotonic() > end:
                raise
            time.sleep(0.05)  # until rank 0 serves the next store; polling is the only way to notice
    World.store = PrefixStore("user", World.network.store)
    engine = World.network.engine("default_pg", list(range(world_size)), limit, mpi)
    World.network.settle()
    return engine


def destroy_process_group(group: Any = None) -> None:
    """Ends a group; the default one, if not given, and all others with it.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.destroy_process_group()
        >>> fb.distributed.is_initialized()
        False
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    ended = member(group, "destroy_process_group")
    if ended is not World.default:
        World.groups.remove(ended)
        ended._engine.close()
        return
    for each in World.groups:
        each._engine.close()
    if World.network is not None:
        World.network.close()
        _rendezvous.close(World.network.store)
    World.default, World.groups, World.network, World.store = None, [], None, None


def new_group(
    ranks: list[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Makes a group of some processes of the default group. All processes call it, in the same order.

    Args:
        ranks: their ranks; all if not given.
        timeout: how long calls wait for others; that of the default group if not given.
        backend: that of the default group if not given.
        pg_options: options of a backend; not supported.
        use_local_synchronization: whether only the members call it.
        group_desc: a text that describes the group.
        device_id: a device that tensors will be on.
        sort_ranks: whether to put the ranks in order; else a process's rank in the group is its place in `ranks`.

    Returns:
        the group, or GroupMember.NON_GROUP_MEMBER when this process is not in it.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.new_group([0]).size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    default = member(None, "new_group")
    if pg_options is not None:
        raise ArgumentError("new_group: pg_options is not supported; leave it at None")
    world = default.size()
    wanted = list(range(world)) if ranks is None else list(ranks)
    if len(set(wanted)) != len(wanted) or any(rank not in range(world) for rank in wanted):
        only = "only 0" if world == 1 else f"0 to {world - 1}"
        raise ArgumentError(
            f"new_group: ranks must be different ranks of the default group, which has {only}, got {wanted}"
        )
    if sort_ranks:
        wanted.sort()
    name = _backend("new_group", backend) if backend else default._backend
    if use_local_synchronization:
        # Others do not count this group, so it is numbered among groups of the same ranks.
        key = "local_" + "_".join(map(str, wanted))
        World.local[key] = World.local.get(key, 0) + 1
        label = f"{key}_{World.local[key]}"
    else:
        World.made += 1
        label = f"group_{World.made}"
    if default.rank() not in wanted:
        return GroupMember.NON_GROUP_MEMBER
    limit = timeout or default._timeout
    engine = Alone() if len(wanted) == 1 else World.network.engine(label, wanted, limit, _by_mpi(name))
    made = ProcessGroup(name, label, group_desc or "undefined", engine, wanted, limit)
    World.groups.append(made)
    return made
