"""Building blocks of neural networks: modules, their functions, starting values and utilities.

Example:
    >>> net = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 2))
    >>> net(fb.zeros(3, 4)).shape
    flambeau.Size([3, 2])
"""

import typing as _typing

from flambeau._registry.names import package_dir as _package_dir
from flambeau.nn import attention as attention
from flambeau.nn import functional as functional
from flambeau.nn import grad as grad
from flambeau.nn import init as init
from flambeau.nn import modules as modules
from flambeau.nn import parallel as parallel
from flambeau.nn import parameter as parameter
from flambeau.nn import utils as utils
from flambeau.nn.modules import *
from flambeau.nn.parallel import DataParallel as DataParallel
from flambeau.nn.parameter import Buffer as Buffer
from flambeau.nn.parameter import Parameter as Parameter
from flambeau.nn.parameter import UninitializedBuffer as UninitializedBuffer
from flambeau.nn.parameter import UninitializedParameter as UninitializedParameter

if not _typing.TYPE_CHECKING:  # type checkers treat star imports as exported, but cannot compute this list
    __all__ = [
        "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention", "functional", "grad", "init",
        "modules", "parallel", "parameter", "utils",
    ]  # fmt: skip
    __all__ += modules.__all__
    __dir__ = _package_dir(__name__)
