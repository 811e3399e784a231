"""The controller's side of a worker: starts the process, asks, and survives its crash or hang."""

from __future__ import annotations

import ctypes.util
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

# A malloc that keeps what it has: what PyTorch users set against page faults when they install no second malloc.
TUNED_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 28)}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TITLES = {
    "flambeau": "flambeau",
    "before": "before",
    "torch": "PyTorch",
    "torch-tuned": "PyTorch tuned",
    "torch-channels-last": "channels_last",
    "torch-compile": "compile",
    "torch-jemalloc": "jemalloc",
    "numpy": "NumPy",
}
# jemalloc that gives nothing back to the system, the settings usually recommended for PyTorch on processors.
JEMALLOC_SETTINGS = "background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"

TURN_PAUSE = 0.04  # seconds between the turns of two libraries


def jemalloc() -> str | None:
    """The library to preload: the file named by FLAMBEAU_JEMALLOC, else the system's, None without one."""
    return os.environ.get("FLAMBEAU_JEMALLOC") or ctypes.util.find_library("jemalloc")


@dataclass
class Seat:
    """A column of the table: which module, in which interpreter, with which environment."""

    name: str
    module: str
    python: str = sys.executable
    threads: int = 1
    tree: str = ""  # of flambeau, where it is not the one this interpreter finds
    version: str = ""
    python_version: str = ""
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    def environment(self) -> dict[str, str]:
        env = dict(os.environ, **{name: str(self.threads) for name in THREAD_VARIABLES})
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # packages that were installed have their bytecode: so shall this tree
        if self.python != sys.executable:
            env.pop("PYTHONPATH", None)  # it belongs to this interpreter's packages
        if self.tree:
            env["PYTHONPATH"] = os.path.join(self.tree, "src")
        if self.name == "torch-tuned":
            env.update(TUNED_ENVIRONMENT)
        if self.name == "torch-jemalloc":
            env.update(LD_PRELOAD=jemalloc() or "", MALLOC_CONF=JEMALLOC_SETTINGS)
        return env

    def start(self, suite_path: str) -> str | None:
        """Start the worker and wait for its greeting; returns the error when the library cannot be imported."""
        self.stop()
        command = [self.python, suite_path, "--worker", self.name, self.module, str(self.threads)]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment(), text=True, bufsize=1
            )
        except OSError as error:
            return f"{self.python}: {error.strerror}"
        hello = self.receive(timeout=120)
        if "error" in hello:
            self.stop()
            return hello["error"]
        self.version, self.python_version = hello["version"], hello["python"]
        return None

    def receive(self, timeout: float) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        if not ready:
            self.stop()
            return {"error": f"no answer within {timeout:.0f} s"}
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.stop()
        return {"error": f"the process died of signal {-code}" if code < 0 else f"the process ended with code {code}"}

    def ask(self, suite_path: str, timeout: float = 120, **request: Any) -> dict[str, Any]:
        """Send one request; starts the worker again when it died before."""
        # The threads of the library that ran before may still be spinning (up to 20 ms): let them go to sleep first.
        time.sleep(TURN_PAUSE)
        if self.process is None:
            error = self.start(suite_path)
            if error is not None:
                return {"error": error}
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            code = self.process.poll()
            self.stop()
            return {"error": f"the process ended with code {code}"}
        return self.receive(timeout)

    def stop(self) -> None:
        """End the worker that this seat started."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        continue  # the reader is gone: drop what was buffered
            self.process = None
