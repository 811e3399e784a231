"""Process groups and collectives, for scripts that run in several processes, on one host or on many.

`python -m flambeau.distributed.run --nproc-per-node 4 train.py` starts four; a script started alone can form a group of
one process and runs unchanged.

Example:
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> loss = fb.tensor(0.5)
    >>> fb.distributed.all_reduce(loss)
    >>> loss / fb.distributed.get_world_size()
    tensor(0.5000)
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed import (
    _collectives,
    _group,
    _group_calls,
    _levels,
    _micro_shards,
    _objects,
    _p2p,
    _reducer,
    _store,
    _subgroups,
    _together,
    _types,
    device_mesh,
)
from flambeau.distributed._collectives import *  # names are listed in each module's __all__
from flambeau.distributed._group import *
from flambeau.distributed._group_calls import *
from flambeau.distributed._levels import *
from flambeau.distributed._micro_shards import *
from flambeau.distributed._objects import *
from flambeau.distributed._p2p import *
from flambeau.distributed._reducer import *
from flambeau.distributed._store import *
from flambeau.distributed._subgroups import *
from flambeau.distributed._together import *
from flambeau.distributed._together import _coalescing_manager as _coalescing_manager
from flambeau.distributed._types import *
from flambeau.distributed.device_mesh import *

__all__ = sorted(
    [
        *_collectives.__all__, *_group.__all__, *_group_calls.__all__, *_levels.__all__, *_micro_shards.__all__,
        *_objects.__all__, *_p2p.__all__, *_reducer.__all__,
        *_store.__all__, *_subgroups.__all__, *_together.__all__, *_types.__all__, *device_mesh.__all__,
    ]
)  # fmt: skip
__dir__ = _package_dir(__name__)
