"""An optimizer whose state is sharded: each process keeps that of its share of the parameters (ZeRO, stage 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._coalesced import broadcast_all
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook
from flambeau.errors import ArgumentError, StateError
from flambeau.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]
__dir__ = __all__.copy


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Runs another optimizer on this process's share of the parameters, then sends the results to all.

    State such as the averages of Adam exists once over all processes instead of once in each. Parameters are shared out
    whole, the largest first, each to the process that has the fewest elements so far. Gradients must be the same
    everywhere, as DistributedDataParallel makes them.

    Args:
        params: parameters, named parameters or parameter groups.
        optimizer_class: the optimizer, such as fb.optim.AdamW.
        process_group: the default group if not given.
        parameters_as_bucket_view: accepted; parameters always keep their own memory.
        overlap_with_ddp: False; the step always runs after backward.
        defaults: options of the optimizer.

    Example:
        >>> from flambeau.distributed.optim import ZeroRedundancyOptimizer
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.Linear(2, 1)
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), fb.optim.AdamW, lr=0.1)
        >>> model(fb.ones(1, 2)).backward()
        >>> optimizer.step()
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(f"{name}: optimizer_class must be a class of optimizers, got {optimizer_class!r}")
        if overlap_with_ddp:
            raise ArgumentError(f"{name}: overlap_with_ddp is not supported; leave it at False")
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.world_size, self.rank = dist.get_world_size(process_group), dist.get_rank(process_group)
        self._optimizer_class, self._optimizer_options = optimizer_class, defaults
        self._owner: dict[int, int] = {}
        self._load = [0] * self.world_size
        self._all_states: list[dict[Any, Any]] | None = None
        self.optim: Any = None
        self._join_config: Any = None
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self._make_local()

    # ---- shares ------------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, and shares them out.

        Args:
            param_group: `params` and any options that differ from the defaults.
        """
        super().add_param_group(param_group)
        for p in sorted(self.param_groups[-1]["params"], key=lambda p: -p.numel()):
            rank = self._load.index(min(self._load))
            self._owner[id(p)] = rank
            self._load[rank] += p.numel()
        if self.optim is not None:
            self._make_local()

    def _mine(self, group: dict[str, Any]) -> list[Tensor]:
        return [p for p in group["params"] if self._owner[id(p)] == self.rank]

    def _make_local(self) -> None:
        """Creates the optimizer of this process's share, keeping existing state."""
        state = {} if self.optim is None else self.optim.state
        groups = [{**group, "params": self._mine(group)} for group in self.param_groups]
        self.optim = None
        if any(group["params"] for group in groups):
            self.optim = self._optimizer_class(groups, **self._optimizer_options)
            self.optim.state.update(state)
            # Options filled in by the optimizer, such as betas, belong to the groups that schedulers and users see.
            for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
                for key, value in own.items():
                    group.setdefault(key, value)
            self.defaults = {**self.optim.defaults, **self.defaults}

    def _copy_options(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for a, b in zip(source, target, strict=True):
            b.update({key: value for key, value in a.items() if key not in ("params", "param_names")})

    # ---- a step ------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Updates this process's share of the parameters, then gives all processes all parameters.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.
            kwargs: passed on to the optimizer.
        """
        Join.notify_join_context(self)
        loss = None
        if self.optim is not None:
            self._copy_options(self.param_groups, self.optim.param_groups)
            loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
            self._copy_options(self.optim.param_groups, self.param_groups)
        elif closure is not None:
            loss = closure()
        self._share_parameters()
        return loss

    def _share_parameters(self) -> None:
        params = [p for group in self.param_groups for p in group["params"]]
        for rank in range(self.world_size):
            broadcast_all([p for p in params if self._owner[id(p)] == rank], self.process_group, rank)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook for a process without data in a Join: it makes steps with the gradients it receives."""
        return _StepHook(self)

    @property
    def join_device(self) -> Any:
        """Device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes that share the state."""
        return self.process_group

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all processes in one, whose state_dict() has it all; all processes must call it.

        Args:
            to: the rank that collects.
        """
        index = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        own = {} if self.optim is None else {index[id(p)]: state for p, state in self.optim.state.items()}
        states: list[Any] | None = [None] * self.world_size if self.rank == to else None
        dist.gather_object(own, states, group=self.process_group, group_dst=to)
        self._all_states = states

    def state_dict(self) -> dict[str, Any]:
        """The state of all processes, after consolidate_state_dict() and in the process that collected it."""
        if self._all_states is None:
            raise StateError(
                f"state_dict: Optimizer state has not been consolidated on this rank {self.rank}. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        result = super().state_dict()
        result["state"] = {key: value for states in self._all_states for key, value in states.items()}
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the state of all processes; each keeps its share.

        Args:
            state_dict: what state_dict() returned, here or from the plain optimizer.
        """
        params = [p for group in self.param_groups for p in group["params"]]
        mine = {i: state for i, state in state_dict["state"].items() if self._owner[id(params[int(i)])] == self.rank}
        super().load_state_dict({**state_dict, "state": mine})
        if self.optim is not None:
            self._copy_options(self.param_groups, self.optim.param_groups)
            self.optim.state.clear()
            self.optim.state.update(self.state)
        self.state.clear()
        self._all_states = None


class _StepHook(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """A step: gradients come from the model's shadowed backward, which leaves None for this process."""
        self.optimizer.step()
