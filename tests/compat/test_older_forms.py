"""Older programs: deprecated orders of arguments, range, apply_ and similar methods, layers as top-level functions."""

import inspect
import warnings

import numpy as np
import pytest

import flambeau as fb

M = fb.tensor([[1.0, 2.0], [3.0, 4.0]])
B, V = M.expand(3, 2, 2), M[0]


def close(a, b):
    return fb.allclose(a, b)


@pytest.mark.parametrize("name", ["add", "sub", "addcmul", "addcdiv"])
def test_factor_before_the_others(name):
    others = (M + 1,) if name in ("add", "sub") else (M + 1, M + 2)
    keyword = {"alpha" if name in ("add", "sub") else "value": 3}
    expected = getattr(fb, name)(M, *others, **keyword)
    with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
        assert close(getattr(fb, name)(M, 3, *others), expected)
    with warnings.catch_warnings(action="ignore"):
        assert close(getattr(M, name)(3, *others), expected)
        assert close(getattr(M.clone(), f"{name}_")(3, *others), expected)
        out = fb.empty(0)
        getattr(fb, name)(M, 3, *others, out=out)
    assert close(out, expected)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("addmm", (M, M + 1, M + 2)), ("addmv", (V, M, V)), ("addr", (M, V, V)), ("addbmm", (M, B, B)), ("baddbmm", (B + 1, B, B))],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_factors_around_the_first(name, tensors):
    function, (first, *others) = getattr(fb, name), tensors
    both, one = function(first, *others, beta=2, alpha=3), function(first, *others, beta=2)
    with pytest.warns(UserWarning, match=f"{name} is deprecated: {name}\\(beta, input, alpha"):
        assert close(function(2, first, 3, *others), both)
    with warnings.catch_warnings(action="ignore"):
        assert close(function(2, first, *others), one)
        assert close(getattr(first, name)(2, 3, *others), both) and close(getattr(first, name)(2, *others), one)
        assert close(getattr(first.clone(), f"{name}_")(2, 3, *others), both)
    with pytest.raises(TypeError, match=name):
        function(first, *others[:1])


def test_gradients_pass_older_orders():
    x = M.clone().requires_grad_()
    with warnings.catch_warnings(action="ignore"):
        fb.addmm(2, x, 3, M, M).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_range_includes_its_end():
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert fb.range(1, 4).tolist() == [1, 2, 3, 4]
    with warnings.catch_warnings(action="ignore"):
        assert fb.range(1, 4).dtype == fb.get_default_dtype() and fb.range(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75, 1]
        assert fb.range(1, 3, requires_grad=True).requires_grad


def test_one_python_call_per_element():
    x, y = fb.tensor([1.0, 2.0]), fb.tensor([3.0, 4.0])
    assert fb.zeros(2).map2_(x, y, lambda a, b, c: a + b * c).tolist() == [3, 8]
    assert fb.zeros(2, 2).map2_(x, y, lambda a, b, c: b - c).tolist() == [[-2, -2], [-2, -2]]
    assert x.clone().map_(y, max).tolist() == [3, 4] and x.clone().apply_(lambda v: -v).tolist() == [-1, -2]
    with pytest.raises(TypeError, match="map_: expected flambeau.FloatTensor for 'other' \\(got flambeau.LongTensor\\)"):
        x.map_(fb.tensor([1, 2]), max)
    with pytest.raises(RuntimeError, match=r"Can't call map2_\(\) on Variable that requires grad"):
        x.map2_(y.clone().requires_grad_(), y, max)
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        x.clone().requires_grad_().apply_(abs)
    with pytest.raises(TypeError, match="not callable"):
        x.apply_(3)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        x.map_(3, max)


def test_layers_of_the_top_level():
    x, h = fb.randn(2, 3), fb.randn(2, 4)
    for name in ("tanh", "relu"):
        cell = fb.nn.RNNCell(3, 4, nonlinearity=name)
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        assert close(getattr(fb, f"rnn_{name}_cell")(x, h, *weights), cell(x, h))
    result, mask = fb.native_dropout(fb.ones(1000), 0.25, True)
    assert close(result, mask / 0.75) and 600 < mask.sum().item() < 900
    assert fb.native_dropout(x, 1.0, True)[0].sum().item() == 0 and fb.native_dropout(x, 0.5, False)[0] is x
    whole = fb.feature_dropout(fb.ones(50, 4, 3), 0.5, True)
    assert set(whole.flatten().tolist()) == {0.0, 2.0} and (whole == whole[..., :1]).all()
    assert fb.feature_dropout_(whole, 1.0, True) is whole and whole.sum().item() == 0
    with pytest.raises(RuntimeError, match="Feature dropout requires at least 2 dimensions"):
        fb.feature_dropout(fb.ones(3), 0.5, True)
    for call in (fb.feature_dropout, fb.native_dropout):
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got 2"):
            call(x, 2, True)
    sequence, weight, bias = fb.randn(5, 2, 3), fb.randn(3, 3, 4), fb.randn(4)
    by_hand = sum(fb.nn.functional.pad(sequence, (0, 0, 0, 0, 1, 1))[k : k + 5] @ weight[k] for k in range(3)) + bias
    assert fb.allclose(fb.conv_tbc(sequence, weight, bias, 1), by_hand, atol=1e-5)
    with pytest.raises(ValueError, match="conv_tbc"):
        fb.conv_tbc(x, weight, bias)
    table = fb.full((3, 2), 4.0)
    assert fb.embedding_renorm_(table, fb.tensor([0, 2]), 1.0, 2.0) is table and table[1].tolist() == [4, 4]
    np.testing.assert_allclose(table[0].numpy(), [0.5**0.5] * 2, rtol=1e-5)
    assert fb.native_channel_shuffle(fb.arange(4.0).view(1, 4, 1, 1), 2).flatten().tolist() == [0, 2, 1, 3]
    theta = fb.eye(2, 3).unsqueeze(0)
    grid = fb.nn.functional.affine_grid(theta, (1, 1, 2, 2), align_corners=False)
    assert close(fb.affine_grid_generator(theta, (1, 1, 2, 2), False), grid)


