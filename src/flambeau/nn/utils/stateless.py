"""Calling a module with other parameters than its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["functional_call"]


def _tied(module: Module) -> dict[int, list[str]]:
    """Names of the parameters and buffers, grouped by tensor."""
    groups: dict[int, list[str]] = {}
    for members in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in members:
            groups.setdefault(id(tensor), []).append(name)
    return groups


@contextmanager
def swapped(
    module: Module, tensors: dict[str, Tensor], tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """Within this block the module has the given tensors in place of its own; tied ones change together."""
    groups = _tied(module)
    known = {name for names in groups.values() for name in names}
    unknown = [name for name in tensors if name not in known]
    if unknown:
        raise RuntimeError(f"functional_call: unexpected key(s) {', '.join(unknown)}: the module has no such tensors")
    wanted = dict(tensors)
    if tie_weights:
        for names in groups.values():
            given = {id(tensors[name]): tensors[name] for name in names if name in tensors}
            if len(given) > 1:
                raise ValueError(f"functional_call: {', '.join(names)} are one tensor, but were given different values")
            for value in given.values():
                wanted.update(dict.fromkeys(names, value))
    if strict and known - set(wanted):
        raise RuntimeError(f"functional_call: missing key(s) {', '.join(sorted(known - set(wanted)))}")
    own: list[tuple[dict[Any, Any], str, Any]] = []
    try:
        for path, value in wanted.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            table: Any = owner._parameters if name in owner._parameters else owner._buffers
            own.append((table, name, table[name]))
            table[name] = value
        yield
    finally:
        for path, (table, name, before) in zip(wanted, own, strict=False):
            if path in tensors and table[name] is not wanted[path]:
                tensors[path] = table[name]  # forward put a new buffer in place: the caller gets it
            table[name] = before


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with the given tensors in place of its own parameters and buffers.

    Args:
        module: the module; it is not changed.
        parameters_and_buffers: tensors by their paths.
        args: positional arguments, a tuple, or a single one.
        kwargs: keyword arguments.
        tie_weights: whether parameters that are one tensor in the module stay one.
        strict: whether all parameters and buffers must be given.

    Example:
        >>> m = fb.nn.Linear(2, 1)
        >>> w = {"weight": fb.ones(1, 2), "bias": fb.zeros(1)}
        >>> fb.nn.utils.stateless.functional_call(m, w, fb.ones(2))
        tensor([2.])
    """
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, parameters_and_buffers, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))
