"""The cost of a call on a tiny tensor: per-op overhead, import time and the size of the wheel.

python benchmarks/overhead.py [--quick] [--only PATTERN] [--torch-python PATH] [--write]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compare import main
from harness.report import Result, quantity
from harness.rows import SAME, Budget, Suite, integers, mask, normal, uniform
from rows import gradients as gradient_rows

suite = Suite("overhead", __file__, "Overhead: what a call on a tiny tensor costs")

pointwise = suite.group("pointwise, 4×4")
pointwise("a + b", "a + b", SAME, a=normal(4, 4), b=normal(4, 4))
pointwise("a * 2.0", "a * 2.0", SAME, a=normal(4, 4))
pointwise("1 - a", "1 - a", SAME, a=normal(4, 4))
pointwise("a / b", "a / b", SAME, a=normal(4, 4), b=uniform(1, 2, 4, 4))
pointwise("a ** 2", "a ** 2", SAME, a=normal(4, 4))
pointwise("-a", "-a", SAME, a=normal(4, 4))
pointwise("add(a, b)", "lib.add(a, b)", SAME, a=normal(4, 4), b=normal(4, 4))
pointwise("a.add_(b)", "a.add_(b)", "a += b; a", a=normal(4, 4), b=normal(4, 4))
pointwise("a += b", "a += b; a", SAME, a=normal(4, 4), b=normal(4, 4))
pointwise("add(a, b, out=c)", "lib.add(a, b, out=c)", SAME, a=normal(4, 4), b=normal(4, 4), c=normal(4, 4))
pointwise("exp(a)", "lib.exp(a)", SAME, a=normal(4, 4))
pointwise("a.sqrt()", "a.sqrt()", "lib.sqrt(a)", a=uniform(1, 2, 4, 4))
pointwise("a > b", "a > b", SAME, a=normal(4, 4), b=normal(4, 4))
pointwise("a == 0", "a == 0", SAME, a=integers(0, 3, 4, 4))
pointwise("where(m, a, b)", "lib.where(m, a, b)", SAME, m=mask(0.5, 4, 4), a=normal(4, 4), b=normal(4, 4))
pointwise("a.clamp(min=0)", "a.clamp(min=0)", "lib.maximum(a, 0)", a=normal(4, 4))
pointwise("a + row (broadcast)", "a + r", SAME, a=normal(4, 4), r=normal(4))
pointwise("float32 + int64", "a + i", a=normal(4, 4), i=integers(0, 9, 4, 4))
pointwise("a.double()", "a.double()", "a.astype('float64')", a=normal(4, 4))
pointwise("bfloat16 a + b", "a + b", a=normal(4, 4, dtype="bfloat16"), b=normal(4, 4, dtype="bfloat16"))

scalars = suite.group("0-d")
scalars("a + b", "a + b", SAME, a=normal(), b=normal())
scalars("a * 2.0", "a * 2.0", SAME, a=normal())
scalars("a.exp()", "a.exp()", "lib.exp(a)", a=normal())
scalars("a > 0", "a > 0", SAME, a=normal())
scalars("a.item()", "a.item()", SAME, a=normal())
scalars("float(a)", "float(a)", SAME, a=normal())
scalars("bool(a)", "bool(a)", SAME, a=mask(1))

reductions = suite.group("reductions, 4×4")
reductions("a.sum()", "a.sum()", SAME, a=normal(4, 4))
reductions("a.sum(1)", "a.sum(1)", SAME, a=normal(4, 4))
reductions("a.mean()", "a.mean()", SAME, a=normal(4, 4))
reductions("a.max()", "a.max()", SAME, a=normal(4, 4))
reductions("a.argmax(1)", "a.argmax(1)", SAME, a=normal(4, 4))
reductions("a.any()", "a.any()", SAME, a=mask(0.1, 4, 4))
reductions("a.std()", "a.std()", "a.std(ddof=1)", a=normal(4, 4))

views = suite.group("views and indexing, 4×4")
views("a[0]", "a[0]", SAME, a=normal(4, 4))
views("a[1:3]", "a[1:3]", SAME, a=normal(4, 4))
views("a[1, 2]", "a[1, 2]", a=normal(4, 4))
views("a[:, 1:3]", "a[:, 1:3]", SAME, a=normal(4, 4))
views("a[..., None]", "a[..., None]", SAME, a=normal(4, 4))
views("a[i]", "a[i]", SAME, a=normal(4, 4), i=integers(0, 4, 3))
views("a[m]", "a[m]", SAME, a=normal(4, 4), m=mask(0.5, 4, 4))
views("a[0] = 1.0", "a[0] = 1.0; a", SAME, a=normal(4, 4))
views("a.view(16)", "a.view(16)", "a.reshape(16)", a=normal(4, 4))
views("a.reshape(2, 8)", "a.reshape(2, 8)", SAME, a=normal(4, 4))
views("a.t()", "a.t()", "a.T", a=normal(4, 4))
views("a.permute(2, 0, 1)", "a.permute(2, 0, 1)", "a.transpose(2, 0, 1)", a=normal(2, 3, 4))
views("a.unsqueeze(0)", "a.unsqueeze(0)", "a[None]", a=normal(4, 4))
views("a.expand(3, 4, 4)", "a.expand(3, 4, 4)", "lib.broadcast_to(a, (3, 4, 4))", a=normal(4, 4))

joining = suite.group("joining and products, 4×4")
joining("cat((a, b))", "lib.cat((a, b))", "lib.concatenate((a, b))", a=normal(4, 4), b=normal(4, 4))
joining("stack((a, b))", "lib.stack((a, b))", SAME, a=normal(4, 4), b=normal(4, 4))
joining("a @ b", "a @ b", SAME, a=normal(4, 4), b=normal(4, 4))
joining("a @ v", "a @ v", SAME, a=normal(4, 4), v=normal(4))
joining("addmm(c, a, b)", "lib.addmm(c, a, b)", "a @ b + c", a=normal(4, 4), b=normal(4, 4), c=normal(4, 4))
joining("batched a @ b", "a @ b", SAME, a=normal(2, 4, 4), b=normal(2, 4, 4))
joining("a.clone()", "a.clone()", "a.copy()", a=normal(4, 4))
joining("a.t().contiguous()", "a.t().contiguous()", "lib.ascontiguousarray(a.T)", a=normal(4, 4))
joining("a.sort()", "a.sort()", "lib.sort(a)", a=normal(4, 4))

creation = suite.group("creation")
creation("empty(4, 4)", "lib.empty(4, 4)", "lib.empty((4, 4), 'float32')", check=False)
creation("zeros(4, 4)", "lib.zeros(4, 4)", "lib.zeros((4, 4), 'float32')")
creation("ones((4, 4))", "lib.ones((4, 4))", "lib.ones((4, 4), 'float32')")
creation("full((4, 4), 2.0)", "lib.full((4, 4), 2.0)", SAME)
creation("zeros_like(a)", "lib.zeros_like(a)", SAME, a=normal(4, 4))
creation("arange(16)", "lib.arange(16)", SAME)
creation("tensor([1.0, 2.0, 3.0])", "lib.tensor([1.0, 2.0, 3.0])", "lib.array([1.0, 2.0, 3.0], 'float32')")
creation("tensor(1.0)", "lib.tensor(1.0)", "lib.array(1.0, 'float32')")
creation("randn(4, 4)", "lib.randn(4, 4)", "lib.random.standard_normal((4, 4))", check=False)

questions = suite.group("questions, 4×4")
questions("a.shape", "a.shape", SAME, a=normal(4, 4))
questions("a.shape[0]", "a.shape[0]", SAME, a=normal(4, 4))
questions("a.size(0)", "a.size(0)", a=normal(4, 4))
questions("a.dtype", "a.dtype", SAME, a=normal(4, 4))
questions("a.numel()", "a.numel()", "a.size", a=normal(4, 4))
questions("a.is_contiguous()", "a.is_contiguous()", "a.flags.c_contiguous", a=normal(4, 4))
questions("len(a)", "len(a)", SAME, a=normal(4, 4))
questions("a.tolist()", "a.tolist()", SAME, a=normal(4, 4))
questions("a.numpy()", "a.numpy()", a=normal(4, 4))

chains = suite.group("chains, 4×4")
chains(
    "softmax by hand",
    "e = (a - a.amax(1, True)).exp(); e / e.sum(1, True)",
    "e = lib.exp(a - a.max(1, keepdims=True)); e / e.sum(1, keepdims=True)",
    a=normal(4, 4),
)
chains(
    "layer norm by hand",
    "d = a - a.mean(1, True); d / (d * d).mean(1, True).add(1e-5).sqrt() * w + c",
    "d = a - a.mean(1, keepdims=True); d / lib.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + c",
    a=normal(4, 4),
    w=normal(4),
    c=normal(4),
)
chains(
    "linear and relu",
    "(x @ w.t() + c).clamp(min=0)",
    "lib.maximum(x @ w.T + c, 0)",
    x=normal(4, 4),
    w=normal(4, 4),
    c=normal(4),
)
chains("for row in a: row.sum()", "for row in a: row.sum()", SAME, a=normal(4, 4))


IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def import_times(options, seats) -> list[Result]:
    """Seconds for the import statement, in fresh interpreters that take turns."""
    result = Result("import", "import the library", "s")
    for turn in range(-1, options.rounds):
        for seat in seats:
            if seat.name == "torch-tuned":
                continue
            command = [seat.python, "-c", IMPORT.format(seat.module)]
            done = subprocess.run(command, capture_output=True, text=True, env=seat.environment(), timeout=120)
            if done.returncode:
                result.errors[seat.name] = done.stderr.strip().splitlines()[-1]
            elif turn >= 0:  # the turn before the first fills the file cache
                result.rounds.setdefault(seat.name, []).append(float(done.stdout))
    return [result]


def wheel() -> Path | None:
    found = sorted(Path(__file__).parents[1].glob("dist/flambeau-*.whl"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def extra(options, seats):
    newest = wheel()
    if newest is None:
        note = "wheel: none in dist/, make one with `make wheel`"
    else:
        note = f"wheel: {newest.name}, {quantity(newest.stat().st_size / 1e6, 'MB')}"
    wanted = options.only.search("import/import the library")
    return import_times(options, seats) if wanted else [], [note]


def of(results, group, name):
    return next((r for r in results if r.group == group and r.name == name), None)


def share(group, name):
    """Our time as a share of PyTorch's."""

    def value(results):
        result = of(results, group, name)
        ratio = result.ratio() if result else None
        return 1 / ratio if ratio else None

    return value


def over_numpy(results):
    result = of(results, "import", "import the library")
    figures = [result.figure(seat) for seat in ("flambeau", "numpy")] if result else [None]
    return None if None in figures else figures[0] - figures[1]


suite.extra = extra
suite.budgets = [
    Budget("time of a + b, 4×4, against PyTorch", share("pointwise, 4×4", "a + b"), at_most=0.35),
    Budget("import time against PyTorch", share("import", "import the library"), at_most=0.15),
    Budget("import time beyond NumPy's own", over_numpy, at_most=0.15, unit="s"),
    Budget("wheel", lambda _: wheel().stat().st_size / 1e6 if wheel() else None, at_most=15, unit="MB"),
]

gradient_rows.add(suite)

if __name__ == "__main__":
    sys.exit(main(suite))
