"""The gradient rows of overhead.py: recording, backward, graphs that are long or wide, and how they grow."""

from __future__ import annotations

from harness.report import geomean, ratios
from harness.rows import Budget, Suite, normal

ONE = "a.requires_grad_(); b.requires_grad_(); g = lib.ones(4, 4)"
LEAVES = {"a": normal(4, 4), "b": normal(4, 4)}
RECORDING, BACKWARD, GRAPHS, GROWTH, PEAK = (
    "recording, 4×4", "forward and backward, 4×4", "graphs, forward and backward", "growth of a chain, forward and backward",
    "peak memory of graphs",
)  # fmt: skip

CHAIN = "y = a\nfor i in range({n}): y = y * b\ny.backward(g)\na.grad = b.grad = None"
WIDE = "parts = [a * 0.5 for i in range(10000)]\ny = lib.stack(parts).sum(0)\ny.backward(g)\na.grad = None"
RNN = (
    "h = h0\nfor x in xs: h = (x @ wx + h @ wh + c).tanh()\nh.sum().backward()\nwx.grad = wh.grad = c.grad = None"
)
RNN_SETUP = (
    "xs = [lib.ones(4, 8) * 0.1 for i in range(100)]; h0 = lib.zeros(4, 16); wx = (lib.ones(8, 16) * 0.1).requires_grad_(); "
    "wh = (lib.ones(16, 16) * 0.01).requires_grad_(); c = lib.zeros(16, requires_grad=True)"
)
MLP = "y = x\nfor w in ws: y = (y @ w).clamp(min=0)\ny.sum().backward()\nfor w in ws: w.grad = None"
MLP_SETUP = "x = lib.ones(8, 16); ws = [(lib.ones(16, 16) * 0.1).requires_grad_() for i in range(50)]"


def add(suite: Suite) -> None:
    recording = suite.group(RECORDING)
    recording("a + b", "a + b", setup=ONE, check=False, **LEAVES)
    recording("a * b", "a * b", setup=ONE, check=False, **LEAVES)
    recording("a * 2.0", "a * 2.0", setup=ONE, check=False, **LEAVES)
    recording("a.exp()", "a.exp()", setup=ONE, check=False, **LEAVES)
    recording("a @ b", "a @ b", setup=ONE, check=False, **LEAVES)
    recording("a.sum()", "a.sum()", setup=ONE, check=False, **LEAVES)
    recording("a[0]", "a[0]", setup=ONE, check=False, **LEAVES)
    recording("a.view(16)", "a.view(16)", setup=ONE, check=False, **LEAVES)
    recording("under no_grad", "with lib.no_grad(): a + b", setup=ONE, check=False, **LEAVES)

    backward = suite.group(BACKWARD)
    # A hundred ops of a kind and one backward: what an op costs both ways.
    for name, op in (
        ("y + b", "y + b"), ("y * b", "y * b"), ("y * 0.5", "y * 0.5"), ("y.sin()", "y.sin()"), ("y @ b", "y @ b"), ("y.t()", "y.t()"),
        ("y.clamp(min=0)", "y.clamp(min=0)"), ("y / 2 - b", "y / 2 - b"),
    ):  # fmt: skip
        stmt = f"y = a\nfor i in range(100): y = {op}\ny.backward(g)\na.grad = b.grad = None"
        backward(f"100 times {name}", stmt, setup=ONE + "; b.data.mul_(0.1)", check=False, **LEAVES)
    backward("one op and backward", "(a * b).backward(g)", setup=ONE, check=False, **LEAVES)

    for group, kind in ((GRAPHS, "time"), (PEAK, "peak")):
        graphs = suite.group(group, kind=kind)
        graphs("chain of 10,000 ops", CHAIN.format(n=10000), setup="a = lib.ones(4, 4); b = lib.ones(4, 4); " + ONE, check=False)
        graphs("one leaf used 10,000 times", WIDE, setup="a = lib.ones(4, 4, requires_grad=True); g = lib.ones(4, 4)", check=False)
        graphs("RNN, 100 steps of 4×16", RNN, setup=RNN_SETUP, check=False)
        graphs("MLP, 50 layers of 16×16", MLP, setup=MLP_SETUP, check=False)

    growth = suite.group(GROWTH)
    for n in (1_000, 10_000, 100_000, 1_000_000):
        setup = "a = lib.ones(1, requires_grad=True); b = lib.ones(1, requires_grad=True); g = lib.ones(1)"
        growth(f"{n:,} ops", CHAIN.format(n=n), setup=setup, check=False)

    def share(group):
        def value(results):
            mean = geomean(ratios(results, group=group))
            return 1 / mean if mean else None

        return value

    def worst(group):
        return lambda results: max((1 / r for r in ratios(results, group=group)), default=None)

    def growth_factor(results):
        figures = {r.name: r.figure("flambeau") for r in results if r.group == GROWTH}
        first, last = figures.get("1,000 ops"), figures.get("1,000,000 ops")
        return last / first / 1000 if first and last else None

    suite.budgets += [
        Budget("recording an op, against PyTorch (geometric mean)", share(RECORDING), at_most=0.4),
        Budget("forward and backward per op, against PyTorch (geometric mean)", share(BACKWARD), at_most=0.35),
        Budget("peak memory of graphs, worst", worst(PEAK), at_most=1.0),
        Budget("time per op in a chain of 1,000,000, against one of 1,000", growth_factor, at_most=2.0),
    ]
