"""Starting values: exact ones, and the distributions of random ones."""

import math

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import init


def test_exact_values():
    assert init.constant_(fb.empty(2), 3.0).tolist() == [3, 3] and init.ones_(fb.empty(1)).item() == 1
    assert init.zeros_(fb.empty(1)).item() == 0 and init.eye_(fb.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    w = init.dirac_(fb.empty(4, 2, 3), groups=2)
    assert w.sum().item() == 4 and w[:, :, 1].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    x = fb.randn(1, 2, 5)
    same = fb.conv1d(x, init.dirac_(fb.empty(2, 2, 3)), padding=1)
    np.testing.assert_allclose(same.numpy(), x.numpy(), atol=1e-6)


def test_gains():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("linear") == 1 == init.calculate_gain(
        "sigmoid"
    )
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25) and init.calculate_gain("selu") == 0.75
    for bad in (lambda: init.calculate_gain("sine"), lambda: init.calculate_gain("leaky_relu", True)):
        with pytest.raises(ValueError):
            bad()
    assert init._calculate_fan_in_and_fan_out(fb.empty(2, 3, 5, 7)) == (105, 70)
    with pytest.raises(ValueError, match="fewer than 2"):
        init.xavier_normal_(fb.empty(3))


FAN_IN, FAN_OUT = 300, 200
SPREADS = {
    "xavier_uniform_": ({"gain": 2.0}, 2 * math.sqrt(2 / 500), True),
    "xavier_normal_": ({}, math.sqrt(2 / 500), False),
    "kaiming_uniform_": ({"a": 0.5}, math.sqrt(2 / 1.25 / FAN_IN), True),
    "kaiming_normal_": ({"mode": "fan_out", "nonlinearity": "relu"}, math.sqrt(2 / FAN_OUT), False),
    "normal_": ({"std": 0.3}, 0.3, False),
    "uniform_": ({"a": -0.5, "b": 0.5}, 1 / math.sqrt(12), True),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spread(name):
    kwargs, std, uniform = SPREADS[name]
    fb.manual_seed(0)
    w = nn.Parameter(fb.empty(FAN_OUT, FAN_IN))
    assert getattr(init, name)(w, **kwargs) is w and w.requires_grad and w.is_leaf
    assert w.mean().item() == pytest.approx(0, abs=0.02 * std) and w.std().item() == pytest.approx(std, rel=0.01)
    if uniform:
        assert w.abs().max().item() == pytest.approx(std * math.sqrt(3), rel=0.01)
    a, b = (getattr(init, name)(fb.empty(9, 8), generator=fb.Generator().manual_seed(5), **kwargs) for _ in range(2))
    assert fb.equal(a, b)


def test_truncated_normal():
    fb.manual_seed(0)
    w = init.trunc_normal_(fb.empty(50000), mean=1.0, std=2.0, a=-1.0, b=2.0)
    assert w.min().item() >= -1 and w.max().item() <= 2
    alpha, beta = -1.0, 0.5
    pdf = [math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) for z in (alpha, beta)]
    mass = (math.erf(beta / math.sqrt(2)) - math.erf(alpha / math.sqrt(2))) / 2
    assert w.mean().item() == pytest.approx(1 + 2 * (pdf[0] - pdf[1]) / mass, abs=0.02)
    assert init.trunc_normal_(fb.empty(10, dtype=fb.bfloat16)).dtype == fb.bfloat16
    with pytest.warns(UserWarning, match="2 std"):
        init.trunc_normal_(fb.empty(2), mean=9.0)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal(shape):
    w = init.orthogonal_(fb.empty(shape, dtype=fb.float64), gain=2.0).reshape(shape[0], -1)
    product = w @ w.t() if w.shape[0] <= w.shape[1] else w.t() @ w
    np.testing.assert_allclose(product.numpy(), 4 * np.eye(len(product)), atol=1e-12)
    with pytest.raises(ValueError):
        init.orthogonal_(fb.empty(3))


def test_sparse():
    w = init.sparse_(fb.empty(10, 4), 0.25, std=1.0)
    assert (w == 0).sum(0).tolist() == [3, 3, 3, 3] and w.std().item() > 0.3
    with pytest.raises(ValueError):
        init.sparse_(fb.empty(3), 0.1)


def test_warnings():
    with pytest.warns(UserWarning, match="no-op"):
        nn.Linear(0, 3)
    with pytest.warns(FutureWarning, match="xavier_normal_"):
        init.xavier_normal(fb.empty(2, 2))
