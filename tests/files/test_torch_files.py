"""Files that PyTorch wrote, read without PyTorch: tests/files/data, made by make_data.py."""

import collections
import io
import mmap
import pickle
import zipfile
from pathlib import Path

import pytest

import flambeau as fb
from flambeau import serialization
from flambeau.serialization import load, save

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", ["dtypes_zip.pt", "dtypes_legacy.pt", "dtypes.safetensors"])
def test_every_dtype(name):
    found = load(DATA / name)
    assert len(found) == {"dtypes_zip.pt": 15, "dtypes_legacy.pt": 12, "dtypes.safetensors": 14}[name]
    for key, t in found.items():
        assert t.dtype == getattr(fb, key), key
        assert t.tolist() == fb.arange(6).to(t.dtype).view(2, 3).tolist(), key


@pytest.fixture(params=["zip", "zip mapped", "legacy", "legacy mapped", "legacy from memory"])
def checkpoint(request):
    kind, _, how = request.param.partition(" ")
    path = DATA / f"checkpoint_{kind}.pth"
    return load(io.BytesIO(path.read_bytes())) if how == "from memory" else load(path, mmap=how == "mapped")


def test_state_dict(checkpoint):
    model = checkpoint["model"]
    assert type(model) is collections.OrderedDict
    assert list(model) == [
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked",
    ]  # fmt: skip
    assert model["0.weight"].tolist() == [[0, 1], [2, 3]] and model["1.bias"].tolist() == [30, 31]
    assert model["1.num_batches_tracked"].item() == 1
    assert model._metadata["1"] == {"version": 2}


def test_optimizer_state(checkpoint):
    optimizer = checkpoint["optimizer"]
    assert optimizer["param_groups"][0]["lr"] == 0.5 and optimizer["param_groups"][0]["betas"] == (0.9, 0.999)
    assert optimizer["state"][3]["exp_avg"].tolist() == pytest.approx([0.3, 0.3]) and optimizer["state"][0]["step"] == 1


def test_tensors_and_sharing(checkpoint):
    base = checkpoint["base"]
    assert base.tolist() == fb.arange(12.0).view(3, 4).tolist()
    base[1, 2] = -7
    assert checkpoint["row"].tolist() == [4, 5, -7, 7] and checkpoint["transposed"][2, 1] == -7
    assert checkpoint["every_other"][1, 1] == -7 and checkpoint["every_other"].stride() == (4, 2)
    assert checkpoint["expanded"].stride() == (0,) and checkpoint["expanded"].tolist() == [7, 7, 7]
    assert checkpoint["empty"].shape == (0, 3) and checkpoint["scalar"].item() == 5
    assert checkpoint["conj"].tolist() == [1 - 2j, 3 + 1j] and checkpoint["neg"].tolist() == [-2, 1]
    assert checkpoint["named"].note == "attribute" and checkpoint["rng"].dtype == fb.uint8


def test_parameters(checkpoint):
    parameter = checkpoint["parameter"]
    assert isinstance(parameter, fb.Tensor) and parameter.tolist() == [1, 2]
    assert parameter.requires_grad and parameter.is_leaf and not checkpoint["base"].requires_grad


def test_plain_values(checkpoint):
    assert checkpoint["plain"] == [
        None, True, -1, 300, -70000, 1 << 40, 1 << 80, 2.5, "tëxt", (1, (2,)), {"k": [1]},
    ]  # fmt: skip
    assert checkpoint["bytes"] == b"\x00\xff" and checkpoint["bytearray"] == bytearray(b"ab")
    assert checkpoint["set"] == {1, 2} and checkpoint["complex"] == 1 - 2j
    assert checkpoint["dtype"] is fb.bfloat16 and checkpoint["device"] == fb.device("cpu")
    assert type(checkpoint["size"]) is fb.Size and checkpoint["size"] == (2, 3)
    assert list(checkpoint["ordered"]) == ["z", "a"] and checkpoint["counter"] == collections.Counter("aab")
    assert checkpoint[7] == "number as key"


def test_our_files_hold_the_same(checkpoint):
    for options in ({}, {"format": "pt"}, {"format": "pt", "_use_new_zipfile_serialization": False}):
        f = io.BytesIO()
        save(checkpoint, f, **options)
        f.seek(0)
        back = load(f)
        assert list(back) == list(checkpoint) and back["plain"] == checkpoint["plain"]
        assert back["model"]._metadata == checkpoint["model"]._metadata
        assert all(fb.equal(back[k], v) for k, v in checkpoint.items() if isinstance(v, fb.Tensor))


def test_big_endian_machine():
    found = load(DATA / "big_endian.pt")
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["b"].tolist() == [1.5]
    assert load(DATA / "big_endian.pt", mmap=True)["b"].tolist() == [1.5]


def test_tar_archive_of_the_first_versions():
    found = load(DATA / "tar.pt")
    assert found["whole"].tolist() == [[0, 1, 2], [3, 4, 5]]
    found["whole"][1, 1] = 9
    assert found["row"].tolist() == [3, 9, 5]


def test_names_in_a_file():
    for name in ("checkpoint_zip.pth", "checkpoint_legacy.pth"):
        assert serialization.get_unsafe_globals_in_checkpoint(DATA / name) == []
    with pytest.raises(serialization.FileError, match=r"not a \.pt file"):
        serialization.get_unsafe_globals_in_checkpoint(DATA / "dtypes.safetensors")


