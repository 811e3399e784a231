"""`python -m flambeau.distributed.run --nproc-per-node 4 train.py [arguments]` starts a script in several processes.

The options and the environment variables that scripts find are those of PyTorch's `torchrun`. Scripts run as by
`python -m flambeau`, so those written for PyTorch work too. When a process fails, the others are ended, and with
`--max-restarts` all are started again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys
from collections.abc import Sequence

from flambeau.distributed import _launcher
from flambeau.errors import ArgumentError

__all__ = ["get_args_parser", "main", "parse_args", "run"]
__dir__ = __all__.copy


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line.

    Example:
        >>> from flambeau.distributed import run
        >>> run.get_args_parser().prog
        'python -m flambeau.distributed.run'
    """
    parser = argparse.ArgumentParser(
        prog="python -m flambeau.distributed.run",
        description="Starts a script in several processes.",
        allow_abbrev=False,
    )

    def option(name: str, *short: str, **how: object) -> None:
        names = [*short, f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])
        parser.add_argument(*names, **how)  # type: ignore[arg-type]

    option("nnodes", default="1", help="number of hosts")
    option("nproc-per-node", default="1", help='processes on this host: a number, or "cpu" or "auto" for one per core')
    option("node-rank", type=int, default=int(os.environ.get("SLURM_NODEID", "0")), help="number of this host")
    option("master-addr", default="127.0.0.1", help="address of the first host")
    option("master-port", type=int, default=29500, help="a free port there")
    option("rdzv-backend", default="static", choices=["static", "c10d"], help="c10d: hosts are numbered as they come")
    option("rdzv-endpoint", default="", help="address:port of the first host")
    option("rdzv-id", default="none", help="a name for this run")
    option("rdzv-conf", default="", help="key=value pairs: rank, timeout")
    option("standalone", action="store_true", help="one host, on any free port")
    option("max-restarts", type=int, default=0, help="how often to start again after a failure")
    option("monitor-interval", type=float, default=0.1, help="seconds between two looks at the processes")
    option("start-method", default="spawn", choices=["spawn", "fork", "forkserver"], help="accepted, and not used")
    option("role", default="default", help="a name for the processes")
    option("module", "-m", action="store_true", help="the script is a module's name, as with python -m")
    option("no-python", action="store_true", help="the script is a program of its own")
    option("log-dir", default=None, help="folder for what the processes print, with --redirects")
    option("redirects", "-r", default="0", help="what goes to files: 0 nothing, 1 output, 2 errors, 3 both")
    option("local-addr", default=None, help="address of this host")
    option("hostfile", default=None, help='file with a line "host slots=4" per host; each is started by --rsh')
    option("rsh", default="ssh", help="command that runs a command line on another host: RSH HOST COMMAND")
    parser.add_argument("training_script", help="the script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line.

    Args:
        args: the arguments; those of this program if not given.

    Example:
        >>> from flambeau.distributed import run
        >>> run.parse_args(["--nproc-per-node=2", "train.py", "--lr", "1"]).training_script_args
        ['--lr', '1']
    """
    return get_args_parser().parse_args(args)


def main(args: Sequence[str] | None = None) -> None:
    """Starts what a command line says, and ends as it ends.

    Args:
        args: the arguments; those of this program if not given.

    Example:
        >>> from flambeau.distributed import run
        >>> run.main(["--no-python", "true"])
    """
    run(parse_args(args))


def run(args: argparse.Namespace) -> None:
    """Starts what parsed options say, and ends as it ends.

    Args:
        args: what parse_args() returned.

    Example:
        >>> from flambeau.distributed import run
        >>> run.run(run.parse_args(["--no-python", "true"]))
    """
    options = args
    try:
        code = _hosts(options) if options.hostfile else _launcher.run(_plan(options))
    except (ArgumentError, _launcher.DistError) as error:
        print(f"flambeau.distributed.run: {error}", file=sys.stderr)
        code = 1
    if code:
        raise SystemExit(code)


def _plan(options: argparse.Namespace) -> _launcher.Plan:
    """What this host should run."""
    nodes = _nodes(str(options.nnodes))
    conf = dict(part.split("=", 1) for part in (options.rdzv_conf or "").split(",") if "=" in part)
    address, port = options.master_addr, int(options.master_port)
    if options.rdzv_endpoint:
        host, _, number = options.rdzv_endpoint.rpartition(":")
        address, port = (host, int(number)) if host else (number, port)
    if options.standalone or nodes == 1 and options.rdzv_backend == "c10d" and not options.rdzv_endpoint:
        if nodes != 1:
            raise ArgumentError(f"--standalone is for one host, got --nnodes {nodes}")
        address, port = "127.0.0.1", 0
    script = [options.training_script, *options.training_script_args]
    if options.no_python:
        if options.module:
            raise ArgumentError("--module and --no-python exclude each other")
        command = script
    else:
        command = [sys.executable, "-u", "-m", "flambeau", *(["-m"] if options.module else []), *script]
    return _launcher.Plan(
        command=command,
        processes=_processes(str(options.nproc_per_node)),
        nodes=nodes,
        node=int(conf.get("rank", options.node_rank)) if options.rdzv_backend == "static" else None,
        address=address,
        port=port,
        restarts=options.max_restarts,
        interval=options.monitor_interval,
        role=options.role,
        run_id=options.rdzv_id,
        log_dir=options.log_dir,
        redirects=options.redirects,
    )


def _nodes(text: str) -> int:
    low, _, high = text.partition(":")
    try:
        numbers = int(low), int(high or low)
    except ValueError:
        raise ArgumentError(f"--nnodes must be a number, got {text!r}") from None
    if numbers[0] != numbers[1] or numbers[0] < 1:
        raise ArgumentError(f"--nnodes must be one positive number, got {text!r}; a varying number is not supported")
    return numbers[0]


def _processes(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if text == "gpu":
        import flambeau as fb

        if not fb.accelerator.device_count():
            raise ArgumentError("--nproc-per-node gpu: there is no accelerator")
        return fb.accelerator.device_count()
    if not text.isdigit() or int(text) < 1:
        raise ArgumentError(f'--nproc-per-node must be a positive number, "cpu", "gpu" or "auto", got {text!r}')
    return int(text)


# ---- several hosts, started from one of them ------------------------------------------------------------------------


def _hosts(options: argparse.Namespace) -> int:
    """Starts this program on all hosts of the host file, by a remote shell."""
    hosts = read_hosts(options.hostfile)
    address = options.master_addr if options.master_addr != "127.0.0.1" else hosts[0][0]
    forwarded = [
        f"--max-restarts={options.max_restarts}", f"--monitor-interval={options.monitor_interval}", f"--role={options.role}",
        f"--rdzv-id={options.rdzv_id}", f"--redirects={options.redirects}",
    ]  # fmt: skip
    forwarded += [flag for flag, on in (("--module", options.module), ("--no-python", options.no_python)) if on]
    forwarded += [f"--log-dir={options.log_dir}"] if options.log_dir else []
    commands = []
    for number, (host, slots) in enumerate(hosts):
        own = [
            sys.executable, "-m", "flambeau.distributed.run", f"--nnodes={len(hosts)}", f"--node-rank={number}",
            f"--nproc-per-node={slots or options.nproc_per_node}", f"--master-addr={address}",
            f"--master-port={options.master_port}", *forwarded, options.training_script, *options.training_script_args,
        ]  # fmt: skip
        if host in ("localhost", "127.0.0.1", socket.gethostname()) and options.rsh == "ssh":
            commands.append(own)
        else:
            line = f"cd {shlex.quote(os.getcwd())} && {_environment()} {shlex.join(own)}"
            commands.append([*shlex.split(options.rsh), host, line])
    return _launcher.run_commands(commands)


def _environment() -> str:
    """The environment that remote processes need to find the same code."""
    names = [name for name in os.environ if name in ("PYTHONPATH", "PATH") or name.startswith("FLAMBEAU_")]
    return " ".join(f"{name}={shlex.quote(os.environ[name])}" for name in sorted(names))


def read_hosts(path: str) -> list[tuple[str, int | None]]:
    """Hosts and their numbers of processes, from lines such as "node1 slots=4", "node1:4" or "node1".

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> from flambeau.distributed import run
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     _ = file.write("node1 slots=4  # fast\\nnode2:2\\n")
        ...     file.flush()
        ...     run.read_hosts(file.name)
        [('node1', 4), ('node2', 2)]
    """
    hosts: list[tuple[str, int | None]] = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise ArgumentError(f"--hostfile: cannot read {path!r}: {error.strerror}") from None
    for line in lines:
        words = line.split("#")[0].split()
        if not words:
            continue
        host, _, count = words[0].partition(":")
        for word in words[1:]:
            if word.startswith("slots="):
                count = word[len("slots=") :]
        if count and not count.isdigit():
            raise ArgumentError(f"--hostfile: expected a line such as 'node1 slots=4', got {line!r}")
        hosts.append((host, int(count) if count else None))
    if not hosts:
        raise ArgumentError(f"--hostfile: {path!r} names no host")
    return hosts


if __name__ == "__main__":
    main()
