"""The worker: one process per library. Reads one JSON request per line, answers one JSON line, survives errors in a row."""

from __future__ import annotations

import ast
import importlib
import json
import math
import os
import platform
import sys
import time
import timeit
from typing import Any

from harness.rows import Row, Suite

SETTLE_SECONDS = 0.1  # idle threads of the library that ran before stop spinning in this time; OpenBLAS takes longest
SAMPLE = 1 << 22  # of larger results only so many elements are compared, or the check would disturb the memory suite
WARM_SECONDS = 0.03  # a library's sleeping threads are awake again after so much work, which is not timed
TURN_SECONDS = 0.1  # long rows repeat less often, at least twice


class Worker:
    """Holds one library and the row in hand; a new row frees the inputs of the one before."""

    def __init__(self, suite: Suite, seat: str, lib: Any) -> None:
        self.suite, self.seat, self.lib = suite, seat, lib
        self.row: Row | None = None
        self.timer: timeit.Timer | None = None
        self.number, self.slow = 1, False

    def namespace(self, row: Row, setup: str) -> dict[str, Any]:
        import numpy as np

        names: dict[str, Any] = {"lib": self.lib, "seat": self.seat}
        for name, given in row.inputs.items():
            array = np.asarray(given.make(np.random.default_rng(row.seed(name))))
            names[name] = convert(self.lib, array, given.dtype)
        exec(setup, names)
        names.pop("__builtins__", None)
        return names

    def source(self, key: str) -> tuple[Row, str, str]:
        row = self.suite.find(key)
        if row is None:
            raise KeyError(f"no row named {key!r}")
        source = row.source(self.seat)
        if source is None:
            raise KeyError(f"row {key!r} has no statement for {self.seat}")
        return row, *source

    def prepare(self, key: str, target: float) -> dict[str, Any]:
        """Set the row up, describe its first result, and find how many calls last about `target` seconds."""
        self.row = self.timer = None
        row, setup, stmt = self.source(key)
        names = self.namespace(row, setup)
        start = time.perf_counter()
        result = first_result(stmt, names)
        self.slow = time.perf_counter() - start > self.suite.slow
        described = fingerprint(self.lib, result)
        del result
        # Locals are looked up faster than globals: the less the loop itself costs, the truer a call of 100 ns.
        local = "; ".join(f"{name} = given_{name}" for name in names)
        self.timer = timeit.Timer(stmt, local, globals={f"given_{name}": value for name, value in names.items()})
        self.number = 1
        seconds = target if self.slow else self.timer.timeit(1)
        while seconds < target / 2:
            self.number = max(self.number + 1, int(self.number * min(10, target / max(seconds, 1e-9))))
            seconds = self.timer.timeit(self.number)
        self.row = row
        return described

    def time(self, key: str, target: float, repeats: int) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        if self.row is None or self.row.key != key:
            answer["result"] = self.prepare(key, target)
        assert self.timer is not None
        time.sleep(SETTLE_SECONDS)
        if self.slow:
            return {**answer, "times": [self.timer.timeit(1)]}
        warm = time.perf_counter() + WARM_SECONDS
        while time.perf_counter() < warm:
            self.timer.timeit(max(1, self.number // 10))
        times: list[float] = []
        end = time.perf_counter() + TURN_SECONDS
        while len(times) < 2 or (len(times) < repeats and time.perf_counter() < end):
            times.append(self.timer.timeit(self.number) / self.number)
        return {**answer, "times": times}

    def peak(self, key: str) -> dict[str, Any]:
        row, setup, stmt = self.source(key)
        before = reset_peak()
        exec(stmt, self.namespace(row, setup))
        return {"times": [(memory_bytes("VmHWM") - before) / 1e6]}

    def value(self, key: str) -> dict[str, Any]:
        row, setup, stmt = self.source(key)
        value = first_result(stmt, self.namespace(row, setup))
        return {"times": [float(value)], "result": fingerprint(self.lib, value)}

    def after(self) -> dict[str, Any]:
        assert self.suite.after is not None
        return {"text": str(eval(self.suite.after, {"lib": self.lib}))}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one request; whatever the library raises becomes the text of the row."""
        try:
            return getattr(self, request.pop("do"))(**request)
        except Exception as error:
            self.row = self.timer = None
            return {"error": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}


def convert(lib: Any, array: Any, dtype: str) -> Any:
    """The array in the library's own memory; NumPy itself keeps the array."""
    if not hasattr(lib, "from_numpy"):
        return array.astype(dtype)
    direct = dtype != "bfloat16"
    tensor = lib.from_numpy(array.astype(dtype if direct else "float32"))
    return tensor.clone() if direct else tensor.to(lib.bfloat16)


def first_result(stmt: str, names: dict[str, Any]) -> Any:
    """Run the statement once; its value is that of the last expression, None when it ends in an assignment."""
    body = ast.parse(stmt).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<row>", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "<row>", "eval"), names)
    names.pop("__builtins__", None)
    return value


def fingerprint(lib: Any, value: Any) -> dict[str, Any]:
    """Shape, dtype and the sum of magnitudes: enough to see that two libraries did the same work."""
    if isinstance(value, (tuple, list)) and value and hasattr(value[0], "dtype"):
        value = value[0]
    if isinstance(value, (bool, int, float)):
        return {"shape": [], "dtype": type(value).__name__, "size": abs(float(value))}
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return {}
    if getattr(value, "requires_grad", False):
        value = value.detach()
    shape, dtype = list(value.shape), str(value.dtype).split(".")[-1]
    if math.prod(shape) > SAMPLE:
        value = value.reshape(-1)[:SAMPLE]
    if hasattr(value, "numpy"):  # summed by NumPy, so that a library's own sum cannot hide its mistake
        array = value.to(lib.complex128 if "complex" in dtype else lib.float64).numpy()
    else:
        array = value.astype("complex128" if "complex" in dtype else "float64")
    return {"shape": shape, "dtype": dtype, "size": float(abs(array).sum())}


def memory_bytes(field: str) -> int:
    """A line of /proc/self/status such as VmRSS (memory in use) or VmHWM (its peak), in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def reset_peak() -> int:
    """Forget the peak that importing reached; returns the memory in use now."""
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")
    return memory_bytes("VmRSS")


def serve(suite: Suite, seat: str, module: str, threads: int) -> None:
    """Answer requests until the pipe closes. Prints of a library go to stderr, the pipe stays clean."""
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        lib = importlib.import_module(module)
        if hasattr(lib, "set_num_threads"):
            lib.set_num_threads(threads)
        guard = lib.inference_mode() if seat == "torch-tuned" else None
        if guard is not None:
            guard.__enter__()
        hello = {"version": str(getattr(lib, "__version__", "?")), "python": platform.python_version()}
    except Exception as error:
        pipe.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        return
    pipe.write(json.dumps(hello) + "\n")
    worker = Worker(suite, seat, lib)
    for line in sys.stdin:
        pipe.write(json.dumps(worker.answer(json.loads(line))) + "\n")
