"""Tensors over several processes: each has a part, and placements say how the parts make up the whole.

Example:
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
    >>> weight = distribute_tensor(fb.ones(4, 4), mesh, [Shard(0)])
    >>> (weight * 2).sum().full_tensor()
    tensor(32.)
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.tensor import _api, _dtensor, placement_types
from flambeau.distributed.tensor._api import *
from flambeau.distributed.tensor._dtensor import *
from flambeau.distributed.tensor.placement_types import *

__all__ = sorted([*_api.__all__, *_dtensor.__all__, *placement_types.__all__])
__dir__ = _package_dir(__name__)
