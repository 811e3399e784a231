"""fully_shard: each process keeps a piece of each parameter, of its gradient and of its optimizer state."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.fsdp._param_group import Context, ParamGroup, ShardedParameter
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.tensor._dtensor import DTensor
from flambeau.distributed.tensor.placement_types import Shard
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class _Running(threading.local):
    depth = 0


_running = _Running()


class UnshardHandle:
    """A gathering under way, begun by FSDPModule.unshard(async_op=True).

    Example:
        >>> fb.distributed.fsdp.UnshardHandle(None).wait() is None
        True
    """

    def __init__(self, group: ParamGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Waits until the whole parameters are in the module."""
        if self._group is not None:
            self._group.show()
            self._group = None


class FSDPModule:
    """What fully_shard adds to the class of a module.

    Example:
        >>> from flambeau.distributed.fsdp import FSDPModule, fully_shard
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fully_shard(fb.nn.Linear(2, 2))
        >>> isinstance(model, FSDPModule), isinstance(model, fb.nn.Linear)
        (True, True)
        >>> fb.distributed.destroy_process_group()
    """

    _fsdp: _State

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Copies of such a module have the plain class.
        return object.__new__(cls._plain_class)  # type: ignore[attr-defined]  # set in _class_of

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp.call(self, super().forward, args, kwargs)  # type: ignore[misc]  # a module comes after it

    def _groups(self, recurse: bool) -> Iterable[ParamGroup]:
        modules: Any = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        for module in modules:
            if isinstance(module, FSDPModule) and module._fsdp.group is not None:
                yield module._fsdp.group

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers this module's own parameters before forward would.

        Args:
            async_op: whether to return at once, with a handle to wait for.
        """
        group = self._fsdp.group
        if group is not None:
            group.start()
        handle = UnshardHandle(group)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Frees this module's own whole parameters."""
        if self._fsdp.group is not None:
            self._fsdp.group.hide(True)

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward sums gradients over processes; without, it adds them up whole until a backward that does.

        Args:
            requires_gradient_sync: whether to.
            recurse: whether to set it for all modules inside.
        """
        for group in self._groups(recurse):
            group.sync = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: every backward completes its reductions.

        Args:
            is_last_backward: whether this step has no further backward.
        """

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are summed over replicas, on a mesh of two dimensions.

        Args:
            requires_all_reduce: must be True.
            recurse: whether to set it for all modules inside.
        """
        if not requires_all_reduce:
            raise ArgumentError("set_requires_all_reduce: False is not supported; use set_requires_gradient_sync(False)")

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are freed after forward and gathered again in backward.

        Args:
            reshard_after_forward: whether to.
            recurse: whether to set it for all modules inside.
        """
        for group in self._groups(recurse):
            group.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether whole parameters are freed after backward.

        Args:
            reshard_after_backward: whether to.
            recurse: whether to set it for all modules inside.
        """
        for group in self._groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """The modules whose parameters begin to be gathered when this one's forward begins.

        Args:
            modules: modules that fully_shard was called on.
        """
        self._prefetch("forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """The modules whose parameters begin to be gathered when this one's backward begins.

        By default that is the module that ran before this one in forward.

        Args:
            modules: modules that fully_shard was called on.
        """
        self._prefetch("backward_prefetch", modules)

    def _prefetch(self, which: str, modules: list[Any]) -> None:
        for module in modules:
            if not isinstance(module, FSDPModule):
                raise ArgumentError(f"set_modules_to_{which}: expected modules given to fully_shard, got {type(module).__name__}")
        if self._fsdp.group is not None:
            groups = [m._fsdp.group for m in modules if m._fsdp.group is not None]
            getattr(self._fsdp.group.context, which)[id(self._fsdp.group)] = groups

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by, in place of the number of processes.

        Args:
            factor: the divisor.
        """
        for group in self._groups(True):
            group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: backward gathers parameters when it needs them, and only then.

        Args:
            unshard_in_backward: whether parameters are needed.
        """


class _State:
    """The state of a module given to fully_shard."""

    def __init__(self, group: ParamGroup | None, policy: MixedPrecisionPolicy) -> None:
        self.group, self.policy = group, policy

    def call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs forward with whole parameters."""
        root = _running.depth == 0
        if root:
            _share_context(module)
        policy = self.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            args, kwargs = cast_inputs((args, kwargs), policy.param_dtype)
        _running.depth += 1
        try:
            if self.group is None:
                result = function(*args, **kwargs)
            else:
                wanted = self.group.reshard_after_forward
                reshard = not root if wanted is None else wanted
                with self.group.running(reshard):
                    result = function(*args, **kwargs)
                if reshard and fb.is_grad_enabled():
                    _before_backward(result, self.group.begin_backward)
        finally:
            _running.depth -= 1
        return result if policy.output_dtype is None else cast_inputs(result, policy.output_dtype)


def _before_backward(result: Any, begin: Callable[[], None]) -> None:
    """Calls `begin` when backward reaches a module's results."""
    if isinstance(result, Tensor):
        result = result._local if isinstance(result, DTensor) else result
        if result.requires_grad:
            result.register_hook(lambda grad: begin())
    elif isinstance(result, (list, tuple)):
        for item in result:
            _before_backward(item, begin)
    elif isinstance(result, dict):
        for item in result.values():
            _before_backward(item, begin)


def _share_context(root: Any) -> None:
    """Gives all groups of a model one context."""
    groups = [m._fsdp.group for m in root.modules() if isinstance(m, FSDPModule) and m._fsdp.group is not None]
    if groups and any(group.context is not groups[0].context for group in groups):
        shared = groups[0].context
        for group in groups:
            shared.forward_prefetch.update(group.context.forward_prefetch)
            shared.backward_prefetch.update(group.context.backward_prefetch)
            group.context = shared


