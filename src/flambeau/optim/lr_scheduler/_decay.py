"""Schedules that multiply the learning rate by a factor of the epoch."""

from __future__ import annotations

import math
import numbers
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from flambeau import errors
from flambeau.optim.lr_scheduler._base import LRScheduler, Rate, rates, state_of_function, warn_if_asked_directly
from flambeau.optim.optimizer import Optimizer

Factor = Callable[[int], float]


def _number(scheduler: LRScheduler, name: str, value: Any) -> Any:
    """The value, checked to be a number."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{type(scheduler).__name__}: {name} must be a number of epochs, got {value!r}")
    return value


def _period(scheduler: LRScheduler, name: str) -> Any:
    """A number of epochs to divide by. Zero is an error only here, so that a run without epochs can be set up."""
    value = getattr(scheduler, name)
    if value == 0:
        raise errors.ArgumentError(f"{type(scheduler).__name__}: {name} must not be 0: there is no epoch to schedule")
    return value


class _FunctionLR(LRScheduler):
    """A schedule given as functions of the epoch, one per parameter group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            lr_lambda = [lr_lambda] * count
        if len(lr_lambda) != count:
            raise errors.ArgumentError(f"{type(self).__name__}: expected {count} functions, got {len(lr_lambda)}")
        for function in lr_lambda:
            if not callable(function):
                raise TypeError(f"{type(self).__name__}: lr_lambda should be a function, got {type(function).__name__}")
        self.lr_lambdas: list[Factor] = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state; of the functions, the attributes of callable objects are kept and plain functions left out.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.LambdaLR(fb.optim.SGD([fb.zeros(2)]), lambda epoch: 1.0)
            >>> scheduler.state_dict()["lr_lambdas"]
            [None]
        """
        return super().state_dict() | {"lr_lambdas": [state_of_function(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state; functions are kept, callable objects get their attributes back.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.LambdaLR(fb.optim.SGD([fb.zeros(2)]), lambda epoch: 1.0)
            >>> scheduler.load_state_dict(scheduler.state_dict() | {"last_epoch": 7})
            >>> scheduler.last_epoch
            7
        """
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionLR):
    """The first learning rate times a function of the epoch.

    Args:
        optimizer: the optimizer whose learning rates are set.
        lr_lambda: the function, or one per parameter group.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_FunctionLR):
    """The learning rate is multiplied in every epoch by a function of the epoch.

    Args:
        optimizer: the optimizer whose learning rates are set.
        lr_lambda: the function, or one per parameter group.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self._is_initial:
            return rates(self.optimizer, "lr")
        groups = self.optimizer.param_groups
        return [group["lr"] * factor(self.last_epoch) for group, factor in zip(groups, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The learning rate is multiplied by `gamma` every `step_size` epochs.

    Args:
        optimizer: the optimizer whose learning rates are set.
        step_size: number of epochs between two decays.
        gamma: multiplicative decay factor.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(5):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = _number(self, "step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        falls = self.last_epoch != 0 and self.last_epoch % _period(self, "step_size") == 0
        return self._groups_times(self.gamma) if falls else rates(self.optimizer, "lr")

    def _get_closed_form_lr(self) -> list[Rate]:
        return self._bases_times(self.gamma ** (self.last_epoch // _period(self, "step_size")))


class MultiStepLR(LRScheduler):
    """The learning rate is multiplied by `gamma` at each milestone.

    Args:
        optimizer: the optimizer whose learning rates are set.
        milestones: epochs at which the learning rate decays; one that is given twice counts twice.
        gamma: multiplicative decay factor.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(_number(self, "a milestone", epoch) for epoch in milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self.last_epoch not in self.milestones:
            return rates(self.optimizer, "lr")
        return self._groups_times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Rate]:
        return self._bases_times(self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch))


class ConstantLR(LRScheduler):
    """The learning rate is multiplied by `factor` until epoch `total_iters`.

    Args:
        optimizer: the optimizer whose learning rates are set.
        factor: a factor from 0 to 1.
        total_iters: epoch at which the learning rate reaches its full value.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> fb.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise errors.ArgumentError(f"ConstantLR: factor must be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self.last_epoch == 0:
            return self._groups_times(self.factor)
        if self.last_epoch == self.total_iters:
            return self._groups_times(1.0 / self.factor) if self.factor else self._bases_times(1.0)
        return rates(self.optimizer, "lr")

    def _get_closed_form_lr(self) -> list[Rate]:
        return self._bases_times(1.0 if self.last_epoch >= self.total_iters else self.factor)


class LinearLR(LRScheduler):
    """The learning rate's factor goes from `start_factor` to `end_factor` in `total_iters` epochs, in equal steps.

    Args:
        optimizer: the optimizer whose learning rates are set.
        start_factor: factor of the first epoch, above 0 and at most 1.
        end_factor: factor from epoch `total_iters` on, from 0 to 1.
        total_iters: number of epochs.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise errors.ArgumentError(f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise errors.ArgumentError(f"LinearLR: end_factor must be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self.last_epoch == 0:
            return self._groups_times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates(self.optimizer, "lr")
        rise = self.end_factor - self.start_factor
        return self._groups_times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[Rate]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self._bases_times(self.start_factor + (self.end_factor - self.start_factor) * done)


class ExponentialLR(LRScheduler):
    """The learning rate is multiplied by `gamma` in every epoch.

    Args:
        optimizer: the optimizer whose learning rates are set.
        gamma: multiplicative decay factor.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        return rates(self.optimizer, "lr") if self._is_initial else self._groups_times(self.gamma)

    def _get_closed_form_lr(self) -> list[Rate]:
        return self._bases_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """The learning rate decays to zero in `total_iters` epochs, as `(1 - epoch / total_iters)^power`.

    Args:
        optimizer: the optimizer whose learning rates are set.
        total_iters: number of epochs.
        power: exponent of the decay.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates(self.optimizer, "lr")
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._groups_times((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[Rate]:
        return self._bases_times((1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """The learning rate decays to `eta_min` along half a cosine in `T_max` epochs, and rises again afterwards.

    In epoch t it is `eta_min + (lr - eta_min) · (1 + cos(π · t / T_max)) / 2`.

    Args:
        optimizer: the optimizer whose learning rates are set.
        T_max: number of epochs of the decay.
        eta_min: smallest learning rate.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = _number(self, "T_max", T_max)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: float) -> float:
        return (1 + math.cos(math.pi * epoch / _period(self, "T_max"))) / 2

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        if self._is_initial:
            return rates(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * _period(self, "T_max")) == 0:
            # The previous epoch was the minimum, from where the ratio below would be 0 / 0.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise for group, base in zip(groups, self.base_lrs, strict=True)
            ]
        ratio = self._share(self.last_epoch) / self._share(self.last_epoch - 1)
        return [self.eta_min + ratio * (group["lr"] - self.eta_min) for group in groups]

    def _get_closed_form_lr(self) -> list[Rate]:
        return [self.eta_min + (base - self.eta_min) * self._share(self.last_epoch) for base in self.base_lrs]
