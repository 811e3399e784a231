"""Stores: keys and values shared by several processes, used for rendezvous."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from flambeau.distributed import _wire
from flambeau.errors import ArgumentError, DistNetworkError, DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_DEFAULT = datetime.timedelta(minutes=5)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Table:
    """The operations of a store, on a dict in memory. Not thread-safe by itself."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def run(self, request: list[bytes]) -> list[bytes] | None:
        """The answer to a request; None if it must wait for keys."""
        name, *rest = request
        values = self.values
        if name == b"wait":
            return [] if all(key in values for key in rest) else None
        if name == b"get":
            return [values[rest[0]]] if rest[0] in values else None
        if name == b"set":
            values[rest[0]] = rest[1]
            return []
        if name == b"add":
            try:
                total = int(values.get(rest[0], b"0")) + int(rest[1])
            except ValueError:
                return [b"error", b"add: the value is not a number"]
            values[rest[0]] = str(total).encode()
            return [values[rest[0]]]
        if name == b"append":
            values[rest[0]] = values.get(rest[0], b"") + rest[1]
            return []
        if name == b"compare_set":
            key, expected, desired = rest
            if key in values and values[key] == expected or key not in values and not expected:
                values[key] = desired
            return [values.get(key, expected)]
        if name == b"check":
            return [b"1" if all(key in values for key in rest) else b"0"]
        if name == b"delete":
            return [b"1" if values.pop(rest[0], None) is not None else b"0"]
        if name == b"count":
            return [str(len(values)).encode()]
        if name == b"keys":
            return list(values)
        return [b"error", b"unknown request"]


class Store:
    """What all stores can do. A value is bytes, or a text that is encoded; `get` waits until the key is there.

    Example:
        >>> store = fb.distributed.HashStore()
        >>> store.set("host", "here")
        >>> store.get("host"), store.add("count", 2), store.check(["host", "other"])
        (b'here', 2, False)
    """

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    def _ask(self, request: list[bytes], timeout: datetime.timedelta | None = None) -> list[bytes]:
        raise ArgumentError("Store: this class has no storage; use TCPStore, FileStore or HashStore")

    @property
    def timeout(self) -> datetime.timedelta:
        """How long get() and wait() wait."""
        return self._timeout

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Sets how long get() and wait() wait."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Sets a value."""
        self._ask([b"set", _bytes(key), _bytes(value)])

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        return self._ask([b"get", _bytes(key)])[0]

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first, and returns the sum."""
        answer = self._ask([b"add", _bytes(key), str(int(amount)).encode()])
        if answer[0] == b"error":
            raise DistStoreError(f"add: the value of {key!r} is not a number")
        return int(answer[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Appends to a value, which is empty at first."""
        self._ask([b"append", _bytes(key), _bytes(value)])

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Sets a value if it is the expected one, or if there is none and "" is expected; returns the value then."""
        return self._ask([b"compare_set", _bytes(key), _bytes(expected_value), _bytes(desired_value)])[0]

    def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
        """Waits until all keys are there."""
        self._ask([b"wait", *map(_bytes, keys)], timeout)

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return self._ask([b"check", *map(_bytes, keys)])[0] == b"1"

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._ask([b"delete", _bytes(key)])[0] == b"1"

    def num_keys(self) -> int:
        """Number of keys."""
        return int(self._ask([b"count"])[0])

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key.decode() for key in self._ask([b"keys"])]

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of several keys, once they are there."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Sets several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are there: True."""
        return True

    def _late(self, request: list[bytes], limit: float) -> DistStoreError:
        keys = ", ".join(key.decode(errors="replace") for key in request[1:])
        return DistStoreError(f"{type(self).__name__}: wait timeout after {limit:g} s, no process has set: {keys}")

    def _seconds(self, timeout: datetime.timedelta | None) -> float:
        return (self._timeout if timeout is None else timeout).total_seconds()


class HashStore(Store):
    """A store in the memory of this process, for its threads.

    Example:
        >>> fb.distributed.HashStore().compare_set("key", "", "value")
        b'value'
    """

    def __init__(self) -> None:
        super().__init__()
        self._table, self._changed = Table(), threading.Condition()

    def _ask(self, request: list[bytes], timeout: datetime.timedelta | None = None) -> list[bytes]:
        end = time.monotonic() + self._seconds(timeout)
        with self._changed:
            while (answer := self._table.run(request)) is None:
                if not self._changed.wait(max(end - time.monotonic(), 0)) and time.monotonic() >= end:
                    raise self._late(request, self._seconds(timeout))
            self._changed.notify_all()
            return answer


