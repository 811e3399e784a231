"""The base class of learning rate schedulers."""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor, errors
from flambeau.optim.optimizer import Optimizer

Rate = float | Tensor

EPOCH_DEPRECATION_WARNING = (
    "scheduler.step: the epoch parameter in `scheduler.step()` is deprecated; call step() without arguments"
)
_HOW_TO = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


class LRScheduler:
    """Base class of learning rate schedulers.

    A subclass defines `get_lr`, which returns the learning rate of every parameter group for `self.last_epoch`, given
    those in `self.optimizer.param_groups` and the first ones in `self.base_lrs`. It may define `_get_closed_form_lr`,
    which uses `self.base_lrs` only; `step(epoch)` then uses it.

    Args:
        optimizer: the optimizer whose learning rates are set.
        last_epoch: index of the last epoch when a run is resumed; -1 starts from the beginning.

    Example:
        >>> class Halve(fb.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = Halve(optimizer)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(type(self).__name__, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler "
                    f"with last_epoch >= 0, got last_epoch={last_epoch}; load the optimizer's state first, or begin with -1"
                )
        self.base_lrs: list[Rate] = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _notice_steps_of(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Sets the learning rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, for a checkpoint.

        Example:
            >>> fb.optim.lr_scheduler.StepLR(fb.optim.SGD([fb.zeros(2)]), 5).state_dict()["step_size"]
            5
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state returned by `state_dict()`.

        Args:
            state_dict: the state of a scheduler of the same class.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.StepLR(fb.optim.SGD([fb.zeros(2)]), 5)
            >>> scheduler.load_state_dict({"gamma": 0.5})
            >>> scheduler.gamma
            0.5
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The learning rates that the last step set, one per parameter group.

        Example:
            >>> fb.optim.lr_scheduler.StepLR(fb.optim.SGD([fb.zeros(2)], lr=0.5), 5).get_last_lr()
            [0.5]
        """
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The learning rates for `self.last_epoch`; every scheduler defines its own.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.LambdaLR(fb.optim.SGD([fb.zeros(2)], lr=0.5), lambda epoch: 1.0)
            >>> scheduler.get_last_lr()
            [0.5]
        """
        raise NotImplementedError(f"{type(self).__name__}: a scheduler must define get_lr(self)")

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch and sets its learning rates.

        Args:
            epoch: go to this epoch instead (deprecated).

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
            >>> scheduler = fb.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            >>> optimizer.step()
            >>> scheduler.step()
            >>> scheduler.get_last_lr()
            [0.5]
        """
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(
                    f"{type(self).__name__}: `optimizer.step()` has been overridden after the scheduler was made, so the order "
                    f"of steps cannot be checked; call optimizer.step() before scheduler.step(), see {_HOW_TO}",
                    UserWarning,
                    stacklevel=2,
                )
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(
                    f"{type(self).__name__}: Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first "
                    f"learning rate is never used; call optimizer.step() first, see {_HOW_TO}",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warn_about_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with asking_for_lr(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._set_lr(values)

    def _set_lr(self, values: Sequence[Rate]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_rate(group, "lr", value)
        self._last_lr: list[Rate] = rates(self.optimizer, "lr")

    def _groups_times(self, factor: float) -> list[Rate]:
        """Every group's current learning rate, times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _bases_times(self, factor: float) -> list[Rate]:
        """Every group's initial learning rate, times a factor."""
        return [base * factor for base in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The former name of LRScheduler; older programs derive from it."""


def check_optimizer(name: str, optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: expected an Optimizer, got {type(optimizer).__name__}")


def copied(value: Any) -> Any:
    """A learning rate that is independent of later changes of the original."""
    return value.clone() if isinstance(value, Tensor) else value


def rates(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group, copied."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], key: str, value: Rate) -> None:
    """Sets an option of a group; a tensor is changed in place."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per parameter group, from a value for all or a sequence."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise errors.ArgumentError(f"{name} must have one value per parameter group ({count}), got {len(value)}")
    return [copied(one) for one in value]


def warn_about_epoch() -> None:
    warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)


def warn_if_asked_directly(scheduler: LRScheduler) -> None:
    """Outside of step, get_lr would compute the next learning rate from the current one, which is rarely wanted."""
    if not scheduler._get_lr_called_within_step:
        warnings.warn(
            f"{type(scheduler).__name__}.get_lr() is for step(); call get_last_lr() to see the learning rate",
            UserWarning,
            stacklevel=3,
        )


@contextmanager
def asking_for_lr(scheduler: LRScheduler) -> Iterator[None]:
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


def state_of_function(function: Any) -> dict[str, Any] | None:
    """The checkpoint of a user's function: the attributes of a callable object, nothing for a plain function."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


def _notice_steps_of(optimizer: Any) -> None:
    """Lets schedulers detect whether the optimizer has made a step."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # A strong reference would be a cycle, and the optimizer's memory would wait for the garbage collector.
    owner = weakref.ref(optimizer)
    step: Callable[..., Any] = optimizer.step.__func__

    @functools.wraps(step)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        optimizer: Any = owner()
        optimizer._opt_called = True
        return step(optimizer, *args, **kwargs)

    vars(noticed)["_wrapped_by_lr_sched"] = True
    optimizer.step = noticed
