"""load() returns what save() wrote: values, types, shared memory, in every format and through every kind of file."""

import argparse
import collections
import dataclasses
import enum
import io
import math
import os
import stat
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import flambeau as fb
from flambeau import serialization
from flambeau.serialization import load, save

FORMATS = {
    "safetensors": {},
    "zip": {"format": "pt"},
    "legacy": {"format": "pt", "_use_new_zipfile_serialization": False},
}
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
).split()
Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


@dataclasses.dataclass
class Settings:
    rate: float
    tensor: object = None

    def __post_init__(self):
        raise AssertionError("loading ran code of a class")


def settings(**values):
    made = object.__new__(Settings)
    made.__dict__.update(values)
    return made


@pytest.fixture(params=FORMATS)
def there_and_back(request):
    def convert(value, **options):
        f = io.BytesIO()
        save(value, f, **FORMATS[request.param])
        f.seek(0)
        return load(f, **options)

    convert.format = request.param
    return convert


@pytest.fixture
def known_classes():
    with serialization.safe_globals([Point, Colour, Settings]):
        yield


def same(a, b):
    """Equal in type and value, through containers."""
    assert type(a) is type(b)
    if isinstance(a, fb.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and fb.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b
    return True


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(there_and_back, name):
    if there_and_back.format == "legacy" and name in ("uint16", "uint32", "uint64"):
        pytest.skip("PyTorch's old format does not have it; the error is tested below")
    t = fb.arange(6).to(getattr(fb, name)).view(2, 3)
    assert same(there_and_back([t, t[0, 0], fb.empty(0, 3, dtype=t.dtype)]), [t, t[0, 0], fb.empty(0, 3, dtype=t.dtype)])


def test_old_format_says_what_it_lacks():
    with pytest.raises(ValueError, match="uint16"):
        save(fb.zeros(1, dtype=fb.uint16), io.BytesIO(), **FORMATS["legacy"])
    x = fb.zeros(2)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data as different types"):
        save([x, x.view(fb.int32)], io.BytesIO(), **FORMATS["legacy"])


def test_bits_survive(there_and_back):
    values = fb.tensor([math.nan, math.inf, -math.inf, -0.0, 5e-324], dtype=fb.float64)
    assert bytes(there_and_back(values)) == bytes(values)


def test_plain_values(there_and_back):
    value = {
        "none": None, "flags": [True, False], "numbers": [0, -1, 255, 256, -70000, 1 << 62, -(1 << 200), 0.1, -0.0, 1e308],
        "text": ["", "tëxt \U0001f525", "line\nline", "\ud800"], "bytes": [b"", bytes(range(256)), bytearray(b"x")],
        "complex": 1 - 2.5j, "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "sets": [{1, 2}, set(), frozenset({3})],
        "keys": {7: "int", 2.5: "float", True: "bool", None: "none", b"k": "bytes", (1, "a"): "tuple"},
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]), "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, {"k": [1]}), "deque": collections.deque([1, 2], 5),
        "slice": slice(1, None, 2), "range": range(1, 10, 3), "types": (fb.bfloat16, fb.device("cpu"), fb.Size([2, 3])),
        "space": argparse.Namespace(lr=0.1, name="run"), "simple": types.SimpleNamespace(a=[1]),
        "numpy": [np.float64(1.5), np.int32(-3), np.bool_(True), np.complex64(1j)],
    }  # fmt: skip
    back = there_and_back(value)
    assert same(back, value)
    assert back["default"].default_factory is list and back["deque"].maxlen == 5


def test_floats_that_json_lacks(there_and_back):
    back = there_and_back([math.inf, -math.inf, math.nan, complex(math.nan, math.inf)])
    assert back[:2] == [math.inf, -math.inf] and math.isnan(back[2])
    assert math.isnan(back[3].real) and back[3].imag == math.inf


def test_numpy_arrays(there_and_back):
    value = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5), np.zeros((0, 2), dtype=bool), np.arange(6)[::-2]]
    for a, b in zip(there_and_back(value), value, strict=True):
        assert isinstance(a, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)


def test_constants_generators_and_named_results(there_and_back):
    generator = fb.Generator().manual_seed(5)
    fb.rand(3, generator=generator)
    made, memory_format, largest, layout = there_and_back([generator, fb.channels_last, fb.max(fb.arange(3), 0), fb.strided])
    assert fb.equal(fb.rand(4, generator=made), fb.rand(4, generator=generator))
    assert memory_format is fb.channels_last and layout is fb.strided and largest.values == 2 and largest.indices == 2


def test_random_state_resumes(there_and_back):
    state = fb.get_rng_state()
    expected = fb.rand(5)
    fb.set_rng_state(there_and_back({"rng": state})["rng"])
    assert fb.equal(fb.rand(5), expected)


