"""Construction of a FullyShardedDataParallel: its mesh, ignored modules, precision, initial values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.fsdp._fully_shard import cast_inputs
from flambeau.distributed.fsdp.api import ShardingStrategy
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module
from flambeau.utils import swap_tensors

_NAME = "FullyShardedDataParallel"
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def mesh_of(strategy: ShardingStrategy, group: Any, mesh: Any) -> Any:
    """The mesh for a strategy: pieces along the last dimension, replicas along the one before."""
    if mesh is not None:
        if group is not None:
            raise ArgumentError(f"{_NAME}: Cannot pass both process_group and device_mesh at the same time; leave one out")
        wanted = 2 if strategy in (*_HYBRID, ShardingStrategy.NO_SHARD) else 1
        if mesh.ndim == 1 and strategy == ShardingStrategy.NO_SHARD:
            return _replicas(mesh.get_group())
        if mesh.ndim != wanted:
            raise ArgumentError(f"{_NAME}: {strategy.name} needs a device_mesh of {wanted} dimensions, got {mesh}")
        return mesh
    if strategy in _HYBRID:
        return _hybrid_mesh(group)
    if isinstance(group, tuple):
        raise ArgumentError(f"{_NAME}: a pair of groups is for hybrid strategies, not for {strategy.name}")
    if strategy == ShardingStrategy.NO_SHARD:
        return _replicas(group)
    return dist.init_device_mesh("cpu", (dist.get_world_size(),)) if group is None else DeviceMesh.from_group(group, "cpu")


def _replicas(group: Any) -> Any:
    """A mesh of replicas only: every process has the whole parameters."""
    ranks = dist.get_process_group_ranks(group)
    alone: Any = None
    for rank in range(dist.get_world_size()):
        made = dist.new_group([rank])
        alone = made if rank == dist.get_rank() else alone
    return DeviceMesh("cpu", [[rank] for rank in ranks], _groups=[dist.group.WORLD if group is None else group, alone])


def _hybrid_mesh(groups: Any) -> Any:
    if groups is not None:
        if not (isinstance(groups, tuple) and len(groups) == 2):
            raise ArgumentError(f"{_NAME}: hybrid strategies need a pair of groups, of a replica's pieces and of equal pieces")
        rows: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(rows, tuple(dist.get_process_group_ranks(groups[0])))
        return DeviceMesh("cpu", [list(row) for row in dict.fromkeys(rows)], _groups=[groups[1], groups[0]])
    world, local = dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
    if world % local:
        raise ArgumentError(f"{_NAME}: {world} processes are no multiple of the {local} on this host; pass device_mesh")
    return dist.init_device_mesh("cpu", (world // local, local))


def left_alone(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> tuple[set[Module], list[Any]]:
    """Modules, and parameters, that are not sharded."""
    ignored: set[Module] = set()
    kept: list[Any] = []
    for each in (*(modules or ()), *(states or ())):
        if isinstance(each, Module):
            if "_fsdp_wrapped_module" in each._modules:
                raise ArgumentError(f"{_NAME}: `ignored_modules` should not include FSDP modules")
            ignored |= set(each.modules())
            kept += list(each.parameters())
        elif isinstance(each, Tensor):
            kept.append(each)
        else:
            raise TypeError(f"{_NAME}: ignored states are modules or parameters, got {type(each).__name__}")
    return ignored, kept


def of_classes(classes: tuple[type, ...]) -> Callable[..., bool]:
    """A policy that chooses the modules of some classes."""
    return lambda module, recurse, nonwrapped_numel: recurse or isinstance(module, classes)


def in_full_precision(wrapper: Module) -> Module:
    """Runs a module in float32 inside one of lower precision, and converts results back to the input's dtype."""
    given: list[Any] = []

    def before(module: Module, args: Any, kwargs: Any) -> Any:
        given.append(next((a.dtype for a in args if isinstance(a, Tensor) and a.is_floating_point()), None))
        return cast_inputs((args, kwargs), fb.float32)

    def after(module: Module, args: Any, output: Any) -> Any:
        dtype = given.pop()
        return output if dtype is None else cast_inputs(output, dtype)

    wrapper.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    wrapper.register_forward_hook(after)
    return wrapper


def fill_meta(module: Module, kept: list[Any], init: Callable[[Module], Any] | None, synced: bool) -> None:
    """Allocates and initialises tensors on the meta device."""
    left = {id(t) for t in kept}
    for part in module.modules():
        own = [t for t in (*part._parameters.values(), *part._buffers.values()) if t is not None]
        if "_fsdp_wrapped_module" in part._modules or not any(t.is_meta and id(t) not in left for t in own):
            continue
        if init is not None:
            init(part)
            continue
        part.to_empty(device="cpu", recurse=False)
        if callable(getattr(part, "reset_parameters", None)):
            part.reset_parameters()  # type: ignore[operator]  # modules that have parameters define it
        elif not synced:
            raise ArgumentError(f"{_NAME}: {type(part).__name__} is on the meta device and has no reset_parameters(); pass param_init_fn")


def keep_objects(unit: Any, before: dict[str, Any]) -> None:
    """Makes a module's previous parameter objects its pieces, so that an optimizer that holds them stays valid."""
    for p in unit.params:
        original = before.get(p.name)
        if original is None or original is p.sharded:
            continue
        swap_tensors(original, p.sharded)
        p.sharded = original
        for owner, key in p.places:
            owner.register_parameter(key, original)


def cast_buffers(module: Module, dtype: fb.dtype | None) -> dict[str, Any]:
    """Converts floating buffers except those of wrapped modules inside; returns their previous dtypes, by name."""
    had: dict[str, Any] = {}

    def visit(part: Module, prefix: str) -> None:
        for key, buffer in part._buffers.items():
            if buffer is not None and buffer.is_floating_point() and buffer.dtype != dtype:
                had[prefix + key] = buffer.dtype
                part._buffers[key] = buffer.to(dtype)
        for name, child in part.named_children():
            if "_fsdp_wrapped_module" not in child._modules:
                visit(child, f"{prefix}{name}.")

    if dtype is not None:
        visit(module, "")
    return had
