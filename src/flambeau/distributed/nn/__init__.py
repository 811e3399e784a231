"""Collectives that gradients flow through.

Example:
    >>> from flambeau.distributed.nn import all_reduce
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = fb.ones(2, requires_grad=True)
    >>> all_reduce(x * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> fb.distributed.destroy_process_group()
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.nn import functional
from flambeau.distributed.nn.functional import *

__all__ = list(functional.__all__)
__dir__ = _package_dir(__name__)
