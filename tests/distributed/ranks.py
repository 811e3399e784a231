"""Runs a piece of code in several processes that form a group."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

HEAD = """
import datetime, os, signal, sys, time
import numpy as np
import pytest
import flambeau as fb
dist = fb.distributed
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
"""
INIT = "dist.init_process_group('gloo')\n"
END = "\ndist.destroy_process_group()\n"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def environment(rank, size, port, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC"))}
    env |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return env | {"OMP_NUM_THREADS": "1"} | more


@contextlib.contextmanager
def started(size, code, *, init=True, **more):
    """The processes, which are killed in the end."""
    text = HEAD + (INIT if init else "") + textwrap.dedent(code) + (END if init else "")
    port, processes = free_port(), []
    try:
        for rank in range(size):
            process = subprocess.Popen(
                [sys.executable, "-c", text], env=environment(rank, size, port, **more), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore Ctrl-C
            )  # fmt: skip
            processes.append(process)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def run(size, code, *, timeout=90, init=True, **more):
    """Runs the code in `size` processes that must all succeed; returns what each has printed."""
    outputs = []
    with started(size, code, init=init, **more) as processes:
        end = time.monotonic() + timeout
        for rank, process in enumerate(processes):
            try:
                output, _ = process.communicate(timeout=max(end - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                process.kill()
                output = f"still running after {timeout} s\n" + process.communicate()[0]
            outputs.append(output)
            assert process.returncode == 0, f"rank {rank} of {size} ended with {process.returncode}:\n{output}"
    return outputs
