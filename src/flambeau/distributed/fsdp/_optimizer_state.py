"""Optimizer states of wrapped models, by parameter names."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.checkpoint import state_dict
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module


def taken(model: Module, optimizer: Any, whole: bool, cpu: bool, rank0_only: bool) -> dict[str, Any]:
    """The state of an optimizer, in whole tensors or DTensors."""
    state = state_dict.get_optimizer_state_dict(model, optimizer, options=state_dict.StateDictOptions(full_state_dict=whole))
    if rank0_only and dist.get_rank() != 0:
        return {}
    for of_p in state["state"].values():  # a copy, independent of later steps
        of_p.update({key: (value.cpu() if cpu else value).clone() for key, value in of_p.items() if isinstance(value, Tensor)})
    return state


def to_load(model: Module, optimizer: Any, state: dict[str, Any] | None, from_rank0: bool) -> dict[str, Any]:
    """Converts a state to the form of the optimizer's load_state_dict()."""
    given = state or {}
    if from_rank0:
        given = state_dict.from_rank0(model, [optimizer], given)
    if "state" not in given:
        raise ArgumentError("optim_state_dict_to_load: the state is empty in this process; with rank0_only=True that of rank 0 counts")
    return state_dict.loadable(model, optimizer, given)


def rekeyed(state: dict[str, Any], by_name: bool, model: Module, optimizer: Any) -> dict[str, Any]:
    """A whole state by names, or by numbers in the order of the optimizer's groups."""
    names = state_dict.parameter_names(model)
    listed = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
    new: dict[Any, Any] = dict(enumerate(listed)) if by_name else {name: number for number, name in enumerate(listed)}
    unknown = [key for key in state["state"] if key not in new]
    if unknown:
        raise ArgumentError(f"rekey_optim_state_dict: the state has {unknown[0]!r}, which the optimizer's parameters do not")
    return {
        "state": {new[key]: value for key, value in state["state"].items()},
        "param_groups": [{**group, "params": [new[key] for key in group["params"]]} for group in state["param_groups"]],
    }