def test_named_tuples_enumerations_and_classes(there_and_back, known_classes):
    value = [Point(1, [2]), Colour.BLUE, settings(rate=0.5, tensor=[1])]
    back = there_and_back(value)
    assert same(back[0], value[0]) and back[1] is Colour.BLUE
    assert type(back[2]) is Settings and vars(back[2]) == {"rate": 0.5, "tensor": [1]}


def test_state_dict_keeps_its_metadata(there_and_back):
    state = collections.OrderedDict(weight=fb.ones(2))
    state._metadata = collections.OrderedDict({"": {"version": 2}})
    assert there_and_back(state)._metadata == {"": {"version": 2}}


def test_attributes_of_tensors(there_and_back):
    t = fb.ones(2)
    t.note = {"kept": [1]}
    assert there_and_back([t])[0].note == {"kept": [1]}


def test_gradients_are_recorded_again_and_history_is_not_kept(there_and_back):
    leaf = fb.arange(6.0).view(2, 3).requires_grad_()
    product = leaf * 2
    product.backward(fb.ones(2, 3))
    back = there_and_back({"leaf": leaf, "product": product, "turned": product.t(), "plain": fb.ones(1)})
    assert back["leaf"].requires_grad and back["leaf"].is_leaf and back["leaf"].grad is None
    assert back["product"].requires_grad and back["product"].grad_fn is None and not back["plain"].requires_grad
    (back["leaf"] * 3).backward(fb.ones(2, 3))
    assert back["leaf"].grad.tolist() == [[3, 3, 3], [3, 3, 3]]


def train(parameter, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (parameter * parameter - fb.rand(4)).pow(2)
        loss.backward(fb.ones(4))
        optimizer.step()
    return parameter.detach().clone()


def test_optimizer_and_random_state_resume_bit_for_bit(there_and_back):
    fb.manual_seed(3)
    parameter = fb.arange(4.0).requires_grad_()
    optimizer = fb.optim.Adam([parameter], lr=0.1)
    train(parameter, optimizer, 3)
    saved = there_and_back({"p": parameter, "optimizer": optimizer.state_dict(), "rng": fb.get_rng_state()})
    expected = train(parameter, optimizer, 3)
    resumed = saved["p"]
    again = fb.optim.Adam([resumed], lr=0.1)
    again.load_state_dict(saved["optimizer"])
    fb.set_rng_state(saved["rng"])
    assert bytes(train(resumed, again, 3)) == bytes(expected)


def test_modules_and_parameters(there_and_back):
    nn = pytest.importorskip("flambeau.nn")
    model = nn.Linear(3, 2)
    fixed = nn.Parameter(fb.ones(2), requires_grad=False)
    fixed.note = "kept"
    back = there_and_back({"state": model.state_dict(), "p": model.weight, "fixed": fixed})
    assert type(back["p"]) is nn.Parameter and back["p"].requires_grad and back["p"].is_leaf
    assert type(back["fixed"]) is nn.Parameter and not back["fixed"].requires_grad and back["fixed"].note == "kept"
    other = nn.Linear(3, 2)
    other.load_state_dict(back["state"])
    assert fb.equal(other.weight, model.weight) and back["state"]._metadata == model.state_dict()._metadata
    with pytest.raises(ValueError, match=r"Linear.*weights_only=False makes objects"):
        there_and_back(model)
    with pytest.raises(ValueError, match=r"Linear.*save its state_dict\(\)"):
        fb.save(model, io.BytesIO(), format="safetensors")


# ---- memory --------------------------------------------------------------------------------------------------------------


def test_views_share_memory_again(there_and_back):
    base = fb.arange(12.0).view(3, 4)
    back = there_and_back({"base": base, "row": base[1], "turned": base.t(), "again": base, "part": base[:2, ::2]})
    back["base"][1, 2] = 100
    assert back["row"][2] == 100 and back["turned"][2, 1] == 100 and back["part"][1, 1] == 100
    assert back["again"] is back["base"] and back["turned"].stride() == (1, 4)


def test_overlapping_parts_share_memory_again(there_and_back):
    base = fb.arange(10)
    back = there_and_back([base[:6], base[3:]])
    back[0][4] = -1
    assert back[1].tolist() == [3, -1, 5, 6, 7, 8, 9]


def test_two_dtypes_on_the_same_memory():
    base = fb.arange(4, dtype=fb.float32)
    for options in (FORMATS["safetensors"], FORMATS["zip"]):
        f = io.BytesIO()
        save([base.view(fb.uint8)[1:], base[1:]], f, **options)
        f.seek(0)
        octets, floats = load(f)
        floats[0] = -2.0
        assert octets[6] == 0xC0 and floats.tolist() == [-2, 2, 3]


def test_arrays_of_numpy_share_memory_again(there_and_back):
    array = np.arange(6.0)
    a, b = there_and_back([fb.from_numpy(array), fb.from_numpy(array[2:])])
    a[3] = 50
    assert b[1] == 50


def test_separate_parts_of_a_storage_do_not_bring_all_of_it(there_and_back):
    big = fb.arange(100_000)
    f = io.BytesIO()
    save([big[5:10], big[70_000:70_003]], f, **FORMATS[there_and_back.format])
    assert len(f.getvalue()) < 3000
    assert [t.tolist() for t in there_and_back([big[5:8], big[9:10]])] == [[5, 6, 7], [9]]


def test_strides(there_and_back):
    t = fb.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=fb.channels_last)
    back = there_and_back({"nhwc": t, "reversed": fb.arange(3)[::-1], "gaps": fb.arange(9)[::3], "wide": fb.ones(1).expand(10**9)})
    assert back["nhwc"].is_contiguous(memory_format=fb.channels_last) and fb.equal(back["nhwc"], t)
    assert back["reversed"].tolist() == [2, 1, 0] and back["gaps"].tolist() == [0, 3, 6]
    assert back["wide"].shape == (10**9,) and back["wide"].stride() == (0,)


