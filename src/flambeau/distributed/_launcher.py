"""Starts the processes of one host, watches them, and ends or restarts them together with those of other hosts."""

from __future__ import annotations

import ctypes
import datetime
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from flambeau.distributed import _rendezvous
from flambeau.distributed._store import TCPStore
from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure
from flambeau.errors import DistError, DistNetworkError

_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_DYING = 2.0  # seconds for other processes to fail by themselves, so that their output is complete
_WAIT = datetime.timedelta(days=1)


@dataclass
class Plan:
    """What a host should run."""

    command: list[str]
    processes: int
    nodes: int
    node: int | None  # None: the next free number
    address: str
    port: int
    restarts: int
    interval: float
    role: str
    run_id: str
    log_dir: str | None
    redirects: str


class _Ended(Exception):
    """A signal requests this program to end."""


def run(plan: Plan) -> int:
    """Runs the processes of this host to their end, with restarts; returns the exit code."""
    with _Signals(), tempfile.TemporaryDirectory(prefix="flambeau-run-") as folder:
        store, node, counts = _join(plan)
        for attempt in range(plan.restarts + 1):
            processes = _start(plan, store, node, counts, attempt, folder)
            try:
                failed = _watch(plan, store, node, processes, attempt, folder)
            except _Ended as ended:
                print(f"flambeau.distributed.run: {ended}, ending all processes", file=sys.stderr)
                store.set(f"failed/{attempt}", f"node {node}: {ended}")
                store.set("stop", "1")
                return 1
            finally:
                _end(processes)
            if failed is None:
                _leave(plan, store, node)
                return 0
            print(f"flambeau.distributed.run: {failed}", file=sys.stderr)
            if store.check(["stop"]):
                break
            if attempt < plan.restarts:
                print(f"flambeau.distributed.run: restart {attempt + 1} of {plan.restarts}", file=sys.stderr)
        _leave(plan, store, node)
        return 1


def _join(plan: Plan) -> tuple[TCPStore, int, list[int]]:
    """The store of all hosts, the number of this one, and the number of processes on each."""
    limit = datetime.timedelta(seconds=_rendezvous.start_timeout())
    serve = plan.node == 0 if plan.node is not None else _is_here(plan.address)
    try:
        store = TCPStore(plan.address if plan.port else "127.0.0.1", plan.port, is_master=serve, timeout=limit)
    except DistNetworkError as error:
        if not (serve and plan.node is None):
            raise
        try:  # another launcher on this host may already be serving
            store = TCPStore(plan.address, plan.port, timeout=limit)
        except DistNetworkError:
            raise error from None
    node = plan.node if plan.node is not None else store.add("nodes", 1) - 1
    if not 0 <= node < plan.nodes:
        raise DistError(f"node rank {node} is out of range for {plan.nodes} hosts")
    if store.add(f"node/{node}", 1) > 1:
        raise DistError(f"two hosts have node rank {node}")
    store.set(f"processes/{node}", str(plan.processes))
    absent = list(range(plan.nodes))
    end = time.monotonic() + limit.total_seconds()
    while absent:
        absent = [other for other in absent if not store.check([f"processes/{other}"])]
        if absent and time.monotonic() > end:
            raise DistError(
                f"node rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))} of {plan.nodes} did not start within "
                f"{limit.total_seconds():g} s; FLAMBEAU_START_TIMEOUT sets the seconds to wait"
            )
        if absent:
            time.sleep(0.05)
    return store, node, [int(store.get(f"processes/{other}")) for other in range(plan.nodes)]


def _is_here(address: str) -> bool:
    """Whether an address belongs to this host."""
    try:
        with socket.create_server((socket.gethostbyname(address), 0)):
            return True
    except OSError:
        return False


def _error_file(folder: str, attempt: int, local: int) -> str:
    """Where a process may write the error that ends it; see elastic.multiprocessing.errors.record()."""
    return os.path.join(folder, f"{attempt}-{local}.json")


