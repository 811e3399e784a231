"""Schedulers composed of schedulers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from flambeau import errors
from flambeau.optim.lr_scheduler._base import LRScheduler, rates, set_rate
from flambeau.optim.lr_scheduler._plateau import ReduceLROnPlateau
from flambeau.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """Shared by both kinds: checks, and a state that contains the states of the parts."""

    _schedulers: Sequence[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Optimizer | None) -> Optimizer:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise errors.ArgumentError(f"{name}: expected at least one scheduler, got none")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name}: schedulers[{i}] has no optimizer; expected a scheduler, got {type(scheduler).__name__}"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise errors.ArgumentError(
                    f"{name}: schedulers[{i}] is a ReduceLROnPlateau, whose step needs a metric; step it on its own"
                )
            if scheduler.optimizer is not optimizer:
                raise errors.ArgumentError(
                    f"{name}: schedulers[{i}] belongs to another optimizer; expected one for all"
                )
        assert optimizer is not None
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """The state, with those of the parts.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.StepLR(fb.optim.SGD([fb.zeros(2)]), 5)
            >>> len(fb.optim.lr_scheduler.ChainedScheduler([scheduler]).state_dict()["_schedulers"])
            1
        """
        return super().state_dict() | {"_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a state that `state_dict` returned, parts included.

        Example:
            >>> chained = fb.optim.lr_scheduler.ChainedScheduler(
            ...     [fb.optim.lr_scheduler.StepLR(fb.optim.SGD([fb.zeros(2)]), 5)])
            >>> chained.load_state_dict(chained.state_dict())
        """
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """Schedulers that take turns, each from its milestone on.

    Args:
        optimizer: the optimizer that all schedulers belong to.
        schedulers: the schedulers, in order.
        milestones: epochs at which the second, third, … begin.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> warm_up = fb.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> decay = fb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
        >>> scheduler = fb.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
        >>> seen = []
        >>> for _ in range(4):
        ...     seen += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> seen
        [0.5, 0.5, 1.0, 0.1]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise errors.ArgumentError(
                f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, got {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every part has already made its first step; only the one that is active now should have.
        for group in optimizer.param_groups:
            set_rate(group, "lr", group["initial_lr"])
        self.recursive_undo()
        current = schedulers[bisect_right(milestones, 0)]
        current._initial_step()
        self._last_lr = current.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes back one epoch of all parts, and of parts of parts.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> part = fb.optim.lr_scheduler.StepLR(optimizer, 5)
            >>> scheduler = fb.optim.lr_scheduler.SequentialLR(optimizer, [part], milestones=[])
            >>> scheduler.recursive_undo()
            >>> part.last_epoch
            -1
        """
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch, there is no epoch to give
        """Goes to the next epoch, with the scheduler whose turn it is.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
            >>> part = fb.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            >>> scheduler = fb.optim.lr_scheduler.SequentialLR(optimizer, [part], milestones=[])
            >>> optimizer.step()
            >>> scheduler.step()
            >>> scheduler.get_last_lr()
            [0.5]
        """
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Schedulers that all act in every epoch, one after the other.

    Args:
        schedulers: the schedulers, in order.
        optimizer: the optimizer that all belong to; the first scheduler's unless given.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> halve = fb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> tenth = fb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
        >>> scheduler = fb.optim.lr_scheduler.ChainedScheduler([halve, tenth])
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.05]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = rates(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch, there is no epoch to give
        """Goes to the next epoch with every scheduler.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
            >>> scheduler = fb.optim.lr_scheduler.ChainedScheduler([fb.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)])
            >>> optimizer.step()
            >>> scheduler.step()
            >>> optimizer.param_groups[0]["lr"]
            0.5
        """
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer, "lr")
