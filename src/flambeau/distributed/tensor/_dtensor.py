"""The tensor of which each process has a part."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau import distributed as dist
from flambeau.distributed.device_mesh import current_mesh
from flambeau.distributed.tensor._redistribute import local_part, redistribute_local, sum_gradient
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from flambeau.errors import ArgumentError, DTypeError, StateError

__all__ = ["DTensor"]


class DTensor(Tensor):
    """A tensor over the processes of a mesh: each has a local tensor, and placements say how these make up the whole.

    Made by distribute_tensor() or DTensor.from_local(). Shape and dtype are those of the whole. Ops take and give
    DTensors; where the parts of the operands do not fit each other, they are redistributed first. Gradients flow through
    all of it. An op without a rule is an error.

    Example:
        >>> from flambeau.distributed.tensor import Shard, distribute_tensor
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(fb.ones(4, 2), mesh, [Shard(0)])
        >>> (x @ fb.ones(2, 3)).full_tensor().shape, x.to_local().shape
        (flambeau.Size([4, 3]), flambeau.Size([4, 2]))
        >>> fb.distributed.destroy_process_group()
    """

    _local: Tensor
    _mesh: Any
    _placements: tuple[Placement, ...]

    __torch_function__: Any = _C._disabled_torch_function_impl

    @classmethod
    def __flambeau_dispatch__(cls, name: str, arguments: dict[str, Any]) -> Any:
        from flambeau.distributed.tensor._rules import dispatch

        return dispatch(name, arguments)

    __array_ufunc__ = None
    device_mesh = property(lambda self: self._mesh, doc="The mesh of processes.")
    placements = property(lambda self: self._placements, doc="One placement per dimension of the mesh.")
    requires_grad = property(lambda self: self._local.requires_grad, lambda self, on: self.requires_grad_(on))
    grad_fn = property(lambda self: self._local.grad_fn)
    is_leaf = property(lambda self: self._local.is_leaf)
    device = property(lambda self: self._local.device)
    _local_tensor = property(lambda self: self._local)

    @property
    def grad(self) -> Any:
        """The gradient, placed as the tensor is; that of a Partial tensor is Replicate."""
        inner = self._local.grad
        return None if inner is None else make(inner, self._mesh, _of_gradient(self._placements), tuple(self.shape))

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, DTensor):
            raise TypeError(f"grad: expected a DTensor for the gradient of one, got {type(value).__name__}")
        self._local.grad = None if value is None else value.redistribute(placements=_of_gradient(self._placements))._local

    @property
    def data(self) -> Any:
        """The same parts without history."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor) or value._placements != self._placements or value.shape != self.shape:
            raise ArgumentError("data: expected a DTensor with the same shape and placements")
        self._local.data = value._local

    # ---- construction and conversion
    # -----------------------------------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None, grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:  # fmt: skip
        """A DTensor of the parts that the processes have.

        Args:
            local_tensor: this process's part.
            device_mesh: the mesh.
            placements: how the parts make up the whole; Replicate if not given.
            run_check: whether to give Replicate parts the values of the first process.
            shape: shape of the whole; needed for uneven parts, whose sizes are summed otherwise.
            stride: accepted; the whole is row-major.
            grad_placements: the placements of the gradient that local_tensor is given.
        """
        mesh, placed = _checked("from_local", device_mesh, placements, local_tensor.ndim)
        if shape is None:
            sizes = list(local_tensor.shape)
            for mesh_dim, placement in enumerate(placed):
                if isinstance(placement, Shard):
                    length = fb.tensor(sizes[placement.dim])
                    dist.all_reduce(length, group=mesh.get_group(mesh_dim))
                    sizes[placement.dim] = int(length)
            shape = tuple(sizes)
            wanted = local_part(shape, mesh, placed)[0]
            if wanted != tuple(local_tensor.shape):
                raise ArgumentError(
                    f"DTensor.from_local: the parts are not cut as chunk() would: this one has shape {tuple(local_tensor.shape)}, "
                    f"expected {wanted} of {shape}"
                )
        local = local_tensor.view_as(local_tensor)
        if run_check:
            for mesh_dim, placement in enumerate(placed):
                if placement.is_replicate():
                    dist.broadcast(local.detach(), group=mesh.get_group(mesh_dim), group_src=0)
        if grad_placements is not None:
            for mesh_dim, (placement, wanted_grad) in enumerate(zip(placed, grad_placements, strict=True)):
                if placement.is_replicate() and wanted_grad.is_partial():
                    raise ArgumentError(
                        f"DTensor.from_local: a gradient of placement {wanted_grad} is not supported on dimension {mesh_dim}; leave "
                        "grad_placements at None"
                    )
        return make(local, mesh, placed, tuple(shape))

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part.

        Args:
            grad_placements: how the gradient of the result is placed where that differs from the tensor: Partial where
                each process uses a Replicate tensor in its own way.
        """
        local = self._local.view_as(self._local)
        for mesh_dim, placement in enumerate(grad_placements or ()):
            if placement.is_partial() and self._placements[mesh_dim].is_replicate():
                local = sum_gradient(local, self._mesh.get_group(mesh_dim))
        return local

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole, in every process.

        Args:
            grad_placements: as for to_local().
        """
        return self.redistribute(placements=[Replicate()] * self._mesh.ndim).to_local(grad_placements=grad_placements)

    def redistribute(
        self, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *, async_op: bool = False,
        forward_dtype: fb.dtype | None = None, backward_dtype: fb.dtype | None = None,
    ) -> DTensor:  # fmt: skip
        """The same tensor under other placements.

        Args:
            device_mesh: the tensor's own mesh.
            placements: the new ones.
            async_op: accepted; the result is there when it is returned.
            forward_dtype: None; convert with to() instead.
            backward_dtype: None.
        """
        if device_mesh is not None and device_mesh != self._mesh:
            raise ArgumentError("redistribute: Cross device mesh comm not supported; pass the tensor's own mesh")
        if forward_dtype is not None or backward_dtype is not None:
            raise ArgumentError("redistribute: forward_dtype and backward_dtype are not supported; convert with .to() first")
        _, placed = _checked("redistribute", self._mesh, placements, self.ndim)
        if placed == self._placements:
            return self
        local = redistribute_local(self._local, tuple(self.shape), self._mesh, self._placements, placed)
        return make(local, self._mesh, placed, tuple(self.shape))

    def _cross_entropy(self, target: Tensor, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Any:
        """The loss without gathering the classes, inside loss_parallel() if they are sharded; else None."""
        from flambeau.distributed.tensor.parallel import loss

        return loss.cut_cross_entropy(self, target, weight, ignore_index, reduction, smoothing)

    # ---- tensor methods
    # ------------------------------------------------------------------------------------------------

    def detach(self) -> Any:
        """The same parts without history."""
        return make(self._local.detach(), self._mesh, self._placements, tuple(self.shape))

    def as_subclass(self, cls: Any) -> Any:
        """Itself for DTensor; other classes cannot hold parts."""
        if cls is not DTensor:
            raise DTypeError(f"as_subclass: a DTensor cannot become a {cls.__name__}; use .to_local() or .full_tensor()")
        return make(self._local, self._mesh, self._placements, tuple(self.shape))

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether operations are recorded for backward."""
        self._local.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Gradients of what this was computed from."""
        if isinstance(gradient, DTensor):
            gradient = gradient.redistribute(placements=_of_gradient(self._placements))._local
        if inputs is not None:
            inputs = [t._local if isinstance(t, DTensor) else t for t in ([inputs] if isinstance(inputs, Tensor) else inputs)]
        self._local.backward(gradient, retain_graph, create_graph, inputs)

    def retain_grad(self) -> Any:
        """Keeps the gradient of a non-leaf tensor."""
        self._local.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Calls the hook with the gradient, a DTensor."""

        def run(grad: Tensor) -> Any:
            result = hook(make(grad, self._mesh, _of_gradient(self._placements), tuple(self.shape)))
            return result._local if isinstance(result, DTensor) else result

        return self._local.register_hook(run)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Calls the hook with the tensor when its gradient is complete."""
        return self._local.register_post_accumulate_grad_hook(lambda _: hook(self))

    def is_contiguous(self, *args: Any, **kwargs: Any) -> Any:
        """Whether the local part is contiguous."""
        return self._local.is_contiguous(*args, **kwargs)

    def stride(self, dim: int | None = None) -> Any:
        """Strides of the whole as a row-major tensor."""
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * max(int(size), 1))
        strides = strides[: self.ndim]
        return tuple(strides) if dim is None else strides[dim]

    def item(self) -> Any:
        """The only element of the whole."""
        return self.full_tensor().item()

    def tolist(self) -> Any:
        """The whole as a list."""
        return self.full_tensor().tolist()

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __float__(self) -> float:
        return float(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def __repr__(self, **kwargs: Any) -> str:
        return f"DTensor(local_tensor={self._local!r}, device_mesh={self._mesh!r}, placements={self._placements!r})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))

    def __copy__(self) -> Any:
        return self.as_subclass(DTensor)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            local = self._local.detach().clone().requires_grad_(self._local.requires_grad)
            made = memo[id(self)] = make(local, self._mesh, self._placements, tuple(self.shape))
            made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in made.__dict__})
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise StateError(
            "a DTensor cannot be pickled, its mesh belongs to running processes; save it with fb.distributed.checkpoint, or its "
            "full_tensor()"
        )


