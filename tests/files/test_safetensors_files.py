"""safetensors files, exchanged with the safetensors package; shards."""

import io
import json
import os
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import flambeau as fb
from flambeau import serialization
from flambeau.serialization import load, save

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64".split()


def header_of(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


@pytest.mark.parametrize("name", DTYPES)
def test_package_reads_ours_and_we_read_theirs(tmp_path, name):
    t = fb.arange(6).to(getattr(fb, name)).view(2, 3)
    save({"t": t, "scalar": t[0, 1], "empty": t[:0], "turned": t.clone().t()}, tmp_path / "x.safetensors")
    found = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert set(found) == {"t", "empty", "turned"}
    assert found["t"].dtype.name == name and np.array_equal(found["t"], t.numpy())
    assert np.array_equal(found["turned"], t.t().numpy())
    safetensors.numpy.save_file({"t": t.numpy()}, tmp_path / "y.safetensors", metadata={"note": "theirs"})
    for options in ({}, {"mmap": True}):
        back = load(tmp_path / "y.safetensors", **options)
        assert list(back) == ["t"] and back["t"].dtype == t.dtype and fb.equal(back["t"], t)


def test_bfloat16(tmp_path):
    save({"t": fb.tensor([1.5, -2.0], dtype=fb.bfloat16)}, tmp_path / "x.safetensors")
    header, data = header_of(tmp_path / "x.safetensors")
    assert header["t"]["dtype"] == "BF16"
    assert np.frombuffer(data, dtype=ml_dtypes.bfloat16).tolist() == [1.5, -2.0]


def test_flat_dict_is_a_plain_file(tmp_path):
    save({"b": fb.ones(2), "a": fb.zeros(3, dtype=fb.float64)}, tmp_path / "x.safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", framework="np") as f:
        assert set(f.keys()) == {"a", "b"} and f.metadata()["format"] == "pt"
    assert list(load(tmp_path / "x.safetensors")) == ["b", "a"]


def test_names_in_nested_containers_tell_the_place(tmp_path):
    save({"model": {"w": fb.ones(2)}, "state": [{"step": fb.tensor(1)}]}, tmp_path / "x.safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", framework="np") as f:
        assert set(f.keys()) == {"model.w", "state.0.step"}


def test_names_that_collide(tmp_path):
    value = {
        "a.b": fb.ones(1), "a": {"b": fb.zeros(1)}, "__metadata__": fb.full((1,), 2.0), "": fb.full((1,), 3.0),
        "shared": fb.ones(1).expand(5), "shared#2": fb.zeros(1).expand(6),
    }  # fmt: skip
    save(value, tmp_path / "x.safetensors")
    back = load(tmp_path / "x.safetensors")
    assert back["a.b"].item() == 1 and back["a"]["b"].item() == 0
    assert back["__metadata__"].item() == 2 and back[""].item() == 3
    assert back["shared"].tolist() == [1] * 5 and back["shared#2"].tolist() == [0] * 6
    safetensors.numpy.load_file(tmp_path / "x.safetensors")


def test_tied_weights_are_stored_once(tmp_path):
    w = fb.ones(1000)
    save({"in": w, "out": w.view(10, 100)}, tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").stat().st_size < 6000
    back = load(tmp_path / "x.safetensors", mmap=True)
    back["in"][0] = 5
    assert back["out"][0, 0] == 5
    assert list(safetensors.numpy.load_file(tmp_path / "x.safetensors")) == ["in"]


def test_every_tensor_is_aligned(tmp_path):
    value = {str(i): fb.ones(3, dtype=d) for i, d in enumerate([fb.uint8, fb.float64, fb.bool, fb.float16, fb.complex128, fb.int32])}
    save(value, tmp_path / "x.safetensors")
    for t in load(tmp_path / "x.safetensors", mmap=True).values():
        assert t.data_ptr() % min(t.itemsize, 8) == 0 and bool((t == 1).all())


def test_unaligned_file_of_others_is_copied_where_needed(tmp_path):
    header = json.dumps({
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }).encode()  # fmt: skip
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\x07" + struct.pack("<2f", 1.5, 2.5))
    for options in ({}, {"mmap": True}):
        back = load(tmp_path / "x.safetensors", **options)
        assert back["a"].tolist() == [7] and back["b"].tolist() == [1.5, 2.5]


def test_cut_short_says_by_how_much(tmp_path):
    save({"a": fb.zeros(100)}, tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    with pytest.raises(serialization.FileError, match=r"x\.safetensors': the tensors: cut short by 7 bytes"):
        (tmp_path / "x.safetensors").write_bytes(data[:-7])
        load(tmp_path / "x.safetensors")
    with pytest.raises(serialization.FileError, match="cut short by"):
        load(io.BytesIO(data[:30]))


def test_checksum_names_the_tensor(tmp_path):
    save({"good": fb.zeros(100), "bad": fb.ones(100)}, tmp_path / "x.safetensors")
    data = bytearray((tmp_path / "x.safetensors").read_bytes())
    data[-5] ^= 0x10
    with pytest.raises(serialization.FileError, match="tensor 'bad' does not match its checksum"):
        load(io.BytesIO(data))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda h: h["a"].update(dtype="F8_E4M3"), "dtype F8_E4M3"),
        (lambda h: h["a"].update(shape=[5]), "needs 20 bytes"),
        (lambda h: h["a"].update(shape=[-4]), "shape"),
        (lambda h: h["a"].update(shape=[1 << 61, 8]), "needs"),
        (lambda h: h["a"].update(shape=["4"]), "shape"),
        (lambda h: h["a"].update(data_offsets=[8, 24]), "begins at byte 8"),
        (lambda h: h["a"].update(data_offsets=[0, 16, 20]), "offsets"),
        (lambda h: h["b"].update(data_offsets=[0, 16]), "begins at byte 0"),
        (lambda h: h.pop("b"), "16 bytes after the last tensor"),
        (lambda h: h.update(b=5), "damaged"),
        (lambda h: h.update(__metadata__=[1]), "metadata"),
    ],
)
def test_wrong_headers(change, message):
    header = {
        "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        "b": {"dtype": "F32", "shape": [4], "data_offsets": [16, 32]},
    }
    change(header)
    text = json.dumps(header).encode()
    with pytest.raises(serialization.FileError, match=message):
        load(io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(32)))


