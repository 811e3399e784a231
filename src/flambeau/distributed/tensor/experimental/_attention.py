"""Attention where each process has a part of the sequence.

Note [Ring attention]
Queries stay; keys and values of the other processes are received, gathered at once or one after another around a ring.
The kernel returns results and log-sum-exp per block, by which blocks are merged. Backward visits the blocks again with
the final log-sum-exp, which gives each block's exact share; gradients of keys and values are summed in their processes.

A causal mask would give the last process the most work. So the sequence of n processes is split into 2 n pieces, and
process r has the pieces r and 2 n - 1 - r: for each pair of pieces it is known whether all, none or the lower half is
visible.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau._registry import private
from flambeau.autograd.function import Function
from flambeau.errors import ArgumentError
from flambeau.nn.functional import _attention as attention


class _Options:
    """How parts of the sequence are distributed and exchanged."""

    def __init__(self) -> None:
        self.enable_load_balance = True
        self.rotate_method = "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values are exchanged: "allgather", all at once, or "alltoall", one after another, in less memory."""
    if rotate_method not in ("allgather", "alltoall"):
        raise ArgumentError(f"set_rotate_method: expected 'allgather' or 'alltoall', got {rotate_method!r}")
    _cp_options.rotate_method = rotate_method


# ---- splitting and joining -------------------------------------------------------------------------------------------


def _balanced(length: int, count: int) -> bool:
    if length % count:
        raise ArgumentError(f"context_parallel: a sequence of {length} is not divisible by {count} processes; pad it")
    return _cp_options.enable_load_balance and length % (2 * count) == 0


def _pieces_of(rank: int, count: int, balanced: bool) -> list[int]:
    """The indices of a process's pieces."""
    return [rank, 2 * count - 1 - rank] if balanced else [rank]


def _cut(t: Tensor, dim: int, mesh: Any, balanced: bool) -> Tensor:
    count = mesh.size()
    parts = t.chunk(2 * count if balanced else count, dim)
    return fb.cat([parts[i] for i in _pieces_of(mesh.get_local_rank(), count, balanced)], dim)


def _context_parallel_shard(mesh: Any, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None) -> list[Tensor]:
    """This process's part of each tensor."""
    if load_balancer is not None:
        raise ArgumentError("_context_parallel_shard: load_balancer is not supported; leave it at None")
    return [_cut(t, dim, mesh, _balanced(t.shape[dim], mesh.size())) for t, dim in zip(buffers, seq_dims, strict=True)]


def context_parallel_unshard(mesh: Any, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None) -> list[Tensor]:
    """The whole of sharded tensors, such as the output of a model, in all processes."""
    if load_balancer is not None:
        raise ArgumentError("context_parallel_unshard: load_balancer is not supported; leave it at None")
    count, wholes = mesh.size(), []
    for t, dim in zip(buffers, seq_dims, strict=True):
        balanced = _balanced(t.shape[dim] * count, count)
        parts = [fb.empty_like(t, memory_format=fb.contiguous_format) for _ in range(count)]
        dist.all_gather(parts, t.detach().contiguous(), group=mesh.get_group())
        found: dict[int, Tensor] = {}
        for rank, part in enumerate(parts):
            numbers = _pieces_of(rank, count, balanced)
            found |= dict(zip(numbers, part.chunk(len(numbers), dim), strict=True))
        wholes.append(fb.cat([found[i] for i in sorted(found)], dim))
    return wholes


# ---- attention ---------------------------------------------------------------------------------------------------------


