"""Running a module on several devices or in several processes."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.nn.parallel.data_parallel import DataParallel, data_parallel
from flambeau.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
__dir__ = _package_dir(__name__)
