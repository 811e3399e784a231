"""Learning rate schedulers: call `scheduler.step()` after `optimizer.step()`.

Example:
    >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
    >>> scheduler = fb.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> round(optimizer.param_groups[0]["lr"], 4)
    0.01
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.optim.lr_scheduler._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from flambeau.optim.lr_scheduler._base import LRScheduler
from flambeau.optim.lr_scheduler._base import _LRScheduler as _LRScheduler
from flambeau.optim.lr_scheduler._combined import ChainedScheduler, SequentialLR
from flambeau.optim.lr_scheduler._cyclic import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from flambeau.optim.lr_scheduler._decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from flambeau.optim.lr_scheduler._plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
__dir__ = _package_dir(__name__)
