"""The rules for ops on DTensors.

Note [Labels of dimensions]
A rule gives each dimension of the operands and results of an op a label. Equal labels are the same axis: a matrix
product is (m, k), (k, n) → (m, n). An axis may be sharded if it has a label; None marks a dimension the op needs whole.
Then for each dimension of the mesh, one function decides for all ops:

- the label of the first operand that is sharded there, if any, is the axis this op shards;
- operands with that label are sharded along it, the others are Replicate, and their gradients are summed;
- a result with that label is sharded along it, one without is a Partial sum.

Partial operands are summed first, unless the op is linear in them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed.tensor._dtensor import DTensor, make
from flambeau.distributed.tensor._redistribute import redistribute_local, sum_gradient
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from flambeau.errors import ArgumentError, DTypeError
from flambeau.func import _batching

Labels = tuple[Any, ...]


class Plan(NamedTuple):
    """How an op may be sharded: labels of each tensor argument and of each result.

    `linear` names arguments in which the op is linear, so that all of them may be terms of a sum at once; `local`
    changes non-tensor arguments for the local call, given the local operands.
    """

    inputs: dict[str, Labels]
    outputs: list[Labels]
    linear: frozenset[str] = frozenset()
    reduce_op: str = "sum"
    even: bool = False  # whether an axis may be cut only into equal pieces
    local: Callable[[dict[str, Any], list[list[Placement]], Any], dict[str, Any]] | None = None


RULES: dict[str, Callable[[dict[str, Any]], Plan]] = {}
OWN: dict[str, Callable[[str, dict[str, Any]], Any]] = {}  # ops that need more than a plan


def rule(*names: str) -> Any:
    def register(f: Any) -> Any:
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


def own(*names: str) -> Any:
    def register(f: Any) -> Any:
        OWN.update(dict.fromkeys(names, f))
        return f

    return register


def dispatch(name: str, arguments: dict[str, Any]) -> Any:
    """Handles an op with a DTensor among its arguments."""
    from flambeau.distributed.tensor import _op_rules  # noqa: F401  # fills the tables

    if arguments.get("out") is not None:
        raise DTypeError(f"{name}: out= is not available for DTensors; use the result")
    if name in OWN:
        return OWN[name](name, arguments)
    if name in RULES:
        return run(name, arguments, RULES[name](arguments))
    if name.endswith("_") and name[:-1] in RULES:
        return run_in_place(name, arguments, RULES[name[:-1]](arguments))
    raise DTypeError(f"{name}: not available for DTensors; use .to_local() or .full_tensor() first")


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Calls an op by name on plain tensors."""
    if name == "getitem":
        return arguments["input"][arguments["index"]]
    return _batching.call(name, arguments)


def flat_tensors(arguments: dict[str, Any]) -> dict[str, Tensor]:
    """Tensor arguments by name; those in lists by name and number."""
    found = {}
    for key, value in arguments.items():
        if isinstance(value, Tensor):
            found[key] = value
        elif isinstance(value, (list, tuple)):
            found |= {f"{key}.{i}": item for i, item in enumerate(value) if isinstance(item, Tensor)}
    return found