def test_reversed_view_of_shared_memory():
    base = fb.arange(4)
    f = io.BytesIO()
    save([base, base[::-1]], f)
    f.seek(0)
    a, b = load(f)
    a[0] = 9
    assert b.tolist() == [3, 2, 1, 9]
    with pytest.raises(ValueError, match="negative strides"):
        save([base, base[::-1]], io.BytesIO(), format="pt")


def test_saving_does_not_pin_the_memory(there_and_back):
    t = fb.zeros(4)
    there_and_back(t)
    t.resize_(1000)
    assert t.numel() == 1000


# ---- files ---------------------------------------------------------------------------------------------------------------


def test_name_decides_the_format(tmp_path):
    starts = {"a.pt": b"PK", "b.PTH": b"PK", "c.pth.tar": b"PK", "d.safetensors": None, "e.bin": None, "f": None}
    for name, start in starts.items():
        save({"x": fb.ones(2)}, tmp_path / name)
        head = (tmp_path / name).read_bytes()[:9]
        assert head.startswith(start) if start else head[8:9] == b"{", name
        assert load(str(tmp_path / name))["x"].tolist() == [1, 1]


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_files_and_positions(tmp_path, options):
    with open(tmp_path / "x", "w+b") as f:
        f.write(b"before")
        save([fb.arange(3), "tail"], f, **options)
        f.seek(6)
        value = load(f)
    assert value[0].tolist() == [0, 1, 2] and value[1] == "tail"
    data = (tmp_path / "x").read_bytes()[6:]
    read_end, write_end = os.pipe()
    feeder = threading.Thread(target=lambda: (os.write(write_end, data), os.close(write_end)))
    feeder.start()
    with open(read_end, "rb") as pipe:
        assert load(pipe)[1] == "tail"
    feeder.join()


def test_old_files_one_after_the_other(tmp_path):
    with open(tmp_path / "x", "w+b") as f:
        for i in range(3):
            save(fb.full((2,), i), f, **FORMATS["legacy"])
        f.seek(0)
        assert [load(f).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]


def test_wrong_kinds_of_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.pt")
    with pytest.raises(IsADirectoryError):
        save(1, tmp_path)
    with pytest.raises(AttributeError, match="expected 'f' to be string, path"):
        save(1, 5)
    with pytest.raises(TypeError, match="read"):
        load(5)
    with pytest.raises(TypeError, match="'rb'"):
        load(io.StringIO("text"))
    with pytest.raises(serialization.FileError, match="empty"):
        load(io.BytesIO())


def test_write_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save({"a": fb.zeros(3)}, path)
    path.chmod(0o640)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            save({"a": fb.ones(3)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.safetensors"]
    save({"a": fb.ones(3)}, path)
    assert load(path)["a"].tolist() == [1, 1, 1] and os.listdir(tmp_path) == ["x.safetensors"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_everything_is_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    seen = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda f: (seen.append("fsync"), fsync(f)))
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append("replace"), replace(a, b)))
    save(fb.ones(2), tmp_path / "x.pt")
    assert seen == ["fsync", "replace", "fsync"]


