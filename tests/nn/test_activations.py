"""Activation functions against NumPy, at special values, in place, and their gradients."""

import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1.0):
    return np.logaddexp(0, x * beta) / beta


# name: (arguments, NumPy, the module)
CASES = {
    "relu": ((), lambda x: np.maximum(x, 0), nn.ReLU()),
    "relu6": ((), lambda x: np.clip(x, 0, 6), nn.ReLU6()),
    "hardtanh": ((-0.5, 2.0), lambda x: np.clip(x, -0.5, 2), nn.Hardtanh(-0.5, 2.0)),
    "threshold": ((0.3, -7.0), lambda x: np.where(x > 0.3, x, -7), nn.Threshold(0.3, -7.0)),
    "leaky_relu": ((0.2,), lambda x: np.where(x > 0, x, 0.2 * x), nn.LeakyReLU(0.2)),
    "elu": ((1.5,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)), nn.ELU(1.5)),
    "celu": ((2.0,), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), nn.CELU(2.0)),
    "selu": ((), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), nn.SELU()),
    "gelu": ((), lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, nn.GELU()),
    "silu": ((), lambda x: x * sigmoid(x), nn.SiLU()),
    "mish": ((), lambda x: x * np.tanh(softplus(x)), nn.Mish()),
    "softplus": ((2.0,), lambda x: softplus(x, 2.0), nn.Softplus(2.0)),
    "logsigmoid": ((), lambda x: -softplus(-x), nn.LogSigmoid()),
    "softsign": ((), lambda x: x / (1 + abs(x)), nn.Softsign()),
    "tanhshrink": ((), lambda x: x - np.tanh(x), nn.Tanhshrink()),
    "hardshrink": ((0.4,), lambda x: np.where(abs(x) > 0.4, x, 0), nn.Hardshrink(0.4)),
    "softshrink": ((0.4,), lambda x: np.sign(x) * np.maximum(abs(x) - 0.4, 0), nn.Softshrink(0.4)),
    "hardsigmoid": ((), lambda x: np.clip(x + 3, 0, 6) / 6, nn.Hardsigmoid()),
    "hardswish": ((), lambda x: x * np.clip(x + 3, 0, 6) / 6, nn.Hardswish()),
    "sigmoid": ((), sigmoid, nn.Sigmoid()),
    "tanh": ((), np.tanh, nn.Tanh()),
}
IN_PLACE = [
    "relu",
    "relu6",
    "hardtanh",
    "threshold",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "silu",
    "mish",
    "hardsigmoid",
    "hardswish",
]


@pytest.fixture
def x():
    # no value at a corner, where a gradient has two sides
    return np.random.default_rng(0).uniform(-8, 8, (3, 17)) + 1e-3


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_values(name, dtype, x):
    args, reference, module = CASES[name]
    t = fb.from_numpy(x).to(getattr(fb, dtype))
    exact = reference(t.double().numpy())
    tolerance = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    result = getattr(F, name)(t, *args)
    assert result.dtype == t.dtype
    np.testing.assert_allclose(result.double().numpy(), exact, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(module(t).double().numpy(), result.double().numpy())


@pytest.mark.parametrize("name", CASES)
def test_gradients(name, x):
    args, _, _ = CASES[name]
    t = fb.from_numpy(x).requires_grad_()
    assert fb.autograd.gradcheck(lambda v: getattr(F, name)(v, *args), (t,))


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, x):
    args, reference, _ = CASES[name]
    t = fb.from_numpy(x.copy())
    assert getattr(F, name)(t, *args, inplace=True) is t
    np.testing.assert_allclose(t.numpy(), reference(x), rtol=1e-12, atol=1e-12)
    leaf = fb.from_numpy(x).requires_grad_()
    work = leaf * 1
    getattr(F, name)(work, *args, inplace=True).sum().backward()
    plain = fb.from_numpy(x).requires_grad_()
    getattr(F, name)(plain, *args).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), plain.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_nan_passes_and_empty_works(name):
    args, _, _ = CASES[name]
    assert math.isnan(getattr(F, name)(fb.tensor(math.nan), *args).item())
    assert getattr(F, name)(fb.zeros(0, 3), *args).shape == (0, 3)


def test_no_overflow_far_out():
    far = fb.tensor([-1e4, 1e4], requires_grad=True)
    for name in ("elu", "celu", "selu", "softplus", "logsigmoid", "mish", "silu"):
        far.grad = None
        result = getattr(F, name)(far)
        result.sum().backward()
        assert bool(fb.isfinite(result).all()) and bool(fb.isfinite(far.grad).all()), name


def test_gradient_at_the_corners():
    def slope(f, at):
        t = fb.tensor(at, requires_grad=True)
        f(t).backward()
        return t.grad.item()

    assert slope(F.relu, 0.0) == 0 and slope(F.relu6, 0.0) == 0 and slope(F.relu6, 6.0) == 0
    assert slope(F.leaky_relu, 0.0) == pytest.approx(0.01)
    assert slope(F.logsigmoid, 0.0) == 0.5 and slope(F.softplus, 0.0) == 0.5


