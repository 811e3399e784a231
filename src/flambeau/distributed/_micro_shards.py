"""Gradients whose bits do not depend on the number of processes.

Note [Fixed tree]
Floating-point sums depend on their order. So a batch is split into a fixed number of micro-shards, which are computed
separately, and their gradients are added along a fixed binary tree: shard 0 + shard 1, shard 2 + shard 3, then pairs of
these. Each process adds what it can of the tree. The rest is distributed in slices, one process per slice, which adds
the remaining nodes in the same order, and all gather the slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._collectives import all_gather, all_to_all
from flambeau.distributed._engine import pieces
from flambeau.distributed._group import member
from flambeau.distributed._types import World
from flambeau.errors import ArgumentError, StateError

__all__ = ["MicroShards"]

Node = tuple[int, int]  # level and index in the tree; level 0 are the micro-shards


class MicroShards:
    """Trains with the same bits on any number of processes that divides the number of micro-shards.

    Every process iterates over the numbers of its own micro-shards, and calls backward() for each; reduce() then gives all
    processes the mean gradients. What a micro-shard computes must depend on nothing else: layers with statistics of the
    batch may not learn.

    Args:
        params: the parameters.
        count: the number of micro-shards of a batch, a multiple of the number of processes.
        group: the default group if not given; without any, one process.
        seed: if given, random numbers for each micro-shard (dropout) start from this seed, the step and its number.

    Example:
        >>> model = fb.nn.Linear(2, 1)
        >>> shards = fb.distributed.MicroShards(model.parameters(), count=4)
        >>> x = fb.ones(8, 2)
        >>> for i in shards:
        ...     shards.backward(model(shards.part(x, i)).mean())
        >>> loss = shards.reduce()
        >>> model.weight.grad
        tensor([[1., 1.]])
    """

    def __init__(self, params: Iterable[Tensor], count: int, group: Any = None, seed: int | None = None) -> None:
        self._group = None if group is None and World.default is None else member(group, "MicroShards")
        self.count, self._seed, self._step = count, seed, 0
        self._size = 1 if self._group is None else self._group.size()
        self._rank = 0 if self._group is None else self._group.rank()
        if count < 1 or count % self._size:
            raise ArgumentError(f"MicroShards: count must be a multiple of the {self._size} processes, got {count}")
        self._params = [p for p in params if p.requires_grad]
        if not self._params:
            raise ArgumentError("MicroShards: no parameter requires a gradient")
        self._nodes: dict[Node, list[Tensor]] = {}
        self._losses: dict[int, Tensor] = {}
        self._current: int | None = None

    def _own(self, rank: int) -> range:
        per_rank = self.count // self._size
        return range(rank * per_rank, (rank + 1) * per_rank)

    def __len__(self) -> int:
        return self.count // self._size

    def __iter__(self) -> Iterator[int]:
        for shard in self._own(self._rank):
            self._current = shard
            if self._seed is None:
                yield shard
            else:
                with fb.random.fork_rng(devices=[]):
                    fb.manual_seed((self._seed * 1_000_003 + self._step) * 1_000_003 + shard)
                    yield shard
        self._current = None

    def part(self, x: Tensor, shard: int) -> Tensor:
        """A micro-shard of a batch that all processes have.

        Args:
            x: the batch; its first dimension must be divisible by count.
            shard: its number.
        """
        if x.shape[0] % self.count:
            raise ArgumentError(f"MicroShards.part: a batch of {x.shape[0]} is not divisible into {self.count} micro-shards")
        size = x.shape[0] // self.count
        return x[shard * size : (shard + 1) * size]

    def backward(self, loss: Tensor) -> None:
        """Runs backward for the current micro-shard, once each.

        Args:
            loss: its loss, a mean over its samples.
        """
        if self._current is None:
            raise StateError("MicroShards.backward: call it inside `for i in shards:`")
        if self._current in self._losses:
            raise StateError(f"MicroShards.backward: was called already for micro-shard {self._current}")
        before = [p.grad for p in self._params]
        for p in self._params:
            p.grad = None
        loss.backward()
        self._losses[self._current] = loss.detach().double()
        node, value = (0, self._current), _flat(self._params)
        for p, grad in zip(self._params, before, strict=True):
            p.grad = grad
        while (other := self._nodes.pop((node[0], node[1] ^ 1), None)) is not None:
            value = _added(other, value) if node[1] & 1 else _added(value, other)
            node = (node[0] + 1, node[1] >> 1)
        self._nodes[node] = value

    def _left_over(self, rank: int) -> list[Node]:
        """The largest subtrees within a process's micro-shards, which it can add alone."""
        nodes = [(0, shard) for shard in self._own(rank)]
        for level in range(self.count.bit_length()):
            places = {place for at, place in nodes if at == level}
            pairs = {place >> 1 for place in places if place ^ 1 in places}
            nodes = [n for n in nodes if n[0] != level or n[1] >> 1 not in pairs] + [(level + 1, place) for place in pairs]
        return sorted(nodes)

    def reduce(self) -> Tensor:
        """Adds the mean gradient of all micro-shards to each parameter's .grad; returns the mean loss."""
        missing = [shard for shard in self._own(self._rank) if shard not in self._losses]
        if missing:
            raise StateError(f"MicroShards.reduce: backward() was not called for micro-shard {missing[0]}")
        with fb.no_grad():
            nodes = self._left_over(self._rank)
            for k, total in enumerate(self._totals(nodes)):
                at = 0
                for p in _kinds(self._params)[k]:
                    grad = total[at : at + p.numel()].view(p.shape) / self.count
                    p.grad = grad if p.grad is None else p.grad + grad
                    at += p.numel()
            loss = self._mean_loss()
        self._nodes, self._losses = {}, {}
        self._step += 1
        return loss

    def _totals(self, nodes: list[Node]) -> list[Tensor]:
        kinds = len(_kinds(self._params))
        if self._size == 1:
            return [self._climb({node: self._nodes[node][k] for node in nodes}) for k in range(kinds)]
        results = []
        for k in range(kinds):
            flat = self._nodes[nodes[0]][k]
            slices = [part.numel() for part in pieces(flat, self._size)]
            cut = [self._nodes[node][k].split(slices) for node in nodes]
            give = [fb.cat([parts[rank] for parts in cut]) for rank in range(self._size)]
            theirs = [self._left_over(rank) for rank in range(self._size)]
            take = [fb.empty(len(one) * slices[self._rank], dtype=flat.dtype, device=flat.device) for one in theirs]
            all_to_all(take, give, self._group)
            known = {
                node: part for one, got in zip(theirs, take, strict=True) for node, part in zip(one, got.chunk(len(one)), strict=False)
            }
            mine = self._climb(known) if slices[self._rank] else flat[:0]
            whole = fb.empty_like(flat)
            all_gather(list(whole.split(slices)), mine.contiguous(), self._group)
            results.append(whole)
        return results

    def _climb(self, known: dict[Node, Tensor]) -> Tensor:
        """The root of the tree, computed from the known nodes."""

        def value(level: int, place: int) -> Tensor:
            if (level, place) in known:
                return known[level, place]
            left, right = 2 * place, 2 * place + 1
            first = value(level - 1, left)
            return first if right << (level - 1) >= self.count else first + value(level - 1, right)

        return value((self.count - 1).bit_length(), 0)

    def _mean_loss(self) -> Tensor:
        own = fb.stack([self._losses[shard].reshape(()) for shard in self._own(self._rank)])
        parts = [fb.empty_like(own) for _ in range(self._size)]
        if self._size == 1:
            parts = [own]
        else:
            all_gather(parts, own, self._group)
        return fb.cat(parts).mean()


def _kinds(params: list[Tensor]) -> list[list[Tensor]]:
    kinds: dict[Any, list[Tensor]] = {}
    for p in params:
        kinds.setdefault(p.dtype, []).append(p)
    return list(kinds.values())


def _flat(params: list[Tensor]) -> list[Tensor]:
    """The gradients, flattened per dtype."""
    with fb.no_grad():
        return [
            fb.cat([(fb.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in members]) for members in _kinds(params)
        ]


def _added(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
    with fb.no_grad():
        return [a + b for a, b in zip(left, right, strict=True)]
