"""Process groups: making, asking and ending them. A group of this version has one process."""

from __future__ import annotations

import datetime
import os
from typing import Any

import flambeau as fb
from flambeau.distributed._types import Backend, GroupMember, ProcessGroup, ReduceOp, World
from flambeau.errors import ArgumentError, StateError

__all__ = [
    "default_pg_timeout", "destroy_process_group", "get_backend", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "new_group", "supports_complex",
]  # fmt: skip

default_pg_timeout = datetime.timedelta(minutes=30)


# ---- asking --------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """False: processes cannot be joined in this version, so code that would share work among them is better left out.

    Libraries load what they have for many processes when this is True. A group of one can be made in any case.

    Example:
        >>> fb.distributed.is_available()
        False
    """
    return False


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
    """True: "gloo" is the name under which a group of CPU processes is made; here of one.

    Example:
        >>> fb.distributed.is_gloo_available()
        True
    """
    return True


def is_mpi_available() -> bool:
    """False: this version does not use MPI.

    Example:
        >>> fb.distributed.is_mpi_available()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a group can be made with a backend.

    Example:
        >>> fb.distributed.is_backend_available("nccl")
        False
    """
    return Backend(backend) == Backend.GLOO


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's elastic launcher started this process.

    Example:
        >>> fb.distributed.is_torchelastic_launched()
        False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def member(group: Any, op: str) -> ProcessGroup:
    """The group an op is to run in; an error without one."""
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
    """Number of this process: 0, or -1 when it is not in the group.

    Args:
        group: the default group if not given.

    Example:
        >>> fb.distributed.get_rank() if fb.distributed.is_initialized() else "alone"
        'alone'
    """
    return -1 if group == GroupMember.NON_GROUP_MEMBER else member(group, "get_rank").rank()


def get_world_size(group: Any = None) -> int:
    """Number of processes: 1, or -1 when this one is not in the group.

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
    """The backend for tensors on a device.

    Example:
        >>> fb.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = fb.device(device).type
    if kind != "cpu":
        raise ArgumentError(f"get_default_backend_for_device: there is no backend for {kind}, only for the cpu")
    return "gloo"


def check_rank(op: str, which: str, rank: Any) -> None:
    if rank is not None and rank != 0:
        raise ArgumentError(f"{op}: {which} {rank} is out of range; the only rank of a group of one process is 0")


def get_global_rank(group: Any, group_rank: int) -> int:
    """Rank in the default group of a process of another group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_global_rank(fb.distributed.new_group([0]), 0)
        0
        >>> fb.distributed.destroy_process_group()
    """
    member(group, "get_global_rank")
    check_rank("get_global_rank", "group_rank", group_rank)
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """Rank in a group of a process of the default group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_group_rank(fb.distributed.group.WORLD, 0)
        0
        >>> fb.distributed.destroy_process_group()
    """
    member(group, "get_group_rank")
    check_rank("get_group_rank", "global_rank", global_rank)
    return 0


def get_process_group_ranks(group: Any) -> list[int]:
    """Ranks in the default group of all processes of a group.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.get_process_group_ranks(None)
        [0]
        >>> fb.distributed.destroy_process_group()
    """
    member(group, "get_process_group_ranks")
    return [0]


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
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)


# ---- making and ending ---------------------------------------------------------------------------------------------


def _from_environment(given: int, variable: str) -> int:
    if given >= 0:
        return given
    if variable not in os.environ:
        raise ArgumentError(
            f"init_process_group: environment variable {variable} expected, but not set; pass rank=0 and world_size=1 for a "
            "single process"
        )
    return int(os.environ[variable])


def _known(op: str, name: str) -> Backend:
    """A backend's name. One process sends nothing, so that scripts may name one that is not here."""
    backend = Backend(name)
    if backend not in Backend.backend_list[1:]:
        raise ArgumentError(
            f"{op}: backend {name!r} is not known, expected one of {', '.join(Backend.backend_list[1:])}"
        )
    return backend


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
    """Makes the default group, which in this version can only be this process alone.

    Args:
        backend: a name such as "gloo" or "nccl"; a single process sends nothing, so any will do.
        init_method: how processes would find each other; a single one need not look.
        timeout: how long to wait for others; there are none.
        world_size: the number of processes, 1; from the environment variable WORLD_SIZE if not given.
        rank: the number of this one, 0; from the environment variable RANK if not given.
        store: where processes would meet.
        group_name: not used, as in PyTorch.
        pg_options: options of a backend; not supported.
        device_id: the device of this process: the CPU.

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
    if device_id is not None and fb.device(device_id).type != "cpu":
        raise ArgumentError(f"init_process_group: device_id must be the cpu, got {device_id}")
    # "cpu:gloo,cuda:nccl" names one backend per device.
    names = (
        dict(part.split(":") for part in backend.split(","))
        if backend and ":" in backend
        else {"cpu": backend or "gloo"}
    )
    chosen = _known("init_process_group", names.get("cpu", next(iter(names.values()))))
    size = _from_environment(world_size, "WORLD_SIZE")
    if size != 1:
        raise StateError(
            f"init_process_group: {size} processes were asked for, and groups of several are not supported yet; run one "
            "process, with WORLD_SIZE=1"
        )
    check_rank("init_process_group", "rank", _from_environment(rank, "RANK"))
    World.default = ProcessGroup(chosen, "default_pg", "default_pg")
    World.groups = [World.default]


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
    if ended is World.default:
        World.default, World.groups = None, []
    else:
        World.groups.remove(ended)


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
    """Makes a group of some processes of the default group.

    Args:
        ranks: their ranks; all if not given.
        timeout: how long to wait for others; there are none.
        backend: that of the default group if not given.
        pg_options: options of a backend; not supported.
        use_local_synchronization: whether only the members wait for each other; there is only one.
        group_desc: a text that describes the group.
        device_id: the device of this process: the CPU.
        sort_ranks: whether to put the ranks in order.

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
    wanted = [0] if ranks is None else list(ranks)
    if len(set(wanted)) != len(wanted) or any(rank != 0 for rank in wanted):
        raise ArgumentError(
            f"new_group: ranks must be different ranks of the default group, which has only 0, got {wanted}"
        )
    name = _known("new_group", backend) if backend else default._backend
    if not wanted:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(name, f"group_{len(World.groups)}", group_desc or "undefined")
    World.groups.append(made)
    return made
