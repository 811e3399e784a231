"""Batches of every kind of sample; the expected structures are PyTorch's."""

import collections

import numpy as np
import pytest

import flambeau as fb
from flambeau.utils.data import default_collate, default_convert
from flambeau.utils.data._utils.collate import collate, default_collate_fn_map

Point = collections.namedtuple("Point", "x y")


class Tagged(dict):
    tag = None


def same(result, values, dtype):
    return result.dtype == dtype and result.tolist() == values


def test_numbers():
    assert same(default_collate([1.5, 2.5]), [1.5, 2.5], fb.float64)
    assert same(default_collate([1, 2]), [1, 2], fb.int64)
    assert same(default_collate([True, False]), [True, False], fb.bool)
    assert same(default_collate([np.float32(1), np.float32(2)]), [1, 2], fb.float32)
    assert same(default_collate([np.int16(1), np.int16(2)]), [1, 2], fb.int16)
    assert same(default_collate([np.float64(1)]), [1], fb.float64)
    assert same(default_collate([np.bool_(True)]), [True], fb.bool)


def test_tensors_and_arrays():
    assert same(default_collate([fb.ones(2), fb.zeros(2)]), [[1, 1], [0, 0]], fb.float32)
    assert same(default_collate([np.ones(2, np.uint8)] * 2), [[1, 1], [1, 1]], fb.uint8)
    assert same(default_collate([np.array(3), np.array(4)]), [3, 4], fb.int64)
    assert default_collate([fb.nn.Parameter(fb.ones(2))]).shape == (1, 2)
    with pytest.raises(RuntimeError, match=r"\(2,\) and \(3,\)"):
        default_collate([fb.ones(2), fb.ones(3)])


def test_containers():
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]
    pair = default_collate([(1, "a"), (2, "b")])
    assert type(pair) is list and same(pair[0], [1, 2], fb.int64) and list(pair[1]) == ["a", "b"]
    rows = default_collate([[1, 2], [3, 4]])
    assert type(rows) is list and same(rows[1], [2, 4], fb.int64)
    point = default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert type(point) is Point and same(point.y, [2.0, 4.0], fb.float64)
    tagged = Tagged(a=1)
    tagged.tag = "kept"
    result = default_collate([tagged, Tagged(a=2)])
    assert type(result) is Tagged and result.tag == "kept" and same(result["a"], [1, 2], fb.int64)
    ordered = default_collate([collections.OrderedDict(b=1, a=2)])
    assert type(ordered) is collections.OrderedDict and list(ordered) == ["b", "a"]
    default = default_collate([collections.defaultdict(int, a=1)])
    assert type(default) is collections.defaultdict and default["new"] == 0
    nested = default_collate([{"x": [1, (2, "s")]}, {"x": [3, (4, "t")]}])
    assert same(nested["x"][1][0], [2, 4], fb.int64)
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [3]])


@pytest.mark.parametrize("bad", [object(), None, np.array(["a"]), np.array([object()]), {1, 2}])
def test_unknown_types(bad):
    with pytest.raises(TypeError, match="default_collate: batch must contain"):
        default_collate([bad, bad])


def test_the_table_can_be_extended(monkeypatch):
    class Image:
        pass

    def images(batch, *, collate_fn_map=None):
        return len(batch)

    monkeypatch.setitem(default_collate_fn_map, Image, images)
    assert default_collate([{"i": Image()}, {"i": Image()}]) == {"i": 2}

    class Photo(Image):
        pass

    assert default_collate([Photo()] * 3) == 3
    assert collate([1, 2], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)}) == 3


def test_convert():
    x = fb.ones(1)
    assert default_convert(x) is x
    assert default_convert("a") == "a" and default_convert(3) == 3
    assert same(default_convert(np.arange(2)), [0, 1], fb.int64)
    assert default_convert(np.array(["a"])).tolist() == ["a"]
    out = default_convert({"a": (np.float32(1), "s"), "p": Point(np.ones(1), 2)})
    assert type(out["a"]) is list and same(out["a"][0], 1.0, fb.float32) and out["a"][1] == "s"
    assert type(out["p"]) is Point and same(out["p"].x, [1.0], fb.float64)
