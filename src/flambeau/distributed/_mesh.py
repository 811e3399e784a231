"""Messages between all processes of a program, over TCP.

Each process listens. A process that has something to send connects to the receiver, once, and uses that connection for
everything it sends; it receives over the connections that others made. A thread reads everything that arrives: into the
memory of a posted receive, else into new memory until it is asked for. So a sender never waits for the receiver's
program, only for the network, and two processes may send to each other at the same time.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau.distributed import _store, _wire
from flambeau.errors import CollectiveMismatch, DistBackendError, DistNetworkError, PeerLost

_HEADER = struct.Struct("<4sQqQQI")  # mark, group, tag, fingerprint, size of the payload, size of the text
_MARK = b"flb1"
_HELLO = struct.Struct("<16sIc")  # the program's secret, the connecting rank, the purpose of the connection
BROKEN = -(1 << 62)  # tag of a message that reports different calls by the ranks of a group
COLLECTIVE = 1 << 62  # added to the tags of collectives, which users cannot choose
STEP_BITS = 20  # low bits of a collective's tag: the number of the message; the bits above are the number of the call
_NOTED = 64  # calls remembered per group
_POLL = 0.25  # seconds between two checks whether all others are alive


class Call(NamedTuple):
    """What a message belongs to: its group, a number unique there, and a description of the call."""

    group: int
    tag: int
    fingerprint: int
    text: str


class Receive:
    """A posted receive. `view` is its destination, None to get the message as `data`; `source` None is any sender."""

    __slots__ = ("call", "data", "done", "error", "source", "then", "view")

    def __init__(
        self, source: int | None, call: Call, view: memoryview | None, then: Callable[[Receive], Any] | None
    ) -> None:
        self.source, self.call, self.view, self.then = source, call, view, then
        self.data: memoryview | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def fits(self, source: int, group: int, tag: int) -> bool:
        return self.call.group == group and self.call.tag == tag and self.source in (None, source)

    def finish(self, error: BaseException | None = None) -> None:
        self.error = error
        self.done.set()
        if self.then:
            self.then(self)


class _Incoming:
    """The reading state of a connection: the current part of a message, and how much of it has arrived."""

    def __init__(self, connection: socket.socket, rank: int) -> None:
        self.connection, self.rank = connection, rank
        self.receive: Receive | None = None
        self.call, self.size = Call(0, 0, 0, ""), 0

    def expect(self, part: memoryview, then: Callable[[_Incoming], None]) -> None:
        self.part, self.got, self.then = part, 0, then


class _Outgoing:
    """The sending state of a connection: one message at a time in the order of the calls."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.lock = connection, threading.Lock()
        self.queue: collections.deque[tuple[bytes, memoryview, Callable[[BaseException | None], Any]]] = (
            collections.deque()
        )
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None


