"""Any picklable object goes into .pt files; loading makes it again without running code unless the program says so."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import pickle
import subprocess
import sys
import types
import uuid

import numpy as np
import pytest

import flambeau as fb
from flambeau.serialization import ForbiddenError, add_safe_globals, load, safe_globals, save

RAN: list = []
FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}


class Strategy(str, enum.Enum):  # noqa: UP042  (as many libraries write it)
    EPOCH = "epoch"
    STEPS = "steps"


@dataclasses.dataclass
class Arguments:
    path: pathlib.Path
    when: datetime.datetime
    strategy: Strategy = Strategy.EPOCH
    extra: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        RAN.append("post_init")


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


class Node:
    def __init__(self):
        self.me, self.children, self.weight = self, [], fb.ones(2)


class Word(str):
    pass


class Table(dict):
    def __setitem__(self, key, value):
        RAN.append("setitem")
        super().__setitem__(key, value)


class Row(list):
    def __iter__(self):
        RAN.append("iter")
        return super().__iter__()

    def extend(self, values):
        RAN.append("extend")
        super().extend(values)


class Bag(set):
    def __init__(self, *items):
        RAN.append("init")
        super().__init__(*items)


class Space(types.SimpleNamespace):
    def __init__(self, **values):
        RAN.append("init")
        super().__init__(**values)


class Window(collections.deque):
    pass


class Failure(ValueError):
    def __init__(self, *arguments):
        RAN.append("init")
        super().__init__(*arguments)


class Restored:
    """Only its own code can take its state."""

    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return (self.value,)

    def __setstate__(self, state):
        RAN.append("setstate")
        (self.value,) = state


class Reduced:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return rebuilt, (self.value,), {"note": "kept"}


class Closing:
    def __del__(self):
        RAN.append("del")


class Outer:
    class Inner:
        pass


class Mine(fb.Tensor):
    pass


Pair = collections.namedtuple("Pair", "a b")


def rebuilt(value):
    RAN.append("rebuilt")
    return Reduced(value)


@pytest.fixture(params=FORMATS)
def saved(request):
    def write(value):
        f = io.BytesIO()
        save(value, f, format="pt", **FORMATS[request.param])
        f.seek(0)
        RAN.clear()
        return f

    return write


PLAIN = {
    "path": pathlib.Path("a/b"), "pure path": pathlib.PurePosixPath("/x"), "date": datetime.date(2024, 2, 29),
    "time": datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC), "span": datetime.timedelta(1, 2, 3),
    "decimal": decimal.Decimal("1.50"), "fraction": fractions.Fraction(2, 3), "uuid": uuid.UUID(int=5), "ellipsis": ...,
    "type of None": type(None), "text array": np.array(["a", "bcd"]), "bytes array": np.array([b"a", b"bcd"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_values_of_the_standard_library_are_data(saved, name):
    back = load(saved([PLAIN[name], PLAIN[name]]))
    assert type(back[0]) is type(PLAIN[name]) and back[0] is back[1]
    assert np.array_equal(back[0], PLAIN[name]) if isinstance(back[0], np.ndarray) else back[0] == PLAIN[name]


def settings():
    return Arguments(pathlib.Path("out"), datetime.datetime(2024, 1, 1), Strategy.STEPS, {"w": fb.arange(3), "s": Slotted(1, "r")})


def test_an_object_is_refused_by_default_and_the_error_names_the_ways(saved):
    with pytest.raises(ForbiddenError, match=r"add_safe_globals\(\[.*Arguments\]\).*weights_only=False makes objects of classes"):
        load(saved(settings()))
    assert RAN == []


@pytest.mark.parametrize("named", [False, True])
def test_objects_are_made_without_running_their_code(saved, named):
    value, file = settings(), saved(settings())
    if named:
        with safe_globals([Arguments, Strategy, Slotted]):
            back = load(file)
    else:
        back = load(file, weights_only=False)
    assert RAN == [] and type(back) is Arguments and back.path == value.path and back.when == value.when
    assert back.strategy is Strategy.STEPS and back.extra["w"].tolist() == [0, 1, 2]
    assert (back.extra["s"].left, back.extra["s"].right) == (1, "r")


@pytest.mark.parametrize("named", [False, True])
def test_kin_of_built_in_classes(saved, named):
    table, row, bag = Table(a=1), Row([1, 2]), Bag([3, 4])
    table.note = "kept"
    value = [table, row, bag, Word("text"), Failure("why", 3), Pair(1, fb.ones(1)), Outer.Inner()]
    value += [Space(rate=2), Window([5, 6], 3)]
    with safe_globals([Table, Row, Bag, Word, Failure, Pair, Outer.Inner, Space, Window] if named else []):
        back = load(saved(value), weights_only=None if named else False)
    assert RAN == [] and [type(x) for x in back] == [type(x) for x in value]
    assert back[0] == {"a": 1} and back[0].note == "kept" and list.__len__(back[1]) == 2 and back[2] == {3, 4}
    assert back[7].rate == 2 and list(back[8]) == [5, 6] and back[8].maxlen == 3
    assert back[3] == "text" and back[4].args == ("why", 3) and back[5].b.tolist() == [1]


def test_objects_that_refer_to_each_other(saved):
    node, other = Node(), Node()
    node.children += [other, node]
    other.children.append((node, [node]))
    back = load(saved({"root": node}), weights_only=False)["root"]
    assert back.me is back and back.children[1] is back and back.children[0].children[0][1][0] is back
    assert back.weight.tolist() == [1, 1]


def test_what_needs_code_needs_a_name(saved):
    for value, names in ((Restored(4), [Restored]), (Reduced(4), [rebuilt, Reduced])):
        file = saved(value)
        with pytest.raises(ForbiddenError, match="add_safe_globals"):
            load(file, weights_only=False)
        assert RAN == []
        file.seek(0)
        with safe_globals(names):
            assert load(file).value == 4
        assert len(RAN) == 1


def test_classes_and_functions_by_name(saved):
    value = {"f": rebuilt, "c": Arguments, "partial": functools.partial(rebuilt, 3), "by": collections.defaultdict(Node)}
    file = saved(value)
    with pytest.raises(ForbiddenError):
        load(file, weights_only=False)
    file.seek(0)
    with safe_globals([rebuilt, Arguments, functools.partial, Node]):
        back = load(file)
    assert back["f"] is rebuilt and back["c"] is Arguments and back["partial"].args == (3,) and back["by"].default_factory is Node


def test_objects_with_a_finalizer_are_not_made(saved):
    file = saved(Closing())
    RAN.clear()
    with pytest.raises(ForbiddenError):
        load(file, weights_only=False)
    assert RAN == []


def test_subclasses_of_tensor(saved):
    t = fb.arange(3.0).as_subclass(Mine).requires_grad_()
    t.note = "kept"
    file = saved([t, t])
    with pytest.raises(ForbiddenError, match="Mine"):
        load(file)
    file.seek(0)
    back = load(file, weights_only=False)
    assert back[0] is back[1] and type(back[0]) is Mine and back[0].note == "kept" and back[0].requires_grad and back[0].is_leaf


def test_tensors_on_the_meta_device(saved):
    back = load(saved({"w": fb.empty(2, 3, device="meta", dtype=fb.float16)}))["w"]
    assert back.is_meta and back.shape == (2, 3) and back.dtype == fb.float16


def test_optimizers_schedulers_and_namespaces(saved):
    model = fb.nn.Linear(2, 1)
    optimizer = fb.optim.AdamW(model.parameters(), 0.5)
    model(fb.ones(1, 2)).sum().backward()
    optimizer.step()
    back = load(saved({"o": optimizer, "n": types.SimpleNamespace(a=1)}), weights_only=False)
    assert type(back["o"]) is fb.optim.AdamW and back["n"].a == 1
    assert back["o"].state_dict()["state"][0]["step"] == 1 and back["o"].param_groups[0]["lr"] == 0.5


def test_what_cannot_be_pickled_is_named():
    for value, name in ((lambda: 1, "lambda"), (open(__file__), "TextIOWrapper"), (type("Local", (), {})(), "Local")):
        with pytest.raises(ValueError, match=rf"save: .*{name}.* at 'a\.0'"):
            save({"a": [value]}, io.BytesIO(), format="pt")


def test_classes_that_were_not_imported_are_not_imported(saved):
    f = saved(0)
    import zipfile

    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02cxml.dom.pulldom\nPullDOM\n)\x81.")
    sys.modules.pop("xml.dom.pulldom", None)
    f.seek(0)
    with pytest.raises(ForbiddenError, match=r"import xml\.dom\.pulldom first"):
        load(f, weights_only=False)
    assert "xml.dom.pulldom" not in sys.modules


def test_modules_that_start_programs_stay_forbidden(saved):
    for value in (subprocess.Popen, subprocess.run):
        for weights_only in (True, False):
            with pytest.raises(ForbiddenError, match="whose module subprocess is blocked"):
                load(saved(value), weights_only=weights_only)
        with pytest.raises(ValueError, match="can do anything"):
            add_safe_globals([value])


def test_the_standard_unpickler_reads_the_pickle():
    import zipfile

    f = io.BytesIO()
    node = Node()
    del node.weight
    value = {"s": Arguments(pathlib.Path("a"), datetime.datetime(2020, 1, 1)), "i": Outer.Inner(), "n": node, "none": type(None)}
    save(value, f, format="pt")
    back = pickle.loads(zipfile.ZipFile(f).read("archive/data.pkl"))
    assert back["s"] == value["s"] and type(back["i"]) is Outer.Inner and back["n"].me is back["n"] and back["none"] is type(None)


@pytest.mark.parametrize("name", ["model.bin", "model.ckpt", "model", "model.safetensors.pkl"])
def test_programs_for_pytorch_write_zip_files_under_every_name(tmp_path, name):
    with fb.compat.torch() as torch:
        torch.save({"w": torch.ones(2), "s": Strategy.EPOCH}, tmp_path / name)
        f = io.BytesIO()
        torch.save([torch.ones(1)], f, pickle_protocol=4)
    assert (tmp_path / name).read_bytes()[:4] == f.getvalue()[:4] == b"PK\x03\x04"
    save({"w": fb.ones(2)}, tmp_path / name)
    assert (tmp_path / name).read_bytes()[:4] != b"PK\x03\x04"
