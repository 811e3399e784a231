"""Optimizers whose state is distributed over processes, and one that averages parameters."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from flambeau.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
__dir__ = _package_dir(__name__)
