"""Tests whose body runs in several processes at once, as the ranks of a process group.

    @on_ranks(2)
    def test_sum():
        x = fb.ones(1)
        dist.all_reduce(x)
        assert x.item() == 2

Starting processes takes longer than most tests, so the ranks stay and take one body after another. After a failure or a
timeout they are ended, and the next test starts new ones.
"""

import atexit
import functools
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import time
import traceback
from multiprocessing.connection import Client, Listener, wait

TIMEOUT = 60
_pools = {}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environment(rank, size, port):
    """What a launcher sets for one of the ranks on this machine."""
    return dict(
        os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1",
    )  # fmt: skip


class Pool:
    """Processes that are the ranks of one group."""

    def __init__(self, size):
        self.size, port = size, free_port()
        with Listener(("127.0.0.1", 0), backlog=size) as listener:
            command = [sys.executable, __file__, str(listener.address[1])]
            self.processes = [subprocess.Popen(command, env=environment(rank, size, port)) for rank in range(size)]
            self.ranks = [None] * size
            for _ in range(size):
                connection = listener.accept()
                self.ranks[connection.recv()] = connection

    def run(self, file, name, arguments, timeout):
        for connection in self.ranks:
            connection.send((file, name, arguments))
        end, failures, waiting = time.monotonic() + timeout, {}, dict(enumerate(self.ranks))
        while waiting:
            ready = wait(waiting.values(), max(end - time.monotonic(), 0))
            if not ready:
                return failures | dict.fromkeys(waiting, "no answer in time")
            for rank in [rank for rank, connection in waiting.items() if connection in ready]:
                try:
                    answer = waiting.pop(rank).recv()
                except (EOFError, ConnectionResetError):
                    answer = "the process ended"
                if answer is not None:
                    failures[rank] = answer
                    end = min(end, time.monotonic() + 2)  # the others may wait for this rank forever
        return failures

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def _close_all():
    while _pools:
        _pools.popitem()[1].close()


atexit.register(_close_all)


def run_on_ranks(size, file, name, arguments=(), timeout=TIMEOUT):
    """Calls a function of a test file in every rank; an AssertionError with all tracebacks if one of them fails."""
    if size not in _pools:
        _close_all()  # of another size: two cores are few
        _pools[size] = Pool(size)
    failures = _pools[size].run(file, name, arguments, timeout)
    if failures:
        _pools.pop(size).close()
        raise AssertionError("\n".join(f"rank {rank}: {text}" for rank, text in failures.items()))


def on_ranks(size, timeout=TIMEOUT):
    """A decorator: the test's body runs in every one of `size` ranks."""

    def decorate(body):
        @functools.wraps(body)
        def test(**arguments):
            run_on_ranks(size, body.__code__.co_filename, body.__name__, tuple(arguments.items()), timeout)

        test.body = body
        return test

    return decorate


def _serve(port):
    connection = Client(("127.0.0.1", port))
    connection.send(int(os.environ["RANK"]))
    import flambeau as fb

    fb.set_num_threads(1)
    fb.distributed.init_process_group("gloo")
    modules = {}
    while True:
        try:
            file, name, arguments = connection.recv()
        except EOFError:
            return
        try:
            if file not in modules:
                sys.path.insert(0, str(pathlib.Path(file).parent))
                spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
                modules[file] = importlib.util.module_from_spec(spec)
                sys.modules[spec.name] = modules[file]
                spec.loader.exec_module(modules[file])
            fb.manual_seed(0)
            getattr(modules[file], name).body(**dict(arguments))
            connection.send(None)
        except BaseException:
            connection.send(traceback.format_exc())


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
