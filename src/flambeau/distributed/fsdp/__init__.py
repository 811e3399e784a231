"""Data parallelism with parameters, gradients and optimizer states distributed over the processes."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.fsdp import _fully_shard, _policies, api, fully_sharded_data_parallel
from flambeau.distributed.fsdp._fully_shard import *
from flambeau.distributed.fsdp._policies import *
from flambeau.distributed.fsdp.api import *
from flambeau.distributed.fsdp.fully_sharded_data_parallel import *

__all__ = sorted([*_fully_shard.__all__, *_policies.__all__, *api.__all__, *fully_sharded_data_parallel.__all__])
__dir__ = _package_dir(__name__)
