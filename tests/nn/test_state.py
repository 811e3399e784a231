"""state_dict and load_state_dict."""

import copy
import gc

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn


def same(a, b):
    return list(a) == list(b) and all(np.array_equal(a[k].numpy(), b[k].numpy()) for k in a)


def test_round_trip():
    a, b = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    assert not same(a.state_dict(), b.state_dict())
    result = b.load_state_dict(a.state_dict())
    assert same(a.state_dict(), b.state_dict())
    assert repr(result) == "<All keys matched successfully>" and result.missing_keys == result.unexpected_keys == []
    assert a[0].weight.requires_grad and a[0].weight.data_ptr() != b[0].weight.data_ptr()


def test_the_tensors_are_shared_and_detached():
    m = nn.Linear(2, 3)
    state = m.state_dict()
    assert state["weight"].data_ptr() == m.weight.data_ptr() and not state["weight"].requires_grad
    assert m.state_dict(keep_vars=True)["weight"] is m.weight
    assert list(m.state_dict(prefix="x.")) == ["x.weight", "x.bias"]
    assert state._metadata[""] == {"version": 1}


def test_the_report_names_everything_that_is_wrong():
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    state = m.state_dict()
    del state["1.bias"]
    state["2.bias"] = state["stray"] = fb.zeros(1)
    state["0.weight"] = fb.zeros(4, 4)
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(state)
    text = str(caught.value)
    assert "loading state_dict for Sequential" in text
    assert 'Missing key(s) in state_dict: "1.bias".' in text
    assert 'Unexpected key(s) in state_dict: "2.bias", "stray".' in text
    assert "size mismatch for 0.weight" in text and "[4, 4]" in text and "[3, 2]" in text
    state["0.weight"] = fb.ones(3, 2)
    missing, unexpected = m.load_state_dict(state, strict=False)
    assert missing == ["1.bias"] and sorted(unexpected) == ["2.bias", "stray"]
    assert m[0].weight.tolist() == [[1.0, 1.0]] * 3
    with pytest.raises(TypeError):
        m.load_state_dict([1])
    with pytest.raises(RuntimeError, match="Tensor-like object from checkpoint but received list"):
        m.load_state_dict({**m.state_dict(), "0.bias": [1, 2, 3]})


def test_assign_takes_the_tensors_themselves():
    m = nn.Linear(2, 3)
    m.weight.requires_grad_(False)
    state = {"weight": fb.ones(3, 2, dtype=fb.float64), "bias": fb.zeros(3, dtype=fb.float64)}
    m.load_state_dict(state, assign=True)
    assert m.weight.dtype == fb.float64 and m.weight.data_ptr() == state["weight"].data_ptr()
    assert isinstance(m.weight, nn.Parameter) and not m.weight.requires_grad and m.bias.requires_grad


def test_values_are_converted_when_copied():
    m = nn.Linear(2, 1)
    m.load_state_dict({"weight": fb.tensor([[1, 2]]), "bias": fb.tensor([3.0], dtype=fb.float64)})
    assert m.weight.tolist() == [[1.0, 2.0]] and m.weight.dtype == fb.float32


def test_hooks_of_saving_and_loading():
    m, seen = nn.Linear(2, 1), []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append(("pre", prefix, keep)))
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update(extra=1))
    outer = nn.Sequential(m)
    assert outer.state_dict()["extra"] == 1 and seen == [("pre", "0.", False)]

    def upgrade(mod, state, prefix, meta, strict, missing, unexpected, errors):
        state[prefix + "weight"] = state.pop(prefix + "w")

    target = nn.Linear(2, 1)
    target.register_load_state_dict_pre_hook(upgrade)
    target.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
    nn.Sequential(target).load_state_dict({"0.w": fb.ones(1, 2)})
    assert target.weight.tolist() == [[1.0, 1.0]]
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: state)
    with pytest.raises(RuntimeError, match="must return None"):
        m.state_dict()


def test_extra_state():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    a, b = Counter(), Counter()
    a.count = 5
    nn.Sequential(b).load_state_dict(nn.Sequential(a).state_dict())
    assert b.count == 5
    with pytest.raises(RuntimeError, match="_extra_state"):
        b.load_state_dict({})
    with pytest.raises(RuntimeError, match="_extra_state"):
        nn.ReLU().load_state_dict({"_extra_state": 1})


def test_batch_norm_of_an_older_version():
    m = nn.BatchNorm1d(2)
    old = {k: v for k, v in m.state_dict().items() if k != "num_batches_tracked"}
    m.load_state_dict(old)
    assert m.num_batches_tracked.item() == 0


def test_prefix_can_be_removed():
    state = nn.DataParallel(nn.Linear(2, 1)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    nn.Linear(2, 1).load_state_dict(state)


def test_loading_leaves_no_reference_cycle():
    m = fb.nn.LSTM(2, 2)
    state = copy.deepcopy(m).state_dict()
    gc.collect()
    m.load_state_dict(state)
    assert gc.collect() == 0


def test_loading_values_into_a_meta_module_warns():
    with fb.device("meta"):
        m = fb.nn.Linear(3, 5)
    state = {"weight": fb.zeros(5, 3), "bias": m.bias}
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter in the checkpoint to a meta"):
        m.load_state_dict(state)
    fb.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter"):
            m.load_state_dict(state)
    finally:
        fb.__future__.set_swap_module_params_on_conversion(False)


def test_buffers_are_assigned_through_a_register_buffer_of_two_arguments():
    class Plain(fb.nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    m = Plain()
    m.mean = fb.nn.Buffer(fb.zeros(2))
    assert "mean" in m.state_dict()