def make(local: Tensor, mesh: Any, placements: Sequence[Placement], shape: tuple[int, ...]) -> DTensor:
    """A DTensor of parts that are known to fit together."""
    # An op that a rule missed would read this placeholder: NaN makes the mistake visible.
    inert = _C.tensor_from_data(float("nan") if local.dtype.is_floating_point else 0, local.dtype)
    result = inert.expand(shape).as_subclass(DTensor)
    result._local, result._mesh, result._placements = local, mesh, tuple(placements)
    return result


def _of_gradient(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def _checked(op: str, mesh: Any, placements: Sequence[Placement] | None, ndim: int) -> tuple[Any, tuple[Placement, ...]]:
    """A mesh and one placement for each of its dimensions, with dimensions counted from the front."""
    if mesh is None:
        mesh = current_mesh(op)
    if placements is None:
        return mesh, tuple(Replicate() for _ in range(mesh.ndim))
    placed = list(placements)
    if len(placed) != mesh.ndim:
        raise ArgumentError(f"{op}: expected one placement for each of the {mesh.ndim} dimensions of the mesh, got {placed}")
    for k, placement in enumerate(placed):
        if not isinstance(placement, Placement):
            raise TypeError(f"{op}: expected placements such as Shard(0), got {type(placement).__name__}")
        if isinstance(placement, Shard):
            if not -ndim <= placement.dim < ndim:
                raise ArgumentError(f"{op}: {placement} is out of range for a tensor with {ndim} dimensions")
            placed[k] = Shard(placement.dim % ndim)
    return mesh, tuple(placed)


for _name in ("numpy", "__array__", "data_ptr", "untyped_storage", "__dlpack__", "share_memory_", "__bytes__"):

    def _refuse(self: Any, *args: Any, _name: str = _name, **kwargs: Any) -> Any:
        raise DTypeError(f"{_name}: a DTensor has its memory in several processes; use .to_local() or .full_tensor() first")

    setattr(DTensor, _name, _refuse)
