"""Daemon threads that still compute when the interpreter ends."""

import subprocess
import sys

import pytest

PROGRAM = """
import threading, time
import flambeau as fb
fb.set_num_threads(2)
fb.nn, fb.optim
ready = threading.Barrier(4)

def forever():
    {setup}
    ready.wait()
    while True:
        {step}

for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
ready.wait()
time.sleep(0.05)
"""

STEPS = {
    "op": ("x = fb.ones(100_000)", "x.exp()"),
    "small op": ("x = fb.ones(3)", "x + 1"),
    "composite": ("x = fb.ones(300, 300)", "fb.nn.functional.gelu(fb.rot90(x)).diff()"),
    "convolution": ("x, w = fb.ones(2, 8, 30, 30), fb.ones(8, 8, 3, 3)", "fb.nn.functional.conv2d(x, w).sum()"),
    "backward": ("x = fb.ones(200, 200, requires_grad=True)", "(x.exp() * x).sum().backward()"),
    "hooks": (
        "x = fb.ones(200, 200, requires_grad=True); x.register_hook(lambda g: g * 2)",
        "(x.exp() * x).sum().backward()",
    ),
    "function": (
        """
    class Double(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g * 2
    x = fb.ones(200, 200, requires_grad=True)""",
        "Double.apply(x).sum().backward()",
    ),
    "numpy memory": ("import numpy", "fb.from_numpy(numpy.ones(50_000)).add_(1)"),
    "saved hooks": (
        "x = fb.ones(200, 200, requires_grad=True)",
        "with fb.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t): x.exp().sum().backward()",
    ),
    "changes": ("x = fb.ones(20_000)", "x.data = fb.ones(30_000); x.sum()"),
}


@pytest.mark.parametrize("what", STEPS)
def test_the_process_ends_quietly(what):
    setup, step = STEPS[what]
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(setup=setup, step=step)], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 0 and not run.stderr, (run.returncode, run.stderr)
