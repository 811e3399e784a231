"""Averages of a model's weights: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.nn.modules.module import Module
from flambeau.optim.lr_scheduler._base import LRScheduler, Rate, per_group, warn_if_asked_directly
from flambeau.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
__dir__ = __all__.copy


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise errors.ArgumentError(f"swa_utils: decay must be between 0 and 1, got {decay}")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function that moves lists of averages towards new values: `average ← decay · average + (1 - decay) · value`.

    Args:
        decay: how much of the average is kept.

    Example:
        >>> average = [fb.zeros(2)]
        >>> fb.optim.swa_utils.get_ema_multi_avg_fn(0.5)(average, [fb.ones(2)], 1)
        >>> average
        [tensor([0.5000, 0.5000])]
    """
    _check_decay(decay)

    @fb.no_grad()
    def ema_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., Any]:
    """A function that adds new values to lists of averages of `num_averaged` values each.

    Example:
        >>> average = [fb.zeros(2)]
        >>> fb.optim.swa_utils.get_swa_multi_avg_fn()(average, [fb.ones(2)], 3)
        >>> average
        [tensor([0.2500, 0.2500])]
    """

    @fb.no_grad()
    def swa_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        share = 1 / (float(num_averaged) + 1)
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(value, share)
            else:
                average.copy_(average + (value - average) * share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function that returns an exponential moving average: `decay · average + (1 - decay) · value`.

    Args:
        decay: how much of the average is kept.

    Example:
        >>> fb.optim.swa_utils.get_ema_avg_fn(0.5)(fb.zeros(2), fb.ones(2), 1)
        tensor([0.5000, 0.5000])
    """
    _check_decay(decay)

    @fb.no_grad()
    def ema_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function that returns the average of `num_averaged + 1` values, from that of the first ones and the new one.

    Example:
        >>> fb.optim.swa_utils.get_swa_avg_fn()(fb.zeros(2), fb.ones(2), 3)
        tensor([0.2500, 0.2500])
    """

    @fb.no_grad()
    def swa_update(average: Tensor, value: Tensor, num_averaged: Tensor | int) -> Tensor:
        return average + (value - average) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's weights over training.

    Args:
        model: the model.
        device: where the copy lives; with the model unless given.
        avg_fn: returns the new average of one tensor from `(average, value, num_averaged)`; the plain mean unless
            given.
        multi_avg_fn: changes a list of averages in place from `(averages, values, num_averaged)`; instead of avg_fn.
        use_buffers: average buffers too; otherwise they are copied.

    Example:
        >>> model = fb.nn.Linear(1, 1, bias=False)
        >>> average = fb.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     _ = model.weight.data.fill_(value)
        ...     average.update_parameters(model)
        >>> average.module.weight.item()
        3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
        multi_avg_fn: Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        if not isinstance(model, Module):
            raise TypeError(f"AveragedModel: model must be a Module, got {type(model).__name__}")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", fb.tensor(0, dtype=fb.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output.

        Example:
            >>> average = fb.optim.swa_utils.AveragedModel(fb.nn.Linear(2, 3))
            >>> average(fb.zeros(1, 2)).shape
            flambeau.Size([1, 3])
        """
        return self.module(*args, **kwargs)

    @fb.no_grad()
    def update_parameters(self, model: Module) -> None:
        """Adds the model's current weights to the average.

        Args:
            model: the model that is trained.

        Example:
            >>> model = fb.nn.Linear(2, 3)
            >>> average = fb.optim.swa_utils.AveragedModel(model)
            >>> average.update_parameters(model)
            >>> average.n_averaged
            tensor(1)
        """
        averages = [p.detach() for p in self._averaged(self.module)]
        values = [p.detach().to(a.device) for a, p in zip(averages, self._averaged(model), strict=True)]
        if self.n_averaged == 0:
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, values, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
        else:
            # As in PyTorch, a function of lists gets tensors of one device and dtype at a time.
            groups: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
            for average, value in zip(averages, values, strict=True):
                mine, new = groups.setdefault((average.device, average.dtype), ([], []))
                mine.append(average)
                new.append(value)
            for (device, _), (mine, new) in groups.items():
                (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, new, self.n_averaged.to(device))
        if not self.use_buffers:
            for average, value in zip(self.module.buffers(), model.buffers(), strict=True):
                average.detach().copy_(value.detach().to(average.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()


@fb.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recomputes the running statistics of a model's batch normalization layers in one pass over the data.

    Averaged weights have no valid running statistics until this function has computed them.

    Args:
        loader: batches; of a list or tuple, the first entry is the input.
        model: the model.
        device: where inputs are moved, if given.

    Example:
        >>> model = fb.nn.BatchNorm1d(1)
        >>> fb.optim.swa_utils.update_bn([fb.tensor([[1.0], [3.0]])], model)
        >>> model.running_mean
        tensor([2.])
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    try:
        for module in momenta:
            module.momentum = None  # the statistics become plain means over all batches
        for batch in loader:
            batch = batch[0] if isinstance(batch, list | tuple) else batch
            model(batch if device is None else batch.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """The learning rate goes to `swa_lr` in `anneal_epochs` epochs and stays there.

    Args:
        optimizer: the optimizer whose learning rates are set.
        swa_lr: learning rate of the averaging phase, or one per parameter group.
        anneal_epochs: number of epochs, at least 0.
        anneal_strategy: `"cos"` or `"linear"`.
        last_epoch: index of the last epoch when a run is resumed.

    Example:
        >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=1.0)
        >>> scheduler = fb.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise errors.ArgumentError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise errors.ArgumentError(f"SWALR: anneal_epochs must be an integer of at least 0, got {anneal_epochs}")
        for group, lr in zip(optimizer.param_groups, per_group("SWALR: swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = lr
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The interpolation factor of a step between the first learning rate and swa_lr."""
        done = max(0, min(1, step / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[Rate]:
        warn_if_asked_directly(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)

        def one(lr: Rate, target: Rate) -> Rate:
            # The first learning rate, computed back from the current one.
            first = target if before == 1 else (lr - before * target) / (1 - before)
            return target * now + first * (1 - now)

        return [one(group["lr"], group["swa_lr"]) for group in self.optimizer.param_groups]