def _start(
    plan: Plan, store: TCPStore, node: int, counts: list[int], attempt: int, folder: str
) -> list[subprocess.Popen[Any]]:
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:  # a killed launcher leaves no processes behind
        libc.prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    first, world = sum(counts[:node]), sum(counts)
    processes: list[subprocess.Popen[Any]] = []
    try:
        for local in range(plan.processes):
            environment = dict(os.environ) | {
                "RANK": str(first + local), "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(plan.processes),
                "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(plan.nodes),
                "ROLE_RANK": str(first + local), "ROLE_WORLD_SIZE": str(world), "ROLE_NAME": plan.role,
                "MASTER_ADDR": plan.address, "MASTER_PORT": str(store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": plan.run_id,
                "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_MAX_RESTARTS": str(plan.restarts),
                "TORCHELASTIC_ERROR_FILE": _error_file(folder, attempt, local),
            }  # fmt: skip
            if plan.processes > 1 and "OMP_NUM_THREADS" not in environment:
                # Threads of several processes on the same cores would wait for each other.
                environment["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // plan.processes))
            out, err = _files(plan, attempt, first + local)
            processes.append(
                subprocess.Popen(
                    plan.command,
                    env=environment,
                    stdout=out,
                    stderr=err,
                    preexec_fn=die_with_parent,
                    start_new_session=True,
                )
            )
            for file in (out, err):
                if file is not None:
                    file.close()
    except OSError as error:
        _end(processes)
        raise DistError(f"cannot start {plan.command[0]!r}: {error.strerror}") from None
    return processes


def _files(plan: Plan, attempt: int, rank: int) -> tuple[IO[bytes] | None, IO[bytes] | None]:
    """Files for a process's output and errors, None to inherit this one's."""
    choice = plan.redirects
    if ":" in choice:
        choice = dict(part.split(":", 1) for part in choice.split(",")).get(str(rank), "0")
    if choice not in ("0", "1", "2", "3"):
        raise DistError(f"--redirects must be 0, 1, 2 or 3, or such as 0:1,1:3, got {plan.redirects!r}")
    if choice == "0" or plan.log_dir is None:
        return None, None
    folder = os.path.join(plan.log_dir, f"attempt_{attempt}", str(rank))
    os.makedirs(folder, exist_ok=True)
    files = [
        open(os.path.join(folder, f"{name}.log"), "wb") if int(choice) & bit else None
        for name, bit in (("stdout", 1), ("stderr", 2))
    ]
    return files[0], files[1]


def _watch(
    plan: Plan, store: TCPStore, node: int, processes: list[subprocess.Popen[Any]], attempt: int, folder: str
) -> str | None:
    """Waits until all processes of all hosts have ended; None, or what failed."""
    key, told = f"failed/{attempt}", False
    looked = time.monotonic()
    while True:
        codes = [process.poll() for process in processes]
        failed = [local for local, code in enumerate(codes) if code]
        if failed:
            text = _describe(processes, failed, node, plan, [_error_file(folder, attempt, local) for local in failed])
            store.compare_set(key, "", text)
            end = time.monotonic() + _DYING
            while time.monotonic() < end and any(process.poll() is None for process in processes):
                time.sleep(0.05)
            return text
        if not told and all(code == 0 for code in codes):
            told = True
            if store.add(f"done/{attempt}", 1) == plan.nodes:
                store.set(f"complete/{attempt}", "1")
        if plan.nodes == 1 and told:
            return None
        if plan.nodes > 1 and time.monotonic() - looked > 0.25:
            looked = time.monotonic()
            if store.check([key]):
                return f"{store.get(key).decode()} (on another host)"
            if told and store.check([f"complete/{attempt}"]):
                return None
        time.sleep(plan.interval if plan.interval < 1 or told else 0.2)


def _describe(processes: list[subprocess.Popen[Any]], failed: list[int], node: int, plan: Plan, files: list[str]) -> str:
    parts = []
    for local, file in zip(failed, files, strict=True):
        code = processes[local].returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        wrote = ProcessFailure(local, processes[local].pid, code, file)
        why = f": {wrote.message}" if wrote.error_file_data else ""
        parts.append(f"local rank {local} (process {processes[local].pid}) {how}{why}")
    where = f" on host {socket.gethostname()}, node {node}" if plan.nodes > 1 else ""
    return "; ".join(parts) + where


def _end(processes: Sequence[subprocess.Popen[Any]]) -> None:
    """Ends running processes: by SIGTERM, then by SIGKILL. Processes that they started end with them."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            pass
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        try:  # each process leads a process group: its remaining members are its own children
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _leave(plan: Plan, store: TCPStore, node: int) -> None:
    """The host that serves the store leaves last."""
    if plan.nodes == 1:
        return
    store.add("left", 1)
    end = time.monotonic() + 15.0
    while store._server is not None and time.monotonic() < end and store.add("left", 0) < plan.nodes:
        time.sleep(0.05)


def run_commands(commands: list[list[str]]) -> int:
    """Runs one command per host until all end; after a failure, the others have some seconds to end by themselves."""
    with _Signals():
        processes = []
        try:
            for command in commands:
                processes.append(subprocess.Popen(command, start_new_session=True))
            while any(process.poll() is None for process in processes):
                if any(process.poll() for process in processes):
                    end = time.monotonic() + 20.0
                    while time.monotonic() < end and any(process.poll() is None for process in processes):
                        time.sleep(0.1)
                    break
                time.sleep(0.1)
        except _Ended:
            return 1
        except OSError as error:
            raise DistError(f"cannot start {commands[len(processes)][0]!r}: {error.strerror}") from None
        finally:
            _end(processes)
        return next((1 for process in processes if process.returncode), 0)


class _Signals:
    """Converts signals that end this program to an exception, so that the processes can be ended first."""

    def __enter__(self) -> None:
        def raise_it(number: int, frame: Any) -> None:
            raise _Ended(signal.Signals(number).name)

        try:
            self._before = {
                number: signal.signal(number, raise_it) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            }
        except ValueError:  # not in the main thread, which receives all signals
            self._before = {}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