def test_repeated_names_are_refused():
    text = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    with pytest.raises(serialization.FileError, match="twice"):
        load(io.BytesIO(struct.pack("<Q", len(text)) + text + b"\0"))


# ---- shards --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def value():
    base = fb.arange(300.0)
    return {"model": {f"w{i}": fb.full((100,), float(i)) for i in range(6)}, "tied": [base, base[100:]], "epoch": 3}


def test_shards(tmp_path, value):
    path = tmp_path / "model.safetensors"
    save(fb.ones(1), path)
    save(value, path, max_shard_size="1KB")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [f"model-0000{i}-of-00004.safetensors" for i in range(1, 5)] + ["model.safetensors.index.json"]
    index = json.loads((tmp_path / names[-1]).read_text())
    assert set(index["weight_map"].values()) == set(names[:-1]) and index["metadata"]["total_size"] == 6 * 400 + 1200
    found = {}
    for name in names[:-1]:
        found.update(safetensors.numpy.load_file(tmp_path / name))
    assert set(found) == set(index["weight_map"])
    for where in (path, tmp_path / names[-1]):
        for options in ({}, {"mmap": True}):
            back = load(where, **options)
            assert back["epoch"] == 3 and all(fb.equal(back["model"][k], v) for k, v in value["model"].items())
            back["tied"][0][150] = -1
            assert back["tied"][1][50] == -1


def test_what_fits_is_one_file(tmp_path, value):
    save(value, tmp_path / "m.safetensors", max_shard_size="1MiB")
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"] and load(tmp_path / "m.safetensors")["epoch"] == 3


