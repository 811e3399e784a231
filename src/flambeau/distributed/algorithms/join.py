"""Training on uneven inputs: processes without further data take part in the collectives of the others.

Note [Joining]
Before its collectives of an iteration, each process adds 1 to a common sum (`Join.notify_join_context`); one that has
left its loop adds 0. So in each iteration all processes know how many are still active. Inactive ones run the main_hook
of each Joinable, which repeats the collectives of an iteration with neutral values, until no process is active; then
all run post_hook.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any

import flambeau as fb
from flambeau import distributed as dist
from flambeau.errors import ArgumentError, StateError

__all__ = ["Join", "JoinHook", "Joinable"]
__dir__ = __all__.copy


class JoinHook:
    """What a Joinable does in processes that have left their loop.

    Example:
        >>> fb.distributed.algorithms.join.JoinHook().main_hook() is None
        True
    """

    def main_hook(self) -> None:
        """Repeats the collectives of one iteration; called while any process is active."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once in every process when none is at work.

        Args:
            is_last_joiner: whether this process was among the last to leave its loop.
        """


class Joinable(ABC):
    """The base class of what can be used with Join, such as DistributedDataParallel and ZeroRedundancyOptimizer."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.disabled()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do in processes that have left their loop; `kwargs` are those of Join."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Device of the tensors that Join's collectives use."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Group in which Join's collectives run."""


class _JoinConfig:
    """The settings of the Join in which a Joinable runs."""

    def __init__(self, enable: bool, throw_on_early_termination: bool, is_first_joinable: bool) -> None:
        self.enable, self.is_first_joinable = enable, is_first_joinable
        self.throw_on_early_termination = throw_on_early_termination

    @staticmethod
    def disabled() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Join:
    """A block in which processes may leave their loops at different times.

    Args:
        joinables: what communicates in the loop: models and optimizers; the first one notifies others.
        enable: False makes the block without effect.
        throw_on_early_termination: whether all processes raise RuntimeError when the first one has no more data.
        kwargs: passed on to `join_hook` of the joinables.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
        >>> with fb.distributed.algorithms.Join([model]):
        ...     for batch in [fb.ones(1, 2)]:
        ...         model(batch).sum().backward()
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ArgumentError("Join: joinables is empty, expected at least one")
        for one in joinables:
            if not hasattr(one, "_join_config"):
                raise TypeError(f"Join: {type(one).__name__} is not a Joinable, or its __init__ did not call Joinable's")
        groups = {id(one.join_process_group) for one in joinables}
        if len(groups) > 1:
            raise ArgumentError("Join: Using join context manager with multiple process groups; all joinables must share one")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._group, self._device = joinables[0].join_process_group, joinables[0].join_device
        self._rank = dist.get_rank(self._group)
        self._hooks = [one.join_hook(**kwargs) for one in joinables]

    def __enter__(self) -> None:
        for number, one in enumerate(self._joinables):
            one._join_config = _JoinConfig(self._enable, self._throw, number == 0)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for one in self._joinables:
                one._join_config = _JoinConfig.disabled()

    def _shadow(self) -> None:
        """Repeats the collectives of the others until none is active."""
        last, rounds = True, 0
        while True:
            working = fb.zeros(1, device=self._device)
            dist.all_reduce(working, group=self._group)
            if int(working.item()) == 0:
                break
            if self._throw:
                _notify_stop(self._group, self._device)
                raise StateError(f"Join: Rank {self._rank} exhausted all inputs; throw_on_early_termination is set")
            last, rounds = False, rounds + 1
            if rounds == 1001:
                warnings.warn(
                    f"Join: rank {self._rank} has been without data for 1000 iterations; inputs this uneven waste its time",
                    stacklevel=4,
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Says to processes that have left their loops that this one begins an iteration; called before its collectives.

        Args:
            joinable: the object that is about to communicate; only the first of a Join says anything.

        Returns:
            a Work to wait for, or None.

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
            >>> fb.distributed.algorithms.Join.notify_join_context(model) is None
            True
            >>> fb.distributed.destroy_process_group()
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise TypeError(f"Join.notify_join_context: {type(joinable).__name__} is not a Joinable, or its __init__ did not call it")
        if not config.enable or not config.is_first_joinable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        working = fb.ones(1, device=device)
        work = dist.all_reduce(working, group=group, async_op=True)
        if config.throw_on_early_termination:
            if work is not None:
                work.wait()
            if int(working.item()) < dist.get_world_size(group):
                _notify_stop(group, device)
                raise StateError("Join: Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work


def _notify_stop(group: Any, device: Any) -> None:
    """A collective of the processes about to raise, so that none of them leaves early."""
    dist.all_reduce(fb.zeros(1, device=device), group=group)
