"""Functions on the parts of DTensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.distributed.tensor import _rules
from flambeau.distributed.tensor._dtensor import DTensor
from flambeau.distributed.tensor.placement_types import Placement
from flambeau.errors import ArgumentError
from flambeau.utils._pytree import tree_flatten, tree_unflatten


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None, in_grad_placements: Any = None,
    device_mesh: Any = None, *, redistribute_inputs: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function of local tensors as one of DTensors: it sees each process's parts, and its results become DTensors.

    Args:
        func: the function.
        out_placements: the placements of the result, or a tuple of them, None for a non-tensor.
        in_placements: for each positional argument its placements, None for one that is not a DTensor.
        in_grad_placements: for each positional argument the placements of its gradient, where these differ.
        device_mesh: the mesh of the results; that of the arguments if not given.
        redistribute_inputs: whether arguments under other placements are redistributed; else they are an error.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> from flambeau.distributed.tensor.experimental import local_map
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> double = local_map(lambda t: t * 2, out_placements=[Shard(0)])
        >>> double(distribute_tensor(fb.ones(2), mesh, [Shard(0)])).full_tensor()
        tensor([2., 2.])
        >>> fb.distributed.destroy_process_group()
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements, in_grad_placements=in_grad_placements,
            device_mesh=device_mesh, redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten(args)
        mesh = device_mesh
        if in_placements is not None and len(in_placements) != len(leaves):
            raise ArgumentError(f"local_map: in_placements has {len(in_placements)} entries for {len(leaves)} arguments")
        local = []
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, DTensor):
                local.append(leaf)
                continue
            mesh = leaf.device_mesh if mesh is None else mesh
            wanted = None if in_placements is None else in_placements[i]
            if wanted is not None and tuple(wanted) != tuple(leaf.placements):
                if not redistribute_inputs:
                    raise ArgumentError(
                        f"local_map: argument {i} has placements {tuple(leaf.placements)}, expected {tuple(wanted)}; pass "
                        "redistribute_inputs=True"
                    )
                leaf = leaf.redistribute(mesh, wanted)
            grads = None if in_grad_placements is None else in_grad_placements[i]
            local.append(leaf.to_local(grad_placements=grads))
        result = func(*tree_unflatten(local, structure), **kwargs)
        if mesh is None:
            return result
        return _wrapped(result, out_placements, mesh)

    return run


def _wrapped(result: Any, placements: Any, mesh: Any) -> Any:
    if isinstance(result, (list, tuple)):
        if not isinstance(placements, tuple) or len(placements) != len(result):
            raise ArgumentError(f"local_map: out_placements must be a tuple with an entry for each of {len(result)} results")
        return type(result)(_wrapped(item, each, mesh) for item, each in zip(result, placements, strict=True))
    if isinstance(placements, tuple) and not all(isinstance(p, Placement) for p in placements):
        if len(placements) != 1:
            raise ArgumentError(f"local_map: out_placements has {len(placements)} entries for one result")
        placements = placements[0]
    return result if placements is None else DTensor.from_local(result, mesh, _listed(placements))


def _listed(placements: Sequence[Placement]) -> list[Placement]:
    return list(placements)


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """Inside, plain tensors combined with DTensors count as Replicate. They must be the same in all processes.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> from flambeau.distributed.tensor.experimental import implicit_replication
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> x = distribute_tensor(fb.ones(2), fb.distributed.init_device_mesh("cpu", (1,)), [Shard(0)])
        >>> with implicit_replication():
        ...     (x + fb.ones(2)).full_tensor()
        tensor([2., 2.])
        >>> fb.distributed.destroy_process_group()
    """
    before = _rules.plain_tensors.replicate
    _rules.plain_tensors.replicate = True
    try:
        yield
    finally:
        _rules.plain_tensors.replicate = before
