"""The implementation of fb.accelerator.selftest(): compares kernel families with the CPU, in accuracy and speed."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau._C import Tensor
from flambeau.errors import ArgumentError

__all__ = ["Report", "Row", "run"]
__dir__ = __all__.copy


@dataclasses.dataclass
class Row:
    """One family: the largest error relative to the CPU's values, the times of a larger call, and what went wrong.

    Attributes:
        family: the kernels' name.
        error: largest difference, over the largest value; 0 when every bit is the same.
        allowed: the most it may be.
        device_ms, cpu_ms: milliseconds of one call, the best of some; the first one, which compiles, does not count.
        fallbacks: calls that ran on the CPU for want of a kernel.
        problem: an error's text, or "".

    Example:
        >>> from flambeau.utils.selftest import Row
        >>> Row("loop", error=0.0, allowed=1e-5).passed
        True
    """

    family: str
    error: float = math.inf
    allowed: float = 0.0
    device_ms: float = math.nan
    cpu_ms: float = math.nan
    fallbacks: int = 0
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether the device's values agree with the CPU's."""
        return not self.problem and self.error <= self.allowed


@dataclasses.dataclass
class Report:
    """What selftest() found; str() is the text of the report file.

    Attributes:
        device: the device that was tested.
        rows: one for each family.
        path: the file that was written, or None.

    Example:
        >>> from flambeau.utils.selftest import Report
        >>> Report("sim:0", []).passed
        True
    """

    device: str
    rows: list[Row]
    path: str | None = None
    about: list[str] = dataclasses.field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every family agrees with the CPU."""
        return all(row.passed for row in self.rows)

    def __str__(self) -> str:
        lines = [*self.about, "", f"{'family':14}{'':8}{'error':>10}{'allowed':>10}{'device ms':>12}{'cpu ms':>10}{'fallbacks':>11}"]
        for r in self.rows:
            verdict = "passed" if r.passed else "FAILED"
            lines.append(f"{r.family:14}{verdict:8}{r.error:10.1e}{r.allowed:10.0e}{r.device_ms:12.3f}{r.cpu_ms:10.3f}{r.fallbacks:11}")
            if r.problem:
                lines += ["    " + line for line in r.problem.splitlines()]
        lines += ["", f"{sum(r.passed for r in self.rows)} of {len(self.rows)} families passed on {self.device}"]
        return "\n".join(lines) + "\n"


def _families() -> dict[str, tuple[float, Callable[[int], list[Tensor]], Callable[..., Any]]]:
    """For each family the tolerance, its inputs for a size, and the function called with them."""
    f = fb.nn.functional

    def numbers(*shape: int) -> Tensor:
        return fb.randn(*shape)

    def step(p: Tensor) -> Tensor:
        p = p.clone().requires_grad_()
        optimizer = fb.optim.AdamW([p], lr=0.1)
        (p * p).sum().backward()
        optimizer.step()
        return p.detach()

    def image(n: int) -> Tensor:
        return numbers(2, 4, max(8, math.isqrt(n) // 4), max(8, math.isqrt(n) // 4))

    def seeded(x: Tensor) -> Tensor:
        fb.manual_seed(5)
        return fb.randn(x.numel(), device=x.device)

    def indices(n: int) -> list[Tensor]:
        return [numbers(n // 8 + 2, 8), fb.randint(0, n // 8 + 2, (n // 16 + 1,))]

    def side(n: int) -> int:
        return max(9, math.isqrt(n) // 2)

    return {
        "loop": (1e-6, lambda n: [numbers(n), numbers(n)], lambda x, y: f.gelu(x) * y + x),
        "broadcast": (0, lambda n: [numbers(n // 8 + 1, 8), numbers(8)], lambda x, y: x.t() + y[:, None]),
        "integers": (0, lambda n: [fb.randint(-99, 99, (n,))], lambda x: x // 7 + x % 5),
        "float16": (1e-3, lambda n: [numbers(n).half()], lambda x: x * x + 1),
        "bfloat16": (1e-2, lambda n: [numbers(n).bfloat16()], lambda x: x * x + 1),
        "float64": (1e-13, lambda n: [numbers(n).double()], lambda x: fb.sin(x) + fb.exp(x)),
        "reduce": (1e-5, lambda n: [numbers(n // 8 + 1, 8)], lambda x: fb.cat([x.sum(0), x.amax(1), x.var(0)])),
        "scan": (1e-5, lambda n: [numbers(n // 8 + 1, 8)], lambda x: x.cumsum(0)),
        "product": (1e-5, lambda n: [numbers(side(n), side(n)), numbers(side(n), side(n))], lambda a, b: a @ b),
        "gather": (0, indices, lambda x, i: x[i]),
        "scatter": (1e-5, indices, lambda x, i: fb.zeros_like(x).index_add(0, i, x[: i.numel()])),
        "compact": (0, lambda n: [numbers(n)], lambda x: x[x > 0]),
        "sort": (0, lambda n: [numbers(n // 8 + 1, 8)], lambda x: fb.cat([x.sort(0).values, x.topk(4, 0).values])),
        "convolution": (1e-4, lambda n: [image(n), numbers(8, 4, 3, 3)], lambda x, w: f.conv2d(x, w, padding=1)),
        "pooling": (1e-6, lambda n: [image(n)], lambda x: f.max_pool2d(x, 2) + f.avg_pool2d(x, 2)),
        "norm": (1e-5, lambda n: [numbers(n // 32 + 1, 32)], lambda x: f.layer_norm(x, (32,))),
        "softmax": (1e-5, lambda n: [numbers(n // 32 + 1, 32)], lambda x: f.softmax(x, 1)),
        "random": (1e-6, lambda n: [numbers(n)], seeded),
        "optimizer": (1e-5, lambda n: [numbers(n)], step),
        "gradient": (1e-4, lambda n: [numbers(side(n), side(n))], lambda x: fb.func.grad(lambda y: (y @ y).tanh().sum())(x)),
    }  # fmt: skip


def _error(got: Tensor, expected: Tensor) -> float:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise AssertionError(f"got {got.dtype} of shape {tuple(got.shape)}, expected {expected.dtype} of {tuple(expected.shape)}")
    if expected.numel() == 0:
        return 0.0
    a, b = got.double(), expected.double()
    difference = (a - b).abs().max().item() / max(1.0, b.abs().max().item())
    return math.inf if math.isnan(difference) else difference


def _best(call: Callable[..., Any], inputs: list[Tensor], wait: Callable[[], None]) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        call(*inputs)
        wait()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def _about(device: Any) -> list[str]:
    lines = [
        f"flambeau {fb.__version__}: selftest of {device} at {time.strftime('%Y-%m-%d %H:%M:%S')}",
        f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors",
    ]
    rows = {"opencl": _C.opencl_devices, "cuda": _C.cuda_devices}.get(device.type, list)()
    return lines + [f"{key}: {value}" for row in rows if row["index"] == device.index for key, value in row.items()]


def run(device: Any, path: Any, size: int, families: Iterable[str] | None = None) -> Report:
    """See fb.accelerator.selftest().

    Example:
        >>> from flambeau.utils import selftest
        >>> selftest.run(fb.device("sim:0"), None, 64, ["broadcast"]).passed
        True
    """
    known = _families()
    wanted = list(known) if families is None else list(families)
    if unknown := [name for name in wanted if name not in known]:
        raise ArgumentError(f"selftest: got families {unknown}; expected some of {', '.join(known)}")
    rows = []
    state = fb.get_rng_state()
    try:
        for family in wanted:
            allowed, inputs, call = known[family]
            row = Row(family, allowed=allowed)
            rows.append(row)
            fb.manual_seed(1)
            small, large = inputs(500), inputs(size)
            before = sum(count[1] for count in _C.accelerator_coverage().values())
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".*has no kernel on device")
                    row.error = _error(call(*(x.to(device) for x in small)).cpu(), call(*small))
                    there = [x.to(device) for x in large]
                    row.error = max(row.error, _error(call(*there).cpu(), call(*large)))
                    row.device_ms = _best(call, there, lambda: fb.accelerator.synchronize(device))
                    row.cpu_ms = _best(call, large, lambda: None)
            except Exception as error:  # any error is reported, and the other families follow
                row.problem = f"{type(error).__name__}: {error}"
            row.fallbacks = sum(count[1] for count in _C.accelerator_coverage().values()) - before
            if row.fallbacks and (why := _C.accelerator_why(device)):
                row.problem = row.problem or f"a kernel was not built: {why}"
    finally:
        fb.set_rng_state(state)
    report = Report(str(device), rows, None if path is None else os.fspath(path), _about(device))
    if report.path is not None:
        with open(report.path, "w", encoding="utf-8") as file:
            file.write(str(report))
    return report
