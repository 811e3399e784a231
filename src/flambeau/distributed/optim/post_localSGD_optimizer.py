"""Averaging parameters after steps of an optimizer.

Example:
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> from flambeau.distributed.optim import PostLocalSGDOptimizer
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> inner = fb.optim.SGD(fb.nn.Linear(2, 1).parameters(), lr=0.1)
    >>> PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=4)).step()
    >>> fb.distributed.destroy_process_group()
"""

from __future__ import annotations

from typing import Any

from flambeau.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]
__dir__ = __all__.copy


class PostLocalSGDOptimizer(Optimizer):
    """Runs an optimizer, and averages the parameters over processes when an averager says so.

    Args:
        optim: the optimizer of this process.
        averager: a PeriodicModelAverager; its warmup_steps should be start_localSGD_iter of the communication hook.

    Example:
        >>> from flambeau.distributed.optim import PostLocalSGDOptimizer
        >>> issubclass(PostLocalSGDOptimizer, fb.optim.Optimizer)
        True
    """

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups, self.state = optim.param_groups, optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner optimizer, and the number of steps so far."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what state_dict() gave.

        Args:
            state_dict: with "step", else counting begins anew.
        """
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        self.param_groups, self.state = self.optim.param_groups, self.optim.state
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """A step of the inner optimizer, then of the averager.

        Args:
            closure: given to the inner optimizer.
        """
        loss = self.optim.step(closure) if closure is not None else self.optim.step()
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Frees or clears the gradients.

        Args:
            set_to_none: whether to free them.
        """
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters to the inner optimizer.

        Args:
            param_group: the parameters and their settings.
        """
        self.optim.add_param_group(param_group)
