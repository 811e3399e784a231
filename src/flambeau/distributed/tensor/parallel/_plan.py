"""Applying styles to the modules of a model, found by name."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from flambeau.distributed.device_mesh import current_mesh
from flambeau.distributed.tensor.parallel.style import ParallelStyle
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module, device_mesh: Any = None, parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None, *,
    src_data_rank: int | None = 0,
) -> Module:  # fmt: skip
    """Cuts layers of a model over the processes of a mesh.

    Args:
        module: the model, which is changed.
        device_mesh: a mesh of one dimension; of a larger one, pass the part mesh["model"].
        parallelize_plan: a style for the module itself, or styles by names of modules inside; names may have * and ?, which
            stand for parts between dots.
        src_data_rank: the rank in the mesh whose values count; None takes each process's own.

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, parallelize_module
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> layer = parallelize_module(fb.nn.Linear(4, 8), mesh, ColwiseParallel())
        >>> layer.weight.placements
        (Shard(dim=0),)
        >>> fb.distributed.destroy_process_group()
    """
    mesh = current_mesh("parallelize_module") if device_mesh is None else device_mesh
    if mesh.ndim != 1:
        raise ArgumentError(f"parallelize_module: expected a mesh of one dimension, got {mesh}; pass the part for it, mesh['name']")
    if parallelize_plan is None:
        warnings.warn("parallelize_module: no parallelize_plan was given, so the module stays as it is", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(f"parallelize_module: Expect a style or a dict of styles, got {type(parallelize_plan).__name__}")
    for pattern, style in parallelize_plan.items():
        if not isinstance(style, ParallelStyle):
            raise TypeError(f"parallelize_module: expected a style for {pattern!r}, got {type(style).__name__}")
        found = [(module, "", module)] if pattern == "" else _matching(module, pattern.split("."))
        if not found:
            warnings.warn(f"parallelize_module: no module is named {pattern!r}", stacklevel=2)
        for parent, key, part in found:
            style.src_data_rank = src_data_rank
            made = style._apply(part, mesh)
            if made is not part and key:
                setattr(parent, key, made)
    return module


def _matching(module: Module, parts: list[str]) -> list[tuple[Module, str, Module]]:
    """Modules by a path of patterns, each with the module that holds it and its name there."""
    here = [(module, key, child) for key, child in module.named_children() if fnmatch(key, parts[0])]
    if len(parts) == 1:
        return here
    return [found for _, _, child in here for found in _matching(child, parts[1:])]
