"""Whole models in .pt files: classes and attributes, made again without running code."""

import io
import pickle
import zipfile

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.serialization import ForbiddenError, load, safe_globals, save

RAN: list = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        RAN.append("init")
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, 0.0)
        self.rnn = nn.LSTM(4, 4)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.act = F.relu
        self.register_buffer("scale", fb.full((1,), 2.0))

    def __setstate__(self, state):
        RAN.append("setstate")
        super().__setstate__(state)

    def forward(self, x):
        return self.second(self.act(self.first(self.rnn(self.encoder(x))[0]))) * self.scale


def saved(value, **options):
    f = io.BytesIO()
    save(value, f, **options)
    f.seek(0)
    return f


def pickled(value):
    """A .pt file with this pickle, as a stranger could write it."""
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(value, 2))
    f.seek(0)
    return f


@pytest.mark.parametrize("zipped", [True, False])
def test_a_model_comes_back_without_running_its_code(zipped):
    model, x = Net().eval(), fb.randn(3, 2, 4)
    file = saved({"model": model, "epoch": 3}, format="pt", _use_new_zipfile_serialization=zipped)
    RAN.clear()
    back = load(file, weights_only=False)
    assert RAN == [] and back["epoch"] == 3
    made = back["model"]
    assert type(made) is Net and not made.training and repr(made) == repr(model)
    assert fb.equal(made(x), model(x)) and made.first.weight is made.second.weight
    assert isinstance(made.first.weight, nn.Parameter) and made.first.weight.requires_grad
    made.train()(x).sum().backward()
    assert made.rnn.weight_hh_l0.grad is not None and model.rnn.weight_hh_l0.grad is None


def test_a_model_is_loaded_by_naming_its_classes():
    file = saved(Net())
    with pytest.raises(ForbiddenError, match=r"test_whole_models\.Net.*weights_only=False makes objects"):
        load(file)
    file.seek(0)
    names = [Net, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.LSTM, nn.Linear, nn.LayerNorm, nn.Dropout, F.relu]
    names += [type(module) for module in Net().modules()]
    with safe_globals(names):
        assert isinstance(load(file), Net)


@pytest.mark.parametrize("name", ["whole.pt", "whole.bin"])
def test_models_go_into_pt_files_whatever_the_name(tmp_path, name):
    save(nn.Linear(2, 3), tmp_path / name)
    assert repr(load(tmp_path / name, weights_only=False)) == repr(nn.Linear(2, 3))


def test_what_a_module_cannot_take_along_is_named():
    class Local(nn.Module):
        pass

    with pytest.raises(ValueError, match="object of type Local"):
        save(Local(), io.BytesIO())
    model = nn.Linear(1, 1)
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"function <lambda> at '_forward_hooks\.\d+'"):
        save(model, io.BytesIO())


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("make", [Net, F.relu, RAN.append], ids=["module", "function", "method"])
def test_nothing_is_called_for_a_file(make):
    RAN.clear()
    with pytest.raises(ForbiddenError):
        load(pickled(Call(make, 1)), weights_only=False)
    assert RAN == []


def test_modules_cannot_be_given_other_methods():
    model = nn.Linear(1, 1)
    model.__dict__["forward"] = F.relu
    with pytest.raises(Exception, match="'forward' would hide what Linear defines"):
        load(saved(model), weights_only=False)


def test_modules_keep_data_under_the_name_of_a_method():
    model = nn.Linear(1, 1)
    model.__dict__["type"] = "head"
    assert load(saved(model), weights_only=False).type == "head"


def test_only_imported_module_classes_are_known():
    for name in (b"flambeau.nn.no_such_module\nThing", b"subprocess\nPopen", b"flambeau.nn.modules.module\nOrderedDict"):
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w") as archive:
            archive.writestr("a/data.pkl", b"\x80\x02c" + name + b"\n)\x81.")
        f.seek(0)
        with pytest.raises(ForbiddenError):
            load(f, weights_only=False)


def test_pytorchs_variables_decide_in_its_programs(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    fb.save(fb.nn.Linear(3, 2), path)
    for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        monkeypatch.delenv(name, raising=False)
    with fb.compat.torch():
        monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
        with pytest.raises(ForbiddenError, match="Weights only load failed"):
            fb.load(path, weights_only=False)
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "yes")
        with pytest.raises(RuntimeError, match="Only one of"):
            fb.load(path)
        monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
        with pytest.warns(UserWarning, match="forcing weights_only=False"):
            assert isinstance(fb.load(path), fb.nn.Linear)
        with pytest.raises(ForbiddenError):
            fb.load(path, weights_only=True)
    with pytest.raises(ForbiddenError):
        fb.load(path)
