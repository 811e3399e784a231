"""Parameters without a shape yet: nothing takes them for empty tensors."""

import copy
import pickle

import pytest

import flambeau as fb

nn = fb.nn


@pytest.mark.parametrize(
    "use",
    [lambda p: p + p, lambda p: fb.add(p, 1), fb.empty_like, lambda p: p.sum(), lambda p: p.detach(), lambda p: fb.stack([p, p])],
)
@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_ops_refuse_uninitialized_tensors(use, kind):
    with pytest.raises(ValueError, match="uninitialized parameter; run a forward pass"):
        use(kind())


def test_uninitialized_tensors_can_be_moved_and_asked():
    m = nn.LazyLinear(3).double().requires_grad_(False)
    assert m.weight.dtype is fb.float64 and not m.weight.requires_grad and m.weight.is_leaf
    assert m.weight.to(fb.float16).dtype is fb.float16
    for made in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert made.has_uninitialized_params()
    m = nn.LazyLinear(3)
    optimizer = fb.optim.SGD(m.parameters(), lr=0.1)
    m(fb.ones(2, 2)).sum().backward()
    optimizer.step()
    assert type(m.weight) is nn.Parameter


def test_state_of_a_lazy_module_keeps_its_placeholders():
    lazy = nn.LazyBatchNorm1d()
    state = lazy.state_dict()
    assert state["weight"] is lazy.weight and state["running_mean"] is lazy.running_mean
    nn.LazyBatchNorm1d().load_state_dict(state)
    with pytest.raises(RuntimeError, match="shape of an uninitialized parameter"):
        nn.BatchNorm1d(2).load_state_dict(state)
    lazy.load_state_dict(nn.BatchNorm1d(2).state_dict())
    assert lazy.weight.shape == (2,)


def test_memory_of_uninitialized_tensors_is_not_shared():
    with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
        nn.Sequential(nn.LazyLinear(2)).share_memory()


@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm])
def test_norms_of_weights_need_a_shape(wrap):
    m = nn.LazyLinear(2)
    with pytest.raises(ValueError, match="must not have uninitialized parameters"):
        wrap(m)
    assert list(m._parameters) == ["weight", "bias"]
