"""Building blocks of neural networks: modules, their functions, starting values and utilities.

Example:
    >>> net = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 2))
    >>> net(fb.zeros(3, 4)).shape
    flambeau.Size([3, 2])
"""

from flambeau.nn import attention, functional, init, modules, parallel, parameter, utils
from flambeau.nn.modules import *
from flambeau.nn.parallel import DataParallel
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention", "functional", "init",
    "modules", "parallel", "parameter", "utils",
]  # fmt: skip
__all__ += modules.__all__