class Mesh:
    """The connections of one process."""

    def __init__(
        self,
        rank: int,
        size: int,
        store: Any,
        facts: tuple[str, str, str],
        on_connection: dict[bytes, Callable[[socket.socket, int], Any]],
        event: tuple[int, Callable[[], Any]],
    ) -> None:
        self.rank, self.size, self._on_connection, self._event = rank, size, on_connection, event
        self._listener = _store.listen(0, "init_process_group")
        port = self._listener.getsockname()[1]
        if rank == 0:
            store.set("secret", os.urandom(16))
        store.set(f"address/{rank}", " ".join([*facts, str(port)]))
        self._secret = store.get("secret")
        self._facts = [tuple(store.get(f"address/{other}").decode().split(" ")) for other in range(size)]
        self._lock = threading.Lock()
        self._outgoing: dict[int, _Outgoing] = {}
        self._connecting = threading.Lock()
        self._posted: list[Receive] = []
        self._arrived: list[tuple[int, Call, memoryview]] = []
        self._incoming: dict[int, _Incoming] = {}
        # ranks that left or are lost, with the error for those waiting for them
        self.gone: dict[int, BaseException] = {}
        self.failed: BaseException | None = None  # a lost rank, which ends all communication
        self.broken: dict[int, BaseException] = {}  # groups whose ranks made different calls
        self._calls: dict[int, dict[int, Call]] = {}  # recent collectives of each group, by number
        self._closing = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._reader = threading.Thread(target=self._read_all, name="flambeau-mesh", daemon=True)
        self._reader.start()

    # ---- connections -----------------------------------------------------------------------------------------------

    def host(self, rank: int) -> str:
        """Name and address of the host of a rank."""
        address, name = self._facts[rank][:2]
        return f"{name} ({address})"

    def facts(self, rank: int) -> tuple[str, ...]:
        """Address, host name, and a text that is equal for ranks that may share memory."""
        return self._facts[rank][:3]

    def connect(self, rank: int, purpose: bytes, limit: float = 30.0) -> socket.socket:
        """Opens a connection to another process, which handles it by on_connection[purpose]."""
        address, _, _, port = self._facts[rank]
        who = f"connection to rank {rank}"
        connection = _store.connect((address, int(port)), limit, who, lambda: self._still_there(rank))
        try:
            connection.sendall(_HELLO.pack(self._secret, self.rank, purpose))
        except OSError as error:  # accepted, and reset because the rank has ended since
            connection.close()
            raise self._reason(rank, f"greeting it failed ({error.strerror})") from None
        return connection

    def _to(self, rank: int) -> _Outgoing:
        found = self._outgoing.get(rank)
        if found is None:
            with self._connecting:
                found = self._outgoing.get(rank)
                if found is None:
                    connection = self.connect(rank, b"m")
                    # A cut link does not close connections, but leaves data unacknowledged.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8000)
                    found = self._outgoing[rank] = _Outgoing(connection)
        return found

    def lost(self, rank: int, reason: str) -> PeerLost:
        return PeerLost(f"rank {rank} on host {self.host(rank)} is lost: {reason}", rank, self._facts[rank][1])

    def fail(self, rank: int, error: BaseException, *, everything: bool) -> None:
        """A rank is gone: receives from it raise an error, and if `everything`, all others too."""
        with self._lock:
            self.gone.setdefault(rank, error)
            if everything and self.failed is None:
                self.failed = error
            # Data it sent before it left may still arrive while its connection is open.
            ended = [r for r in self._posted if everything or r.source == rank and rank not in self._incoming]
            self._posted = [r for r in self._posted if r not in ended]
        for receive in ended:
            receive.finish(error)
        if everything:  # also for receives in the middle of a message
            both: list[_Outgoing | _Incoming] = [*self._outgoing.values(), *self._incoming.values()]
            for connected in both:
                with contextlib.suppress(OSError):
                    connected.connection.shutdown(socket.SHUT_RDWR)

    def break_group(self, group: int, error: BaseException) -> None:
        """Ranks of a group made different calls: all waits in it raise an error, now and later."""
        with self._lock:
            self.broken.setdefault(group, error)
            ended = [receive for receive in self._posted if receive.call.group == group]
            self._posted = [receive for receive in self._posted if receive.call.group != group]
        for receive in ended:
            receive.finish(error)

    def _still_there(self, rank: int) -> None:
        self.check()
        if rank in self.gone:
            raise self.gone[rank]

    def begin(self, call: Call) -> None:
        """Records a collective that this process has started; raises if a message for a different one has arrived.

        A message of a different call may be one that is never waited for, so all are compared with the recorded calls.
        """
        with self._lock:
            calls = self._calls.setdefault(call.group, {})
            calls[call.tag >> STEP_BITS] = call
            while len(calls) > _NOTED:
                del calls[next(iter(calls))]
            for sender, other, _ in self._arrived:
                if self._differ(call, other):
                    raise self._mismatch(call, sender, other)

    @staticmethod
    def _differ(mine: Call, theirs: Call) -> bool:
        same = mine.group == theirs.group and mine.tag >> STEP_BITS == theirs.tag >> STEP_BITS
        return same and mine.fingerprint != theirs.fingerprint

    def _mismatch(self, mine: Call, sender: int, theirs: Call) -> CollectiveMismatch:
        return CollectiveMismatch(
            f"rank {self.rank} called {mine.text} while rank {sender} called {theirs.text}; all ranks of a group must make the "
            "same calls in the same order"
        )

    def check(self) -> None:
        """Raises if a rank is lost."""
        if self.failed is not None:
            raise self.failed

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, rank: int, call: Call, view: memoryview) -> None:
        """Sends a message; returns when the memory may be reused."""
        outgoing = self._ready(rank)
        if outgoing.queue or outgoing.thread:
            answer: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
            self.enqueue(rank, call, view, answer.put)
            error = answer.get()
            if error is not None:
                raise error
            return
        self._write(rank, outgoing, self._head(call, view), view)

    def enqueue(self, rank: int, call: Call, view: memoryview, then: Callable[[BaseException | None], Any]) -> None:
        """Sends a message in another thread, which calls `then` with the error, or None."""
        outgoing = self._ready(rank)
        with outgoing.changed:
            outgoing.queue.append((self._head(call, view), view, then))
            if outgoing.thread is None:
                name = f"flambeau-send-{rank}"
                outgoing.thread = threading.Thread(target=self._send_all, args=(rank, outgoing), name=name, daemon=True)
                outgoing.thread.start()
            outgoing.changed.notify()

    def _reason(self, rank: int, seen: str) -> BaseException:
        """Why a connection to a rank has broken.

        The failure detection learns it a little later, and may know of another rank as the cause.
        """
        end = time.monotonic() + 1.0
        while not self._closing and self.failed is None and time.monotonic() < end:
            _, states = _C.cluster_states()
            if rank >= len(states) or states[rank]:
                self._event[1]()
                break
            time.sleep(0.005)  # the failure detector sets a word in memory and wakes nobody
        return self.failed or self.gone.get(rank) or self.lost(rank, seen)

    def _ready(self, rank: int) -> _Outgoing:
        self.check()
        if rank in self.gone:
            raise self.gone[rank]
        return self._to(rank)

    @staticmethod
    def _head(call: Call, view: memoryview) -> bytes:
        text = call.text.encode()
        return _HEADER.pack(_MARK, call.group, call.tag, call.fingerprint, view.nbytes, len(text)) + text

    def _write(self, rank: int, outgoing: _Outgoing, head: bytes, view: memoryview) -> None:
        try:
            with outgoing.lock:
                if view.nbytes <= 1 << 14:
                    outgoing.connection.sendall(head + bytes(view))
                else:
                    outgoing.connection.sendall(head)
                    outgoing.connection.sendall(view)
        except OSError as error:
            raise self._reason(rank, f"sending to it failed ({error.strerror})") from None

    def _send_all(self, rank: int, outgoing: _Outgoing) -> None:
        while True:
            with outgoing.changed:
                while not outgoing.queue:
                    if not outgoing.changed.wait(5.0) and not outgoing.queue:
                        outgoing.thread = None
                        return
                head, view, then = outgoing.queue[0]
            failure: BaseException | None = None
            try:
                self._write(rank, outgoing, head, view)
            except BaseException as error:  # raised in wait()
                failure = error
            with outgoing.changed:
                outgoing.queue.popleft()
            then(failure)

    # ---- receiving -------------------------------------------------------------------------------------------------

    def post(
        self, source: int | None, call: Call, view: memoryview | None, then: Callable[[Receive], Any] | None = None
    ) -> Receive:
        """Posts a receive."""
        receive = Receive(source, call, view, then)
        with self._lock:
            for i, found in enumerate(self._arrived):
                if receive.fits(found[0], found[1].group, found[1].tag):
                    del self._arrived[i]
                    break
            else:
                error = self.failed or self.broken.get(call.group)
                if error is None and source is not None and source not in self._incoming:
                    error = self.gone.get(source)
                if error is None:
                    self._posted.append(receive)
                    return receive
                found = None
        if found is None:
            receive.finish(error)
        else:
            self._deliver(receive, *found)
        return receive

    def wait(self, receive: Receive, end: float, idle: Callable[[], Any] | None = None) -> Receive:
        """Waits for a message, until a time of time.monotonic(). `idle` is called about once per second."""
        ticks = 0
        while not receive.done.wait(_POLL):
            ticks += 1
            if time.monotonic() > end:
                self.withdraw(receive)
                raise DistBackendError(
                    f"{receive.call.text}: timed out waiting for "
                    + (
                        "any rank"
                        if receive.source is None
                        else f"rank {receive.source} on host {self.host(receive.source)}"
                    )
                )
            if idle and ticks % 4 == 0:
                idle()
        if receive.error is not None:
            raise receive.error
        return receive

    def withdraw(self, receive: Receive) -> None:
        """Cancels a receive."""
        with self._lock:
            if receive in self._posted:
                self._posted.remove(receive)

    def _deliver(self, receive: Receive, sender: int, call: Call, data: memoryview) -> None:
        """Passes a message to the receive waiting for it."""
        mine = receive.call
        error: BaseException | None = None
        if call.fingerprint != mine.fingerprint:
            error = self._mismatch(mine, sender, call)
        elif receive.view is not None and receive.view.nbytes != data.nbytes:
            error = CollectiveMismatch(
                f"{mine.text}: expected {receive.view.nbytes} bytes from rank {sender}, which sent {data.nbytes} in {call.text}"
            )
        elif receive.view is None:
            receive.data = data
        elif data.nbytes:
            receive.view[:] = data
        receive.source = sender
        receive.finish(error)

    def _read_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, None)
            selector.register(self._wake, selectors.EVENT_READ, None)
            selector.register(self._event[0], selectors.EVENT_READ, None)
            while not self._closing:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif key.fileobj == self._event[0]:
                        self._event[1]()
                    elif isinstance(key.data, _Incoming) and not self._progress(key.data):
                        selector.unregister(key.fileobj)
                        self._closed(key.data)
            for incoming in list(self._incoming.values()):
                incoming.connection.close()
        self._listener.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError, EOFError):
            connection, _ = self._listener.accept()
            connection.settimeout(2.0)
            secret, rank, purpose = _HELLO.unpack(_wire._exactly(connection, _HELLO.size))
            if secret != self._secret or rank >= self.size:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if purpose == b"m":
                connection.setblocking(False)
                incoming = _Incoming(connection, rank)
                incoming.expect(memoryview(bytearray(_HEADER.size)), self._header)
                with self._lock:
                    self._incoming[rank] = incoming
                selector.register(connection, selectors.EVENT_READ, incoming)
            elif purpose in self._on_connection:
                self._on_connection[purpose](connection, rank)

    def _progress(self, incoming: _Incoming) -> bool:
        """Reads available data; returns False if the connection is closed."""
        for _ in range(64):  # limited, for fairness to other connections
            if incoming.got < incoming.part.nbytes:
                try:
                    more = incoming.connection.recv_into(incoming.part[incoming.got :])
                except BlockingIOError:
                    return True
                except OSError:
                    return False
                if more == 0:
                    return False
                incoming.got += more
            while incoming.got == incoming.part.nbytes:
                incoming.then(incoming)
                if incoming.part.nbytes:
                    break
        return True

    def _header(self, incoming: _Incoming) -> None:
        mark, group, tag, fingerprint, size, length = _HEADER.unpack(incoming.part)
        if mark != _MARK:
            raise DistNetworkError(f"connection from rank {incoming.rank}: not a message")
        incoming.call, incoming.size = Call(group, tag, fingerprint, ""), size
        incoming.expect(memoryview(bytearray(length)), self._text)

    def _text(self, incoming: _Incoming) -> None:
        call = incoming.call = incoming.call._replace(text=bytes(incoming.part).decode(errors="replace"))
        if call.tag == BROKEN:
            self.break_group(call.group, CollectiveMismatch(call.text))
        elif call.tag >= COLLECTIVE:
            noted = self._calls.get(call.group, {}).get(call.tag >> STEP_BITS)
            if noted is not None and self._differ(noted, call):
                self.break_group(call.group, self._mismatch(noted, incoming.rank, call))
        with self._lock:
            incoming.receive = self._match(incoming.rank, call)
        receive = incoming.receive
        if (
            receive
            and receive.view is not None
            and (receive.view.nbytes, receive.call.fingerprint)
            == (
                incoming.size,
                call.fingerprint,
            )
        ):
            target = receive.view
        else:
            target = memoryview(bytearray(incoming.size))
        incoming.expect(target, self._payload)

    def _match(self, sender: int, call: Call) -> Receive | None:
        for i, receive in enumerate(self._posted):
            if receive.fits(sender, call.group, call.tag):
                return self._posted.pop(i)
        return None

    def _payload(self, incoming: _Incoming) -> None:
        receive, data, call = incoming.receive, incoming.part, incoming.call
        incoming.receive = None
        incoming.expect(memoryview(bytearray(_HEADER.size)), self._header)
        if call.tag == BROKEN:
            return
        if receive is None:
            with self._lock:
                receive = self._match(incoming.rank, call)
                if receive is None:
                    self._arrived.append((incoming.rank, call, data))
                    return
        if data is receive.view:
            receive.source = incoming.rank
            receive.finish()
        else:
            self._deliver(receive, incoming.rank, call, data)

    def _closed(self, incoming: _Incoming) -> None:
        incoming.connection.close()
        with self._lock:
            self._incoming.pop(incoming.rank, None)
        error = self._reason(incoming.rank, "it closed its connection")
        if incoming.receive is not None:
            incoming.receive.finish(error)
        if not self._closing:
            self.fail(incoming.rank, error, everything=False)

    def close(self) -> None:
        """Closes all connections."""
        self._closing = True
        for outgoing in self._outgoing.values():
            outgoing.connection.close()
        os.eventfd_write(self._wake, 1)
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
            os.close(self._wake)
