"""The engine for arbitrary processes: messages over TCP, in trees, rings and pairs."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed._engine import Engine, average, join, pieces, premultiply, raw
from flambeau.distributed._mesh import BROKEN, COLLECTIVE, STEP_BITS, Call, Mesh, Receive
from flambeau.distributed._types import ReduceOp
from flambeau.errors import CollectiveMismatch, DistBackendError, PeerLost

_SMALL = 16 << 10  # bytes up to which all ranks exchange all data: one step, reduced in the order of ranks
_EMPTY = memoryview(b"")


def digest(text: str) -> int:
    """A 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class Pending:
    """A pending message. `finish` is called when it is complete, with the error or None."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.source: int | None = None
        self._then: list[Callable[[], Any]] = []
        self._lock = threading.Lock()

    def finish(self, error: BaseException | None, source: int | None = None) -> None:
        self.error, self.source = error, source
        with self._lock:
            self.done.set()
        for then in self._then:
            then()

    def add(self, then: Callable[[], Any]) -> None:
        """Calls `then` when the message is complete, possibly at once."""
        with self._lock:
            if not self.done.is_set():
                self._then.append(then)
                return
        then()


class TcpEngine(Engine):
    """A group over a Mesh."""

    def __init__(self, mesh: Mesh, name: str, ranks: list[int], timeout: float, waiting: Any) -> None:
        self.mesh, self.ranks, self.timeout = mesh, ranks, timeout
        self.rank, self.size = ranks.index(mesh.rank), len(ranks)
        self._group, self._sequence, self._waiting = digest(name), 0, waiting
        self.name, self._told = name, False

    def _break(self, error: BaseException) -> None:
        """Tells all ranks of the group that their calls differ."""
        self.mesh.break_group(self._group, error)
        if self._told:
            return
        self._told = True
        for rank in self.ranks:
            if rank != self.mesh.rank:
                with contextlib.suppress(DistBackendError):
                    self.mesh.send(rank, Call(self._group, BROKEN, 0, str(error)), _EMPTY)

    # ---- one call --------------------------------------------------------------------------------------------------

    def _begin(self, text: str, timeout: float | None = None) -> _Round:
        self.mesh.check()
        if self._group in self.mesh.broken:
            self._break(self.mesh.broken[self._group])
            raise self.mesh.broken[self._group]
        self._sequence += 1
        call = _Round(self, text, self._sequence, self.timeout if timeout is None else timeout)
        try:
            self.mesh.begin(call.label(0))
        except CollectiveMismatch as error:
            self._break(error)
            raise
        return call

    def all_reduce(self, text: str, x: Tensor, op: ReduceOp) -> None:
        call = self._begin(text)
        if op.name == "PREMUL_SUM":
            premultiply(x, op)
        if x.numel() * x.element_size() <= _SMALL:
            parts = self._exchange(call, x)
            x.copy_(parts[0])
            for part in parts[1:]:
                join(op, x, part, x)
            if op.name == "AVG":
                average(x, self.size)
            return
        cut = pieces(x, self.size)
        self._ring_reduce(call, cut, op)
        self._ring_gather(call, cut)

    def _exchange(self, call: _Round, x: Tensor) -> list[Tensor]:
        """x of all ranks."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        parts = [x.clone() if rank == self.rank else fb.empty_like(x) for rank in range(self.size)]
        got = [call.post(rank, 0, raw(parts[rank])) for rank in others]
        for rank in others:
            call.send(rank, 0, raw(parts[self.rank]))
        for receive in got:
            call.wait(receive)
        return parts

    def _ring_reduce(self, call: _Round, cut: list[Tensor], op: ReduceOp) -> None:
        """Overwrites cut[rank] with the reduction over all ranks; the others then hold partial results."""
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        scratch = fb.empty(max(part.numel() for part in cut), dtype=cut[0].dtype)
        for step in range(self.size - 1):
            give, take = cut[(self.rank - step - 1) % self.size], cut[(self.rank - step - 2) % self.size]
            arrived = scratch[: take.numel()]
            receive = call.post(before, step, raw(arrived))
            call.send(after, step, raw(give))
            call.wait(receive)
            join(op, arrived, take, take)
        if op.name == "AVG":
            average(cut[self.rank], self.size)

    def _ring_gather(self, call: _Round, cut: list[Tensor]) -> None:
        """Gathers all of cut, of which each rank has cut[rank]."""
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        receives = [
            call.post(before, self.size + step, raw(cut[(self.rank - step - 1) % self.size]))
            for step in range(self.size - 1)
        ]
        for step in range(self.size - 1):
            call.send(after, self.size + step, raw(cut[(self.rank - step) % self.size]))
            call.wait(receives[step])

    def reduce(self, text: str, x: Tensor, op: ReduceOp, root: int) -> None:
        call = self._begin(text)
        work = x if self.rank == root else x.clone()  # other ranks' tensors are not changed
        if op.name == "PREMUL_SUM":
            premultiply(work, op)
        cut = pieces(work, self.size)
        self._ring_reduce(call, cut, op)
        self._to_root(call, cut, cut[self.rank], root)

    def _to_root(self, call: _Round, parts: list[Tensor] | None, mine: Tensor, root: int) -> None:
        if self.rank != root:
            call.send(root, 2 * self.size, raw(mine))
            return
        assert parts is not None
        receives = [
            call.post(rank, 2 * self.size, raw(part)) for rank, part in enumerate(parts) if rank != root
        ]  # fmt: skip
        for receive in receives:
            call.wait(receive)

    def broadcast(self, text: str, x: Tensor, root: int) -> None:
        call = self._begin(text)
        place = (self.rank - root) % self.size  # the root of a binomial tree
        distance = 1
        while distance < self.size:
            if place < distance and place + distance < self.size:
                call.send((self.rank + distance) % self.size, distance, raw(x))
            elif distance <= place < 2 * distance:
                call.wait(call.post((self.rank - distance) % self.size, distance, raw(x)))
            distance *= 2

    def all_gather(self, text: str, parts: list[Tensor], x: Tensor) -> None:
        call = self._begin(text)
        parts[self.rank].copy_(x)
        self._ring_gather(call, parts)

    def reduce_scatter(self, text: str, out: Tensor, parts: list[Tensor], op: ReduceOp) -> None:
        call = self._begin(text)
        parts = [part.clone() for part in parts]
        if op.name == "PREMUL_SUM":
            for part in parts:
                premultiply(part, op)
        self._ring_reduce(call, parts, op)
        out.copy_(parts[self.rank])

    def gather(self, text: str, parts: list[Tensor] | None, x: Tensor, root: int) -> None:
        call = self._begin(text)
        self._to_root(call, parts, x, root)
        if parts is not None:
            parts[root].copy_(x)

    def scatter(self, text: str, x: Tensor, parts: list[Tensor] | None, root: int) -> None:
        call = self._begin(text)
        if self.rank != root:
            call.wait(call.post(root, 0, raw(x)))
            return
        assert parts is not None
        for rank, part in enumerate(parts):
            if rank != root:
                call.send(rank, 0, raw(part))
        x.copy_(parts[root])

    def all_to_all(self, text: str, outs: list[Tensor], ins: list[Tensor]) -> None:
        call = self._begin(text)
        order = [(self.rank + step) % self.size for step in range(1, self.size)]
        receives = [call.post(rank, 0, raw(outs[rank])) for rank in order]
        for rank in order:
            call.send(rank, 0, raw(ins[rank]))
        outs[self.rank].copy_(ins[self.rank])
        for receive in receives:
            call.wait(receive)

    def barrier(self, text: str, timeout: float | None = None) -> None:
        call, distance = self._begin(text, timeout), 1
        while distance < self.size:
            receive = call.post((self.rank - distance) % self.size, distance, _EMPTY)
            call.send((self.rank + distance) % self.size, distance, _EMPTY)
            call.wait(receive)
            distance *= 2

    def monitored_barrier(self, timeout: float, all_ranks: bool) -> None:
        text = "monitored_barrier()"
        call = self._begin(text, timeout + 30 * (self.rank > 0))  # rank 0 tells the others
        if self.rank:
            call.send(0, 0, _EMPTY)
            answer = call.wait(call.post(0, 1, None))
            if answer.data:
                raise DistBackendError(bytes(answer.data).decode())
            return
        receives, late = {rank: call.post(rank, 0, _EMPTY) for rank in range(1, self.size)}, []
        for rank, receive in receives.items():
            try:
                call.wait(receive)
            except PeerLost:
                raise
            except DistBackendError:
                late.append(self.ranks[rank])
                if not all_ranks:
                    break
        problem = ""
        if late:
            named = f"rank{'s' * (len(late) > 1)} {', '.join(map(str, late))}"
            problem = f"monitored_barrier: {named} did not reach the barrier within {timeout:g} s"
        for rank in receives:
            call.send(rank, 1, memoryview(problem.encode()))
        if problem:
            raise DistBackendError(problem)

    # ---- one message -----------------------------------------------------------------------------------------------

    def send(self, text: str, x: Tensor, dst: int, tag: int) -> Pending:
        pending, memory = Pending(), raw(x)
        call = Call(self._group, tag, 0, text)
        self.mesh.enqueue(self.ranks[dst], call, memory, pending.finish)
        return pending

    def recv(self, text: str, x: Tensor, src: int | None, tag: int) -> Pending:
        pending = Pending()
        source = None if src is None else self.ranks[src]
        call = Call(self._group, tag, 0, text)
        self.mesh.post(source, call, raw(x), lambda receive: pending.finish(receive.error, receive.source))
        return pending


class _Round:
    """One collective: its number and text are part of each of its messages."""

    def __init__(self, engine: TcpEngine, text: str, sequence: int, timeout: float) -> None:
        self._engine, self._text, self._sequence = engine, text, sequence
        self._fingerprint, self._end = digest(text) or 1, time.monotonic() + timeout

    def label(self, step: int) -> Call:
        return Call(self._engine._group, COLLECTIVE | self._sequence << STEP_BITS | step, self._fingerprint, self._text)

    def send(self, rank: int, step: int, memory: memoryview) -> None:
        self._engine.mesh.send(self._engine.ranks[rank], self.label(step), memory)

    def post(self, rank: int, step: int, memory: memoryview | None) -> Receive:
        return self._engine.mesh.post(self._engine.ranks[rank], self.label(step), memory)

    def wait(self, receive: Receive) -> Receive:
        engine = self._engine
        try:
            return engine.mesh.wait(receive, self._end, lambda: engine._waiting(engine, self._sequence, self._text))
        except CollectiveMismatch as error:
            engine._break(error)
            raise
