"""Creating DTensors: from existing tensors, from modules, and by factory functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed.tensor._dtensor import DTensor, _checked, make
from flambeau.distributed.tensor._redistribute import local_part, redistribute_local
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros"]


def distribute_tensor(
    tensor: Tensor, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *, src_data_rank: int | None = 0
) -> DTensor:
    """Distributes a tensor over a mesh.

    Args:
        tensor: the whole; a leaf tensor, or a DTensor, which is redistributed.
        device_mesh: the mesh; all processes in one dimension if not given.
        placements: one per dimension of the mesh; Replicate if not given.
        src_data_rank: the rank in each group whose values count; None takes each process's own, without communication.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> distribute_tensor(fb.arange(4), mesh, [Shard(0)]).to_local()
        tensor([0, 1, 2, 3])
        >>> fb.distributed.destroy_process_group()
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"distribute_tensor: expected a tensor, got {type(tensor).__name__}")
    mesh, placed = _checked("distribute_tensor", device_mesh, placements, tensor.ndim)
    if isinstance(tensor, DTensor):
        return tensor.redistribute(mesh, placed)
    if not tensor.is_leaf:
        raise ArgumentError("distribute_tensor: `distribute_tensor` should be used to distribute leaf tensors; use DTensor.from_local()")
    if any(isinstance(p, Partial) for p in placed):
        raise ArgumentError("distribute_tensor: placements must be Shard or Replicate, got Partial")
    with fb.no_grad():
        whole = tensor.detach().clone(memory_format=fb.contiguous_format)
        if src_data_rank is not None:
            for d in range(mesh.ndim):
                dist.broadcast(whole, group=mesh.get_group(d), group_src=src_data_rank)
        local = redistribute_local(whole, tuple(tensor.shape), mesh, [Replicate()] * mesh.ndim, placed)
    made = make(local.detach().requires_grad_(tensor.requires_grad), mesh, placed, tuple(tensor.shape))
    return Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made  # type: ignore[return-value]


def distribute_module(
    module: Module,
    device_mesh: Any = None,
    partition_fn: Callable[[str, Module, Any], None] | None = None,
    input_fn: Callable[[Module, Any, Any], Any] | None = None,
    output_fn: Callable[[Module, Any, Any], Any] | None = None,
) -> Module:
    """Distributes the parameters and buffers of a module.

    Args:
        module: the module, which is changed.
        device_mesh: the mesh.
        partition_fn: called as partition_fn(name, submodule, mesh) to replace parameters by DTensors; what it leaves is
            replicated.
        input_fn: called as input_fn(module, inputs, mesh) before forward.
        output_fn: called as output_fn(module, outputs, mesh) after forward.

    Example:
        >>> from flambeau.distributed.tensor import distribute_module
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = distribute_module(fb.nn.Linear(2, 2), fb.distributed.init_device_mesh("cpu", (1,)))
        >>> model.weight.placements
        (Replicate(),)
        >>> fb.distributed.destroy_process_group()
    """
    mesh, whole = _checked("distribute_module", device_mesh, None, 0)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, p in list(part._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                part.register_parameter(key, distribute_tensor(p, mesh, whole))  # type: ignore[arg-type]
        for key, b in list(part._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                part._buffers[key] = distribute_tensor(b, mesh, whole)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module


def _from_nothing(op: str, size: Any, device_mesh: Any, placements: Any, requires_grad: bool, fill: Any) -> DTensor:
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    mesh, placed = _checked(op, device_mesh, placements, len(shape))
    if any(isinstance(p, Partial) for p in placed):
        raise ArgumentError(f"{op}: placements must be Shard or Replicate, got Partial")
    sizes, offsets = local_part(shape, mesh, placed)
    return make(fill(shape, sizes, offsets).requires_grad_(requires_grad), mesh, placed, shape)


def zeros(*size: Any, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None, device_mesh: Any = None,
          placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor of zeros.

    Args:
        size: shape of the whole.
        requires_grad: whether gradients are recorded for it.
        dtype: the element type.
        layout: strided.
        device_mesh: the mesh.
        placements: one per dimension of the mesh.

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.zeros(2, 3, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).shape
        flambeau.Size([2, 3])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing("zeros", size, device_mesh, placements, requires_grad, lambda whole, part, at: fb.zeros(part, dtype=dtype))


def ones(*size: Any, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None, device_mesh: Any = None,
         placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor of ones; arguments as for zeros().

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.ones(2, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).to_local()
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing("ones", size, device_mesh, placements, requires_grad, lambda whole, part, at: fb.ones(part, dtype=dtype))


def empty(*size: Any, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None, device_mesh: Any = None,
          placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor without values yet; arguments as for zeros().

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.empty(2, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).shape
        flambeau.Size([2])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing("empty", size, device_mesh, placements, requires_grad, lambda whole, part, at: fb.empty(part, dtype=dtype))


def full(size: Any, fill_value: Any, *, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None,
         device_mesh: Any = None, placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor with one value everywhere; arguments as for zeros().

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.full((2,), 3.0, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).to_local()
        tensor([3., 3.])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing(
        "full", (size,), device_mesh, placements, requires_grad, lambda whole, part, at: fb.full(part, fill_value, dtype=dtype)
    )


def _random(make_whole: Any) -> Any:
    """The piece of what one process would draw: the same whole for every number of processes."""

    def fill(whole: Any, part: Any, at: Any) -> Tensor:
        drawn = make_whole(whole)
        for dim, (start, length) in enumerate(zip(at, part, strict=True)):
            drawn = drawn.narrow(dim, start, length)
        return drawn.clone()

    return fill


def rand(*size: Any, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None, device_mesh: Any = None,
         placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor of random numbers in [0, 1): those of fb.rand() for the whole, if all processes have the same seed.

    Arguments as for zeros().

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.rand(2, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).shape
        flambeau.Size([2])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing("rand", size, device_mesh, placements, requires_grad, _random(lambda whole: fb.rand(whole, dtype=dtype)))


def randn(*size: Any, requires_grad: bool = False, dtype: fb.dtype | None = None, layout: Any = None, device_mesh: Any = None,
          placements: Sequence[Placement] | None = None) -> DTensor:  # fmt: skip
    """A DTensor of normally distributed numbers: those of fb.randn() for the whole, if all processes have the same seed.

    Arguments as for zeros().

    Example:
        >>> from flambeau.distributed import tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tensor.randn(2, device_mesh=fb.distributed.init_device_mesh("cpu", (1,))).shape
        flambeau.Size([2])
        >>> fb.distributed.destroy_process_group()
    """
    return _from_nothing("randn", size, device_mesh, placements, requires_grad, _random(lambda whole: fb.randn(whole, dtype=dtype)))
