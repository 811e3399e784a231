"""Communication hooks of DistributedDataParallel: how buckets of gradients are sent."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook

__all__ = ["default_hooks", "post_localSGD_hook", "powerSGD_hook"]
__dir__ = _package_dir(__name__)
