"""FullyShardedDataParallel: a module that wraps another, around fully_shard.

Parameters are DTensors, whatever use_orig_params says. In state_dict() names are those of the model without wrappers.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._coalesced import broadcast_all
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper
from flambeau.distributed.fsdp import _optimizer_state, _whole
from flambeau.distributed.fsdp._fully_shard import cast_inputs, fully_shard
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy
from flambeau.distributed.fsdp._setup import (
    cast_buffers,
    fill_meta,
    in_full_precision,
    keep_objects,
    left_alone,
    mesh_of,
    of_classes,
)
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.fsdp.wrap import policy_of, wrap_inside
from flambeau.distributed.tensor._dtensor import DTensor
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.modules.module import Module

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]
__dir__ = __all__.copy

_NAME = "FullyShardedDataParallel"
_INNER = "_fsdp_wrapped_module."

class OptimStateKeyType(enum.Enum):
    """What an optimizer's state is keyed by in FullyShardedDataParallel.rekey_optim_state_dict().

    Example:
        >>> from flambeau.distributed.fsdp.fully_sharded_data_parallel import OptimStateKeyType
        >>> OptimStateKeyType.PARAM_NAME.name
        'PARAM_NAME'
    """

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


class _Running(threading.local):
    depth = 0


_running = _Running()


class FullyShardedDataParallel(Module):
    """A module whose parameters, gradients and optimizer state are in pieces, one per process.

    It does what fully_shard does, which changes a module in place, as a wrapper. Build the optimizer afterwards; with
    use_orig_params=True, one that was built before keeps its parameters as well.

    Args:
        module: the module.
        process_group: the processes; all if not given. For hybrid strategies, a pair: those that share the pieces of one
            replica, and those that hold the same piece.
        sharding_strategy: what is in pieces; FULL_SHARD if not given.
        cpu_offload: accepted: processes on the CPU keep their pieces there anyway.
        auto_wrap_policy: which modules inside are wrapped by themselves, so that only some parameters are whole at a
            time; flambeau.distributed.fsdp.wrap has policies.
        backward_prefetch: accepted; backward gathers ahead where that costs no time.
        mixed_precision: dtypes of computation and communication.
        ignored_modules: modules inside whose parameters stay as they are.
        param_init_fn: gives a module on the meta device memory and values; by default to_empty() and reset_parameters().
        device_id: where the module is computed: "cpu" or None.
        sync_module_states: whether all processes take parameters and buffers of the first.
        forward_prefetch: accepted; see backward_prefetch.
        limit_all_gathers: accepted; what is gathered ahead is one module at most.
        use_orig_params: whether parameters stay the objects that they are.
        ignored_states: parameters, or modules, that stay as they are.
        device_mesh: a mesh in place of process_group; of two dimensions for hybrid strategies.

    Example:
        >>> from flambeau.distributed.fsdp import FullyShardedDataParallel
        >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.Sequential(fb.nn.Linear(4, 4), fb.nn.ReLU(), fb.nn.Linear(4, 2))
        >>> model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({fb.nn.Linear}))
        >>> optimizer = fb.optim.AdamW(model.parameters(), lr=0.1)
        >>> model(fb.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> list(model.state_dict())
        ['0.weight', '0.bias', '2.weight', '2.bias']
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE, mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None, param_init_fn: Callable[[Module], Any] | None = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False, limit_all_gathers: bool = True,
        use_orig_params: bool = False, ignored_states: Iterable[Any] | None = None, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if isinstance(module, FullyShardedDataParallel):
            raise StateError(f"{_NAME}: the module is wrapped already")
        if device_id is not None and fb.device(device_id).type != "cpu":
            raise ArgumentError(f"{_NAME}: device_id {device_id} names an accelerator; its processes compute on the CPU, pass None")
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise ArgumentError(f"{_NAME}: keep_low_precision_grads=True is not supported; gradients have the parameters' dtype")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.sharding_strategy, self.mixed_precision, self.cpu_offload = strategy, mixed_precision or MixedPrecision(), cpu_offload
        mesh = mesh_of(strategy, process_group, device_mesh)
        ignored, kept = left_alone(ignored_modules, ignored_states)
        if auto_wrap_policy is not None:
            shared = {
                "sharding_strategy": strategy, "cpu_offload": cpu_offload, "backward_prefetch": backward_prefetch,
                "mixed_precision": mixed_precision, "param_init_fn": param_init_fn, "sync_module_states": sync_module_states,
                "use_orig_params": use_orig_params, "ignored_states": kept, "device_mesh": mesh,
            }  # fmt: skip
            precise = tuple(self.mixed_precision._module_classes_to_ignore) if mixed_precision is not None else ()
            policy = policy_of(auto_wrap_policy)

            def wrapped(inner: Module, options: dict[str, Any]) -> Module:
                return FullyShardedDataParallel(inner, **{**shared, **options})

            if precise:

                def wrapped_precisely(inner: Module, options: dict[str, Any]) -> Module:
                    return in_full_precision(wrapped(inner, {"mixed_precision": None}))

                wrap_inside(module, of_classes(precise), wrapped_precisely, ignored)
            wrap_inside(module, policy, wrapped, ignored)
        fill_meta(module, kept, param_init_fn, sync_module_states)
        if sync_module_states:
            own = [t for t in (*module.parameters(), *module.buffers()) if not isinstance(t, DTensor)]
            for dim in range(mesh.ndim):
                broadcast_all(own, mesh.get_group(dim))
        before = [(name, p) for name, p in module.named_parameters() if not isinstance(p, DTensor)]
        policy_of_dtypes = MixedPrecisionPolicy(
            self.mixed_precision.param_dtype, self.mixed_precision.reduce_dtype or self.mixed_precision.param_dtype,
            cast_forward_inputs=self.mixed_precision.cast_forward_inputs,
        )  # fmt: skip
        gathered_again = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        fully_shard(
            module, mesh=mesh, reshard_after_forward=None if gathered_again else False, mp_policy=policy_of_dtypes, ignored_params=set(kept)
        )
        if use_orig_params and self._unit_of(module) is not None:
            keep_objects(self._unit_of(module), dict(before))
        self._fsdp_wrapped_module = module
        self._buffer_dtypes = cast_buffers(module, self.mixed_precision.buffer_dtype)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        self.rank, self.world_size = mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self._mesh = mesh
        self._register_state_dict_hook(_whole.save_hook)
        self.register_load_state_dict_pre_hook(_whole.load_hook)

    # ---- the module inside -------------------------------------------------------------------------------------------

    @staticmethod
    def _unit_of(module: Any) -> Any:
        return module._fsdp.group

    @property
    def _unit(self) -> Any:
        """The parameters that this wrapper distributes, in a ParamGroup; None if there are none."""
        return self._unit_of(self._fsdp_wrapped_module)

    @property
    def _has_params(self) -> bool:
        return self._unit is not None

    @property
    def _flat_param(self) -> Any:
        """One of the parameters; libraries read its dtype."""
        return None if self._unit is None else self._unit.params[0].sharded

    @property
    def module(self) -> Module:
        """The module inside."""
        inner = self._fsdp_wrapped_module
        return inner._checkpoint_wrapped_module if isinstance(inner, ActivationWrapper) else inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: int) -> Any:
        return self.module[key]  # type: ignore[index]  # of a container

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        precision = self.mixed_precision
        if _running.depth == 0 and precision.param_dtype is not None and precision.cast_root_forward_inputs:
            args, kwargs = cast_inputs((args, kwargs), precision.param_dtype)
        _running.depth += 1
        try:
            return self._fsdp_wrapped_module(*args, **kwargs)
        finally:
            _running.depth -= 1

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Calls a function with each module inside, whose parameters are whole meanwhile.

        Args:
            fn: of a module; may change its parameters.
        """
        with self.summon_full_params(self):
            super().apply(fn)
        return self

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a model.

        Args:
            module: the model.
            root_only: whether to leave out those inside others.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inside = {id(m) for outer in found for m in outer._fsdp_wrapped_module.modules()}
        return [m for m in found if id(m) not in inside]

    def check_is_root(self) -> bool:
        """Always True: a wrapper does not know its parents, and each may be called directly."""
        return True

    # ---- whole parameters --------------------------------------------------------------------------------------------

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False, offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, the parameters are whole tensors under the names of the model without wrappers.

        Args:
            module: a model with wrappers.
            recurse: whether those inside other wrappers are whole too.
            writeback: whether changes of them are kept; each process keeps those of its own piece.
            rank0_only: whether they are whole in rank 0 only; then writeback must be False.
            offload_to_cpu: accepted: they are on the CPU.
            with_grads: whether gradients are whole too.
        """
        if rank0_only and writeback:
            raise ArgumentError("summon_full_params: writeback=True is not supported with rank0_only=True; pass writeback=False")
        wrappers = FullyShardedDataParallel.fsdp_modules(module, root_only=not recurse)
        with _whole.whole_parameters([w._unit for w in wrappers if w._unit is not None], writeback, rank0_only, with_grads):
            yield

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, p in super().named_parameters(*args, **kwargs):
            yield (name.replace(_INNER, "") if _whole.inside() else name), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, b in super().named_buffers(*args, **kwargs):
            yield (name.replace(_INNER, "") if _whole.inside() else name), b

    # ---- gradients ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are accumulated locally in each process; the first backward after it averages the sums."""
        units = [w._unit for w in self.fsdp_modules(self) if w._unit is not None]
        before = [unit.sync for unit in units]
        for unit in units:
            unit.sync = False
        try:
            yield
        finally:
            for unit, sync in zip(units, before, strict=True):
                unit.sync = sync

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scales all gradients so that their norm, over the pieces of all processes, is at most max_norm.

        Args:
            max_norm: the norm they may have.
            norm_type: which norm; inf for the largest absolute value.

        Returns:
            the norm they had.
        """
        order = float(norm_type)
        with fb.no_grad():
            grads = [p.grad for p in self.parameters() if p.grad is not None]
            cut = [g._local for g in grads if isinstance(g, DTensor)]
            whole = [g for g in grads if not isinstance(g, DTensor)]
            total = _power_of_norm(cut, order)
            dist.all_reduce(total, op=dist.ReduceOp.MAX if order == float("inf") else dist.ReduceOp.SUM, group=self.process_group)
            rest = _power_of_norm(whole, order)
            total = fb.maximum(total, rest) if order == float("inf") else (total + rest) ** (1 / order)
            factor = fb.clamp(float(max_norm) / (total + 1e-6), max=1.0)
            for grad in (*cut, *whole):
                grad.mul_(factor.to(grad.dtype))
        return total

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Not supported: gradients are reduced by the wrappers; MixedPrecision.reduce_dtype says in which dtype."""
        raise StateError(
            f"{_NAME}.register_comm_hook: hooks are not supported; MixedPrecision(reduce_dtype=…) compresses gradients, and "
            "DistributedDataParallel has hooks"
        )

    # ---- states ------------------------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:  # fmt: skip
        """Sets what state_dict() and optim_state_dict() hold; returns what it was.

        Args:
            module: a model with wrappers.
            state_dict_type: whole tensors or DTensors.
            state_dict_config: how.
            optim_state_dict_config: how the optimizer's state is taken.
        """
        if state_dict_type == StateDictType.LOCAL_STATE_DICT:
            raise ArgumentError("set_state_dict_type: LOCAL_STATE_DICT is not supported; SHARDED_STATE_DICT holds this process's pieces")
        full = state_dict_type == StateDictType.FULL_STATE_DICT
        of_model = state_dict_config or (FullStateDictConfig() if full else ShardedStateDictConfig())
        of_optimizer = optim_state_dict_config or (FullOptimStateDictConfig() if full else ShardedOptimStateDictConfig())
        fitting = (FullStateDictConfig, FullOptimStateDictConfig) if full else (ShardedStateDictConfig, ShardedOptimStateDictConfig)
        for given, expected in zip((of_model, of_optimizer), fitting, strict=True):
            if not isinstance(given, expected):
                raise ArgumentError(f"set_state_dict_type: expected a {expected.__name__} for {state_dict_type.name}, got {given}")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for wrapper in wrappers:
            wrapper._settings = StateDictSettings(state_dict_type, of_model, of_optimizer)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What state_dict() and optim_state_dict() hold.

        Args:
            module: a model with wrappers.
        """
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if wrappers:
            return wrappers[0]._settings
        return StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, state_dict() and optim_state_dict() hold what is given; arguments as for set_state_dict_type()."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for wrapper in FullyShardedDataParallel.fsdp_modules(module):
                wrapper._settings = before

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """The state of an optimizer by names of parameters, in whole tensors or DTensors as state_dict_type() says.

        Args:
            model: the model.
            optim: its optimizer.
            optim_state_dict: must be None: the state is taken from the optimizer.
            group: accepted: the processes are those of the model.
        """
        if optim_state_dict is not None:
            raise ArgumentError("optim_state_dict: optim_state_dict is not supported; the state is taken from the optimizer")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config = settings.optim_state_dict_config
        whole = settings.state_dict_type == StateDictType.FULL_STATE_DICT
        return _optimizer_state.taken(model, optim, whole, config.offload_to_cpu, whole and getattr(config, "rank0_only", False))

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False, load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What optim.load_state_dict() takes, from a result of optim_state_dict().

        Args:
            model: the model.
            optim: its optimizer.
            optim_state_dict: the state; with rank0_only, that of rank 0 counts, and others may pass an empty one.
            is_named_optimizer: must be False.
            load_directly: whether to load it as well.
            group: accepted: the processes are those of the model.
        """
        if is_named_optimizer:
            raise ArgumentError("optim_state_dict_to_load: is_named_optimizer=True is not supported")
        config = FullyShardedDataParallel.get_state_dict_type(model).optim_state_dict_config
        state = _optimizer_state.to_load(model, optim, optim_state_dict, getattr(config, "rank0_only", False))
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """The whole state of an optimizer by names of parameters.

        Args:
            model: the model.
            optim: its optimizer.
            optim_input: accepted; the optimizer's groups are looked at.
            rank0_only: whether only rank 0 gets it.
            group: accepted: the processes are those of the model.
        """
        return _optimizer_state.taken(model, optim, True, True, rank0_only)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """The state of an optimizer by names of parameters, in DTensors.

        Args:
            model: the model.
            optim: its optimizer.
            group: accepted: the processes are those of the model.
        """
        return _optimizer_state.taken(model, optim, False, False, False)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """What optim.load_state_dict() takes, from a whole state that each process has.

        Args:
            full_optim_state_dict: the state.
            model: the model.
            optim_input: accepted; pass optim.
            optim: its optimizer.
        """
        return _optimizer_state.to_load(model, _given("shard_full_optim_state_dict", optim), full_optim_state_dict, False)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: Any = None, optim: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """What optim.load_state_dict() takes, from a whole state that rank 0 has.

        Args:
            full_optim_state_dict: the state; None in other processes.
            model: the model.
            optim_input: accepted; pass optim.
            optim: its optimizer.
            group: accepted: the processes are those of the model.
        """
        return _optimizer_state.to_load(model, _given("scatter_full_optim_state_dict", optim), full_optim_state_dict or {}, True)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module, optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """A whole state by numbers of parameters, for a model without wrappers, or back by names.

        Args:
            optim_state_dict: the state.
            optim_state_key_type: what the result is keyed by.
            model: the model, with or without wrappers.
            optim_input: accepted; pass optim.
            optim: its optimizer.
        """
        by_name = optim_state_key_type == OptimStateKeyType.PARAM_NAME
        return _optimizer_state.rekeyed(optim_state_dict, by_name, model, _given("rekey_optim_state_dict", optim))


def _given(op: str, optim: Any) -> Any:
    if optim is None:
        raise ArgumentError(f"{op}: optim is missing; pass the optimizer")
    return optim


def _power_of_norm(tensors: list[Tensor], order: float) -> Tensor:
    """The norm of all tensors to the power of its order; the largest absolute value for inf."""
    norms = [fb.linalg.vector_norm(t.float(), order) for t in tensors if t.numel()]
    if not norms:
        return fb.zeros(())
    stacked = fb.stack(norms)
    return stacked.max() if order == float("inf") else (stacked**order).sum()
