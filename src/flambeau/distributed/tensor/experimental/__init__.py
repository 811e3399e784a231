"""Attention over sharded sequences, and functions on the parts of DTensors."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.tensor.experimental._attention import context_parallel
from flambeau.distributed.tensor.experimental._local_map import implicit_replication, local_map

__all__ = ["context_parallel", "implicit_replication", "local_map"]
__dir__ = _package_dir(__name__)
