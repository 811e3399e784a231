"""The parameters that one fully_shard call distributes: gathered together, with their gradients reduced together.

Note [Gathering parameters]
Between uses, each process has a piece of each parameter: a DTensor, which is what optimizers and state_dict() see.
During forward, whole tensors replace them in the module. They are outputs of an autograd function: its forward gathers
the pieces, its backward sums the gradients over the processes and returns each process's piece. Instead of the whole
tensors, forward saves references to them (`saved_tensors_hooks`), so their memory is free after forward; the first one
that backward unpacks triggers gathering again. So gradients need no hooks on parameters, and a module may be called
several times, or be recomputed by checkpointing.

The reduction of gradients runs while backward continues, and is awaited when the next one starts, or backward ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.autograd.function import Function
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy
from flambeau.distributed.tensor._dtensor import DTensor, make
from flambeau.distributed.tensor._joined import JoinedMesh
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard
from flambeau.errors import StateError
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_LARGE = 1 << 18  # pieces of at least this many bytes are sent separately, without being copied into a common buffer


class ShardedParameter:
    """One parameter: its piece in this process, and its places in modules."""

    def __init__(self, name: str, places: list[tuple[Module, str]], param: Tensor, mesh: Any, dim: int) -> None:
        self.name, self.places, self.dim = name, places, dim
        self.group = mesh.get_group(mesh.ndim - 1)
        self.count, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        # The placement on another mesh, of tensor parallelism.
        self.outer: DTensor | None = param if isinstance(param, DTensor) else None
        whole = self.outer._local if self.outer is not None else param
        with fb.no_grad():
            moved = whole.detach().movedim(dim, 0).contiguous()
        self.moved_shape = tuple(moved.shape)
        self.rows = -(-self.moved_shape[0] // self.count)
        self.row_size = moved[:1].numel() if self.moved_shape[0] else 0
        self.padded_shape = (self.rows, *self.moved_shape[1:])
        self.padded = moved.new_zeros(self.padded_shape)
        self.start = min(rank * self.rows, self.moved_shape[0])
        self.length = min(self.rows, self.moved_shape[0] - self.start)
        self.padded[: self.length].copy_(moved[self.start : self.start + self.length])
        placements: list[Placement] = [Replicate()] * (mesh.ndim - 1) + [Shard(dim)]
        shape = tuple(param.shape)
        if self.outer is not None:
            mesh, placements = JoinedMesh([self.outer._mesh, mesh]), [*self.outer._placements, *placements]
        local = self.padded[: self.length].movedim(0, dim)
        self.sharded: Any = Parameter(make(local, mesh, placements, shape), param.requires_grad)
        self.sharded.__dict__.update({k: v for k, v in param.__dict__.items() if k not in self.sharded.__dict__})
        self.outer_layout = None if self.outer is None else (self.outer._mesh, self.outer._placements, shape)
        self.outer = None
        for module, key in places:
            module.register_parameter(key, self.sharded)

    def follow(self) -> None:
        """Uses the module's current parameter, if to_empty() or load_state_dict(assign=True) has replaced it."""
        module, key = self.places[0]
        found = module._parameters.get(key)
        if found is not self.sharded and isinstance(found, DTensor) and found._placements == self.sharded._placements:
            self.sharded = found
            for module, key in self.places[1:]:
                module._parameters[key] = found

    def piece(self, dtype: fb.dtype | None) -> Tensor:
        """This process's piece with padding, converted to a dtype, ready to send."""
        local = self.sharded._local.detach()
        moved = local.movedim(self.dim, 0)
        if moved.dtype != self.padded.dtype or moved.device != self.padded.device:
            self.padded = moved.new_zeros(self.padded_shape)
        if self.length and moved.data_ptr() != self.padded.data_ptr():  # the piece was replaced: loaded, cast, or moved
            self.padded[: self.length].copy_(moved)
            self.sharded._local.data = self.padded[: self.length].movedim(0, self.dim)
        return self.padded if dtype is None or dtype == self.padded.dtype else self.padded.to(dtype)

    def whole(self, rows: Tensor) -> Tensor:
        """The parameter from all pieces, one after another."""
        return rows[: self.moved_shape[0]].view(self.moved_shape).movedim(0, self.dim).contiguous()

    def own_part(self, whole: Tensor) -> Tensor:
        """This process's piece of a whole tensor."""
        return whole.narrow(self.dim, self.start, self.length)

    def local_grad(self, rows: Tensor) -> Tensor:
        """The gradient of this process's piece, from padded rows."""
        return rows.view(self.padded_shape)[: self.length].movedim(0, self.dim)

    def shown(self, whole: Tensor) -> Tensor:
        """The tensor in the module: the whole, or if another mesh has sharded it, a DTensor of that."""
        return whole if self.outer_layout is None else make(whole, *self.outer_layout)