def cast_inputs(value: Any, dtype: fb.dtype) -> Any:
    """A structure of lists, tuples and dictionaries with all floating tensors converted."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast_inputs(item, dtype) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(cast_inputs(item, dtype) for item in value)
    if isinstance(value, dict):
        changed = {key: cast_inputs(item, dtype) for key, item in value.items()}
        if type(value) is dict:
            return changed
        value.update(changed)
    return value


def _class_of(plain: Any) -> type:
    """The class with FSDPModule's methods; created once per class of modules."""
    found = plain.__dict__.get("_fsdp_class")
    if found is None:
        members = {"_plain_class": plain, "__module__": plain.__module__, "__doc__": plain.__doc__}
        found = plain._fsdp_class = type(f"FSDP{plain.__name__}", (FSDPModule, plain), members)
    return found


def fully_shard(
    module: Any, *, mesh: Any = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(), offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008
    ignored_params: set[Parameter] | None = None,
) -> Any:  # fmt: skip
    """Distributes the parameters of a module, of their gradients and of optimizer states over the processes of a mesh.

    Call it on the layers of a model, then on the model itself; each call takes the parameters inside that no earlier call
    has taken. Around the forward and backward of a module its parameters are gathered, so at any time only a few layers'
    are whole. Gradients are averaged over the processes. Build the optimizer afterwards. Parameters become DTensors.

    Args:
        module: the module, or a list of modules that run one after another; changed in place, its class gets the methods
            of FSDPModule.
        mesh: a mesh of one dimension; of two, for replicas (first) of pieces (second). All processes if not given.
        reshard_after_forward: whether whole parameters are freed after forward and gathered again in backward; by default
            all but the outermost module's are.
        shard_placement_fn: gives for a parameter the Shard to cut it by; dimension 0 if None.
        mp_policy: dtypes of computation and communication.
        offload_policy: where pieces are kept.
        ignored_params: parameters that are not sharded.

    Example:
        >>> from flambeau.distributed.fsdp import fully_shard
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.Sequential(fb.nn.Linear(4, 4), fb.nn.ReLU(), fb.nn.Linear(4, 2))
        >>> for layer in (model[0], model[2]):
        ...     _ = fully_shard(layer)
        >>> _ = fully_shard(model)
        >>> optimizer = fb.optim.AdamW(model.parameters(), lr=0.1)
        >>> model(fb.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> model[0].weight.placements
        (Shard(dim=0),)
        >>> fb.distributed.destroy_process_group()
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        if not isinstance(one, Module) or isinstance(one, (ModuleList, ModuleDict)):
            raise ArgumentError(
                f"fully_shard: does not support containers that do not implement forward, got {type(one).__name__}; call it on "
                "the modules inside"
            )
        if isinstance(one, FSDPModule):
            raise StateError("fully_shard: has been applied to this module already")
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),)) if mesh is None else mesh
    if mesh.ndim not in (1, 2):
        raise ArgumentError(f"fully_shard: expects a 1D or 2D DeviceMesh but got {mesh}")
    if not isinstance(offload_policy, OffloadPolicy):
        raise TypeError(f"fully_shard: offload_policy must be an OffloadPolicy, got {type(offload_policy).__name__}")
    params = _sharded(modules, mesh, shard_placement_fn, ignored_params or set())
    group = ParamGroup(params, mesh, mp_policy, Context()) if params else None
    if group is not None:
        group.reshard_after_forward = None if reshard_after_forward is None else bool(reshard_after_forward)
    for one in modules:
        one.__class__ = _class_of(type(one))
        one.__dict__["_fsdp"] = _State(group, mp_policy)
    return module


def _sharded(modules: list[Any], mesh: Any, placement: Any, ignored: set[Parameter]) -> list[ShardedParameter]:
    """Shards the parameters that no inner module has taken."""
    ignored_ids = {id(p) for p in ignored}
    places: dict[int, tuple[str, Tensor, list[tuple[Module, str]]]] = {}

    def collect(module: Any, prefix: str) -> None:
        for key, p in module._parameters.items():
            if p is not None and id(p) not in ignored_ids:
                places.setdefault(id(p), (prefix + key, p, []))[2].append((module, key))
        for name, child in module._modules.items():
            if child is not None and not isinstance(child, FSDPModule):
                collect(child, f"{prefix}{name}.")

    for module in modules:
        collect(module, "")
    result = []
    for name, p, where in places.values():
        if p.ndim == 0:
            raise ArgumentError(f"fully_shard: parameter {name} has no dimension to shard; give it one of size 1")
        wanted = placement(p) if placement is not None else None
        dim = 0 if wanted is None else wanted.dim % p.ndim
        result.append(ShardedParameter(name, where, p, mesh, dim))
    return result


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Has another method of a module run with whole parameters, as forward does.

    Args:
        module: a module given to fully_shard; any other is unchanged.
        method_name: name of the method.

    Example:
        >>> from flambeau.distributed.fsdp import register_fsdp_forward_method
        >>> register_fsdp_forward_method(fb.nn.Linear(2, 2), "forward")
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ArgumentError(f"register_fsdp_forward_method: {type(module).__name__} has no method {method_name!r}")
    plain, state = getattr(module, method_name), module._fsdp

    @functools.wraps(plain)
    def run(*args: Any, **kwargs: Any) -> Any:
        return state.call(module, plain, args, kwargs)

    module.__dict__[method_name] = run