def test_prelu():
    t = fb.tensor([[-1.0, -1.0], [2.0, 2.0]])
    assert F.prelu(t, fb.tensor([0.5, 0.1])).tolist() == [[-0.5, pytest.approx(-0.1)], [2.0, 2.0]]
    assert nn.PReLU()(t).tolist()[0] == [-0.25, -0.25]
    with pytest.raises(ValueError, match="Mismatch of parameter numbers"):
        F.prelu(t, fb.ones(3))
    w = fb.rand(2, dtype=fb.float64, requires_grad=True)
    assert fb.autograd.gradcheck(F.prelu, (fb.randn(3, 2, 4, dtype=fb.float64, requires_grad=True), w))


def test_rrelu():
    t = fb.full((1000,), -1.0)
    slopes = -F.rrelu(t, 0.1, 0.3, training=True)
    assert 0.1 <= slopes.min().item() and slopes.max().item() <= 0.3 and slopes.std().item() > 0.03
    assert F.rrelu(t[:1], 0.1, 0.3).item() == pytest.approx(-0.2)
    assert nn.RReLU(0.1, 0.3).eval()(t[:1]).item() == pytest.approx(-0.2)
    with pytest.raises(ValueError):
        F.rrelu(t, 0.4, 0.3)


def test_glu_halves_a_dimension(x):
    t = fb.from_numpy(x[:, :16])
    np.testing.assert_allclose(F.glu(t).numpy(), x[:, :8] * sigmoid(x[:, 8:16]), rtol=1e-12)
    with pytest.raises(ValueError, match="even"):
        F.glu(fb.zeros(3, 17))


def test_softmax_family(x):
    t = fb.from_numpy(x)
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(F.softmax(t, 1).numpy(), p, rtol=1e-12)
    np.testing.assert_allclose(F.log_softmax(t, 1).numpy(), np.log(p), rtol=1e-9)
    np.testing.assert_allclose(F.softmin(-t, 1).numpy(), p, rtol=1e-12)
    assert F.softmax(t.float(), 1, dtype=fb.float64).dtype == fb.float64
    with pytest.warns(UserWarning, match="dim"):
        np.testing.assert_allclose(F.softmax(t).numpy(), p, rtol=1e-12)
    images = fb.from_numpy(x.reshape(1, 3, 17, 1))
    np.testing.assert_allclose(nn.Softmax2d()(images).sum(1).numpy(), 1, rtol=1e-12)
    with pytest.raises(ValueError):
        nn.Softmax2d()(t)


def test_gumbel_softmax():
    fb.manual_seed(0)
    logits = fb.tensor([0.0, math.log(3.0)]).expand(20000, 2).clone().requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(hard.detach().unique().tolist()) == {0.0, 1.0} and hard.sum(1).max().item() == 1
    assert hard.mean(0)[1].item() == pytest.approx(0.75, abs=0.02)
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum().item() > 0
    assert F.gumbel_softmax(logits, tau=0.1).sum(1).allclose(fb.ones(20000))


def test_wrong_arguments():
    t = fb.zeros(2)
    for call in (
        lambda: F.hardtanh(t, 2, 1),
        lambda: F.softshrink(t, -1),
        lambda: F.celu(t, 0),
        lambda: F.gelu(t, "sinh"),
        lambda: nn.Hardtanh(1, 1),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_second_gradients_far_out(dtype):
    for name in ("elu", "celu", "selu", "softplus", "logsigmoid", "mish", "silu"):
        t = fb.tensor([-100.0, 100.0, -1e4, 1e4], dtype=dtype, requires_grad=True)
        (slope,) = fb.autograd.grad(getattr(F, name)(t).sum(), t, create_graph=True)
        (bend,) = fb.autograd.grad(slope.sum(), t)
        assert bend.abs().max().item() < 1e-30, name


def test_second_gradient_of_elu_at_zero_is_that_of_the_line():
    t = fb.tensor([0.0, -0.0], requires_grad=True)
    (slope,) = fb.autograd.grad(F.elu(t).sum(), t, create_graph=True)
    assert slope.tolist() == [1.0, 1.0] and fb.autograd.grad(slope.sum(), t)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (F.relu, 1.0),
        (F.leaky_relu, 0.01),
        (F.relu6, 0.0),
        (F.hardtanh, 0.0),
        (F.hardsigmoid, 0.0),
        (F.hardswish, math.nan),
        (F.elu, math.nan),
        (F.softshrink, 0.0),
        (lambda t: t.clamp(-1, 1), 0.0),
        (lambda t: t.clamp(min=0), 0.0),
        (lambda t: t.clamp(max=fb.zeros(3)), 0.0),
    ],
)
@pytest.mark.parametrize("twice", [False, True])
def test_gradients_where_the_input_is_nan(f, expected, twice):
    t = fb.full((3,), math.nan, requires_grad=True)
    (slope,) = fb.autograd.grad(f(t).sum(), t, create_graph=twice)
    np.testing.assert_allclose(slope.detach().numpy(), [expected] * 3, rtol=1e-6)
