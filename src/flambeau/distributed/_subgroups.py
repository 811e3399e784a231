"""Groups made by dividing a group."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from flambeau.distributed._group import get_process_group_ranks, member, new_group
from flambeau.distributed._types import GroupMember, World
from flambeau.errors import ArgumentError

__all__ = ["get_pg_count", "new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def get_pg_count() -> int:
    """Number of groups this process is in, the default one included.

    Example:
        >>> fb.distributed.get_pg_count()
        0
    """
    return len(World.groups)


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divides a group into groups of equal size, of consecutive ranks. All processes of the default group call it.

    Args:
        group_size: processes per group; all of this host (LOCAL_WORLD_SIZE) if not given.
        group: what is divided; the default group if not given.
        timeout: how long calls wait for others; that of the default group if not given.
        backend: that of the default group if not given.
        pg_options: options of a backend; not supported.
        group_desc: a text that describes the groups.

    Returns:
        the group of this process, and all of them, with GroupMember.NON_GROUP_MEMBER where this process is not inside.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine, everybody = fb.distributed.new_subgroups(1)
        >>> mine.size(), len(everybody)
        (1, 1)
        >>> fb.distributed.destroy_process_group()
    """
    ranks = get_process_group_ranks(member(group, "new_subgroups"))
    if group_size is None:
        from flambeau.distributed._rendezvous import from_environment

        group_size = from_environment().get("local_world_size", len(ranks))
    if group_size < 1 or len(ranks) % group_size:
        raise ArgumentError(f"new_subgroups: the group's {len(ranks)} processes are not divisible by group_size, {group_size}")
    parts = [ranks[at : at + group_size] for at in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Makes groups that have no process in common. All processes of the default group call it.

    Args:
        ranks_per_subgroup_list: the ranks of each.
        timeout: how long calls wait for others; that of the default group if not given.
        backend: that of the default group if not given.
        pg_options: options of a backend; not supported.
        group_desc: a text that describes the groups.

    Returns:
        the group of this process, None if it is in none, and all of them.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> mine, everybody = fb.distributed.new_subgroups_by_enumeration([[0]])
        >>> mine.size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        twice = seen & set(ranks)
        if twice:
            raise ArgumentError(f"new_subgroups_by_enumeration: rank {min(twice)} has appeared in more than one subgroup")
        seen |= set(ranks)
    made = [
        new_group(list(ranks), timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list
    ]
    mine = [group for group in made if group != GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: datetime.timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """Divides a group; only its processes call it.

    Args:
        parent_pg: what is divided; the default group if not given.
        split_ranks: the ranks, within parent_pg, of each part.
        timeout: how long calls wait for others; that of parent_pg if not given.
        pg_options: options of a backend; not supported.
        group_desc: a text that describes the groups.

    Returns:
        the part this process is in, None if it is in none.

    Example:
        >>> fb.distributed.init_process_group(rank=0, world_size=1)
        >>> fb.distributed.split_group(split_ranks=[[0]]).size()
        1
        >>> fb.distributed.destroy_process_group()
    """
    parent = member(parent_pg, "split_group")
    if not split_ranks:
        raise ArgumentError("split_group: split_ranks must name at least one part, such as [[0, 1], [2, 3]]")
    flat = [rank for part in split_ranks for rank in part]
    if len(set(flat)) != len(flat) or any(rank not in range(parent.size()) for rank in flat):
        raise ArgumentError(f"split_group: split_ranks must be different ranks from 0 to {parent.size() - 1}, got {list(split_ranks)}")
    for part in split_ranks:
        if parent.rank() in part:
            ranks = [parent._ranks[rank] for rank in part]
            limit = timeout or parent._timeout
            return new_group(ranks, limit, parent._backend, pg_options, use_local_synchronization=True, group_desc=group_desc)
    return None
