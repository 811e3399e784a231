"""Saves that are killed, or find no room: the old file stays, and nothing else."""

import os
import resource
import signal
import subprocess
import sys

import pytest

import flambeau as fb
from flambeau.serialization import load, save

KILLED = """
import os, signal, sys
import flambeau as fb
from flambeau._files import target

write = target.FileWriter.write_summed
def killed(self, parts):
    write(self, parts)
    os.kill(os.getpid(), signal.SIGKILL)
target.FileWriter.write_summed = killed
fb.save({"a": fb.zeros(1000)}, sys.argv[1])
"""

LIMITED = """
import resource, signal, sys
import flambeau as fb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for value in ({"a": fb.zeros(1 << 15)}, {"a": [fb.zeros(1 << 12) for _ in range(9)]}):
    try:
        fb.save(value, sys.argv[1])
    except OSError as error:
        print(error.errno)
"""


def run(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["m.pt", "m.safetensors"])
def test_killed_while_it_saves(tmp_path, name):
    save({"a": fb.ones(3)}, tmp_path / name)
    assert run(KILLED, tmp_path / name).returncode == -signal.SIGKILL
    assert load(tmp_path / name)["a"].tolist() == [1, 1, 1] and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["m.pt", "m.safetensors"])
def test_no_room(tmp_path, name):
    save({"a": fb.ones(3)}, tmp_path / name)
    done = run(LIMITED, tmp_path / name)
    assert done.stdout.split() == ["27", "27"], done.stderr
    assert load(tmp_path / name)["a"].tolist() == [1, 1, 1] and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["m.pt", "m.safetensors"])
def test_file_systems_without_nameless_files(tmp_path, monkeypatch, name):
    monkeypatch.delattr("os.O_TMPFILE")
    for count in (2, 3):
        save({"a": fb.ones(count)}, tmp_path / name)
        assert load(tmp_path / name)["a"].tolist() == [1] * count and os.listdir(tmp_path) == [name]


def test_new_files_have_the_usual_rights_and_old_ones_keep_theirs(tmp_path):
    path, plain = tmp_path / "m.pt", tmp_path / "plain"
    plain.touch()
    save(fb.ones(2), path)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    save(fb.ones(3), path)
    assert path.stat().st_mode & 0o777 == 0o640 and load(path).tolist() == [1, 1, 1]


def test_files_of_the_system_and_objects_get_the_same_bytes(tmp_path):
    value = {"a": fb.arange(300_000.0), "b": fb.zeros(3, dtype=fb.int8), "empty": fb.zeros(0)}
    for name in ("m.pt", "m.safetensors"):
        save(value, tmp_path / name)
        with open(tmp_path / f"object-{name}", "wb") as file:
            save(value, file)
        assert (tmp_path / name).read_bytes() == (tmp_path / f"object-{name}").read_bytes()


def test_descriptors_are_given_back(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    for _ in range(20):
        save(fb.ones(2), tmp_path / "m.pt")
        with pytest.raises(FileNotFoundError):
            save(fb.ones(2), tmp_path / "nowhere" / "m.pt")
        with pytest.raises(ValueError):
            save({"a": lambda: 1}, tmp_path / "m.pt")
    assert len(os.listdir("/proc/self/fd")) == before < limit[0]
