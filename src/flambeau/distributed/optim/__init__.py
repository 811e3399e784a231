"""Optimizers whose state is distributed over processes."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
__dir__ = _package_dir(__name__)