class FileStore(Store):
    """A store in a file, which grows with every change: for processes that share a file system.

    Args:
        file_name: the file; made if it is not there.
        world_size: number of processes that use it; the last one to close it removes the file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     one, other = (fb.distributed.FileStore(folder + "/store", 2) for _ in range(2))
        ...     one.set("key", "value")
        ...     other.get("key")
        b'value'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self._world_size = os.fspath(file_name), world_size

    def _ask(self, request: list[bytes], timeout: datetime.timedelta | None = None) -> list[bytes]:
        end, pause = time.monotonic() + self._seconds(timeout), 0.001
        while True:
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                table = Table()
                file.seek(0)
                for entry in _wire.split(bytearray(file.read())):
                    table.run(entry)
                answer = table.run(request)
                if answer is not None:
                    if request[0] in (b"set", b"add", b"append", b"compare_set", b"delete"):
                        file.write(_wire.pack(request))
                    return answer
            if time.monotonic() >= end:
                raise self._late(request, self._seconds(timeout))
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


class PrefixStore(Store):
    """A part of another store: all keys have a prefix.

    Args:
        prefix: what is put before each key.
        store: the other store.

    Example:
        >>> store = fb.distributed.HashStore()
        >>> fb.distributed.PrefixStore("a", store).set("key", "value")
        >>> store.get("a/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    def _ask(self, request: list[bytes], timeout: datetime.timedelta | None = None) -> list[bytes]:
        name, *rest = request
        front = f"{self.prefix}/".encode()
        keys = len(rest) if name in (b"wait", b"check") else min(len(rest), 1)
        rest = [front + part if i < keys else part for i, part in enumerate(rest)]
        return self.underlying_store._ask([name, *rest], self._timeout if timeout is None else timeout)


class TCPStore(Store):
    """A store that one process serves to all others.

    Args:
        host_name: the host that serves.
        port: its port; 0 in the server takes a free one.
        world_size: number of processes; with wait_for_workers the constructor of the server waits for them.
        is_master: whether this process serves.
        timeout: how long to wait for the server, and for keys.
        wait_for_workers: whether the server waits until world_size processes are connected.
        multi_tenant: whether a server of this process on the same port is used again.
        master_listen_fd: not supported.
        use_libuv: not used.

    Example:
        >>> server = fb.distributed.TCPStore("127.0.0.1", 0, is_master=True)
        >>> client = fb.distributed.TCPStore("127.0.0.1", server.port)
        >>> client.set("key", "value")
        >>> server.get("key")
        b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int = 29500,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: datetime.timedelta = _DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if master_listen_fd is not None:
            raise ArgumentError("TCPStore: master_listen_fd is not supported; leave it at None")
        self.of_group = False  # whether init_process_group() created it, and destroys it
        self.host, self._timeout, self._lock = host_name, timeout, threading.Lock()
        self._server = _Server.serve(port, multi_tenant) if is_master else None
        self.port = self._server.port if self._server else port
        self._connection = connect((host_name, self.port), timeout.total_seconds(), "TCPStore")
        if world_size is not None and world_size > 0:
            joined = self.add("flambeau/joined", 1)
            if joined >= world_size:
                self.set("flambeau/complete", "1")
            if is_master and wait_for_workers:
                self.wait(["flambeau/complete"])

    def _ask(self, request: list[bytes], timeout: datetime.timedelta | None = None) -> list[bytes]:
        limit = self._seconds(timeout)
        waits = request[0] in (b"get", b"wait")
        with self._lock:
            try:
                self._connection.settimeout(limit if waits else max(limit, self._patience))
                self._connection.sendall(_wire.pack(request))
                return _wire.receive(self._connection)
            except TimeoutError:
                # The answer may still arrive, so this connection cannot be used for another request.
                self._connection.close()
                self._connection = connect((self.host, self.port), min(self._patience, 10.0), "TCPStore")
                raise self._late(request, limit) from None
            except (OSError, EOFError) as error:
                raise DistNetworkError(
                    f"TCPStore: the connection to {self.host}:{self.port}, which serves the store, is lost ({error}); "
                    "the process there has probably ended"
                ) from None

    _patience = 60.0  # seconds for an answer that involves no waiting

    def close(self) -> None:
        """Closes the connection; in the server, ends serving too."""
        self._connection.close()
        if self._server:
            self._server.release()
            self._server = None

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            with contextlib.suppress(Exception):
                self.close()


def connect(address: tuple[str, int], limit: float, who: str, check: Callable[[], Any] = lambda: None) -> socket.socket:
    """Connects, retrying until the other end listens; `check` may raise meanwhile."""
    end, pause = time.monotonic() + limit, 0.01
    while True:
        try:
            connection = socket.create_connection(address, timeout=max(0.1, min(5.0, end - time.monotonic())))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connection.getsockname() == connection.getpeername():  # a free port may connect to itself
                connection.close()
                raise ConnectionRefusedError("nobody listens")
            connection.settimeout(None)
            return connection
        except OSError as error:
            if time.monotonic() + pause >= end:
                raise DistNetworkError(
                    f"{who}: cannot connect to {address[0]}:{address[1]} within {limit:g} s ({error}); is the process that "
                    "serves there (rank 0) running, and the port open?"
                ) from None
        check()
        time.sleep(pause)
        pause = min(1.5 * pause, 0.5)


def listen(port: int, who: str) -> socket.socket:
    """A socket that accepts connections on all addresses, by IPv4 and, if available, IPv6."""
    try:
        both = socket.has_dualstack_ipv6()
        kind = socket.AF_INET6 if both else socket.AF_INET
        return socket.create_server(("", port), family=kind, dualstack_ipv6=both, backlog=1024)
    except OSError as error:
        raise DistNetworkError(f"{who}: cannot listen on port {port} ({error.strerror}); choose another one") from None


class _Server:
    """A thread that answers the requests of all clients."""

    _running: dict[int, _Server] = {}

    def __init__(self, port: int) -> None:
        self._listener = listen(port, "TCPStore")
        self.port, self.users = self._listener.getsockname()[1], 1
        self._table = Table()
        self._waiting: list[tuple[socket.socket, list[bytes]]] = []
        self._wake, self._ended = os.eventfd(0, os.EFD_CLOEXEC), False
        self._thread = threading.Thread(target=self._run, name="flambeau-store", daemon=True)
        self._thread.start()

    @classmethod
    def serve(cls, port: int, shared: bool) -> _Server:
        if shared and port in cls._running:
            cls._running[port].users += 1
            return cls._running[port]
        server = cls(port)
        if shared:
            cls._running[server.port] = server
        return server

    def release(self) -> None:
        self.users -= 1
        if self.users == 0:
            self._running.pop(self.port, None)
            self._ended = True
            os.eventfd_write(self._wake, 1)
            self._thread.join(5.0)  # afterwards the port is free
            os.close(self._wake)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, None)
            selector.register(self._wake, selectors.EVENT_READ, None)
            clients: dict[socket.socket, bytearray] = {}
            while not self._ended:
                for key, _ in selector.select():
                    source = key.fileobj
                    if source is self._listener:
                        with contextlib.suppress(OSError):
                            client, _ = self._listener.accept()
                            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                            clients[client] = bytearray()
                            selector.register(client, selectors.EVENT_READ)
                    elif isinstance(source, socket.socket) and not self._read(source, clients[source]):
                        selector.unregister(source)
                        del clients[source]
                        self._waiting = [(who, what) for who, what in self._waiting if who is not source]
                        source.close()
            for client in clients:
                client.close()
        self._listener.close()

    def _read(self, client: socket.socket, buffer: bytearray) -> bool:
        """Answers a client's requests; returns False when it has disconnected."""
        try:
            data = client.recv(1 << 16)
            buffer += data
            requests = _wire.split(buffer) if data else []
        except (OSError, ValueError):
            return False
        for request in requests:
            self._answer(client, request)
        if requests:
            still, self._waiting = self._waiting, []
            for who, what in still:
                self._answer(who, what)
        return bool(data)

    def _answer(self, client: socket.socket, request: list[bytes]) -> None:
        try:
            answer = self._table.run(request)
        except (IndexError, ValueError):
            answer = [b"error", b"bad request"]
        if answer is None:
            self._waiting.append((client, request))
        else:
            with contextlib.suppress(OSError):  # a disconnected client is noticed when it is read from
                client.sendall(_wire.pack(answer))
