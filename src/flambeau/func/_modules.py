"""Modules as functions of their parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Any, parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with other parameters and buffers in place of its own, which are restored afterwards.

    What the module writes to a replaced buffer, or puts in its place, lands in the dictionary, not in the module.
    Names that the
    module does not have are attributes of it during the call, unless strict.

    Args:
        module: the module to call.
        parameter_and_buffer_dicts: tensors by name, as in named_parameters(); or several dictionaries without common
            names.
        args: the arguments of the module; a tuple, or a single argument.
        kwargs: keyword arguments of the module.
        tie_weights: whether parameters that the module holds under several names are all replaced when one name is
            given.
        strict: whether the names must be exactly those of the module's parameters and buffers.

    Example:
        >>> layer = fb.nn.Linear(2, 1, bias=False)
        >>> fb.func.functional_call(layer, {"weight": fb.ones(1, 2)}, fb.tensor([3.0, 4.0]))
        tensor([7.])
    """
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, parameter_and_buffer_dicts, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def replaced(module: Any, dicts: Any, tie_weights: bool = True, strict: bool = False) -> Any:
    """A context in which the module has the given tensors in place of its own; see functional_call."""
    values = _one_dict(dicts)
    own: dict[str, Tensor] = {}
    if tie_weights or strict:  # modules that contain themselves have infinitely many names
        own = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
    if tie_weights:
        values = _tied(values, own)
    unexpected, missing = [name for name in values if name not in own], [name for name in own if name not in values]
    if strict and (unexpected or missing):
        lines = [f"functional_call: Error(s) in reparametrizing for {type(module).__name__}:"]
        lines += [f"\tUnexpected key(s): {_listed(unexpected)}."] if unexpected else []
        lines += [f"\tMissing key(s): {_listed(missing)}."] if missing else []
        raise ArgumentError("\n".join([*lines, "strict=True wants exactly the names of the parameters and buffers"]))
    for name, value in values.items():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"functional_call: '{name}': {value!r} is not an instance of torch.Tensor; give a tensor")
    return _replaced(module, values, dicts if isinstance(dicts, dict) else values)


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


def _one_dict(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(d, dict) for d in dicts):
        raise ArgumentError(
            f"functional_call: Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    joined: dict[str, Tensor] = {}
    for one in dicts:
        doubled = [name for name in one if name in joined]
        if doubled:
            raise ArgumentError(f"functional_call: {doubled} appeared in multiple dictionaries; keep one of them")
        joined.update(one)
    return joined


def _tied(values: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gives every name of a shared tensor the value given for one of them."""
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    full = dict(values)
    for names in groups.values():
        given = [name for name in names if name in values]
        if len({id(values[name]) for name in given}) > 1:
            raise ArgumentError(
                f"functional_call got multiple values for keys [{_listed(given)}], which are tied: one shared tensor in the module; "
                "give one, or pass tie_weights=False"
            )
        for name in names:
            if given:
                full[name] = values[given[0]]
    return full


_ABSENT = object()


def _table(module: Any, name: str, value: Tensor) -> tuple[dict[str, Any], str]:
    """The table in which a module stores the tensor of a name; unknown names become parameters or attributes."""
    path, _, last = name.rpartition(".")
    owner = module
    for part in path.split(".") if path else ():
        if part not in owner._modules:
            raise AttributeError(f"functional_call: '{name}': {type(owner).__name__} has no attribute `{part}`")
        owner = owner._modules[part]
    for table in (owner._parameters, owner._buffers):
        if last in table:
            return table, last
    known = getattr(owner, last, _ABSENT)
    if known is _ABSENT and isinstance(value, fb.nn.Parameter):
        return owner._parameters, last
    if known is not _ABSENT and not isinstance(known, Tensor):
        raise TypeError(f"functional_call: '{name}': attribute `{last}`: {known!r} is not an instance of torch.Tensor")
    return owner.__dict__, last


@contextlib.contextmanager
def _replaced(module: Any, values: dict[str, Tensor], target: dict[str, Tensor]):
    """The module with other tensors in its tables; replacements made by the module itself end up in `target`."""
    restore = []
    try:
        for name, value in values.items():
            table, last = _table(module, name, value)
            restore.append((name, table, last, table.get(last, _ABSENT)))
            table[last] = value
        yield
    finally:
        for name, table, last, original in reversed(restore):
            now = table.get(last, _ABSENT)
            if name in target and now is not _ABSENT and now is not values[name]:
                target[name] = now
            if original is not _ABSENT:
                table[last] = original
            else:
                table.pop(last, None)


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several equal models, each stacked along a new first dimension.

    With functional_call and vmap they make an ensemble that runs as one model.

    Args:
        models: models of one class, all in training or all in evaluation mode.

    Returns:
        (parameters, buffers), dictionaries by name; parameters require gradients as those of the models do.

    Example:
        >>> params, buffers = fb.func.stack_module_state([fb.nn.Linear(2, 3) for _ in range(4)])
        >>> params["weight"].shape
        flambeau.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise ArgumentError("stack_module_state: Expected at least one model, got 0")
    if any(model.training != models[0].training for model in models):
        raise ArgumentError("stack_module_state: Expected all models to have the same training/eval mode; call train() or eval() on all")
    if any(type(model) is not type(models[0]) for model in models):
        names = sorted({type(model).__name__ for model in models})
        raise ArgumentError(f"stack_module_state: Expected all models to be of the same class, got {', '.join(names)}")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    buffers = _stacked([dict(model.named_buffers()) for model in models])
    return parameters, buffers


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    result = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        grads = {tensor.requires_grad for tensor in tensors}
        if len(grads) > 1:
            raise ArgumentError(f"stack_module_state: Expected '{name}' to have the same .requires_grad in all models")
        stacked = fb.stack([tensor.detach() for tensor in tensors])
        result[name] = stacked.requires_grad_() if grads.pop() else stacked
    return result


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Makes every batch normalization in a module use the statistics of its batch, and forget the running ones.

    Running statistics are written in place, which examples inside vmap cannot share.

    Args:
        root: the module; changed in place and returned.

    Example:
        >>> net = fb.func.replace_all_batch_norm_modules_(fb.nn.Sequential(fb.nn.BatchNorm1d(3)))
        >>> net[0].running_mean is None
        True
    """
    from flambeau.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