def test_memory_that_nobody_has_set():
    switch = fb.utils.deterministic
    kinds = {fb.float32: fb.nan, fb.float64: fb.nan, fb.float16: fb.nan, fb.bool: True, fb.uint8: 255, fb.int64: 2**63 - 1}
    kinds |= {fb.int8: 127, fb.uint64: 2**64 - 1}
    try:
        fb.use_deterministic_algorithms(True)
        assert switch.fill_uninitialized_memory
        for dtype, mark in kinds.items():
            x = fb.zeros(2, dtype=dtype)
            for made in (
                fb.empty(2, 3, dtype=dtype), fb.empty_like(x), x.new_empty(3), fb.empty_strided((2,), (3,), dtype=dtype),
                x.new_empty_strided((2,), (2,)), fb.empty_permuted((2, 3), (1, 0), dtype=dtype),
            ):  # fmt: skip
                values = set(map(str, made.flatten().tolist()))
                assert values == {str(mark)}, (dtype, values)
            # The elements that resize_ adds, and those of out= and no others.
            assert list(map(str, x.resize_(3).tolist())) == [*map(str, fb.zeros(2, dtype=dtype).tolist()), str(mark)]
            y = fb.zeros(4, dtype=dtype)
            fb.empty(2, out=y[1:3])
            assert list(map(str, y[::3].tolist() + y[1:3].tolist())) == [str(y[0].item())] * 2 + [str(mark)] * 2
        switch.fill_uninitialized_memory = False
        fb.empty(1000)  # not filled: nothing to see, and nothing raises
        with pytest.raises(TypeError, match="expected a bool, but got int"):
            switch.fill_uninitialized_memory = 1
    finally:
        switch.fill_uninitialized_memory = True
        fb.use_deterministic_algorithms(False)


def test_asarray_of_a_capsule():
    x = fb.arange(3.0)
    shared = fb.asarray(fb.to_dlpack(x))
    assert shared.tolist() == [0, 1, 2] and shared.data_ptr() == x.data_ptr()
    assert fb.asarray(fb.to_dlpack(x), copy=True).data_ptr() != x.data_ptr()
    assert fb.asarray(fb.to_dlpack(x), dtype=fb.float64).dtype == fb.float64
    with pytest.raises(ValueError, match="can't alias tensor with dtype"):
        fb.asarray(fb.to_dlpack(x), dtype=fb.float64, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        fb.asarray([1, 2], copy=False)


def test_switches():
    assert fb.is_anomaly_check_nan_enabled() and not fb.is_anomaly_enabled()
    fb.set_anomaly_enabled(True, check_nan=False)
    assert not fb.is_anomaly_check_nan_enabled()
    fb.set_anomaly_enabled(False)
    assert fb.is_anomaly_check_nan_enabled() and not fb.is_anomaly_enabled()
    with warnings.catch_warnings():
        fb.set_warn_always(True)
        fb.set_warn_always(True)
        assert fb.is_warn_always_enabled()
        fb.set_warn_always(False)
        assert not fb.is_warn_always_enabled()
    with fb.autograd.set_multithreading_enabled(False):
        x = fb.ones(2, requires_grad=True)
        x.sum().backward()
    assert x.grad.tolist() == [1, 1] and fb.is_tensor in fb.overrides.get_ignored_functions()
    stand_ins = fb.overrides.get_testing_overrides()
    assert list(inspect.signature(stand_ins[fb.gather]).parameters) == ["input", "dim", "index", "sparse_grad"]
    assert stand_ins[fb.where](x, x) == -1 and set(stand_ins) >= set(fb.overrides.get_overridable_functions()[fb.linalg])
    assert fb.get_device_module() is fb.cpu and fb.get_device_module("cuda") is fb.cuda
    with pytest.raises(RuntimeError, match="get_device_module"):
        fb.get_device_module("meta")
