"""Files exchanged with PyTorch itself, both ways; runs where PyTorch happens to be installed beside flambeau."""

import argparse
import collections
import io

import numpy as np
import pytest

import flambeau as fb
from flambeau.serialization import load, save

torch = pytest.importorskip("torch", reason="PyTorch is not a requirement; the stored files of tests/files/data are")

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
).split()
SMALL = [name for name in DTYPES if name not in ("uint16", "uint32", "uint64")]


def theirs(t):
    """A tensor of ours as PyTorch's, through lists: no shared code path with the files."""
    return torch.tensor(t.tolist(), dtype=getattr(torch, t.dtype.name)).view(tuple(t.shape))


def ours_to_torch(value, tmp_path, name="x.pt", **options):
    save(value, tmp_path / name, **options)
    return torch.load(tmp_path / name, weights_only=True)


def torch_to_ours(value, **options):
    f = io.BytesIO()
    torch.save(value, f, **options)
    f.seek(0)
    return load(f)


def sample(name, shape=(2, 3)):
    return fb.arange(6).to(getattr(fb, name)).view(shape)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_both_ways(name, tmp_path):
    t = sample(name)
    back = ours_to_torch({"t": t, "column": t[:, 1], "turned": t.t()}, tmp_path)
    assert torch.equal(back["t"], theirs(t)) and back["t"].dtype == getattr(torch, name)
    assert torch.equal(back["column"], theirs(t[:, 1])) and torch.equal(back["turned"], theirs(t.t()))
    again = torch_to_ours(back)
    assert again["t"].dtype == t.dtype and again["t"].tolist() == t.tolist()
    assert again["turned"].tolist() == t.t().tolist()


@pytest.mark.parametrize("name", SMALL)
def test_every_dtype_in_the_old_format(name, tmp_path):
    t = sample(name)
    back = ours_to_torch([t, t[1]], tmp_path, _use_new_zipfile_serialization=False)
    assert torch.equal(back[0], theirs(t)) and torch.equal(back[1], theirs(t[1]))
    assert back[0].untyped_storage().data_ptr() == back[1].untyped_storage().data_ptr()
    assert torch_to_ours(back, _use_new_zipfile_serialization=False)[1].tolist() == t[1].tolist()


def test_containers_and_sharing(tmp_path):
    base = fb.arange(12.0).view(3, 4)
    model = collections.OrderedDict(weight=base, row=base[1])
    model._metadata = collections.OrderedDict({"": {"version": 1}})
    bits = fb.arange(4, dtype=fb.int32)
    value = {
        "model": model, "sliced": fb.arange(1000)[::10], "reversed": fb.arange(3)[::-1], "expanded": fb.ones(1).expand(4),
        "empty": fb.zeros(0, 2), "scalar": fb.tensor(3), "two_types": [bits, bits.view(fb.uint8)], "same": base,
        "plain": [None, True, 1, -5, 1 << 70, 2.5, "tëxt", (1, 2, 3, 4), b"\x00\xff", bytearray(b"x"), {1, 2}, 1j, 7000],
        "types": (fb.bfloat16, fb.device("cpu"), fb.Size([1, 2])), "counter": collections.Counter("aab"), 3: (),
    }  # fmt: skip
    back = ours_to_torch(value, tmp_path)
    weight, row = back["model"]["weight"], back["model"]["row"]
    weight[1, 0] = 99
    assert row[0] == 99 and back["same"] is weight
    assert back["model"]._metadata == {"": {"version": 1}}
    assert back["plain"] == value["plain"] and back[3] == () and back["counter"] == {"a": 2, "b": 1}
    assert back["types"] == (torch.bfloat16, torch.device("cpu"), torch.Size([1, 2]))
    assert back["sliced"].tolist() == list(range(0, 1000, 10)) and back["reversed"].tolist() == [2, 1, 0]
    assert back["sliced"].untyped_storage().nbytes() == 800
    assert back["expanded"].stride() == (0,) and back["empty"].shape == (0, 2) and back["scalar"] == 3
    back["two_types"][1][0] = 5
    assert back["two_types"][0][0] == 5


def test_torch_maps_our_archive(tmp_path):
    save({"a": fb.arange(100.0)}, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", mmap=True, weights_only=True)["a"].sum() == 4950


def test_attributes_of_tensors(tmp_path):
    t = fb.ones(2)
    t.note = "kept"
    back = ours_to_torch(t, tmp_path)
    assert back.note == "kept"
    assert torch_to_ours(back).note == "kept"


def test_what_scripts_put_into_checkpoints():
    value = {
        "best": np.float64(0.5), "count": np.int32(3), "curve": np.arange(6.0).reshape(2, 3), "args": argparse.Namespace(lr=0.1),
        "log": collections.defaultdict(list, {"loss": [1.0]}), "names": collections.deque(["a"], 3), "part": slice(1, 2),
    }  # fmt: skip
    for options in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}, {"pickle_protocol": 5}):
        back = torch_to_ours(value, **options)
        assert back["best"] == 0.5 and type(back["best"]) is np.float64 and type(back["count"]) is np.int32
        assert np.array_equal(back["curve"], value["curve"]) and back["args"] == value["args"]
        assert back["log"] == value["log"] and back["log"].default_factory is list
        assert back["names"] == value["names"] and back["part"] == value["part"]
    f = io.BytesIO()
    save(value, f, format="pt")
    f.seek(0)
    back = torch.load(f, weights_only=False)
    assert back["best"] == 0.5 and np.array_equal(back["curve"], value["curve"]) and back["args"] == value["args"]
    assert back["log"] == value["log"] and back["names"] == value["names"] and back["part"] == value["part"]


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "complex128"])
def test_safetensors_package_both_ways(name, tmp_path):
    package = pytest.importorskip("safetensors.torch")
    t = sample(name)
    save({"t": t, "other": fb.ones(3)}, tmp_path / "x.safetensors")
    back = package.load_file(tmp_path / "x.safetensors")
    assert torch.equal(back["t"], theirs(t)) and set(back) == {"t", "other"}
    package.save_file(back, tmp_path / "y.safetensors")
    again = load(tmp_path / "y.safetensors")
    assert again["t"].dtype == t.dtype and again["t"].tolist() == t.tolist()
