"""When to average parameters over processes.

Example:
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> PeriodicModelAverager(period=4, warmup_steps=100).step
    0
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from flambeau.distributed.algorithms.model_averaging import utils
from flambeau.errors import ArgumentError

__all__ = ["ModelAverager", "PeriodicModelAverager"]
__dir__ = __all__.copy


class ModelAverager(abc.ABC):
    """Counts steps, and averages parameters in some of them.

    Args:
        process_group: the default group if None.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import ModelAverager, PeriodicModelAverager
        >>> issubclass(PeriodicModelAverager, ModelAverager)
        True
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group, self.step = process_group, 0

    @abc.abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages them if this step is one to do so, and counts it.

        Args:
            params: parameters, or parameter groups of an optimizer.
        """


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every few steps, which sends less than averaging gradients in each (local SGD).

    Args:
        period: number of steps between two averages.
        warmup_steps: steps at the start without any, in which gradients should be averaged.
        process_group: the default group if None.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> PeriodicModelAverager(4).period
        4
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ArgumentError(f"PeriodicModelAverager: warmup_steps must be 0 or more, got {warmup_steps}")
        if period < 1:
            raise ArgumentError(f"PeriodicModelAverager: period must be at least 1, got {period}")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
