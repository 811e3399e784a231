"""Damaged and hostile files: always a FileError, never another exception, a crash, a hang or a large allocation."""

import io
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import hostile
import pytest

import flambeau as fb
from flambeau import serialization
from flambeau.serialization import FileError, load, save

DATA = Path(__file__).parent / "data"


def small_value():
    base = fb.arange(4.0)
    return {"a": base, "b": base[1:3], "c": [1, 2.5, "text", (None, True)], "d": fb.arange(3, dtype=fb.int16)}


def written(**options):
    f = io.BytesIO()
    save(small_value(), f, **options)
    return f.getvalue()


SMALL = {
    "safetensors": lambda: written(),
    "zip": lambda: written(format="pt"),
    "legacy": lambda: written(format="pt", _use_new_zipfile_serialization=False),
    "tar": lambda: (DATA / "tar.pt").read_bytes(),
    "zip of PyTorch": lambda: hostile.archive(hostile.tensor(), [("0", bytes(16))]),
    "safetensors of the package": lambda: (DATA / "dtypes.safetensors").read_bytes(),
}
CHECKED = ("safetensors", "zip")  # no single bit that matters can change unnoticed


def described(value):
    """The value as text, for comparison."""
    return repr(value)


@pytest.mark.parametrize("name", SMALL)
def test_cut_at_every_byte(name):
    data = SMALL[name]()
    whole = described(load(io.BytesIO(data)))
    # The zeros at the end of a tar archive are padding.
    end = len(data.rstrip(b"\0")) if name == "tar" else len(data)
    for length in range(len(data)):
        try:
            value = load(io.BytesIO(data[:length]))
        except FileError:
            continue
        assert length >= end and described(value) == whole, f"loaded {length} of {len(data)} bytes"


@pytest.mark.parametrize("name", SMALL)
def test_flipped_bits(name):
    data = SMALL[name]()
    whole = described(load(io.BytesIO(data)))
    dice = random.Random(20240611)
    for round_ in range(2000):
        damaged, flips = bytearray(data), 1 if round_ % 2 else dice.randint(2, 8)
        for _ in range(flips):
            damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            value = load(io.BytesIO(damaged))
        except FileError:
            continue
        if name in CHECKED and flips == 1:
            assert described(value) == whole


@pytest.mark.parametrize("name", SMALL)
def test_random_bytes_in_the_middle(name):
    data = SMALL[name]()
    dice = random.Random(7)
    for _ in range(500):
        at, length = dice.randrange(len(data)), dice.randint(1, 16)
        try:
            load(io.BytesIO(data[:at] + dice.randbytes(length) + data[at + dice.randint(0, length) :]))
        except FileError:
            continue


def test_hostile_pickles_made_at_random():
    """Opcodes in any order, with arguments that make sense."""
    dice = random.Random(11)
    words = [
        b"(", b"t", b"e", b"u", b"a", b"s", b"]", b"}", b")", b"\x85", b"\x86", b"R", b"\x81", b"b", b"N", b"K\x01", b"Q", b"0", b"1",
        b"2", b"q\x00", b"h\x00", b"\x8f", b"\x90", b"\x91", b"\x93", b"d", b"l", hostile.text("x"), hostile.text("storage"),
        b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n", b"c__builtin__\nset\n",
        b"c__builtin__\nbytearray\n", b"cnumpy\ndtype\n", b"ctorch\nSize\n", b"ccollections\ndefaultdict\n", hostile.storage(),
        b"cargparse\nNamespace\n", b"\x94", b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch\nfloat32\n", hostile.number(-5),
    ]  # fmt: skip
    for _ in range(1500):
        body = hostile.PROTO + b"".join(dice.choices(words, k=dice.randint(1, 25))) + b"."
        for data in (hostile.archive(body, [("0", bytes(16))]), hostile.legacy(body)):
            try:
                load(io.BytesIO(data))
            except FileError:
                continue


CASES = dict(hostile.cases())


@pytest.mark.parametrize("name", CASES)
def test_hostile(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin = time.process_time()
    with pytest.raises(FileError, match="^load: a file object: "):
        load(io.BytesIO(CASES[name]))
    assert time.process_time() - begin < 10
    assert os.listdir(tmp_path) == []
    (tmp_path / "x").write_bytes(CASES[name])
    # Objects that refer to each other are harmless where objects are asked for.
    loops = name.endswith(("LONG_BINPUT", "contains itself"))
    for options in ({"mmap": True}, {"weights_only": False}):
        if loops and options == {"weights_only": False}:
            continue
        with pytest.raises(FileError):
            load(tmp_path / "x", verify=True, **options)
    assert os.listdir(tmp_path) == ["x"]


def test_hostile_files_take_little_memory_and_time(tmp_path):
    program = Path(__file__).parent / "hostile.py"
    environment = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1])}
    result = subprocess.run([sys.executable, program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == len(CASES) > 200
    assert os.listdir(tmp_path) == []


def test_a_command_would_be_noticed(tmp_path, monkeypatch):
    """The same pickle in Python's own unpickler does run: what the tests above look for can happen."""
    import pickle

    monkeypatch.chdir(tmp_path)
    body = dict(hostile.commands())["GLOBAL and REDUCE"]
    pickle.loads(body)
    assert os.listdir(tmp_path) == ["HARM"]


@pytest.mark.parametrize("how", ["GLOBAL and REDUCE", "STACK_GLOBAL", "INST", "OBJ"])
def test_error_names_what_is_forbidden(how):
    body = dict(hostile.commands())[how]
    with pytest.raises(serialization.ForbiddenError, match=r"os\.system"):
        load(io.BytesIO(hostile.archive(body)))
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(hostile.archive(body))) == ["os.system"]


def test_weights_only_false_does_not_run_code_and_says_so():
    body = dict(hostile.commands())["posix"]
    with pytest.raises(serialization.ForbiddenError, match="no file may use it, whatever weights_only"):
        load(io.BytesIO(hostile.archive(body)), weights_only=False)


def test_errors_are_those_that_pytorch_users_catch():
    import pickle

    assert issubclass(FileError, RuntimeError) and issubclass(FileError, ValueError)
    assert issubclass(serialization.ForbiddenError, pickle.UnpicklingError)


def test_lazily_negated_expanded_tensor_costs_nothing():
    body = hostile.tensor(size=(1 << 30, 1 << 10), stride=(0, 0), count=4, extra=b"}" + hostile.text("neg") + b"\x88s")
    value = load(io.BytesIO(hostile.archive(body, [("0", b"\0\0\x80?" * 4)])))
    assert value.shape == (1 << 30, 1 << 10) and value[5, 5] == -1
