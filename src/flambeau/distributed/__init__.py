"""Process groups and collectives, for scripts that can run in several processes: in this version, in one.

A script started alone forms a group of one process and runs unchanged; more than one process is an error.

Example:
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> loss = fb.tensor(0.5)
    >>> fb.distributed.all_reduce(loss)
    >>> loss / fb.distributed.get_world_size()
    tensor(0.5000)
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed import _collectives, _group, _objects, _types
from flambeau.distributed._collectives import *  # each module lists its names
from flambeau.distributed._group import *
from flambeau.distributed._objects import *
from flambeau.distributed._types import *

__all__ = sorted([*_collectives.__all__, *_group.__all__, *_objects.__all__, *_types.__all__])
__dir__ = _package_dir(__name__)
