"""Whole parameters of wrapped models: temporarily in their modules, and in state_dict() and load_state_dict()."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.fsdp._param_group import ParamGroup, ShardedParameter
from flambeau.distributed.fsdp.api import StateDictType
from flambeau.distributed.tensor._api import distribute_tensor
from flambeau.distributed.tensor._dtensor import DTensor
from flambeau.errors import StateError
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_INNER = "_fsdp_wrapped_module."
_WRAPPERS = (_INNER, "_checkpoint_wrapped_module.", "_orig_mod.")


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def inside() -> bool:
    """Whether whole_parameters() is active."""
    return _depth.value > 0


def clean(name: str) -> str:
    """A name without the modules that only wrap others."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


# ---- in the modules ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def whole_parameters(units: list[ParamGroup], writeback: bool, rank0_only: bool, with_grads: bool) -> Iterator[None]:
    """Inside, whole parameters are registered in the modules, in rank 0 or in all; see summon_full_params()."""
    shown: list[tuple[ShardedParameter, Any]] = []
    for unit in units:
        if unit.depth:
            raise StateError("summon_full_params: Cannot call it from within forward; the parameters are whole there")
        unit.hide(False)
        for p, whole in zip(unit.params, unit.gather(), strict=True):
            value = Parameter(p.shown(whole), p.sharded.requires_grad)
            if with_grads and p.sharded.grad is not None:
                value.grad = p.sharded.grad.full_tensor()
            if not rank0_only or dist.get_rank() == 0:
                shown.append((p, value))
                for module, key in p.places:
                    module._parameters[key] = value
    _depth.value += 1
    try:
        yield
    finally:
        _depth.value -= 1
        for p, value in shown:
            for module, key in p.places:
                module._parameters[key] = p.sharded
            if writeback:
                _write_back(p, value, with_grads)
        for unit in units:
            unit.hide(True)


def _write_back(p: ShardedParameter, value: Any, with_grads: bool) -> None:
    """Updates the piece from the whole value, and its gradient from the value's."""
    with fb.no_grad():
        local = p.sharded._local.detach()
        local.copy_(p.own_part(_local(value.detach())))
        if with_grads and value.grad is not None:
            p.sharded._local.grad = p.own_part(_local(value.grad)).clone()


def _local(value: Any) -> Tensor:
    return value._local if isinstance(value, DTensor) else value


# ---- in states -----------------------------------------------------------------------------------------------------


def save_hook(wrapper: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """After state_dict(): names without this wrapper, tensors whole or in pieces as its settings say."""
    inner, settings = prefix + _INNER, wrapper._settings
    config = settings.state_dict_config
    whole = settings.state_dict_type == StateDictType.FULL_STATE_DICT
    dropped = whole and config.rank0_only and dist.get_rank() != 0
    for key in [key for key in state if key.startswith(inner)]:
        value, name = state.pop(key), key[len(inner) :]
        if whole and isinstance(value, DTensor):
            value = value.detach().full_tensor()
        if isinstance(value, Tensor) and (dtype := wrapper._buffer_dtypes.get(name)) is not None:
            value = value.to(dtype)
        if config.offload_to_cpu and isinstance(value, Tensor) and not isinstance(value, DTensor):
            value = value.cpu()
        if not dropped:
            state[prefix + name] = value


def load_hook(wrapper: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before load_state_dict(): names with this wrapper, whole tensors cut as the parameters are."""
    inner = prefix + _INNER
    for key in [key for key in state if key.startswith(prefix) and not key.startswith(inner)]:
        state[inner + key[len(prefix) :]] = state.pop(key)
    for name, p in wrapper._fsdp_wrapped_module.named_parameters(remove_duplicate=False):  # type: ignore[union-attr]  # a module
        value = state.get(inner + clean(name))
        if isinstance(p, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor) and value.shape == p.shape:
            whole = value.detach().to(p.dtype)
            state[inner + clean(name)] = distribute_tensor(whole, p.device_mesh, p.placements, src_data_rank=None)
