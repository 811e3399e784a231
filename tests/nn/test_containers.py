"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import flambeau as fb
from flambeau import nn


def kinds(modules):
    return [type(m).__name__ for m in modules]


def test_sequential():
    s = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert s(fb.tensor([-1.0])).item() == 0.0
    assert kinds(nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))[1:]) == ["Tanh"]
    s.append(nn.Sigmoid()).insert(0, nn.GELU()).extend([nn.ELU()])
    assert kinds(s) == ["GELU", "ReLU", "Tanh", "Sigmoid", "ELU"] and list(s._modules) == list("01234")
    del s[1]
    assert kinds(s) == ["GELU", "Tanh", "Sigmoid", "ELU"] and list(s._modules) == list("0123")
    assert type(s.pop(-1)).__name__ == "ELU" and len(s) == 3
    s[0] = nn.ReLU()
    assert kinds(s + nn.Sequential(nn.ELU())) == ["ReLU", "Tanh", "Sigmoid", "ELU"]
    assert len(s * 2) == 6 and len(2 * s) == 6
    del s[:2]
    assert kinds(s) == ["Sigmoid"]
    for bad in (lambda: s[5], lambda: s.insert(9, nn.ReLU())):
        with pytest.raises(IndexError):
            bad()
    with pytest.raises(TypeError):
        nn.Sequential(3)
    with pytest.raises(ValueError):
        s + [nn.ReLU()]
    with pytest.raises(ValueError):
        s * 0


def test_module_list():
    m = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    m += [nn.ELU()]
    m.insert(1, nn.GELU())
    assert kinds(m) == ["ReLU", "GELU", "Tanh", "ELU"] and kinds(m[1:3]) == ["GELU", "Tanh"]
    assert kinds([m[-1]]) == ["ELU"] and type(m[:2]) is nn.ModuleList
    del m[0]
    m[0] = nn.Sigmoid()
    assert kinds([m.pop(0)]) == ["Sigmoid"] and kinds(m) == ["Tanh", "ELU"] and list(m._modules) == ["0", "1"]
    assert kinds(m + [nn.ReLU()]) == ["Tanh", "ELU", "ReLU"]
    assert kinds(reversed(list(m))) == ["ELU", "Tanh"]
    with pytest.raises(IndexError):
        m[2]
    with pytest.raises(TypeError):
        nn.ModuleList(3)
    with pytest.raises(NotImplementedError):
        m(1)


def test_module_list_text_joins_equal_neighbours():
    text = repr(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()]))
    assert text == "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n  (2): ReLU()\n)"


def test_module_dict():
    d = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    d["c"] = nn.ELU()
    d.update([("a", nn.GELU())])
    assert list(d) == list(d.keys()) == ["a", "b", "c"] and "b" in d and len(d) == 3
    assert kinds(d.values()) == ["GELU", "Tanh", "ELU"] and kinds([d.pop("b")]) == ["Tanh"]
    del d["a"]
    assert [k for k, _ in d.items()] == ["c"]
    d.clear()
    assert len(d) == 0
    for bad, error in (("x", ValueError), (3, TypeError)):
        with pytest.raises(error):
            d.update([bad] if bad == "x" else bad)


def test_parameter_list():
    p = nn.ParameterList([fb.zeros(2), nn.Parameter(fb.ones(3), requires_grad=False), 7])
    assert [n for n, _ in p.named_parameters()] == ["0", "1"] and p[2] == 7
    assert p[0].requires_grad and not p[1].requires_grad
    p += [fb.zeros(4)]
    p[0] = fb.ones(1)
    assert len(p) == 4 and p[-1].shape == (4,) and p[0].shape == (1,)
    assert isinstance(p[1:3], nn.ParameterList) and len(p[1:3]) == 2
    assert [tuple(t.shape) if isinstance(t, fb.Tensor) else t for t in p] == [(1,), (3,), 7, (4,)]
    assert "(0): Parameter containing: [flambeau.float32 of size 1]" in repr(p) and "Object of type: int" in repr(p)
    with pytest.raises(RuntimeError):
        p()
    with pytest.raises(TypeError):
        nn.ParameterList(fb.zeros(2))


def test_parameter_dict():
    p = nn.ParameterDict({"a": fb.zeros(2), "b": 3})
    p["keys"] = fb.ones(1)  # a name that is also a method
    assert list(p) == ["a", "b", "keys"] and p["keys"].item() == 1 and callable(p.keys)
    assert p.get("zz", 5) == 5 and p.setdefault("c", 1) == 1 and p.popitem() == ("c", 1) and p.pop("b") == 3
    both = p | nn.ParameterDict({"d": fb.zeros(1)})
    assert list(both) == ["a", "keys", "d"] and both["a"] is p["a"] and list(reversed(both)) == ["d", "keys", "a"]
    assert list(p.fromkeys(["x", "y"], 1).items()) == [("x", 1), ("y", 1)]
    p.clear()
    assert len(p) == 0 and not list(p.parameters())
    with pytest.raises(KeyError):
        p["a"]
    with pytest.raises(TypeError):
        p[3] = fb.zeros(1)


def test_parameter_dict_adds_plain_mappings_in_the_order_of_names():
    assert list(fb.nn.ParameterDict({"b": 1, "a": 2})) == ["a", "b"]
    assert list(fb.nn.ParameterDict(OrderedDict(b=1, a=2))) == ["b", "a"]
    assert list(fb.nn.ParameterDict([("b", 1), ("a", 2)])) == ["b", "a"]
    assert list(fb.nn.ParameterDict(fb.nn.ParameterDict([("b", 1), ("a", 2)]))) == ["b", "a"]
