"""Schedules that go up and down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import errors
from flambeau.optim.lr_scheduler._base import (
    LRScheduler,
    Rate,
    asking_for_lr,
    check_optimizer,
    per_group,
    set_rate,
    state_of_function,
    warn_if_asked_directly,
)
from flambeau.optim.optimizer import Optimizer


class _WithMomentum(LRScheduler):
    """A schedule that moves momentum (or the first beta) opposite to the learning rate."""

    def _start_momentum(self, base: Any, largest: Any, last_epoch: int) -> tuple[list[float], list[float]]:
        name, optimizer = type(self).__name__, self.optimizer
        self.use_beta1 = "betas" in optimizer.defaults
        if not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise errors.ArgumentError(
                f"{name}: {type(optimizer).__name__} has neither momentum nor betas; pass cycle_momentum=False"
            )
        bases = per_group(f"{name}: base_momentum", optimizer, base)
        maxima = per_group(f"{name}: max_momentum", optimizer, largest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, bases, maxima, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return bases, maxima

    def _set_momentum(self, group: dict[str, Any], value: Rate) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """The learning rate goes from `base_lr` to `max_lr` and back, again and again; step it after every batch.

    Args:
        optimizer: the optimizer whose learning rates are set.
        base_lr: lower end, or one per parameter group.
        max_lr: upper end, or one per parameter group.
        step_size_up: steps of a rise.
        step_size_down: steps of a fall; as many as of a rise unless given.
        mode: `"triangular"` keeps the height, `"triangular2"` halves it with every cycle, `"exp_range"` scales it by
            `gamma` to the power of the number of steps.
        gamma: see mode.
        scale_fn: a function that scales the height, in place of mode.
        scale_mode: what scale_fn is given: the number of the `"cycle"`, from 1, or of `"iterations"`.
        cycle_momentum: move momentum between `max_momentum` and `base_momentum` in the opposite direction.
        base_momentum: lower end of momentum, or one per parameter group.
        max_momentum: upper end of momentum, or one per parameter group.
        last_epoch: number of the last step when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=0.1, momentum=0.9)
        >>> scheduler = fb.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=2.0, step_size_up=2)
        >>> seen = []
        >>> for _ in range(5):
        ...     seen += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> seen
        [1.0, 1.5, 2.0, 1.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("CyclicLR", optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise errors.ArgumentError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', got {mode!r}; or pass scale_fn"
            )
        self.optimizer = optimizer
        base_lrs = per_group("CyclicLR: base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, "lr", lr)
        self.max_lrs = per_group("CyclicLR: max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Factor of the height in cycle or iteration x.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], momentum=0.9)
            >>> fb.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, mode="triangular2").scale_fn(2)
            0.5
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state; of `scale_fn`, the attributes of a callable object are kept and a plain function left out.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], momentum=0.9)
            >>> fb.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0).state_dict()["max_lrs"]
            [1.0]
        """
        function = self._scale_fn_custom
        return super().state_dict() | {"_scale_fn_custom": None if function is None else state_of_function(function)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state returned by `state_dict()`.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], momentum=0.9)
            >>> scheduler = fb.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0)
            >>> scheduler.load_state_dict(scheduler.state_dict() | {"last_epoch": 7})
            >>> scheduler.last_epoch
            7
        """
        attributes = state_dict["_scale_fn_custom"]
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class CosineAnnealingWarmRestarts(LRScheduler):
    """The learning rate falls to `eta_min` along half a cosine, jumps back, and falls again, more slowly on request.

    Args:
        optimizer: the optimizer whose learning rates are set.
        T_0: epochs of the first fall.
        T_mult: factor by which each fall is longer than the one before.
        eta_min: smallest learning rate.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> seen = []
        >>> for _ in range(4):
        ...     seen += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> seen
        [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        name = "CosineAnnealingWarmRestarts"
        if not isinstance(T_0, int) or T_0 <= 0:
            raise errors.ArgumentError(f"{name}: T_0 must be a positive integer, got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise errors.ArgumentError(f"{name}: T_mult must be an integer of at least 1, got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise errors.ArgumentError(f"{name}: eta_min must be a number, got {type(eta_min).__name__}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]  # fractions of epochs are meant here
        """Goes to the next epoch, or to the one given, which may be a fraction: `step(epoch + batch / batches)`.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
            >>> scheduler = fb.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=1)
            >>> scheduler.step(0.5)
            >>> scheduler.get_last_lr()
            [0.5]
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise errors.ArgumentError(f"CosineAnnealingWarmRestarts: epoch must be at least 0, got {epoch}")
            if epoch < self.T_0:
                self.T_i, self.T_cur = self.T_0, epoch
            elif self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                # Number of earlier decays: the largest n whose decays, T_0 · (T_mult^n - 1) / (T_mult - 1) epochs, are
                # over.
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        with asking_for_lr(self):
            values = self.get_lr()
        self._set_lr(values)


class OneCycleLR(_WithMomentum):
    """The learning rate rises to `max_lr` and then falls far below its start; step it after every batch.

    Args:
        optimizer: the optimizer whose learning rates are set.
        max_lr: highest learning rate, or one per parameter group.
        total_steps: number of steps; or give epochs and steps_per_epoch.
        epochs: number of epochs.
        steps_per_epoch: steps of an epoch.
        pct_start: share of the steps that the rise takes, a float.
        anneal_strategy: `"cos"` or `"linear"`.
        cycle_momentum: move momentum between `max_momentum` and `base_momentum` in the opposite direction.
        base_momentum: lower end of momentum, or one per parameter group.
        max_momentum: upper end of momentum, or one per parameter group.
        div_factor: `max_lr` over the first learning rate.
        final_div_factor: the first learning rate over the last.
        three_phase: fall back to the first learning rate as fast as it rose, before falling further.
        last_epoch: number of the last step when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=0.1, momentum=0.9)
        >>> scheduler = fb.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10, anneal_strategy="linear")
        >>> seen = []
        >>> for _ in range(3):
        ...     seen += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> seen
        [0.04, 0.52, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise errors.ArgumentError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise errors.ArgumentError(
                f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}"
            )
        self._anneal_func_type = anneal_strategy
        last = self.total_steps - 1
        top = float(pct_start * self.total_steps) - 1
        rise = _phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three_phase:
            back = _phase(2 * pct_start * self.total_steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
            fall = _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum")
            self._schedule_phases = [rise, back, fall]
        else:
            self._schedule_phases = [rise, _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        maxima = per_group("OneCycleLR: max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, largest in zip(optimizer.param_groups, maxima, strict=True):
                group["initial_lr"] = largest / div_factor
                group["max_lr"] = largest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Rate, end: Rate, share: float) -> Rate:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise errors.ArgumentError(
                f"OneCycleLR: total_steps is {self.total_steps}, got step {step}; give more steps"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        length = phase["end_step"] - start
        share = (step - start) / length if length else 1.0
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, share))
        return lrs


def _phase(end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """A phase of the cycle: its last step, and the options of a group between which it interpolates."""
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    def positive(name: str, value: Any) -> int:
        if not isinstance(value, int) or value <= 0:
            raise errors.ArgumentError(f"OneCycleLR: {name} must be a positive integer, got {value}")
        return value

    if total_steps is not None:
        return positive("total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise errors.ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
    return positive("epochs", epochs) * positive("steps_per_epoch", steps_per_epoch)
