"""Rendezvous: the rank of this process, and a store shared by all."""

from __future__ import annotations

import datetime
import importlib.util
import os
import socket
from typing import Any
from urllib.parse import parse_qs, urlparse

from flambeau.distributed import _mpi
from flambeau.distributed._store import FileStore, PrefixStore, TCPStore, connect
from flambeau.errors import ArgumentError, DistNetworkError, DistStoreError

# Names of rank, number of processes, local rank and local number, for the supported launchers.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
_PORT = 29500


def start_timeout() -> float:
    """Seconds within which all processes must have started."""
    return float(os.environ.get("FLAMBEAU_START_TIMEOUT", "60"))


def from_environment() -> dict[str, int]:
    """Rank and number of processes from the launcher's environment variables, as far as they are set."""
    for names in _LAUNCHERS:
        if names[0] in os.environ and names[1] in os.environ:
            found = {}
            for key, name in zip(("rank", "world_size", "local_rank", "local_world_size"), names, strict=True):
                text = os.environ.get(name, "").split("(")[0]
                if text:
                    try:
                        found[key] = int(text)
                    except ValueError:
                        raise ArgumentError(
                            f"init_process_group: environment variable {name} must be a number, got {text!r}"
                        ) from None
            return found
    return {key: int(os.environ[key.upper()]) for key in ("rank", "world_size") if key.upper() in os.environ}


def master() -> tuple[str, int]:
    """Host and port of the store: MASTER_ADDR and MASTER_PORT, or the equivalent of another launcher."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if host and port:
        return host, int(port)
    if "PMI_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ:
        local = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or os.environ.get("MPI_LOCALNRANKS")
        if local is not None and int(local) == from_environment().get("world_size"):
            # All on this machine. Programs started by different calls of mpirun have different parents.
            return host or "127.0.0.1", int(port or 20000 + os.getppid() % 10000)
        if importlib.util.find_spec("mpi4py") is not None:
            return _mpi.address_of_rank_0(host or _address(), int(port or _free_port()))
    if "SLURM_PROCID" in os.environ and "SLURM_NODELIST" in os.environ:
        return host or _first_node(os.environ["SLURM_NODELIST"]), int(
            port or 20000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 10000
        )
    missing = "MASTER_ADDR" if not host else "MASTER_PORT"
    raise ArgumentError(
        f"init_process_group: environment variable {missing} expected, but not set; start the program with "
        "`python -m flambeau.distributed.run`, or set MASTER_ADDR and MASTER_PORT to a host and a free port of rank 0"
    )


def _address() -> str:
    """An address of this machine by which others may reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 1))  # sends nothing: only selects the address to use
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])


def _first_node(nodes: str) -> str:
    """The first host of SLURM's notation: node07 for "node[07-09,12],other"."""
    name, bracket, rest = nodes.partition("[")
    if not bracket or "," in name:
        return nodes.split(",")[0]
    return name + rest.split("]")[0].split(",")[0].split("-")[0]


def join(
    init_method: str | None, rank: int, world_size: int, store: Any, timeout: datetime.timedelta
) -> tuple[Any, int, int]:
    """The shared store, the rank of this process and the number of all."""
    if store is not None:
        if init_method is not None:
            raise ArgumentError("init_process_group: give init_method or store, not both")
        if rank < 0 or world_size < 1:
            raise ArgumentError("init_process_group: with a store, rank and world_size must be given")
        return store, rank, world_size
    method = urlparse(init_method or "env://")
    query = parse_qs(method.query)
    rank = int(query["rank"][0]) if "rank" in query else rank
    world_size = int(query["world_size"][0]) if "world_size" in query else world_size
    found = from_environment()
    if method.scheme == "env":
        world_size, rank = _known(world_size, "world_size", found), _known(rank, "rank", found)
    elif rank < 0 or world_size < 1:
        rank, world_size = found.get("rank", rank), found.get("world_size", world_size)
        if rank < 0 or world_size < 1:
            raise ArgumentError(f"init_process_group: with {init_method}, rank and world_size must be given")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ArgumentError(
            f"init_process_group: rank {rank} is out of range for {world_size} process{'es' * (world_size != 1)}; "
            f"expected 0 to {world_size - 1}"
        )
    if world_size == 1:
        return None, rank, 1
    if method.scheme == "file":
        path = method.netloc + method.path
        if not path:
            raise ArgumentError(f"init_process_group: {init_method} names no file")
        return FileStore(path, world_size), rank, world_size
    if method.scheme == "tcp":
        if not method.hostname or not method.port:
            raise ArgumentError(f"init_process_group: expected tcp://host:port, got {init_method}")
        host, port = method.hostname, method.port
    elif method.scheme == "env":
        host, port = master()
    else:
        raise ArgumentError(
            f"init_process_group: init_method must begin with env://, tcp:// or file://, got {init_method!r}"
        )
    # The launcher already serves a store, which outlives the processes of one attempt.
    served = method.scheme == "env" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    limit = min(timeout.total_seconds(), start_timeout())
    try:
        made = TCPStore(host, port, is_master=rank == 0 and not served, timeout=datetime.timedelta(seconds=limit))
    except DistNetworkError as error:
        raise DistNetworkError(f"init_process_group: rank {rank} of {world_size} found no store: {error}") from None
    made.of_group = True
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if served else "0"
    return PrefixStore(f"attempt/{attempt}", made), rank, world_size


