"""States of models and optimizers by parameter names, whatever the model is wrapped in and however it is distributed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._coalesced import broadcast_all
from flambeau.distributed.tensor import DTensor, distribute_tensor
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module
from flambeau.optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip
__dir__ = __all__.copy

_WRAPPERS = ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")


@dataclasses.dataclass
class StateDictOptions:
    """How states are taken and set.

    Args:
        full_state_dict: whether tensors are whole; else DTensors stay DTensors.
        cpu_offload: whether tensors are moved to the CPU; with full_state_dict, only rank 0 gets them.
        ignore_frozen_params: whether parameters without requires_grad are left out.
        keep_submodule_prefixes: True.
        strict: whether names must match when a model's state is set.
        broadcast_from_rank0: whether a full state is given in rank 0 only.
        flatten_optimizer_state_dict: whether an optimizer's state has one level, with dotted names.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions
        >>> StateDictOptions().strict
        True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def clean_name(model: Module, name: str) -> str:
    """A parameter's name without the modules that only wrap others."""
    from flambeau.nn.parallel import DataParallel, DistributedDataParallel

    parts: list[str] = []
    module: Any = model
    for part in name.split("."):
        if not (part in _WRAPPERS or (part == "module" and isinstance(module, (DataParallel, DistributedDataParallel)))):
            parts.append(part)
        module = getattr(module, "_modules", {}).get(part)
    return ".".join(parts)


def _shown(value: Any, options: StateDictOptions) -> Any:
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.detach().full_tensor()
    return value.cpu() if options.cpu_offload and isinstance(value, Tensor) and not isinstance(value, DTensor) else value


