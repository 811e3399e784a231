"""Every cache has a bound. Here each is filled beyond it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import flambeau as fb

ROOT = Path(__file__).parents[2]


def test_places_of_compiled_code():
    """A program that compiles code without end: the first 65536 pieces are remembered, for messages.

    In a process of its own: the tests that follow look for places in messages.
    """
    program = """\
import flambeau as fb

x = fb.ones(2, requires_grad=True)
for n in range(66_000):
    exec(compile("x * 2", f"piece{n}", "exec"), {"x": x})
y = x * 2
assert isinstance(y.grad_fn._location, str)
y.sum().backward()
print(x.grad.tolist())
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout == "[2.0, 2.0]\n", result.stderr


def test_names_of_modules():
    before = fb._C.set_module_path("net")
    try:
        for n in range(66_000):
            fb._C.set_module_path(f"net.layer{n}")
        assert fb._C.set_module_path("another one") == "a module"
        assert fb._C.set_module_path("net.layer7") == "a module"
        assert fb._C.set_module_path("net") == "net.layer7"
    finally:
        fb._C.set_module_path(before)


def test_casts_of_an_endless_autocast_block():
    with fb.autocast("cpu", dtype=fb.bfloat16):
        for _ in range(3):
            before = fb.memory_stats()["allocated_bytes"]
            for _ in range(4500):
                fb.mm(fb.ones(2, 2, requires_grad=True), fb.ones(2, 2))
            grown = fb.memory_stats()["allocated_bytes"] - before
    assert grown < 4500 * 2 * 512


def test_divergences_of_endless_classes():
    from flambeau.distributions import kl

    q = fb.distributions.Normal(0.0, 1.0)
    for n in range(1100):
        p = type(f"Normal{n}", (fb.distributions.Normal,), {})(0.0, 1.0)
        assert fb.distributions.kl_divergence(p, q) == 0
    assert len(kl._KL_MEMOIZE) <= kl._KL_MOST


def test_memory_of_the_allocator_is_bounded_by_the_cap():
    stats = fb.memory_stats()
    fb.empty_cache()
    held = fb.memory_stats()["reserved_bytes"]
    try:
        fb.set_memory_cap(held + (64 << 20))
        for n in range(300):
            fb.empty(100_000 + 7919 * n)
        assert fb.memory_stats()["reserved_bytes"] <= held + (64 << 20)
    finally:
        fb.set_memory_cap(stats["cap_bytes"] or None)


GROWING = """
import flambeau as fb
for megabytes in range(20, 420, 20):
    fb.empty(megabytes << 18)  # of four bytes each; nothing is touched
stats = fb.memory_stats()
print(stats["reserved_bytes_peak"] >> 20, stats["active_bytes_peak"] >> 20)
for _ in range(3):
    before = fb.memory_stats()["system_allocations"]
    tensors = [fb.empty(n << 18) for n in (60, 100, 40)]
    del tensors
print(fb.memory_stats()["system_allocations"] - before)
"""


def test_memory_of_sizes_that_never_come_again():
    result = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, timeout=120, check=True)
    reserved, active, new = map(int, result.stdout.split())
    assert 400 <= active < 450
    assert reserved <= 2 * active + 256  # all sizes together are 4,200 MB
    assert new == 0  # a steady program asks the system for nothing


def test_no_unbounded_cache_decorators():
    """functools.cache is for functions without arguments; one local to a call dies with it."""
    wrong = []
    for path in sorted((ROOT / "src/flambeau").rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            bodies = node.body if isinstance(node, ast.ClassDef) else [node]
            for f in bodies:
                if not isinstance(f, ast.FunctionDef):
                    continue
                takes = f.args.args or f.args.posonlyargs or f.args.kwonlyargs or f.args.vararg or f.args.kwarg
                for d in f.decorator_list:
                    text = ast.unparse(d)
                    if takes and re.search(r"^(functools\.)?cache$|maxsize=None|lru_cache\(None", text):
                        wrong.append(f"{path.relative_to(ROOT)}:{f.lineno}: {f.name}")
    assert not wrong, "give it a bound, functools.lru_cache(n):\n" + "\n".join(wrong)
