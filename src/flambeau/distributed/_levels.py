"""Parts of the API besides communication: debug levels, names of hooks, backends, rendezvous by URL."""

from __future__ import annotations

import datetime
import enum
import os
from collections.abc import Iterator
from typing import Any

from flambeau.distributed import _rendezvous
from flambeau.distributed._group import member
from flambeau.distributed._types import World
from flambeau.errors import ArgumentError

__all__ = [
    "BuiltinCommHookType", "DebugLevel", "get_backend_config", "get_debug_level", "get_pg_count", "is_ucc_available",
    "is_xccl_available", "rendezvous", "set_debug_level", "set_debug_level_from_env",
]  # fmt: skip


class DebugLevel(enum.IntEnum):
    """How much PyTorch checks and logs; calls are always compared here.

    Example:
        >>> fb.distributed.DebugLevel.OFF.value
        0
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


class BuiltinCommHookType(enum.IntEnum):
    """Names of hooks for DistributedDataParallel._register_builtin_comm_hook().

    Example:
        >>> fb.distributed.BuiltinCommHookType.FP16_COMPRESS.name
        'FP16_COMPRESS'
    """

    ALLREDUCE = 1
    FP16_COMPRESS = 2


class _Level:
    value: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level of the environment variable TORCH_DISTRIBUTED_DEBUG, or the one that was set.

    Example:
        >>> fb.distributed.get_debug_level().name
        'OFF'
    """
    if _Level.value is None:
        set_debug_level_from_env()
    assert _Level.value is not None
    return _Level.value


def set_debug_level(level: DebugLevel) -> None:
    """Sets what get_debug_level() returns; mismatches of calls are found at every level.

    Example:
        >>> fb.distributed.set_debug_level(fb.distributed.DebugLevel.OFF)
    """
    _Level.value = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Sets the level from the environment variable TORCH_DISTRIBUTED_DEBUG.

    Example:
        >>> fb.distributed.set_debug_level_from_env()
    """
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise ArgumentError(f"TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, got {text!r}")
    set_debug_level(DebugLevel[text])


def get_pg_count() -> int:
    """How many groups this process is in.

    Example:
        >>> fb.distributed.get_pg_count()
        0
    """
    return len(World.groups)


def get_backend_config(group: Any = None) -> str:
    """The backend of a group for each type of device.

    Args:
        group: the default group if not given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.get_backend_config()
        'cpu:gloo'
        >>> fb.distributed.destroy_process_group()
    """
    backend = str(member(group, "get_backend_config")._backend)
    return backend if ":" in backend else f"cpu:{backend}"


def is_ucc_available() -> bool:
    """False: there is no UCC.

    Example:
        >>> fb.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """False: XCCL needs Intel's GPUs.

    Example:
        >>> fb.distributed.is_xccl_available()
        False
    """
    return False


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: datetime.timedelta | None = None
) -> Iterator[tuple[Any, int, int]]:
    """Where processes meet: once, a store that they share, the rank of this one and the number of all.

    Args:
        url: as init_method of init_process_group().
        rank: the number of this process; from the environment if not given.
        world_size: the number of all; from the environment if not given.
        timeout: how long the store waits for values; 30 minutes if not given.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     store, rank, size = next(fb.distributed.rendezvous(f"file://{file.name}?rank=0&world_size=1"))
        >>> rank, size
        (0, 1)
    """
    yield _rendezvous.join(url, rank, world_size, None, timeout or datetime.timedelta(minutes=30))