class _Context:
    """The mesh of a context_parallel block."""

    def __init__(self, mesh: Any, balanced: bool) -> None:
        self.group, self.rank, self.count = mesh.get_group(), mesh.get_local_rank(), mesh.size()
        self.balanced = balanced

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout_p: float, causal: bool, scale: float) -> Tensor:
        """Replaces scaled_dot_product_attention."""
        op = "scaled_dot_product_attention"
        if mask is not None or dropout_p > 0:
            raise ArgumentError(f"{op}: under context_parallel attn_mask and dropout_p are not supported; pass is_causal=True")
        if query.shape[-2] != key.shape[-2]:
            raise ArgumentError(f"{op}: under context_parallel queries and keys must be of one sequence, got {query.shape} and {key.shape}")
        if self.balanced and query.shape[-2] % 2:
            raise ArgumentError(f"{op}: under context_parallel the part of a process must have an even length, got {query.shape[-2]}")
        extra = 4 - query.ndim
        if extra < 0:
            raise ArgumentError(f"{op}: under context_parallel at most 4 dimensions are supported, got {query.ndim}")
        q, k, v = (x[(None,) * extra] if extra else x for x in (query, key, value))
        result = _Ring.apply(q, k, v, self, causal, scale)
        return result.view(*query.shape[:-1], value.shape[-1])

    def pairs(self, source: int, causal: bool, length: int) -> Iterator[tuple[slice, slice, bool]]:
        """The pairs of queries and keys of a process to compute, and whether under a causal mask."""
        if not causal:
            yield slice(0, length), slice(0, length), False
            return
        mine, theirs = (_pieces_of(r, self.count, self.balanced) for r in (self.rank, source))
        size = length // len(mine)
        for i, a in enumerate(mine):
            for j, b in enumerate(theirs):
                if b <= a:
                    yield slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size), a == b

    def blocks(self, tensors: list[Tensor], travelling: list[Tensor]) -> Iterator[tuple[int, list[Tensor]]]:
        """The tensors of all processes, one process after another. `travelling` is passed along, and summed."""
        if _cp_options.rotate_method == "allgather":
            parts = [[fb.empty_like(t) for _ in range(self.count)] for t in tensors]
            for t, places in zip(tensors, parts, strict=True):
                dist.all_gather(places, t, group=self.group)
            sums = [[fb.zeros_like(t) for _ in range(self.count)] for t in travelling]
            for source in range(self.count):
                yield source, [places[source] for places in (*parts, *sums)]
            for t, places in zip(travelling, sums, strict=True):
                dist.reduce_scatter(t, places, group=self.group)
            return
        here, along = list(tensors), [fb.zeros_like(t) for t in travelling]
        for step in range(self.count):
            arriving: list[Any] = []
            if step + 1 < self.count:  # the next ones arrive while these are used
                arriving = self._pass_on(here)
            yield (self.rank - step) % self.count, [*here, *along]
            along_next = self._pass_on(along)
            if arriving:
                here = self._arrived(arriving)
            along = self._arrived(along_next)
        for t, total in zip(travelling, along, strict=True):
            t.copy_(total)

    def _pass_on(self, tensors: list[Tensor]) -> list[Any]:
        messages = []
        for t in tensors:
            new = fb.empty_like(t)
            receive = dist.irecv(new, group=self.group, group_src=(self.rank - 1) % self.count)
            send = dist.isend(t, group=self.group, group_dst=(self.rank + 1) % self.count)
            messages.append((send, receive, new))
        return messages

    def _arrived(self, messages: list[Any]) -> list[Tensor]:
        for send, receive, _ in messages:
            receive.wait()
            send.wait()
        return [new for _, _, new in messages]


