"""Places with names of one's own, and files that do not tell their byte order."""

import io
import sys
import zipfile

import pytest

import flambeau as fb
from flambeau import serialization
from flambeau._files import locations
from flambeau.serialization import LoadEndianness, load, save


@pytest.fixture
def packages():
    before = list(locations.packages)
    yield
    locations.packages[:] = before


def test_registered_places(packages):
    seen = []

    def restored(storage, name):
        if name == "toy:1":
            seen.append(storage.nbytes())
            return storage
        return None

    serialization.register_package(5, lambda s: "toy:1" if s.nbytes() == 8 else None, restored)
    f = io.BytesIO()
    save([fb.ones(2), fb.ones(3)], f, format="pt")
    assert b"toy:1" in f.getvalue() and serialization.location_tag(fb.ones(2).untyped_storage()) == "toy:1"
    f.seek(0)
    assert [t.tolist() for t in load(f)] == [[1, 1], [1, 1, 1]] and seen == [8]
    serialization.register_package(1, lambda s: None, lambda s, name: "nonsense")
    f.seek(0)
    with pytest.raises(TypeError, match="must return a storage or None"):
        load(f)


def test_files_that_do_not_tell_their_byte_order():
    f, unmarked = io.BytesIO(), io.BytesIO()
    save(fb.tensor([1, 2], dtype=fb.int32), f, format="pt")
    with zipfile.ZipFile(f) as old, zipfile.ZipFile(unmarked, "w") as new:
        for name in old.namelist():
            if not name.endswith("byteorder"):
                new.writestr(name, old.read(name))
    other = LoadEndianness.BIG if sys.byteorder == "little" else LoadEndianness.LITTLE
    try:
        for order, expected in ((None, [1, 2]), (LoadEndianness.NATIVE, [1, 2]), (other, [1 << 24, 2 << 24])):
            serialization.set_default_load_endianness(order)
            unmarked.seek(0)
            assert load(unmarked).tolist() == expected and serialization.get_default_load_endianness() is order
            f.seek(0)
            assert load(f).tolist() == [1, 2]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="LoadEndianness"):
        serialization.set_default_load_endianness("little")