class _Gather(Function):
    """From pieces to whole parameters and back; see Note [Gathering parameters]."""

    @staticmethod
    def forward(ctx: Any, group: Any, wholes: Any, *pieces: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.group = group
        return tuple(wholes)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.group.reduce(grads)
        return (None, None, *[None] * len(grads))


class ParamGroup:
    """The parameters of one fully_shard call."""

    def __init__(self, params: list[ShardedParameter], mesh: Any, policy: MixedPrecisionPolicy, context: Any) -> None:
        self.params, self.mesh, self.policy, self.context = params, mesh, policy, context
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = [mesh.get_group(d) for d in range(mesh.ndim - 1)]
        self.reshard_after_forward: bool | None = None
        self.reshard_after_backward = True
        self.sync = True
        self.divisor: float | None = None
        self.in_module = False
        self.wholes: list[Tensor] | None = None  # while gathered
        self.versions: list[int] = []
        self.gathering: list[tuple[Any, Any]] | None = None
        self.unsynced: list[Tensor | None] = [None] * len(params)
        self.depth = 0

    # ---- gathering -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts gathering, unless started already."""
        if self.gathering is not None or self.is_whole():
            return
        for p in self.params:
            if p.sharded._local.is_meta:
                raise StateError(
                    f"fully_shard: parameter {p.name} is on the meta device; call to_empty() on the model and give parameters values first"
                )
        self.gathering = []
        with fb.no_grad():
            together: dict[Any, list[ShardedParameter]] = {}
            for p in self.params:
                piece = p.piece(self._dtype(p))
                if piece.numel() * piece.element_size() >= _LARGE:
                    self._send([p], piece)
                else:
                    together.setdefault(piece.dtype, []).append(p)
            for params in together.values():
                self._send(params, fb.cat([p.piece(self._dtype(p)).reshape(-1) for p in params]))

    def _dtype(self, p: ShardedParameter) -> fb.dtype | None:
        return self.policy.param_dtype if p.sharded.dtype.is_floating_point else None

    def _send(self, params: list[ShardedParameter], piece: Tensor) -> None:
        rows = piece.new_empty(params[0].count, piece.numel())
        work = dist.all_gather_into_tensor(rows, piece.view(1, -1), group=self.group, async_op=self.group._engine.overlaps)
        self.gathering.append((work, (params, rows, piece)))  # type: ignore[union-attr]  # set by start()

    def gather(self) -> list[Tensor]:
        """The whole parameters, without history."""
        if self.is_whole():
            return self.wholes or []
        self.start()
        found: dict[int, Tensor] = {}
        with fb.no_grad():
            for work, (params, rows, _) in self.gathering or ():
                if work is not None:
                    work.wait()
                at = 0
                for p in params:
                    size = p.rows * p.row_size
                    part = rows if len(params) == 1 else rows[:, at : at + size]
                    found[id(p)] = p.whole(part.reshape(p.count * p.rows, *p.moved_shape[1:]))
                    at += size
        self.gathering = None
        self.wholes = [found[id(p)] for p in self.params]
        self.versions = [p.sharded._local._version for p in self.params]
        return self.wholes

    def is_whole(self) -> bool:
        """Whether the whole parameters are gathered, and no piece has changed since."""
        for p in self.params:
            p.follow()
        return self.wholes is not None and self.versions == [p.sharded._local._version for p in self.params]

    def show(self) -> None:
        """Puts the whole parameters in the module."""
        if self.in_module and self.is_whole():
            return
        if self.in_module:
            self.hide(True)
        wholes = self.gather()
        learned = [i for i, p in enumerate(self.params) if p.sharded.requires_grad]
        shown = list(wholes)
        if learned and fb.is_grad_enabled():
            results = _Gather.apply(self, [wholes[i] for i in learned], *[self.params[i].sharded._local for i in learned])
            for i, result in zip(learned, results, strict=True):
                shown[i] = result
        for p, whole in zip(self.params, shown, strict=True):
            value = p.shown(whole)
            for module, key in p.places:
                module.__dict__[key] = value
        self.in_module = True

    def hide(self, free: bool) -> None:
        """Puts the pieces back in the module, and frees the whole parameters unless backward may need them at once."""
        if self.in_module:
            for p in self.params:
                for module, key in p.places:
                    module.__dict__.pop(key, None)
            self.in_module = False
        if free:
            self.wholes, self.gathering = None, None

    # ---- forward ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self, reshard: bool) -> Iterator[None]:
        """The context of forward: the whole parameters are in the module."""
        self.context.order_forward(self)
        self.depth += 1
        try:
            self.show()
            if reshard and fb.is_grad_enabled():
                with saved_tensors_hooks(self._pack, _unpack):
                    yield
            else:
                yield
        finally:
            self.depth -= 1
            if self.depth == 0 and (reshard or not fb.is_grad_enabled()):
                # In a backward that recomputes this forward, the parameters are needed again at once.
                self.hide(free=not fb._C.in_backward())

    def _pack(self, t: Tensor) -> Any:
        where = t._storage_ptr() if t.layout is fb.strided and self.wholes else None
        if where:
            for i, whole in enumerate(self.wholes or ()):
                if whole._storage_ptr() == where and whole.dtype == t.dtype and whole.numel():
                    return _Place(self, i, tuple(t.shape), tuple(t.stride()), t.storage_offset(), self.versions)
        return t

    # ---- backward --------------------------------------------------------------------------------------------------

    def whole_for_backward(self, versions: list[int]) -> list[Tensor]:
        """The parameters as they were in forward."""
        if versions != [p.sharded._local._version for p in self.params]:
            raise StateError(
                "fully_shard: a parameter was changed after the forward whose backward needs it; call optimizer.step() after backward"
            )
        if not self.is_whole():
            self.context.order_backward(self)
        return self.gather()

    def begin_backward(self) -> None:
        """Puts the whole parameters in the module, for code inside that runs its forward again (checkpointing)."""
        if not self.in_module:
            if not self.is_whole():
                self.context.order_backward(self)
            with fb.enable_grad():
                self.show()

    def reduce(self, grads: Any) -> None:
        """Sums gradients over the processes; called by backward."""
        self.context.await_end_of_backward()
        learned = [i for i, p in enumerate(self.params) if p.sharded.requires_grad]
        with fb.no_grad():
            for i, grad in zip(learned, grads, strict=True):
                grad = grad._local if isinstance(grad, DTensor) else grad
                if grad is not None:
                    kept = self.unsynced[i]
                    self.unsynced[i] = grad if kept is None else kept + grad
            if self.reshard_after_backward:
                self.hide(True)
            if not self.sync:
                return
            self.context.finish_reductions()
            whole_grads = {i: self.unsynced[i] for i in learned}
            self.unsynced = [None] * len(self.params)
            self.context.pending.append(self._start_reduction(whole_grads))
            if not self.group._engine.overlaps:
                self.context.finish_reductions()

    def _start_reduction(self, grads: dict[int, Tensor | None]) -> Callable[[], None]:
        together: dict[Any, list[tuple[ShardedParameter, Tensor]]] = {}
        works = []
        for i, grad in grads.items():
            p = self.params[i]
            if grad is None:
                grad = fb.zeros((), dtype=self._dtype(p) or p.sharded.dtype).expand(_unmoved(p))
            rows = self._rows(p, grad)
            if rows.numel() * rows.element_size() >= _LARGE * p.count:
                works.append(self._reduce([p], rows))
            else:
                together.setdefault(rows.dtype, []).append((p, rows))
        for entries in together.values():
            joined = fb.cat([rows.view(p.count, -1) for p, rows in entries], dim=1)
            works.append(self._reduce([p for p, _ in entries], joined))

        def finish() -> None:
            with fb.no_grad():
                for params, work, mine, _ in works:
                    if work is not None:
                        work.wait()
                    total = 1
                    for replica in self.replicas:
                        dist.all_reduce(mine, group=replica)
                        total *= dist.get_world_size(replica)
                    mine.div_(self.divisor or total * params[0].count)
                    at = 0
                    for p in params:
                        size = p.rows * p.row_size
                        _accumulate(p, p.local_grad(mine[at : at + size]))
                        at += size

        return finish

    def _rows(self, p: ShardedParameter, grad: Tensor) -> Tensor:
        """A gradient as rows that divide evenly among the processes."""
        moved = grad.movedim(p.dim, 0).to(self.policy.reduce_dtype or grad.dtype)
        missing = p.rows * p.count - moved.shape[0]
        if missing:
            moved = fb.cat([moved, moved.new_zeros(missing, *moved.shape[1:])])
        return moved.contiguous()

    def _reduce(self, params: list[ShardedParameter], rows: Tensor) -> Any:
        mine = rows.new_empty(rows.numel() // params[0].count)
        work = dist.reduce_scatter_tensor(mine, rows.view(-1), group=self.group, async_op=self.group._engine.overlaps)
        return params, work, mine, rows


def _unmoved(p: ShardedParameter) -> tuple[int, ...]:
    shape = list(p.moved_shape)
    shape.insert(p.dim, shape.pop(0))
    return tuple(shape)


def _accumulate(p: ShardedParameter, grad: Tensor) -> None:
    local = p.sharded._local
    grad = grad.to(local.dtype)
    local.grad = grad.contiguous() if local.grad is None else local.grad + grad


class _Place:
    """The position of a saved tensor in a whole parameter."""

    def __init__(self, group: ParamGroup, index: int, shape: Any, stride: Any, offset: int, versions: list[int]) -> None:
        self.group, self.index, self.shape, self.stride, self.offset = group, index, shape, stride, offset
        self.versions = versions


def _unpack(kept: Any) -> Tensor:
    if not isinstance(kept, _Place):
        return kept
    return kept.group.whole_for_backward(kept.versions)[kept.index].as_strided(kept.shape, kept.stride, kept.offset)


class Context:
    """Shared by the groups of one model: the order of their use, and pending reductions."""

    def __init__(self) -> None:
        self.pending: list[Callable[[], None]] = []
        self.order: list[ParamGroup] = []
        self.running_backward: int | None = None
        self.forward_prefetch: dict[int, list[ParamGroup]] = {}
        self.backward_prefetch: dict[int, list[ParamGroup]] = {}
        self.used: list[ParamGroup] = []

    def order_forward(self, group: ParamGroup) -> None:
        """A group is about to be used in forward; starts gathering those to be prefetched with it."""
        if not fb._C.in_backward():
            self.used = [g for g in self.used if g is not group] + [group]
        group.start()
        for other in self.forward_prefetch.get(id(group), ()):
            other.start()

    def order_backward(self, group: ParamGroup) -> None:
        """A group is about to be used in backward; starts gathering the one used before it in forward."""
        group.start()
        following = self.backward_prefetch.get(id(group))
        if following is None and not group.group._engine.overlaps:
            return  # it would take the same time, and memory earlier
        if following is None:
            at = next((i for i, g in enumerate(self.used) if g is group), 0)
            following = self.used[at - 1 : at] if at else []
        for other in following:
            if not other.is_whole() and other.depth == 0:
                other.start()

    def finish_reductions(self) -> None:
        """Waits for pending reductions and adds them to the gradients."""
        while self.pending:
            self.pending.pop(0)()

    def await_end_of_backward(self) -> None:
        """Schedules _finish for the end of backward."""
        backward = fb._C.running_backwards()[-1]
        if self.running_backward != backward:
            self.running_backward = backward
            fb.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self.running_backward = None
        self.finish_reductions()
        for group in self.used:
            if group.reshard_after_backward and group.depth == 0:
                group.hide(True)

