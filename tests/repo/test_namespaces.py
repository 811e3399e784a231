"""What modules show: dir() gives what they list, and nothing of what they import or keep for themselves."""

import importlib
import pkgutil
import subprocess
import sys
import types

import pytest

import flambeau as fb
from flambeau import _C
from flambeau._registry import private
from flambeau._registry.names import listed


def public_modules():
    """Every module whose name has no leading underscore; those below compat stand for PyTorch's and are no API."""
    found = ["flambeau.linalg", "flambeau.return_types", "flambeau.special"]
    for info in pkgutil.walk_packages(fb.__path__, "flambeau."):
        parts = info.name.split(".")[1:]
        if not any(part.startswith("_") and part != "__future__" for part in parts) and (parts[0] != "compat" or len(parts) == 1):
            found.append(info.name)
    return found


@pytest.mark.parametrize("name", public_modules())
def test_a_module_shows_what_it_lists(name):
    module = importlib.import_module(name)
    assert "__all__" in vars(module), f"{name} lists no names; give it __all__ and, below it, __dir__ = __all__.copy"
    shown = set(module.__all__)
    if hasattr(module, "__path__"):  # its submodules may be used as attributes
        prefix = f"{name}."
        shown |= {key for key in dir(module) if f"{prefix}{key}" in sys.modules or importlib.util.find_spec(f"{prefix}{key}")}
        way_out = "__dir__ = package_dir(__name__)"
    else:
        way_out = "__dir__ = __all__.copy"
    assert dir(module) == sorted(shown), f"{name} shows other names than it lists; put {way_out} below its __all__"
    assert not [key for key in dir(module) if not hasattr(module, key)], f"{name} lists names that it does not have"


def test_the_package_shows_its_names():
    assert [key for key in dir(fb) if key.startswith("_")] == ["__future__", "__version__"]
    modules = {key for key in dir(fb) if isinstance(getattr(fb, key), types.ModuleType)}
    assert {*fb.__all__, *modules, "__version__"} == set(dir(fb))
    assert all(module.__name__ == f"flambeau.{key}" for key in modules if (module := getattr(fb, key)))


def test_private_ops_are_not_in_the_package():
    names = [name for name in _C.namespaces[""] if name.startswith("_")]
    assert "_lstm_cell" in names
    assert not [name for name in names if hasattr(fb, name)]
    assert private.lstm_cell is _C.namespaces[""]["_lstm_cell"]
    with pytest.raises(AttributeError, match="no op '_no_such'"):
        getattr(private, "no_such")  # noqa: B009


def test_names_are_read_without_loading_their_modules():
    code = """
import sys, flambeau as fb
assert "conv_tbc" in dir(fb) and "lobpcg" in fb.__all__
assert "flambeau.nn" not in sys.modules and "flambeau.sparse" not in sys.modules
assert fb.conv_tbc.__module__ == "flambeau.nn._native_layers"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    for module in ("nn._native", "nn.functional", "distributed._group"):
        assert listed(f"flambeau.{module}") == importlib.import_module(f"flambeau.{module}").__all__


def test_everything_at_once():
    space: dict = {}
    exec("from flambeau import *", space)
    assert "dropout" in space and "float32" in space and "nn" not in space and "random" not in space
