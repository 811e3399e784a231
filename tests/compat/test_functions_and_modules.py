"""Names that are a function and a module in PyTorch stay both: importing the module does not replace the function."""

import importlib
import subprocess
import sys
import types

import pytest

PROGRAM = """
import importlib, pkgutil, sys, types
import flambeau

names = [m.name for m in pkgutil.walk_packages(flambeau.__path__, "flambeau.") if "compat" not in m.name and "._" not in m.name]
import torch

bad = []
for name in names:
    parent, _, last = name.rpartition(".")
    before = getattr(importlib.import_module(parent), last, None)
    try:
        module = importlib.import_module("torch" + name[len("flambeau"):])
    except ImportError:
        continue
    after = getattr(importlib.import_module(parent), last, None)
    if not isinstance(before, types.ModuleType) and before is not None and before is not after:
        bad.append(name)
print(bad)
"""


def test_no_function_is_replaced_by_importing_its_module():
    run = subprocess.run([sys.executable, "-m", "flambeau", "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_gradcheck(name):
    import flambeau as fb

    with fb.compat.torch() as torch:
        module = importlib.import_module("torch.autograd.gradcheck")
        assert isinstance(module, types.ModuleType) and getattr(module, name) is getattr(torch.autograd, name)
        assert getattr(torch.autograd, name)(lambda x: x * x, (torch.ones(2, dtype=torch.float64, requires_grad=True),))
