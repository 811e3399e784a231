"""Positions of the pieces of DTensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.distributed.tensor._redistribute import local_part
from flambeau.distributed.tensor.placement_types import Placement

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of this process's piece of a tensor, and where it begins.

    Example:
        >>> from flambeau.distributed.tensor import Shard, _utils
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> _utils.compute_local_shape_and_global_offset((4, 2), fb.distributed.init_device_mesh("cpu", (1,)), [Shard(0)])
        ((4, 2), (0, 0))
        >>> fb.distributed.destroy_process_group()
    """
    return local_part(global_shape, mesh, placements)
