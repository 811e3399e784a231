"""Tensor parallelism: layers whose weights are cut over the processes of a mesh.

Example:
    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
    >>> mlp = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 4))
    >>> mlp = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> mlp(fb.ones(2, 4)).shape
    flambeau.Size([2, 4])
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.tensor.parallel import _plan, loss, style
from flambeau.distributed.tensor.parallel._plan import *
from flambeau.distributed.tensor.parallel.loss import *
from flambeau.distributed.tensor.parallel.style import *

__all__ = sorted([*_plan.__all__, *loss.__all__, *style.__all__])
__dir__ = _package_dir(__name__)