def _known(given: int, key: str, found: dict[str, int]) -> int:
    if given >= 0:
        return given
    if key not in found:
        raise ArgumentError(
            f"init_process_group: environment variable {key.upper()} expected, but not set; start the program with "
            "`python -m flambeau.distributed.run` or mpirun, or pass rank=0 and world_size=1 for a single process"
        )
    return found[key]


def own_part(store: Any, rank: int) -> Any:
    """The part of a store for one default group: a store may serve several in succession."""
    me = f"{socket.gethostname()} {os.getpid()}"
    owner = store.compare_set(f"owner/{rank}", "", me).decode()
    if owner != me:
        host, _, process = owner.rpartition(" ")
        raise ArgumentError(
            f"init_process_group: two processes have rank {rank}: process {process} on host {host}, and this one, {me.split()[1]} on "
            f"{me.split()[0]}; a file:// store must be a new file"
        )
    return PrefixStore(f"world/{store.add(f'generation/{rank}', 1)}", store)


def gather_all(store: Any, rank: int, world_size: int, limit: float) -> None:
    """Waits until all processes have arrived; an error names the missing ones."""
    host = socket.gethostname()
    store.add(f"joined/{rank}", 1)
    announced = store.compare_set("world_size", "", str(world_size))
    if announced != str(world_size).encode():
        raise ArgumentError(
            f"init_process_group: rank {rank} was told of {world_size} processes, another one of {announced.decode()}"
        )
    if store.add("count", 1) == world_size:
        store.set("verdict", "complete")
    try:
        # Rank 0 decides; the others wait a little longer for its decision.
        verdict = store._ask([b"get", b"verdict"], datetime.timedelta(seconds=limit + 15 * (rank > 0)))[0].decode()
    except DistStoreError as error:
        if rank > 0:
            raise DistStoreError(
                f"init_process_group: rank {rank} on host {host} heard nothing of rank 0 ({error})"
            ) from None
        missing = [other for other in range(world_size) if not store.check([f"joined/{other}"])]
        problem = (
            f"init_process_group: rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {world_size} did not start "
            f"within {limit:g} s; FLAMBEAU_START_TIMEOUT sets the seconds to wait"
        )
        store.compare_set("verdict", "", problem if missing else "complete")
        verdict = store.get("verdict").decode()
    if verdict != "complete":
        raise DistStoreError(verdict)


def reconnect(store: Any) -> bool:
    """Reconnects to a store that was reached over TCP."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if not isinstance(store, TCPStore):
        return False
    store._connection.close()
    store._connection = connect((store.host, store.port), start_timeout(), "init_process_group")
    return True


def close(store: Any) -> None:
    """Stops serving, if this process serves the store for init_process_group()."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore) and getattr(store, "of_group", False):
        store.close()


def leave_together(store: Any, rank: int, world_size: int, limit: float) -> None:
    """Rank 0, whose process may serve the store, waits until the others have read what they need."""
    if store.add("have_read", 1) == world_size:
        store.set("all_have_read", "1")
    if rank == 0:
        store.wait(["all_have_read"], datetime.timedelta(seconds=limit))


def own_address(store: Any) -> str:
    """The address under which others reach this process: the one it uses to reach the store."""
    wanted = os.environ.get("FLAMBEAU_ADDRESS")
    if wanted:
        return wanted
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        return str(store._connection.getsockname()[0])
    return "127.0.0.1"
