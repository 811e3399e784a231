"""What is opened: regular files. Pipes, devices and links in the place of shards are refused."""

import gzip
import io
import os
import pickle
import socket
import sys
import tempfile

import hostile
import pytest

import flambeau as fb
from flambeau._files.problems import FileError
from flambeau.serialization import load, save


@pytest.mark.timeout(20)
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        load(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        load(tmp_path / "pipe", mmap=True)


@pytest.mark.timeout(20)
def test_devices_and_sockets_are_refused(tmp_path, monkeypatch):
    with pytest.raises(FileError, match="give an open file"):
        load("/dev/zero")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("socket")
        with pytest.raises(FileError, match="not a regular file"):
            load("socket")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_an_open_pipe_is_read():
    data = io.BytesIO()
    save(fb.arange(3), data)
    read_end, write_end = os.pipe()
    with open(write_end, "wb") as out:
        out.write(data.getvalue())
    with open(read_end, "rb") as pipe:
        assert load(pipe).tolist() == [0, 1, 2]


def saved_in_parts(folder):
    folder.mkdir()
    save({"a": fb.ones(100), "b": fb.zeros(100)}, folder / "m.safetensors", max_shard_size=500)
    index = folder / "m.safetensors.index.json"
    assert set(load(index)) == {"a", "b"}
    return index


@pytest.mark.timeout(20)
def test_shards_behind_links_are_refused(tmp_path):
    index = saved_in_parts(tmp_path / "model")
    shard = tmp_path / "model/m-00001-of-00002.safetensors"
    for place in (tmp_path / "elsewhere.safetensors", tmp_path / "model/other.safetensors"):
        shard.rename(place)
        shard.symlink_to(place)
        with pytest.raises(FileError, match="symbolic link"):
            load(index)
        shard.unlink()
        place.rename(shard)
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(FileError, match="not a regular file"):
        load(index)


def test_a_cache_of_links_is_read(tmp_path):
    """huggingface_hub keeps contents under their hashes in one folder, and links to them by name in another."""
    index = saved_in_parts(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for number, file in enumerate(sorted((tmp_path / "blobs").iterdir())):
        place = file.rename(file.with_name(f"hash{number}"))
        (tmp_path / "snapshot" / file.name).symlink_to(place)
    assert load(tmp_path / "snapshot" / index.name)["a"].sum() == 100
    # A shard elsewhere is refused there too.
    shard = tmp_path / "snapshot/m-00001-of-00002.safetensors"
    moved = shard.resolve().rename(tmp_path / "elsewhere")
    shard.unlink()
    shard.symlink_to(moved)
    with pytest.raises(FileError, match="symbolic link"):
        load(tmp_path / "snapshot" / index.name)


def test_codecs_of_a_file(monkeypatch):
    """bytearray(text, codec) as Python 2 wrote it: only the two codecs that are needed, and no module is imported."""
    for codec, expected in (("latin-1", b"\xe9"), ("latin1", b"\xe9"), ("utf-8", b"\xc3\xa9")):
        body = hostile.PROTO + b"c__builtin__\nbytearray\n" + hostile.text("é") + hostile.text(codec) + b"\x86R."
        assert load(io.BytesIO(hostile.archive(body))) == bytearray(expected)
    monkeypatch.delitem(sys.modules, "encodings.mac_cyrillic", raising=False)
    body = hostile.PROTO + b"c__builtin__\nbytearray\n" + hostile.text("x") + hostile.text("mac_cyrillic") + b"\x86R."
    with pytest.raises(FileError, match="only latin1 and utf-8"):
        load(io.BytesIO(hostile.archive(body)))
    assert "encodings.mac_cyrillic" not in sys.modules
    assert load(io.BytesIO(hostile.archive(pickle.dumps(bytearray(b"\xff\x00"), 2)))) == bytearray(b"\xff\x00")


@pytest.mark.parametrize("format", ["pt", "safetensors"])
def test_files_that_unpack_what_their_descriptor_holds(tmp_path, format):
    with gzip.open(tmp_path / "packed", "wb") as f:
        save({"x": fb.arange(5)}, f, format=format)
    with gzip.open(tmp_path / "packed") as f:
        assert load(f)["x"].tolist() == [0, 1, 2, 3, 4]


def test_several_objects_in_memory_one_after_the_other():
    f = io.BytesIO(b"head")
    f.seek(4)
    for i in range(3):
        save([i, fb.full((2,), i)], f, format="pt", _use_new_zipfile_serialization=False)
    f.seek(4)
    for i in range(3):
        number, x = load(f)
        assert number == i and x.tolist() == [i, i]


def test_a_saved_file_object_can_be_opened_by_its_name():
    with tempfile.NamedTemporaryFile() as f:
        save([fb.ones(2)], f, format="pt")
        assert load(f.name)[0].tolist() == [1, 1]