def test_a_file_from_another_device(tmp_path):
    data = (DATA / "checkpoint_legacy.pth").read_bytes()
    # The first storage says where it was; all others refer to that text.
    assert data.count(b"X\x03\x00\x00\x00cpu") == 2
    moved = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0", 1)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device.*saved on 'cuda:0'.*map_location='cpu'"):
        load(io.BytesIO(moved))
    assert load(io.BytesIO(moved), map_location="cpu")["scalar"].item() == 5
    assert load(io.BytesIO(moved), map_location={"cuda:0": "cpu"})["scalar"].item() == 5


def test_what_was_loaded_is_freed_at_once(tmp_path):
    """Without the garbage collector: a cycle would keep gigabytes."""
    import gc

    fb.save({"a": fb.zeros(100_000)}, tmp_path / "x.pt")
    gc.disable()
    try:
        before = fb.memory_stats()["allocated_bytes"]
        fb.load(tmp_path / "x.pt")
        assert fb.memory_stats()["allocated_bytes"] == before
    finally:
        gc.enable()


@pytest.mark.parametrize("zipped", [True, False])
def test_storages_are_saved_as_such_and_keep_their_memory_in_common(zipped):
    x = fb.arange(6.0)
    kept = [x[2:4], x.storage(), fb.ByteStorage([3, 4]), fb.arange(3).untyped_storage(), x.storage()]
    f = io.BytesIO()
    save(kept, f, format="pt", _use_new_zipfile_serialization=zipped)
    f.seek(0)
    part, typed, small, plain, again = load(f)
    assert type(typed) is fb.TypedStorage and typed.dtype == fb.float32 and typed.tolist() == x.tolist()
    assert type(small) is fb.TypedStorage and small.dtype == fb.uint8 and small.tolist() == [3, 4]
    assert type(plain) is fb.UntypedStorage and plain.tolist() == fb.arange(3).untyped_storage().tolist()
    assert typed.data_ptr() == again.data_ptr() == part.untyped_storage().data_ptr()
    typed[2] = 9.0
    assert part.tolist() == [9, 3]


def test_a_typed_storage_seen_as_another_type_is_refused():
    x = fb.zeros(4)
    seen = fb.TypedStorage(wrap_storage=x.untyped_storage(), dtype=fb.uint8)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data as different types"):
        save([x, seen], io.BytesIO(), format="pt")


@pytest.mark.parametrize("encoding", ["bytes", "latin1"])
def test_names_of_storages_that_python_2_wrote(encoding):
    f = io.BytesIO()
    save({"x": fb.arange(3), "again": fb.ones(2)}, f, format="pt", _use_new_zipfile_serialization=False)
    data = f.getvalue()
    for text in (b"storage", b"cpu", b"0", b"1"):
        length = len(text).to_bytes(4, "little")
        data = data.replace(b"X" + length + text, b"T" + length + text)  # BINSTRING in place of BINUNICODE
    found = load(io.BytesIO(data), encoding=encoding)
    assert found["x"].tolist() == [0, 1, 2] and found["again"].tolist() == [1, 1]


def test_files_without_checksums(tmp_path):
    value = {"w": fb.arange(5)}
    assert fb.serialization.get_crc32_options()
    fb.serialization.set_crc32_options(False)
    try:
        fb.save(value, tmp_path / "a.pt")
        buffer = io.BytesIO()
        fb.save(value, buffer, format="pt")
    finally:
        fb.serialization.set_crc32_options(True)
    buffer.seek(0)
    for f in (tmp_path / "a.pt", buffer):
        assert fb.load(f)["w"].tolist() == [0, 1, 2, 3, 4]
        with zipfile.ZipFile(f) as archive, pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
            archive.extractall(tmp_path / "out")
    fb.save(value, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.testzip() is None


def test_maps_shared_with_the_file(tmp_path):
    path, options = tmp_path / "a.pt", fb.serialization.set_default_mmap_options
    fb.save({"w": fb.ones(3)}, path)
    fb.load(path, mmap=True)["w"][0] = 5
    assert fb.load(path)["w"].tolist() == [1, 1, 1]
    with options(mmap.MAP_SHARED):
        fb.load(path, mmap=True)["w"][0] = 5
        assert fb.load(path, mmap=True)["w"].tolist() == [5, 1, 1]
        with open(path, "rb") as f, pytest.raises(ValueError, match="needs a path"):
            fb.load(f, mmap=True)
    assert fb.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert fb.load(path, verify=False)["w"].tolist() == [5, 1, 1]
    with pytest.raises(ValueError, match="expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got 77"):
        options(77)


@pytest.mark.parametrize("code, name", [(b"s", "SETITEM"), (b"u", "SETITEMS")])
def test_items_are_set_in_dicts_only(code, name):
    buffer, changed = io.BytesIO(), io.BytesIO()
    fb.save(fb.zeros(3), buffer, format="pt")
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(changed, "w") as new:
        for record in old.namelist():
            data = old.read(record)
            if record.endswith("data.pkl"):
                data = data[:-1] + (b"(" if code == b"u" else b"") + b"K\x01K\x02" + code + b"."
            new.writestr(record, data)
    changed.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=f"Can only {name} for dict, collections.OrderedDict"):
        fb.load(changed)


def test_save_needs_a_place_to_write():
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object with a 'write' attribute"):
        fb.save("x", fb.ones(2))