def replaced(arguments: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The arguments with tensors replaced."""
    result = {}
    for key, value in arguments.items():
        if isinstance(value, Tensor):
            value = tensors[key]
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            value = type(value)(tensors[f"{key}.{i}"] if isinstance(item, Tensor) else item for i, item in enumerate(value))
        result[key] = value
    return result


def mesh_of(name: str, tensors: dict[str, Tensor]) -> Any:
    meshes = [t._mesh for t in tensors.values() if isinstance(t, DTensor)]
    if any(mesh != meshes[0] for mesh in meshes):
        raise ArgumentError(f"{name}: DTensors of different meshes cannot be combined, got {meshes}")
    return meshes[0]


class _PlainTensors(threading.local):
    replicate = False  # whether plain tensors among DTensors count as Replicate: implicit_replication()


plain_tensors = _PlainTensors()


def as_dtensors(name: str, tensors: dict[str, Tensor]) -> dict[str, DTensor]:
    """Converts plain operands to Replicate, if that is the only possible meaning."""
    mesh = mesh_of(name, tensors)
    result = {}
    for key, t in tensors.items():
        if not isinstance(t, DTensor):
            if not plain_tensors.replicate and t.numel() != 1 and t.dtype != fb.bool and name not in ("copy_", "index_select", "getitem"):
                raise ArgumentError(
                    f"{name}: got mixed Tensor and DTensor; the Tensor has shape {tuple(t.shape)}. Use distribute_tensor() or "
                    "DTensor.from_local() on it first"
                )
            t = make(t, mesh, [Replicate()] * mesh.ndim, tuple(t.shape))
        result[key] = t
    return result


def _axis(labels: Labels, dim: int, sizes: dict[Any, int], parts: int, even: bool) -> Any:
    """The label of a dimension, None if it cannot be split into that many parts."""
    label = labels[dim]
    if label is None or (even and sizes.get(label, 0) % parts):
        return None
    return label


def _choose(plan: Plan, tensors: dict[str, DTensor], mesh: Any, sizes: dict[Any, int]) -> list[Any]:
    """For each dimension of the mesh: the label it shards, None, or a Partial that is kept."""
    chosen: list[Any] = []
    for d in range(mesh.ndim):
        label = None
        for key, t in tensors.items():
            placement = t._placements[d]
            if isinstance(placement, Shard):
                label = _axis(plan.inputs[key], placement.dim, sizes, _parts(mesh, chosen, d, plan, key, placement.dim), plan.even)
                if label is not None:
                    break
        if label is None and plan.linear:
            partial = {t._placements[d] for key, t in tensors.items() if key in plan.linear}
            others = {t._placements[d] for key, t in tensors.items() if key not in plan.linear}
            first = next(iter(partial), None)
            if len(partial) == 1 and isinstance(first, Partial) and first.reduce_op in ("sum", "avg") and others <= {Replicate()}:
                label = first
        chosen.append(label)
    return chosen


def _parts(mesh: Any, chosen: list[Any], d: int, plan: Plan, key: str, dim: int) -> int:
    """Number of parts an axis is split into by this dimension of the mesh and those before it."""
    label = plan.inputs[key][dim]
    parts = mesh.size(d)
    for earlier, other in enumerate(chosen):
        if label is not None and not isinstance(other, Partial) and other == label:
            parts *= mesh.size(earlier)
    return parts


def _wanted(plan: Plan, key: str, chosen: list[Any]) -> list[Placement]:
    """The placements an operand must have."""
    labels = plan.inputs[key]
    placements: list[Placement] = []
    for label in chosen:
        if isinstance(label, Partial):
            placements.append(label if key in plan.linear else Replicate())
        elif label is not None and label in labels:
            placements.append(Shard(labels.index(label)))
        else:
            placements.append(Replicate())
    return placements


def _result_placements(labels: Labels, chosen: list[Any], reduce_op: str) -> list[Placement]:
    placements: list[Placement] = []
    for label in chosen:
        if isinstance(label, Partial):
            placements.append(label)
        elif label is None:
            placements.append(Replicate())
        elif label in labels:
            placements.append(Shard(labels.index(label)))
        else:
            placements.append(Partial(reduce_op))
    return placements


def local_operands(plan: Plan, tensors: dict[str, DTensor], mesh: Any, chosen: list[Any]) -> dict[str, Tensor]:
    """The local parts with the placements the op needs; gradients are summed for operands used in pieces."""
    locals_: dict[str, Tensor] = {}
    for key, t in tensors.items():
        wanted = _wanted(plan, key, chosen)
        local = redistribute_local(t._local, tuple(t.shape), mesh, t._placements, wanted)
        if local.requires_grad and fb.is_grad_enabled():
            for d, label in enumerate(chosen):
                if label is not None and not isinstance(label, Partial) and isinstance(wanted[d], Replicate):
                    local = sum_gradient(local, mesh.get_group(d))
        locals_[key] = local
    return locals_


def _prepared(name: str, arguments: dict[str, Any], plan: Plan) -> tuple[dict[str, DTensor], Any, list[Any]]:
    tensors = as_dtensors(name, flat_tensors(arguments))
    mesh = mesh_of(name, dict(tensors))
    sizes: dict[Any, int] = {}
    for key, t in tensors.items():
        sizes |= {label: size for label, size in zip(plan.inputs[key], t.shape, strict=True) if label is not None}
    return tensors, mesh, _choose(plan, tensors, mesh, sizes)


def run(name: str, arguments: dict[str, Any], plan: Plan) -> Any:
    """Runs an op on the local parts."""
    tensors, mesh, chosen = _prepared(name, arguments, plan)
    locals_ = local_operands(plan, tensors, mesh, chosen)
    called = replaced(arguments, locals_)
    if plan.local is not None:
        called = plan.local(called, [_result_placements(labels, chosen, plan.reduce_op) for labels in plan.outputs], mesh)
    result = call(name, called)
    shapes = _shapes(name, arguments, tensors)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    outputs = plan.outputs * len(results) if len(plan.outputs) == 1 else plan.outputs
    made = [
        make(local, mesh, _result_placements(labels, chosen, plan.reduce_op), shape)
        for local, labels, shape in zip(results, outputs, shapes, strict=True)
    ]
    return type(result)(made) if isinstance(result, (list, tuple)) else made[0]


def _shapes(name: str, arguments: dict[str, Any], tensors: dict[str, DTensor]) -> list[tuple[int, ...]]:
    """Shapes of the results of the whole op, computed on the meta device."""
    with fb.no_grad():
        metas = {key: fb.empty(tuple(t.shape), dtype=t.dtype, device="meta") for key, t in tensors.items()}
        result = call(name, replaced(arguments, metas))
    return [tuple(t.shape) for t in (result if isinstance(result, (list, tuple)) else [result])]


def run_in_place(name: str, arguments: dict[str, Any], plan: Plan) -> Any:
    """Runs an in-place op, with the placements of its first operand."""
    tensors = as_dtensors(name, flat_tensors(arguments))
    mesh = mesh_of(name, dict(tensors))
    key = next(iter(tensors))
    target = tensors[key]
    labels = plan.inputs[key]
    chosen: list[Any] = [labels[p.dim] if isinstance(p, Shard) else None for p in target._placements]
    for d, placement in enumerate(target._placements):
        if isinstance(placement, Shard) and chosen[d] is None:
            raise DTypeError(f"{name}: needs the dimension whole that {placement} cuts; redistribute() the tensor first")
        if isinstance(placement, Partial):
            if not ({k for k, t in tensors.items() if t._placements[d] == placement} >= plan.linear >= {key}):
                raise DTypeError(f"{name}: the tensor is {placement}, terms of which cannot be changed so; redistribute() it first")
            chosen[d] = placement
    locals_ = local_operands(plan, tensors, mesh, chosen)
    locals_[key] = target._local
    call(name, replaced(arguments, locals_))
    return arguments[key.partition(".")[0]] if "." not in key else target


def positions(count: int, prefix: str = "d") -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def wrap_dim(dim: int, ndim: int) -> int:
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return dim % max(ndim, 1)


def dims_of(dim: Any, ndim: int) -> list[int]:
    """The dimensions named by a reduction's argument; all if none."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(ndim))
    return [wrap_dim(d, ndim) for d in ([dim] if isinstance(dim, int) else dim)]


def without(labels: Sequence[Any], dims: Sequence[int], keepdim: bool) -> Labels:
    """Labels after a reduction."""
    if keepdim:
        return tuple(None if d in dims else label for d, label in enumerate(labels))
    return tuple(label for d, label in enumerate(labels) if d not in dims)
