"""Optimizers, learning rate schedulers and averages of weights.

Example:
    >>> p = fb.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = fb.optim.SGD([p], lr=0.1)
    >>> scheduler = fb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     (p * p).sum().backward()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> p.detach()
    tensor([ 0.6840, -0.6840])
"""

import sys as _sys
import typing as _typing

from flambeau._registry.lazy import load as _load
from flambeau._registry.names import package_dir as _package_dir
from flambeau.optim import lr_scheduler
from flambeau.optim._adafactor import Adafactor
from flambeau.optim._muon import Muon
from flambeau.optim._swap import swap_in_optimizer_params_and_state
from flambeau.optim.adadelta import Adadelta
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam
from flambeau.optim.adamax import Adamax
from flambeau.optim.adamw import AdamW
from flambeau.optim.asgd import ASGD
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.nadam import NAdam
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.radam import RAdam
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.rprop import Rprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


if _typing.TYPE_CHECKING:
    from flambeau.optim import swa_utils as swa_utils
else:

    def __getattr__(name: str) -> _typing.Any:
        # swa_utils needs nn, which most programs that use optimizers have not imported yet.
        if name == "swa_utils":
            return _load("flambeau.optim.swa_utils")
        raise AttributeError(
            f"module 'flambeau.optim' has no attribute '{name}'", name=name, obj=_sys.modules[__name__]
        )

    __dir__ = _package_dir(__name__, ["swa_utils"])
