"""The import hook within a process: what resolves, what is refused, and that leaving it leaves no trace."""

import importlib
import importlib.metadata
import sys
import types

import pytest

import flambeau as fb
from flambeau import compat
from flambeau.compat.version import TorchVersion


@pytest.fixture
def torch():
    with compat.torch() as module:
        yield module


def test_submodules_are_the_modules_of_flambeau(torch):
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.optim import lr_scheduler

    assert torch.Tensor is fb.Tensor
    assert nn is fb.nn and F is fb.nn.functional and lr_scheduler is fb.optim.lr_scheduler
    assert torch.nn.functional is F and torch.linalg is fb.linalg


def test_modules_keep_their_own_spec(torch):
    before = fb.nn.functional.__spec__
    importlib.import_module("torch.nn.functional")
    assert fb.nn.functional.__spec__ is before and before.name == "flambeau.nn.functional"


@pytest.mark.parametrize("name", ["torch.nope", "torch.nn.Nope", "torch.nn.functional.nope", "torch.optim.lr_scheduler.Nope"])
def test_missing_attribute_names_itself_and_the_page(torch, name):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(AttributeError, match="Differences from PyTorch") as caught:
        getattr(importlib.import_module(module), attribute)
    assert str(caught.value).startswith(f"{name}: not in flambeau")
    assert not hasattr(importlib.import_module(module), attribute)


def test_missing_module(torch):
    with pytest.raises(ModuleNotFoundError, match=r"torch\.nope: not in flambeau .*Differences from PyTorch"):
        importlib.import_module("torch.nope")
    with pytest.raises(ImportError, match=r"torch\.nope: not in flambeau"):
        exec("from torch import nope")


def test_version(torch):
    assert torch.__version__ == "2.13.0+flambeau" == torch.version.__version__
    assert torch.__version__ > "2.2" and torch.__version__ >= (2, 13) and not torch.__version__ < "2.13"
    assert torch.version.cuda is None
    assert importlib.metadata.version("torch") == "2.13.0+flambeau"
    assert importlib.import_module("torch.torch_version").TorchVersion is TorchVersion
    with pytest.raises(ValueError, match="TorchVersion"):
        assert torch.__version__ > "nightly"


def test_leaving_the_block_leaves_no_trace():
    own = fb.nn.__dict__.get("__getattr__")
    finders = list(sys.meta_path)
    with compat.torch():
        exec("import torch.nn")
        with compat.torch():
            assert compat.is_installed()
        assert compat.is_installed() and "torch" in sys.modules
    assert sys.meta_path == finders and not compat.is_installed()
    assert not [name for name in sys.modules if name == "torch" or name.startswith("torch.")]
    assert fb.nn.__dict__.get("__getattr__") is own
    with pytest.raises(AttributeError, match="^module 'flambeau.nn' has no attribute 'Nope'$"):
        fb.nn.Nope  # noqa: B018


def test_a_module_called_torch_comes_back():
    other = types.ModuleType("torch")
    sys.modules["torch"] = other
    try:
        with compat.torch() as module:
            assert module is not other and sys.modules["torch"] is module
        assert sys.modules["torch"] is other
    finally:
        del sys.modules["torch"]


def test_other_packages_are_left_alone(torch):
    with pytest.raises(ModuleNotFoundError, match="No module named 'torchaudio_that_is_not_there'"):
        importlib.import_module("torchaudio_that_is_not_there")


def test_errors_of_own_classes_are_not_explained():
    class Net(fb.nn.Module):
        pass

    with pytest.raises(AttributeError) as caught:
        Net().forgotten  # noqa: B018
    compat.explain(caught.value)
    assert not getattr(caught.value, "__notes__", [])


def test_modules_that_stand_for_others_go_with_the_hook():
    with fb.compat.torch():
        import torch.nn.quantized

        assert torch.nn.quantized.Linear.__module__ == "torch.nn.quantized"
    assert not hasattr(fb.nn, "quantized")
