"""One model in several processes, each with its share of the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._coalesced import broadcast_all, check_same
from flambeau.distributed._reducer import GradBucket, Reducer
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]
__dir__ = __all__.copy

_NAME = "DistributedDataParallel"


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over the processes of a group during backward.

    Every process has a replica of the module and its own part of the data. At construction all replicas take the values of
    rank 0. While backward runs, gradients are sent in buckets as they become complete; when backward() returns, `.grad` of
    each parameter is the mean over all processes. With losses that are means over equally large batches, that is the
    gradient for the batch of all processes together. Names in the state_dict begin with "module.".

    Args:
        module: the module; some parameter must require gradients.
        device_ids: accelerators; for modules on the CPU None.
        output_device: where results go; None.
        dim: the dimension that would be shared out among devices.
        broadcast_buffers: whether each forward begins with the buffers of rank 0.
        init_sync: whether replicas are compared, and take the values of rank 0, at construction.
        process_group: the default group if not given.
        bucket_cap_mb: how many megabytes of gradients travel together; 25 by default.
        find_unused_parameters: whether backward may miss parameters; they count as having gradient zero. A parameter that
            no process uses keeps the gradient it has.
        check_reduction: deprecated, of no effect.
        gradient_as_bucket_view: whether gradients live in the buckets from step to step, which saves a copy.
        static_graph: whether every step uses the same graph; parameters may then be used repeatedly by reentrant
            checkpointing, and missed by backward.
        device_mesh: a mesh of one dimension whose group to use, in place of process_group.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
        >>> list(m.state_dict()), m(fb.zeros(4, 2)).shape
        (['module.weight', 'module.bias'], flambeau.Size([4, 3]))
        >>> fb.distributed.destroy_process_group()
    """

    reducer: Reducer

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        device_mesh: Any = None,
    ) -> None:
        Module.__init__(self)
        self._join_config: Any = None
        Joinable.__init__(self)
        if device_mesh is not None:
            if process_group is not None:
                raise ArgumentError(f"{_NAME}: Cannot specify both process_group and device_mesh arguments; leave one out")
            if device_mesh.ndim != 1:
                raise ArgumentError(f"{_NAME}: Only 1D device mesh is supported, got {device_mesh}; index it by a dimension's name")
            process_group = device_mesh.get_group(0)
        if dist.get_rank(process_group) < 0:
            raise StateError(f"{_NAME}: this process is not in process_group")
        if not any(p.requires_grad for p in module.parameters()):
            raise StateError(
                f"{_NAME} is not needed when a module doesn't have any parameter that requires a gradient; call the module itself"
            )
        if device_ids or output_device is not None:
            raise ArgumentError(
                f"{_NAME}: device_ids {device_ids} and output_device {output_device} name accelerators, and the module is on "
                "the cpu; leave them at None"
            )
        if bucket_cap_mb is not None and not bucket_cap_mb > 0:
            raise ArgumentError(f"{_NAME}: bucket_cap_mb must be positive, got {bucket_cap_mb}")
        self.module, self.dim, self.broadcast_buffers = module, dim, broadcast_buffers
        self.device_ids, self.output_device, self.device_mesh = None, None, device_mesh
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._comm_hooks: list[Any] = []
        self._divide_by_initial_world_size = True
        if init_sync:
            self._synchronize_replicas()
        self._make_reducer()

    # ---- replicas ----------------------------------------------------------------------------------------------------

    def _named_parameters(self) -> list[tuple[str, Tensor]]:
        return [(n, p) for n, p in self.module.named_parameters() if p.requires_grad and n not in self.parameters_to_ignore]

    def _buffers_to_sync(self) -> list[Tensor]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _synchronize_replicas(self) -> None:
        check_same(_NAME, self._named_parameters(), self.process_group)
        kept = [p for n, p in self.module.named_parameters() if n not in self.parameters_to_ignore]
        broadcast_all([*kept, *self._buffers_to_sync()], self.process_group)

    def _make_reducer(self) -> None:
        named = self._named_parameters()
        sparse_weights = {
            id(m.weight) for m in self.module.modules() if getattr(m, "sparse", False) and isinstance(getattr(m, "weight", None), Tensor)
        }
        self.__dict__["reducer"] = Reducer(
            [p for _, p in named],
            [n for n, _ in named],
            [id(p) in sparse_weights for _, p in named],
            self.process_group,
            self.bucket_bytes_cap,
            self.find_unused_parameters,
            self.static_graph,
            self.gradient_as_bucket_view,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for key in ("process_group", "reducer", "_join_config", "_comm_hooks", "device_mesh"):
            state.pop(key, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group, self.device_mesh, self._comm_hooks = dist.group.WORLD, None, []
        Joinable.__init__(self)
        self._make_reducer()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        own = type(self).__new__(type(self))
        memo[id(self)] = own
        own.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        own.__dict__["process_group"] = self.process_group
        own.reducer.group = self.process_group
        return own

    # ---- forward -----------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        recording = fb.is_grad_enabled() and self.require_backward_grad_sync
        if recording:
            self.reducer.check_finished()
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        if self._join_config.enable:
            self._agree_on_sync(False)
        if recording:
            self.reducer.rebuild_buckets()
        if self._syncs_buffers():
            broadcast_all(self._buffers_to_sync(), self.process_group, self._source_of_buffers(True))
        result = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = recording
        if recording:
            self.reducer.prepare_for_backward()
        return result

    def _syncs_buffers(self) -> bool:
        return self.require_forward_param_sync and self.broadcast_buffers and len(self._buffers_to_sync()) > 0

    def _source_of_buffers(self, working: bool) -> int:
        """The rank whose buffers are used: 0, or while joining, the last one that still has data."""
        if not self._join_config.enable:
            return 0
        rank = fb.tensor(dist.get_rank(self.process_group) if working else -1)
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=self.process_group)
        return int(rank.item())

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up without being averaged; the first backward after it averages the sums.

        Forward must run inside too.

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> with m.no_sync():
            ...     m(fb.zeros(4, 2)).sum().backward()
            >>> fb.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # ---- communication of gradients ----------------------------------------------------------------------------------

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Has a function send the gradients in place of the all_reduce.

        Args:
            state: passed to the hook as its first argument.
            hook: called as hook(state, bucket) for each full bucket; returns a Future of the averaged buffer. Hooks that
                compress are in fb.distributed.algorithms.ddp_comm_hooks.

        Example:
            >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> m.register_comm_hook(None, default_hooks.bf16_compress_hook)
            >>> fb.distributed.destroy_process_group()
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: Communication hook must be callable, got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise StateError("register_comm_hook: register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hooks.append((hook, state))
        self.reducer.hook = lambda bucket: hook(state, bucket)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """Registers a hook by its name in fb.distributed.BuiltinCommHookType."""
        from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks

        hooks = {dist.BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook}
        hooks[dist.BuiltinCommHookType.FP16_COMPRESS] = default_hooks.fp16_compress_hook
        self.register_comm_hook(self.process_group, hooks[dist.BuiltinCommHookType(comm_hook_type)])

    def _set_static_graph(self) -> None:
        """Declares after construction that every step uses the same graph."""
        if self.reducer.steps:
            raise StateError("_set_static_graph: must be called before the first backward")
        self.static_graph = self.reducer.static = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Information about the communication, for logs."""
        params, reducer = self.reducer.params, self.reducer
        sizes = [sum(params[i].numel() * params[i].element_size() for i in bucket.members) for bucket in reducer.buckets]
        return {
            "world_size": reducer.size, "rank": dist.get_rank(self.process_group), "module_name": type(self.module).__name__,
            "bucket_cap_bytes": self.bucket_bytes_cap, "bucket_sizes": ", ".join(map(str, sizes)),
            "num_parameter_tensors": len(params), "total_parameter_size_bytes": sum(sizes), "iteration": reducer.steps,
            "has_rebuilt_buckets": reducer.rebuilt, "find_unused_parameters": self.find_unused_parameters,
            "static_graph": self.static_graph, "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "can_set_static_graph": False,
        }  # fmt: skip

    # ---- uneven inputs -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Inside, processes may have different numbers of batches: those that are done send zeros for the others.

        Args:
            divide_by_initial_world_size: whether means count the processes that are done.
            enable: whether it has any effect.
            throw_on_early_termination: whether all raise when the first is done.

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> with m.join():
            ...     m(fb.zeros(4, 2)).sum().backward()
            >>> fb.distributed.destroy_process_group()
        """
        with Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size):
            yield

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without data does in a Join; `divide_by_initial_world_size` as for join().

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> m.join_hook().main_hook is not None
            True
            >>> fb.distributed.destroy_process_group()
        """
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _ShadowHook(self)

    @property
    def join_device(self) -> Any:
        """Device of the parameters."""
        return self.reducer.params[0].device

    @property
    def join_process_group(self) -> Any:
        """The group over which gradients are averaged."""
        return self.process_group

    def _agree_on_sync(self, joined: bool) -> tuple[bool, bool]:
        """Whether processes with data will average gradients, and send buffers; sets the divisor of sums."""
        words = fb.zeros(3)
        if not joined:
            words = fb.tensor([1.0, float(fb.is_grad_enabled() and self.require_backward_grad_sync), float(self._syncs_buffers())])
        dist.all_reduce(words, group=self.process_group)
        working, averaging, sending = words.tolist()
        whole = self._divide_by_initial_world_size
        self.reducer.divisor = dist.get_world_size(self.process_group) if whole else max(working, 1.0)
        return averaging > 0, sending > 0


class _ShadowHook(JoinHook):
    """Repeats the collectives of one forward and backward."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        model = self.model
        averaging, sending = model._agree_on_sync(True)
        if averaging:
            model.reducer.rebuild_buckets()
        if sending:
            broadcast_all(model._buffers_to_sync(), model.process_group, model._source_of_buffers(False))
        if averaging:
            model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All processes receive the replica of a process that made all steps."""
        model = self.model
        model.reducer.divisor = dist.get_world_size(model.process_group)
        rank = fb.tensor(dist.get_rank(model.process_group) if is_last_joiner else -1)
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=model.process_group)
        tensors = [*model.module.parameters(), *model.module.buffers()]
        broadcast_all(tensors, model.process_group, int(rank.item()))
