"""Process groups of one process. Groups of several are not in this version, and asking for one is an error.

A script that joins its processes runs unchanged when it is started as one: `init_process_group` makes a group of one, in
which every collective is what it is for a single process, and DistributedDataParallel averages over one replica.

Example:
    >>> rank = fb.distributed.get_rank() if fb.distributed.is_initialized() else 0
    >>> rank
    0
"""

from flambeau.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
)
from flambeau.distributed._group import (
    Backend,
    ProcessGroup,
    ReduceOp,
    Work,
    destroy_process_group,
    get_backend,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    new_group,
)

__all__ = [
    "Backend", "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "destroy_process_group", "gather",
    "gather_object", "get_backend", "get_rank", "get_world_size", "group", "init_process_group", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "monitored_barrier",
    "new_group", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
]  # fmt: skip
