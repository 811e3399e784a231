"""Averages gradients over processes while backward runs: the implementation of DistributedDataParallel.

Note [Buckets of gradients]
A collective has a fixed cost, so gradients are sent in buckets of many parameters. A bucket is full when all its
gradients are complete; buckets are sent in the order of their numbers, which is the same in every process, as soon as
they and those before them are full. Backward continues meanwhile. Before the first backward the order in which
gradients become complete is unknown, and buckets hold the parameters from last to first; afterwards they are rebuilt in
the order observed in rank 0. When backward is done, the results are awaited and become the parameters' .grad.

Where no core is free (several processes on one host, each computing on its share of the cores), a collective beside
backward only takes time from it, and processes wait for each other more often. There all buckets are sent when backward is
done. Gradients that need no buffer (no hook, gradients not kept in buckets) are averaged where they are, as one chain of
memory, so that nothing is copied.

A backward that cannot reach a parameter (the engine knows from the graph) sends zeros for it. Without
find_unused_parameters that is an error, raised by the next forward with the names of the parameters, because a process
that always sends zeros usually means a mistake in the model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau import distributed as dist
from flambeau.distributed._futures import WorkFuture, future_of
from flambeau.distributed._together import reduce_together
from flambeau.errors import ArgumentError, StateError

__all__ = ["GradBucket"]

_MB = 1 << 20


class GradBucket:
    """Gradients on their way: what a communication hook of DistributedDataParallel is given.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 1))
        >>> def hook(state, bucket):
        ...     print(bucket.index(), bucket.is_last(), bucket.buffer().shape)
        ...     done = fb.futures.Future()
        ...     done.set_result(bucket.buffer())
        ...     return done
        >>> model.register_comm_hook(None, hook)
        >>> model(fb.ones(1, 2)).backward()
        0 True flambeau.Size([3])
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(self, index: int, buffer: Tensor, params: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._buffer, self._params, self._last = index, buffer, list(params), is_last

    def index(self) -> int:
        """Number of the bucket, counted in the order in which buckets are sent."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients of the bucket in one tensor of one dimension."""
        return self._buffer

    def gradients(self) -> list[Tensor]:
        """The gradients one by one, as views of the buffer."""
        return views(self._buffer, self._params)

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of their gradients."""
        return list(self._params)

    def is_last(self) -> bool:
        """Whether this is the last bucket of the backward."""
        return self._last

    def set_buffer(self, buffer: Tensor) -> None:
        """Replaces the buffer; gradients() are views of the new one.

        Args:
            buffer: a tensor of the same shape.
        """
        if buffer.shape != self._buffer.shape:
            raise ArgumentError(
                f"GradBucket.set_buffer: expected shape {tuple(self._buffer.shape)}, got {tuple(buffer.shape)}"
            )
        self._buffer = buffer


def views(flat: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a flat tensor that belong to parameters, in their shapes."""
    parts, start = [], 0
    for p in params:
        parts.append(flat[start : start + p.numel()].view(p.shape))
        start += p.numel()
    return parts


class _Bucket:
    """Parameters whose gradients are sent together."""

    def __init__(self, members: list[int], sparse: bool = False) -> None:
        self.members, self.sparse = members, sparse
        self.missing = len(members)
        self.flat: Tensor | None = None
        self.places: list[Tensor] | None = None  # gradients averaged in place
        self.future: Any = None


class Reducer:
    """Averages the gradients of parameters over the processes of a group.

    Args:
        params: parameters that require gradients, each once.
        names: their names, for messages.
        sparse: for each, whether its gradient is sparse.
        group: the processes.
        cap: bytes of a bucket; the first one is smaller, so that sending begins early.
        find_unused: whether backward may miss parameters.
        static: whether every backward has the same graph.
        keep: whether gradients live in buckets from one step to the next.
    """

    first_cap = _MB

    def __init__(
        self, params: list[Tensor], names: list[str], sparse: list[bool], group: Any, cap: int, find_unused: bool,
        static: bool, keep: bool,
    ) -> None:  # fmt: skip
        self.params, self.names, self.sparse, self.group, self.cap = params, names, sparse, group, cap
        self.find_unused, self.static, self.keep = find_unused, static, keep
        self.size = dist.get_world_size(group)
        self.divisor: float = self.size
        self.hook: Callable[[GradBucket], Any] | None = None
        self.order: list[int] = []  # order in which gradients were completed in the running backward
        self.rebuilt = False
        self.steps = 0
        self.firings: list[int] | None = None  # for a static graph: how often each gradient is accumulated
        self.static_used: list[bool] | None = None  # for a static graph: what any process uses
        self.armed = self.begun = self.pending = False
        self.counts = [0] * len(params)
        self.used = [False] * len(params)  # since gradients were last averaged, so including no_sync()
        self.complete: set[int] = set()
        self.awaiting: int | None = None  # the backward at whose end _finish will be called
        self.next = 0
        self.buckets: list[_Bucket] = []
        self._assign(list(range(len(params)))[::-1])
        self.handles = [
            p.register_post_accumulate_grad_hook(functools.partial(self._accumulated, i)) for i, p in enumerate(params)
        ]

    def detach(self) -> None:
        """Removes the hooks from the parameters."""
        for handle in self.handles:
            handle.remove()
        self.handles = []

    # ---- buckets -----------------------------------------------------------------------------------------------------

    def _assign(self, order: list[int]) -> None:
        """Assigns parameters to buckets in an order; those of a bucket have the same dtype and device."""
        self.buckets = []
        open_buckets: dict[Any, tuple[_Bucket, int]] = {}
        for i in order:
            p = self.params[i]
            if self.sparse[i]:
                self.buckets.append(_Bucket([i], sparse=True))
                continue
            key, size = (p.dtype, p.device), p.numel() * p.element_size()
            bucket, filled = open_buckets.pop(key, (None, 0))
            is_first = not self.buckets or bucket is self.buckets[0]
            limit = min(self.first_cap, self.cap) if is_first else self.cap
            if bucket is None or filled + size > limit:
                bucket, filled = _Bucket([]), 0
                self.buckets.append(bucket)
            bucket.members.append(i)
            open_buckets[key] = (bucket, filled + size)
        self.bucket_of = {i: bucket for bucket in self.buckets for i in bucket.members}

    def rebuild_buckets(self) -> None:
        """Once, after the first backward: orders buckets by the completion of gradients in rank 0."""
        if self.rebuilt or self.steps == 0 or (self.find_unused and not self.static):
            return
        self.rebuilt = True
        order = fb.tensor(self.order, dtype=fb.int64)
        dist.broadcast(order, group=self.group, group_src=0)
        self._assign([int(i) for i in order.tolist()])

    _rebuild_buckets = rebuild_buckets

    # ---- one step ----------------------------------------------------------------------------------------------------

    def prepare_for_backward(self, outputs: Any = ()) -> None:
        """The backward of the forward that has just run will be averaged.

        Args:
            outputs: accepted as in PyTorch; the engine knows by itself what a backward reaches.
        """
        self.check_finished()
        self.armed, self.begun, self.pending = True, False, True
        self.next = 0
        self.order = []
        self.complete = set()
        self.counts = [0] * len(self.params)
        for bucket in self.buckets:
            bucket.missing, bucket.future, bucket.places = len(bucket.members), None, None

    def check_finished(self) -> None:
        """Raises if the previous backward left gradients that were never averaged."""
        if not (self.pending and self.begun):
            return
        missing = [name for i, name in enumerate(self.names) if i not in self.complete and self.counts[i] == 0]
        self.pending = False
        if missing:
            raise StateError(
                "DistributedDataParallel: Expected to have finished reduction in the prior iteration before starting a new "
                f"one. In rank {dist.get_rank(self.group)}, the last backward did not reach {len(missing)} parameters: "
                f"{', '.join(missing[:20])}{' …' if len(missing) > 20 else ''}. If that is intended, pass "
                "find_unused_parameters=True; else see that every output of forward takes part in the loss"
            )

    def _begin(self) -> None:
        """The first gradient of a backward: parameters it cannot reach count as complete."""
        self.begun = True
        if self.firings is not None:
            unreached = [i for i, count in enumerate(self.firings) if count == 0]
        elif self.find_unused and not self.static:
            unreached = [i for i, p in enumerate(self.params) if not _C.backward_reaches(p)]
        else:
            unreached = []
        for i in unreached:
            self._complete(i)

    def _accumulated(self, i: int, param: Any) -> None:
        """Called by the engine when the gradient of a parameter is complete."""
        self.used[i] = True
        if not self.armed:
            return
        self._await_end()
        if not self.begun:
            self._begin()
        self.counts[i] += 1
        if self.static:
            if self.firings is None:
                if self.counts[i] == 1:
                    self.order.append(i)
            elif self.counts[i] == self.firings[i]:
                self._complete(i)
            return
        if i in self.complete:
            raise StateError(
                f"DistributedDataParallel: Expected to mark a variable ready only once, and the gradient of {self.names[i]} was "
                "accumulated again: the parameter is used in several backward passes of one forward, say by reentrant "
                "checkpointing. Pass static_graph=True, or use checkpoint(use_reentrant=False)"
            )
        self._complete(i)

    def _await_end(self) -> None:
        """Schedules _finish, once, for the end of the outermost running backward."""
        backward = _C.running_backwards()[-1]
        if self.awaiting != backward:
            self.awaiting = backward
            fb.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _complete(self, i: int) -> None:
        self.order.append(i)
        self.complete.add(i)
        self.bucket_of[i].missing -= 1
        if self.hook is not None or self.group._engine.overlaps:
            self._send_full()

    def _send_full(self) -> None:
        """Starts the collectives of full buckets, up to the first that is not full."""
        while self.next < len(self.buckets) and self.buckets[self.next].missing == 0:
            self._send(self.next)
            self.next += 1

    def _gradient(self, i: int) -> Tensor:
        p = self.params[i]
        return fb.zeros_like(p) if p.grad is None else p.grad

    def _places(self, bucket: _Bucket) -> list[Tensor] | None:
        """The gradients of a bucket, if they can be averaged in place."""
        if self.hook is not None or self.keep or self.divisor != self.size:
            return None
        grads = []
        for i in bucket.members:
            p = self.params[i]
            grad = p.grad
            if grad is None:
                grad = fb.zeros_like(p)
            elif not self.used[i]:
                grad = grad.clone()  # nobody may have used it, and then it keeps its value
            # The sum of float16 gradients may overflow where their mean does not.
            if grad.dtype != p.dtype or grad.dtype == fb.float16 or grad.layout is not fb.strided:
                return None
            grads.append(grad)
        return grads

    def _send(self, index: int) -> None:
        """Starts the collective of a full bucket."""
        bucket = self.buckets[index]
        with fb.no_grad():
            if bucket.sparse:
                bucket.future = self._send_sparse(bucket.members[0])
                return
            bucket.places = self._places(bucket)
            if bucket.places is not None:
                works = reduce_together(bucket.places, dist.ReduceOp.AVG, self.group, self.group._engine.overlaps)
                bucket.future = future_of(works, None)
            elif self.hook is None:
                flat = self._fill(bucket, self.divisor)
                bucket.future = future_of(dist.all_reduce(flat, group=self.group, async_op=True), flat)
            else:
                flat = self._fill(bucket)
                params = [self.params[i] for i in bucket.members]
                bucket.future = self.hook(GradBucket(index, flat, params, index == len(self.buckets) - 1))
                if not callable(getattr(bucket.future, "wait", None)):
                    raise TypeError(
                        f"register_comm_hook: the hook must return a Future, got {type(bucket.future).__name__}; return "
                        "work.get_future() or a Future with set_result(buffer)"
                    )

    def _fill(self, bucket: _Bucket, divisor: float = 1) -> Tensor:
        """The gradients of a bucket, divided, in one tensor; gradients that are views of it already are not copied."""
        params = [self.params[i] for i in bucket.members]
        grads = [self._gradient(i) for i in bucket.members]
        if self.keep and bucket.flat is not None:
            for place, grad in zip(views(bucket.flat, params), grads, strict=True):
                if grad.data_ptr() != place.data_ptr():
                    place.copy_(grad)
            return bucket.flat.div_(divisor) if divisor != 1 else bucket.flat
        first = params[0]
        flat = fb.empty(sum(p.numel() for p in params), dtype=first.dtype, device=first.device)
        for place, grad in zip(views(flat, params), grads, strict=True):
            fb.div(grad.detach().to(first.dtype), divisor, out=place)  # copied and divided in one pass
        bucket.flat = flat
        return flat

    def _send_sparse(self, i: int) -> Any:
        grad = self._gradient(i)
        if grad.layout is fb.strided:
            grad = grad.to_sparse(1)
        grad = grad.coalesce()

        def finish() -> Tensor:
            parts: list[Any] = [None] * self.size
            dist.all_gather_object(parts, (grad.indices(), grad.values()), group=self.group)
            indices, values = (fb.cat([part[k] for part in parts], dim=k - 1) for k in (0, 1))
            return fb.sparse_coo_tensor(indices, values / self.divisor, grad.shape).coalesce()

        return WorkFuture(finish, lambda: False)

    # ---- the end of a backward ---------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Called by the engine when backward is done: waits for pending collectives and sets the gradients."""
        self.awaiting = None
        if not self.armed:
            return
        if self.static and self.firings is None:
            self._learn_static()
        self._send_full()
        if self.next < len(self.buckets):
            return  # the loss of another output may add the rest; prepare_for_backward() raises an error if none does
        self.armed = self.pending = False
        self.steps += 1
        self._set_gradients(self._globally_used())
        self.used = [False] * len(self.params)

    def _learn_static(self) -> None:
        """After the first backward of a static graph: what it did not reach stays unused, and everything is sent."""
        self.firings = list(self.counts)
        order = self.order
        self.order = []
        for i in order:
            self._complete(i)
        for i in range(len(self.params)):
            if self.counts[i] == 0:
                self._complete(i)

    def _globally_used(self) -> list[bool]:
        """The gradients that any process has; the others are not changed, and initially None."""
        if not (self.find_unused or self.static):
            return [True] * len(self.params)
        if self.static_used is not None:
            return self.static_used
        flags = fb.tensor([int(used) for used in self.used], dtype=fb.int32)
        dist.all_reduce(flags, group=self.group)
        used = [count > 0 for count in flags.tolist()]
        if self.static:
            self.static_used = used
        return used

    def _set_gradients(self, used: list[bool]) -> None:
        with fb.no_grad():
            for bucket in self.buckets:
                value = bucket.future.wait()
                if bucket.places is not None:
                    for i, grad in zip(bucket.members, bucket.places, strict=True):
                        if used[i] and self.params[i].grad is not grad:
                            self.params[i].grad = grad
                    bucket.places = None
                    continue
                if bucket.sparse:
                    if used[bucket.members[0]]:
                        self.params[bucket.members[0]].grad = value
                    continue
                value = value[0] if isinstance(value, (list, tuple)) else value
                params = [self.params[i] for i in bucket.members]
                if self.keep and value is not bucket.flat and bucket.flat is not None:
                    value = bucket.flat.copy_(value.view(-1))
                for i, p, grad in zip(bucket.members, params, views(value.view(-1), params), strict=True):
                    if used[i]:
                        p.grad = grad
                if not self.keep:
                    bucket.flat = None

    # ---- processes without data of their own (join) ------------------------------------------------------------------

    def shadow(self) -> None:
        """Takes part in the collectives of one backward with zeros, for a process without further data.

        It gets the others' average, since a ZeroRedundancyOptimizer may keep its part of the state here.
        """
        self.prepare_for_backward()
        self.armed = False
        self.used = [False] * len(self.params)
        with fb.no_grad():
            for bucket in self.buckets:
                for i in bucket.members:
                    self.params[i].grad = None
                bucket.flat = None
            for index in range(len(self.buckets)):
                self._send(index)
            self._set_gradients(self._globally_used())
        self.pending = False
        self.steps += 1
        self.order = list(range(len(self.params)))[::-1]