def _only_rank0(result: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    if options.full_state_dict and options.cpu_offload and dist.is_initialized() and dist.get_rank() != 0:
        return {}
    return result


def get_model_state_dict(model: Module, *, submodules: Any = None, options: StateDictOptions | None = None) -> dict[str, Any]:
    """The parameters and buffers of a model by name.

    Args:
        model: the model, plain or wrapped.
        submodules: None.
        options: how to take them.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
        >>> list(get_model_state_dict(fb.nn.Linear(1, 1)))
        ['weight', 'bias']
    """
    _no_submodules("get_model_state_dict", submodules)
    options = options or StateDictOptions()
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else set()
    state = {clean_name(model, name): _shown(value, options) for name, value in model.state_dict().items() if name not in frozen}
    return _only_rank0(state, options)


def _no_submodules(op: str, submodules: Any) -> None:
    if submodules:
        raise ArgumentError(f"{op}: submodules is not supported; call it for the submodule itself")


def _like(value: Any, target: Any) -> Any:
    """Distributes a whole tensor like the target."""
    if isinstance(target, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor) and value.ndim:
        return distribute_tensor(value.detach().to(target.dtype), target.device_mesh, target.placements, src_data_rank=None)
    return value


def _from_rank0(tensors: dict[str, Any], targets: dict[str, Any]) -> dict[str, Any]:
    """Broadcasts whole tensors from rank 0 to every process."""
    rank = dist.get_rank()
    wholes = {
        name: tensors[name].detach().clone() if rank == 0 else fb.empty(tuple(t.shape), dtype=t.dtype)
        for name, t in targets.items() if isinstance(t, Tensor)
    }  # fmt: skip
    broadcast_all(wholes.values(), None)
    others: list[Any] = [{k: v for k, v in tensors.items() if k not in wholes} if rank == 0 else None]
    dist.broadcast_object_list(others, src=0)
    return wholes | others[0]


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Sets the parameters and buffers of a model.

    Args:
        model: the model, plain or wrapped.
        model_state_dict: what get_model_state_dict() gave, with whole tensors or DTensors.
        options: how to set them.

    Returns:
        what load_state_dict() returns: missing and unexpected names.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
        >>> model = fb.nn.Linear(1, 1)
        >>> set_model_state_dict(model, get_model_state_dict(model))
        <All keys matched successfully>
    """
    options = options or StateDictOptions()
    own = model.state_dict()
    names = {clean_name(model, name): name for name in own}
    given = model_state_dict
    if options.broadcast_from_rank0:
        given = _from_rank0(given, {clean: own[name] for clean, name in names.items()})
    state = {names.get(name, name): _like(value, own.get(names.get(name, name))) for name, value in given.items()}
    if options.ignore_frozen_params:
        for name, p in model.named_parameters():
            if not p.requires_grad:
                state.setdefault(name, own[name])
    without_memory = any(isinstance(t, Tensor) and t.device.type == "meta" for t in own.values())
    return model.load_state_dict(state, strict=options.strict, assign=without_memory)


def _optimizers(op: str, optimizers: Any) -> list[Optimizer]:
    found = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    if not found or not all(isinstance(o, Optimizer) for o in found):
        raise TypeError(f"{op}: expected an optimizer or several, got {optimizers!r}")
    return found


def parameter_names(model: Module) -> dict[int, str]:
    """The names of parameters, by their id()."""
    return {id(p): clean_name(model, name) for name, p in model.named_parameters()}


def _init_optim_state(optimizer: Optimizer) -> None:
    """Initialises the state of an optimizer before its first step, so that there is something to load into."""
    if optimizer.state or any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
        return
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    for p in params:
        p.grad = fb.zeros_like(p.detach())
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = fb.tensor(0.0) if isinstance(group["lr"], Tensor) else 0.0
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate in zip([g for g in optimizer.param_groups if "lr" in g], rates, strict=True):
        group["lr"] = rate
    with fb.no_grad():
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    value.zero_()
                elif key == "step":
                    state[key] = 0


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of optimizers by names of parameters; an optimizer that has made no step is given its first state.

    Args:
        model: the model whose parameters the optimizers have.
        optimizers: one or several.
        submodules: None.
        options: how to take it.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = fb.nn.Linear(1, 1)
        >>> sorted(get_optimizer_state_dict(model, fb.optim.Adam(model.parameters()))["state"])
        ['bias', 'weight']
    """
    _no_submodules("get_optimizer_state_dict", submodules)
    options, names = options or StateDictOptions(), parameter_names(model)
    state: dict[str, Any] = {}
    groups: list[Any] = []
    for optimizer in _optimizers("get_optimizer_state_dict", optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            unknown = [p for p in group["params"] if id(p) not in names]
            if unknown:
                raise ArgumentError(
                    f"get_optimizer_state_dict: a parameter of shape {tuple(unknown[0].shape)} of the optimizer is not in the model"
                )
            for p in group["params"]:
                if p in optimizer.state and not (options.ignore_frozen_params and not p.requires_grad):
                    state[names[id(p)]] = {key: _shown(value, options) for key, value in optimizer.state[p].items()}
            kept = {key: value for key, value in group.items() if key not in ("params", "param_names")}
            groups.append(kept | {"params": [names[id(p)] for p in group["params"]]})
    result: dict[str, Any] = {"state": state, "param_groups": groups}
    if options.flatten_optimizer_state_dict:
        flat = {f"state.{name}.{key}": value for name, of_p in state.items() for key, value in of_p.items()}
        for group in groups:
            for name in group["params"]:
                flat |= {f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"}
        result = flat
    return _only_rank0(result, options)


def _unflattened(model: Module, optimizers: list[Optimizer], flat: dict[str, Any]) -> dict[str, Any]:
    names, state, groups = parameter_names(model), {}, []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            members = [names[id(p)] for p in group["params"]]
            for name in members:
                start = f"state.{name}."
                of_p = {k[len(start) :]: v for k, v in flat.items() if k.startswith(start)}
                if of_p:
                    state[name] = of_p
            start = f"param_groups.{members[0]}." if members else "-"
            groups.append({k[len(start) :]: v for k, v in flat.items() if k.startswith(start)} | {"params": members})
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Sets the state of optimizers.

    Args:
        model: the model whose parameters the optimizers have.
        optimizers: one or several, as when the state was taken.
        optim_state_dict: what get_optimizer_state_dict() gave.
        options: how to set it.

    Example:
        >>> from flambeau.distributed.checkpoint import state_dict
        >>> model = fb.nn.Linear(1, 1)
        >>> optimizer = fb.optim.Adam(model.parameters())
        >>> state_dict.set_optimizer_state_dict(model, optimizer, state_dict.get_optimizer_state_dict(model, optimizer))
    """
    options = options or StateDictOptions()
    found = _optimizers("set_optimizer_state_dict", optimizers)
    if options.broadcast_from_rank0:
        optim_state_dict = from_rank0(model, found, optim_state_dict)
    if "state" not in optim_state_dict and "param_groups" not in optim_state_dict:
        optim_state_dict = _unflattened(model, found, optim_state_dict)
    for optimizer in found:
        optimizer.load_state_dict(loadable(model, optimizer, optim_state_dict))


def from_rank0(model: Module, optimizers: list[Optimizer], optim_state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state given to rank 0, with whole tensors, in every process."""
    targets = get_optimizer_state_dict(model, optimizers, options=StateDictOptions(flatten_optimizer_state_dict=True))
    given: dict[str, Any] = {}
    if dist.get_rank() == 0:
        given = optim_state_dict if "state" not in optim_state_dict else _flat(optim_state_dict)
    return _unflattened(model, optimizers, _from_rank0(given, targets))


def loadable(model: Module, optimizer: Optimizer, optim_state_dict: dict[str, Any]) -> dict[str, Any]:
    """What load_state_dict() of an optimizer takes, from a state by names; whole tensors are cut as the parameters are."""
    names, own_state, own_groups, number = parameter_names(model), {}, [], 0
    for group in optimizer.param_groups:
        members = [names[id(p)] for p in group["params"]]
        saved = next((g for g in optim_state_dict["param_groups"] if set(g["params"]) & set(members)), None)
        if saved is None and members:
            raise ArgumentError(f"set_optimizer_state_dict: the state has no group with the parameter {members[0]}")
        for p, name in zip(group["params"], members, strict=True):
            if name in optim_state_dict["state"]:
                own_state[number] = {k: _like_state(v, p) for k, v in optim_state_dict["state"][name].items()}
            number += 1
        kept = {k: v for k, v in (saved or {}).items() if k != "params"}
        own_groups.append(kept | {"params": list(range(number - len(members), number))})
    return {"state": own_state, "param_groups": own_groups}


def _like_state(value: Any, param: Tensor) -> Any:
    return _like(value, param) if isinstance(value, Tensor) and tuple(value.shape) == tuple(param.shape) else value


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    flat = {f"state.{name}.{key}": value for name, of_p in state["state"].items() for key, value in of_p.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"}
    return flat


def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimizers; see get_model_state_dict() and get_optimizer_state_dict().

    Args:
        model: the model.
        optimizers: one or several.
        submodules: None.
        options: how to take them.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict
        >>> model = fb.nn.Linear(1, 1)
        >>> of_model, of_optimizer = get_state_dict(model, fb.optim.SGD(model.parameters(), lr=0.1))
        >>> sorted(of_optimizer)
        ['param_groups', 'state']
    """
    found = list(optimizers) if not isinstance(optimizers, Optimizer) else [optimizers]
    of_model = get_model_state_dict(model, submodules=submodules, options=options)
    return of_model, get_optimizer_state_dict(model, found, options=options) if found else {}


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Sets the states of a model and of its optimizers.

    Args:
        model: the model.
        optimizers: one or several.
        model_state_dict: what get_state_dict() gave for the model.
        optim_state_dict: its result for the optimizers.
        options: how to set them.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> model = fb.nn.Linear(1, 1)
        >>> optimizer = fb.optim.SGD(model.parameters(), lr=0.1)
        >>> a, b = get_state_dict(model, optimizer)
        >>> set_state_dict(model, optimizer, model_state_dict=a, optim_state_dict=b)
        <All keys matched successfully>
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    found = list(optimizers) if not isinstance(optimizers, Optimizer) else [optimizers]
    if found:
        set_optimizer_state_dict(model, found, optim_state_dict, options=options)
    return result