class _Ring(Function):
    """See Note [Ring attention]."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, where: Any, causal: Any, scale: Any) -> Any:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        length, wide = q.shape[2], fb.float64 if q.dtype == fb.float64 else fb.float32
        total = fb.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
        sums = fb.full(q.shape[:-1], -math.inf, dtype=wide, device=q.device)
        for source, (keys, values) in where.blocks([k, v], []):
            for rows, columns, lower in where.pairs(source, causal, length):
                out, here = private.attention(q[:, :, rows], keys[:, :, columns], values[:, :, columns], None, lower, scale)
                before = sums[:, :, rows]
                after = fb.logaddexp(before, here)
                total[:, :, rows] = total[:, :, rows] * (before - after).exp().unsqueeze(-1) + out * (here - after).exp().unsqueeze(-1)
                sums[:, :, rows] = after
        result = total.to(q.dtype)
        ctx.save_for_backward(q, k, v, result, sums)
        ctx.where, ctx.causal, ctx.scale = where, causal, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        q, k, v, result, sums = ctx.saved_tensors
        grad, where = grad.contiguous(), ctx.where
        wide = sums.dtype
        dq, dk, dv = (fb.zeros(t.shape, dtype=wide, device=t.device) for t in (q, k, v))
        for source, (keys, values, to_keys, to_values) in where.blocks([k, v], [dk, dv]):
            for rows, columns, lower in where.pairs(source, ctx.causal, q.shape[2]):
                gq, gk, gv = private.attention_backward(
                    grad[:, :, rows], q[:, :, rows], keys[:, :, columns], values[:, :, columns], None, lower, ctx.scale,
                    result[:, :, rows], sums[:, :, rows],
                )  # fmt: skip
                dq[:, :, rows] += gq
                to_keys[:, :, columns] += gk
                to_values[:, :, columns] += gv
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None


@contextlib.contextmanager
def context_parallel(
    mesh: Any, *, buffers: list[Tensor] | None = None, buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:  # fmt: skip
    """Inside, each process works on a part of the sequence, and scaled_dot_product_attention sees the whole.

    Run forward and backward inside. All else in a model must treat positions one by one, as linear layers and norms do.

    Args:
        mesh: a mesh of one dimension.
        buffers: tensors with a sequence, such as the batch, the labels and tables of positions. Inside they are this
            process's part, afterwards whole again.
        buffer_seq_dims: the dimension of the sequence in each of them.
        no_restore_buffers: those among them that stay in parts.

    Example:
        >>> from flambeau.distributed.tensor.experimental import context_parallel
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.init_device_mesh("cpu", (1,))
        >>> x = fb.ones(1, 2, 4, 8)  # batch, heads, sequence, features
        >>> with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        ...     fb.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
        flambeau.Size([1, 2, 4, 8])
        >>> fb.distributed.destroy_process_group()
    """
    if mesh.ndim != 1:
        raise ArgumentError(f"context_parallel: expected a mesh of one dimension, got {mesh}")
    buffers, dims = list(buffers or []), list(buffer_seq_dims or [])
    if len(buffers) != len(dims):
        raise ArgumentError(
            f"context_parallel: `seq_dims` must have the same number of elements as `buffers`, got {len(dims)} and {len(buffers)}"
        )
    kept = [id(t) for t in no_restore_buffers or ()]
    if not set(kept) <= {id(t) for t in buffers}:
        raise ArgumentError("context_parallel: `no_restore_buffers` must be a subset of `buffers`.")
    lengths = {t.shape[dim] for t, dim in zip(buffers, dims, strict=True)}
    balances = {_balanced(length, mesh.size()) for length in lengths}
    if len(balances) > 1:
        raise ArgumentError(f"context_parallel: sequences of lengths {sorted(lengths)} would be cut in different ways; pad them")
    wholes = [None if id(t) in kept else t.detach().clone() for t in buffers]
    with fb.no_grad():
        for t, dim in zip(buffers, dims, strict=True):
            part = _cut(t, dim, mesh, _balanced(t.shape[dim], mesh.size())).clone()
            t.resize_(part.shape).copy_(part)
    balanced = balances.pop() if balances else _cp_options.enable_load_balance
    before, attention.cut_sequence = attention.cut_sequence, _Context(mesh, balanced).attend
    try:
        yield
    finally:
        attention.cut_sequence = before
        with fb.no_grad():
            for t, whole in zip(buffers, wholes, strict=True):
                if whole is not None:
                    t.resize_(whole.shape).copy_(whole)