def test_shards_of_other_writers(tmp_path):
    for i in range(2):
        safetensors.numpy.save_file({f"w{i}": np.full(2, i)}, tmp_path / f"s{i}.safetensors")
    index = {"metadata": {"total_size": 32}, "weight_map": {"w0": "s0.safetensors", "w1": "s1.safetensors"}}
    (tmp_path / "s.safetensors.index.json").write_text(json.dumps(index))
    assert {k: v.tolist() for k, v in load(tmp_path / "s.safetensors").items()} == {"w0": [0, 0], "w1": [1, 1]}


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "", ".", "a/b", 5, None])
def test_index_cannot_lead_elsewhere(tmp_path, name):
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(serialization.FileError, match="not a file of its own folder"):
        load(tmp_path / "m.safetensors")


def test_damaged_shards(tmp_path, value):
    path = tmp_path / "m.safetensors"
    save(value, path, max_shard_size=1000)
    second = tmp_path / "m-00002-of-00004.safetensors"
    data = second.read_bytes()
    for change, message in (
        (lambda: second.write_bytes(data[:-3]), "shard 'm-00002-of-00004.safetensors': the tensors: cut short by 3 bytes"),
        (lambda: second.write_bytes(data[:-1] + b"\x01"), "tensor 'model.w3' does not match its checksum"),
        (second.unlink, "shard 'm-00002-of-00004.safetensors' is missing"),
    ):
        change()
        with pytest.raises(serialization.FileError, match=message):
            load(path)


def test_shards_of_two_saves_are_not_mixed(tmp_path, value):
    path = tmp_path / "m.safetensors"
    save(value, path, max_shard_size=1000)
    data = (tmp_path / "m-00002-of-00004.safetensors").read_bytes()
    save(value, path, max_shard_size=1000)
    next(tmp_path.glob("m-00002-of-00004*")).write_bytes(data)
    with pytest.raises(serialization.FileError, match="another save"):
        load(path)


def test_shards_saved_again_replace_the_old_ones(tmp_path, value):
    path = tmp_path / "m.safetensors"
    for epoch in range(4):
        save({**value, "epoch": epoch}, path, max_shard_size=1000)
        assert load(path)["epoch"] == epoch and len(list(tmp_path.iterdir())) == 5
    save(fb.ones(1), tmp_path / "m-00009-of-00009.safetensors")  # not in any index: it stays
    save(value, path, max_shard_size=1000)
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("renamed", range(5))
def test_shards_are_whole_however_far_a_save_came(tmp_path, value, monkeypatch, renamed):
    path = tmp_path / "m.safetensors"
    save(value, path, max_shard_size=1000)
    replace, calls = os.replace, []

    def stops(*arguments):
        if len(calls) == renamed:
            raise KeyboardInterrupt
        calls.append(arguments)
        replace(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", stops)
        with pytest.raises(KeyboardInterrupt):
            save({**value, "epoch": 4}, path, max_shard_size=1000)
    assert load(path)["epoch"] == 3
    save({**value, "epoch": 5}, path, max_shard_size=1000)
    assert load(path)["epoch"] == 5


def test_failed_save_of_shards_leaves_the_old_ones(tmp_path, value, monkeypatch):
    path = tmp_path / "m.safetensors"
    save(value, path, max_shard_size=1000)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    calls = []

    def failing(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", failing)
    with pytest.raises(OSError, match="No space"):
        save(value, path, max_shard_size=1000)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("size", ["", "x", "5 parsecs", 0, True, -3, "0KB"])
def test_wrong_sizes(tmp_path, size):
    with pytest.raises(ValueError, match="max_shard_size"):
        save(fb.ones(2), tmp_path / "x.safetensors", max_shard_size=size)


def test_shards_need_a_path(tmp_path):
    for f, options in ((io.BytesIO(), {}), (tmp_path / "x.pt", {})):
        with pytest.raises(ValueError, match="max_shard_size needs"):
            save(fb.ones(2), f, max_shard_size=5, **options)