def test_symbolic_link_stays(tmp_path):
    (tmp_path / "link.pt").symlink_to(tmp_path / "real.pt")
    save(fb.ones(2), tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink() and load(tmp_path / "real.pt").tolist() == [1, 1]


def test_device_files():
    save(fb.ones(2), "/dev/null")


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt", "old.pt"])
def test_mapped_tensors_are_copies_on_write(tmp_path, name):
    path = tmp_path / name
    base = fb.arange(1000.0)
    save({"a": base, "tail": base[500:], "octet": fb.arange(3, dtype=fb.uint8)}, path, _use_new_zipfile_serialization=name != "old.pt")
    before = path.read_bytes()
    one, two = load(path, mmap=True), load(path, mmap=True)
    one["a"][600] = -1
    assert one["tail"][100] == -1 and two["tail"][100] == 600 and one["octet"].tolist() == [0, 1, 2]
    assert path.read_bytes() == before
    save({"a": fb.zeros(1)}, path)
    assert two["a"].sum() == 499500


def test_mapping_reads_nothing(tmp_path):
    path = tmp_path / "x.safetensors"
    save({"a": fb.zeros(1 << 20)}, path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert load(path, mmap=True)["a"].shape == (1 << 20,)
    for options in ({"mmap": True, "verify": True}, {}):
        with pytest.raises(serialization.FileError, match="tensor 'a' does not match its checksum"):
            load(path, **options)
    assert load(path, verify=False)["a"].shape == (1 << 20,)
    with pytest.raises(ValueError, match="mmap"):
        load(io.BytesIO(bytes(damaged)), mmap=True)


def test_large_files_by_several_threads(tmp_path):
    value = {str(i): fb.full((1 << 20,), float(i)) for i in range(4)}
    for name in ("x.safetensors", "x.pt"):
        save(value, tmp_path / name)
        assert same(load(tmp_path / name), value)


# ---- arguments -----------------------------------------------------------------------------------------------------------


def test_map_location(there_and_back):
    t = fb.arange(3)
    seen = []
    for where in ("cpu", fb.device("cpu"), {"cuda:0": "cpu"}, lambda s, tag: seen.append((tag, s.nbytes())), lambda s, tag: s):
        assert there_and_back(t, map_location=where).tolist() == [0, 1, 2]
    assert seen == [("cpu", 24)]
    with pytest.raises(RuntimeError, match="map_location='cuda:0'"):
        there_and_back(t, map_location="cuda:0")
    with pytest.raises(TypeError, match="map_location"):
        there_and_back(t, map_location=1.5)
    with pytest.raises(TypeError, match="storage"):
        there_and_back(t, map_location=lambda s, tag: 5)
    with pytest.raises(ZeroDivisionError):
        there_and_back(t, map_location=lambda s, tag: 1 / 0)


def test_arguments_for_pytorch(there_and_back):
    import json
    import pickle

    f = io.BytesIO()
    save(fb.ones(1), f, pickle, 2)
    for only in (None, True, False):
        f.seek(0)
        assert load(f, None, pickle, weights_only=only).item() == 1
    with pytest.raises(ValueError, match="pickle_module"):
        load(f, pickle_module=json)
    with pytest.raises(ValueError, match="pickle_protocol"):
        save(1, f, pickle_protocol=6)
    with pytest.raises(ValueError, match="format"):
        save(1, f, format="json")
    with pytest.raises(TypeError, match="strict"):
        load(f, strict=True)
    with pytest.raises(ValueError, match="encoding"):
        load(f, encoding="rot13")


class Other:
    pass


REFUSED = {
    "object": Other(), "function": len, "class": Other, "namedtuple": Point(1, 2), "lambda": lambda: 1,
    "array of text": np.array(["text"]), "path": Path("x"),
}  # fmt: skip


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_what_is_not_data_is_refused_by_safetensors(value):
    with pytest.raises(ValueError, match=r"save: an object of type .* at 'a\.1'.*format='pt'"):
        save({"a": [0, value]}, io.BytesIO(), format="safetensors")


def test_endless_containers_are_refused(there_and_back):
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        there_and_back(loop)
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper"):
        there_and_back(deep)


def test_subclasses_of_tensor_are_refused_by_safetensors():
    class Mine(fb.Tensor):
        pass

    with pytest.raises(ValueError, match="class Mine"):
        save(fb.ones(2).as_subclass(Mine), io.BytesIO(), format="safetensors")


def test_functions_that_start_programs_cannot_be_made_safe():
    for function in (os.system, eval, io.open):
        with pytest.raises(ValueError, match="can do anything"):
            serialization.add_safe_globals([function])
    assert serialization.get_safe_globals() == []


def test_file_of_an_unknown_class_names_it(known_classes):
    for options in FORMATS.values():
        f = io.BytesIO()
        save([Point(1, 2)], f, **options)
        f.seek(0)
        with pytest.raises(serialization.ForbiddenError, match="Point.*add_safe_globals"):
            before = serialization.get_safe_globals()
            serialization.clear_safe_globals()
            try:
                load(f)
            finally:
                serialization.add_safe_globals(before)
