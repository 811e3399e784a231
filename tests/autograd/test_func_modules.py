"""Modules as functions of their parameters, alone and as ensembles under vmap."""

from __future__ import annotations

import pytest

import flambeau as fb
from flambeau.func import functional_call, grad, replace_all_batch_norm_modules_, stack_module_state, vmap

nn = pytest.importorskip("flambeau.nn")


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("count", fb.zeros(1))

    def forward(self, x, scale=1.0):
        self.count.add_(1)
        return self.b(self.a(x)) * scale


def test_other_parameters_for_one_call():
    model, other, x = net(), net(), fb.randn(5, 3)
    state = {name: p.detach() for name, p in other.named_parameters()}
    before = model(x)
    assert fb.equal(functional_call(model, state, (x,)), other(x))
    assert fb.equal(functional_call(model, [{k: v} for k, v in state.items()], x), other(x))
    assert fb.equal(model(x), before)
    some = functional_call(model, {"2.bias": fb.full((2,), 5.0)}, x)
    assert fb.allclose(some - before, (5.0 - model[2].bias).expand(5, 2), atol=1e-5)


def test_the_module_is_whole_again_after_an_error():
    model = net()
    mine = dict(model.named_parameters())
    with pytest.raises(RuntimeError):
        functional_call(model, {"0.weight": fb.ones(7, 7)}, (fb.ones(1, 3),))
    assert all(p is mine[name] for name, p in model.named_parameters())


def test_shared_parameters_and_buffers():
    model, x = Tied(), fb.eye(3)
    two = 2 * fb.eye(3)
    assert fb.equal(functional_call(model, {"a.weight": two}, x), 4 * fb.eye(3))
    alone = functional_call(model, {"a.weight": two}, x, tie_weights=False)
    assert fb.allclose(alone, 2 * model.a.weight.T.detach(), atol=1e-6)
    assert fb.equal(functional_call(model, {"a.weight": two}, x, {"scale": 0.5}), 2 * fb.eye(3))
    count = fb.zeros(1)
    functional_call(model, {"count": count}, x)
    assert float(count) == 1.0 and float(model.count) == 3.0


def test_names_are_checked():
    model, x = net(), fb.ones(1, 3)
    with pytest.raises(AttributeError, match="has no attribute `3`"):
        functional_call(model, {"3.bias": x}, x)
    with pytest.raises(RuntimeError, match=r"Error\(s\) in reparametrizing for Sequential:\n\tMissing key\(s\): '0.weight'"):
        functional_call(model, {"0.bias": fb.ones(4)}, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'other'"):
        functional_call(model, {**dict(model.named_parameters()), "other": x}, x, strict=True)
    with pytest.raises(ValueError, match=r"\['0.bias'\] appeared in multiple dictionaries"):
        functional_call(model, ({"0.bias": fb.ones(4)}, {"0.bias": fb.ones(4)}), x)
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        functional_call(model, 3, x)
    with pytest.raises(TypeError, match="3 is not an instance of"):
        functional_call(model, {"0.bias": 3}, x)
    with pytest.raises(ValueError, match="one shared tensor"):
        functional_call(Tied(), {"a.weight": fb.eye(3), "b.weight": fb.ones(3, 3)}, x)


class Extra(fb.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", fb.zeros(1))

    def forward(self, x):
        self.count = self.count + 1
        return x * getattr(self, "factor", 1) + self.count


def test_names_the_module_does_not_have_are_attributes_for_the_call():
    model, x = Extra(), fb.ones(2)
    assert functional_call(model, {"factor": fb.full((1,), 3.0)}, x).tolist() == [4, 4]
    assert not hasattr(model, "factor")


def test_what_the_module_puts_in_place_of_a_buffer_lands_in_the_dictionary():
    model, values = Extra(), {"count": fb.full((1,), 10.0)}
    assert functional_call(model, values, fb.ones(2)).tolist() == [12, 12]
    assert values["count"].item() == 11 and model.count.item() == 0


def test_gradient_per_example():
    model, x, y = net(), fb.randn(5, 3), fb.randn(5, 2)
    state = {name: p.detach() for name, p in model.named_parameters()}

    def loss(state, x, y):
        return ((functional_call(model, state, (x,)) - y) ** 2).sum()

    each = vmap(grad(loss), in_dims=(None, 0, 0))(state, x, y)
    for i in range(5):
        alone = grad(loss)(state, x[i], y[i])
        assert all(fb.allclose(each[name][i], alone[name], atol=1e-5) for name in state)
    whole = grad(loss)(state, x, y)
    assert all(fb.allclose(each[name].sum(0), whole[name], atol=1e-4) for name in state)


def test_ensemble():
    models, x = [net() for _ in range(3)], fb.randn(5, 3)
    params, buffers = stack_module_state(models)
    assert params["0.weight"].shape == (3, 4, 3) and params["0.weight"].requires_grad and params["0.weight"].is_leaf
    assert buffers == {}
    out = vmap(lambda p, x: functional_call(models[0], p, (x,)), in_dims=(0, None))(params, x)
    assert fb.allclose(out, fb.stack([m(x) for m in models]), atol=1e-5)
    out.sum().backward()
    for m in models:
        m(x).sum().backward()
    assert fb.allclose(params["2.weight"].grad, fb.stack([m[2].weight.grad for m in models]), atol=1e-4)


def test_stack_module_state_is_checked():
    with pytest.raises(ValueError, match="Expected at least one model"):
        stack_module_state([])
    with pytest.raises(ValueError, match="same training/eval mode"):
        stack_module_state([net(), net().eval()])
    with pytest.raises(ValueError, match="of the same class"):
        stack_module_state([net(), nn.Linear(2, 2)])


def test_batch_norm_without_running_statistics():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.BatchNorm1d(2))
    assert replace_all_batch_norm_modules_(model) is model
    assert all(model[i].running_mean is None and not model[i].track_running_stats for i in (0, 2))
    x = fb.randn(4, 6, 3)
    assert fb.allclose(vmap(model)(x), fb.stack([model(part) for part in x]), atol=1e-5)


def test_parameters_that_the_module_lacks_are_its_parameters_during_the_call():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            return len(list(self.parameters())), x * self.extra

    model = Counts()
    count, out = functional_call(model, {"extra": nn.Parameter(fb.ones(2))}, fb.ones(2))
    assert count == 1 and out.tolist() == [1, 1] and not hasattr(model, "extra")
    assert functional_call(model, {"extra": fb.ones(2)}, fb.ones(2))[0] == 0
    with pytest.raises(TypeError, match="attribute `scale`: 2.0 is not an instance of torch.Tensor"):
        functional_call(model, {"scale": fb.ones(2)}, fb.ones(2))


def test_a_module_that_contains_itself():
    inner = nn.Linear(2, 1, bias=False)
    outer = nn.Sequential(inner)
    inner.outer = outer
    weights = {"0.outer.0.weight": fb.ones(1, 2)}
    assert functional_call(outer, weights, fb.ones(2), tie_weights=False).tolist() == [2]
