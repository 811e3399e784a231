"""A scheduler that watches a metric."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

from flambeau import errors
from flambeau.optim.lr_scheduler._base import LRScheduler, check_optimizer, rates, set_rate, warn_about_epoch
from flambeau.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The learning rate is multiplied by `factor` when a metric has not improved for more than `patience` epochs.

    Args:
        optimizer: the optimizer whose learning rates are set.
        mode: `"min"` if smaller is better, `"max"` if larger.
        factor: multiplicative decay factor, below 1.
        patience: number of epochs without improvement to tolerate.
        threshold: how much better the metric must be to count as better.
        threshold_mode: `"rel"` if the threshold is a share of the best value, `"abs"` if it is a difference.
        cooldown: epochs after a decay in which nothing is counted.
        min_lr: smallest learning rate, or one per parameter group.
        eps: a decay that is not larger than this is skipped.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     scheduler.step(loss)
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise errors.ArgumentError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        check_optimizer("ReduceLROnPlateau", optimizer)
        count = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple) and len(min_lr) != count:
            raise errors.ArgumentError(
                f"ReduceLROnPlateau: min_lr needs one value per group ({count}), got {len(min_lr)}"
            )
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr: Any = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs: list[float] = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = rates(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]  # a metric is needed
        """Records the metric of an epoch and updates the learning rate.

        Args:
            metrics: the metric, a number or a tensor with one element.
            epoch: number of the epoch (deprecated).

        Example:
            >>> scheduler = fb.optim.lr_scheduler.ReduceLROnPlateau(fb.optim.SGD([fb.zeros(2)]))
            >>> scheduler.step(0.5)
            >>> scheduler.best
            0.5
        """
        try:
            current = float(metrics)
        except (TypeError, ValueError) as error:
            if isinstance(error, RuntimeError):  # the tensor's own error
                raise
            raise TypeError(f"ReduceLROnPlateau: metrics must be one number, got {metrics!r}") from error
        if epoch is None:
            self.last_epoch += 1
        else:
            warn_about_epoch()
            self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates(self.optimizer, "lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise errors.StateError(
                    f"ReduceLROnPlateau: The number of param groups in the optimizer is {len(groups)}, and min_lrs has "
                    f"{len(self.min_lrs)} values; add one to min_lrs for each new group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, smallest in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, smallest)
            if old - new > self.eps:
                set_rate(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a fall was so recent that nothing is counted.

        Example:
            >>> fb.optim.lr_scheduler.ReduceLROnPlateau(fb.optim.SGD([fb.zeros(2)])).in_cooldown
            False
        """
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        relative = self.threshold_mode == "rel"
        bound = best * (1.0 + sign * self.threshold) if relative else best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise errors.ArgumentError(f"ReduceLROnPlateau: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise errors.ArgumentError(
                f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}"
            )
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state returned by `state_dict()`.

        Example:
            >>> scheduler = fb.optim.lr_scheduler.ReduceLROnPlateau(fb.optim.SGD([fb.zeros(2)]))
            >>> scheduler.load_state_dict(scheduler.state_dict() | {"best": 0.25})
            >>> scheduler.best
            0.25
        """
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
