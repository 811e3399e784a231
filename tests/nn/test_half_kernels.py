"""Norms over rows, cross entropy and optimizer steps of half types: computed in float32, rounded once."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F

HALVES = [fb.bfloat16, fb.float16]


def leaf(x, dtype):
    return x.detach().to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 16, 33, 770])
@pytest.mark.parametrize("kind", ["layer", "rms", "layer, float32 parameters"])
def test_row_norms_round_once(dtype, size, kind):
    fb.manual_seed(size)
    x, w, b, g = (fb.randn(*shape).to(dtype) for shape in ((9, size), (size,), (size,), (9, size)))
    results = []
    for kind_of_float in (dtype, fb.float32):
        parameters = fb.float32 if "float32" in kind else kind_of_float
        leaves = [leaf(x, kind_of_float), leaf(w, parameters), leaf(b, parameters)]
        if kind == "rms":
            y = F.rms_norm(leaves[0], (size,), leaves[1], 1e-5)
        else:
            y = F.layer_norm(leaves[0], (size,), leaves[1], leaves[2])
        y.backward(g.to(y.dtype))
        results.append([y.detach(), *(t.grad for t in leaves if t.grad is not None)])
    for got, expected in zip(*results, strict=True):
        assert got.equal(expected.to(got.dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_cross_entropy_rounds_once(dtype, smoothing, reduction):
    fb.manual_seed(0)
    scores, target = fb.randn(11, 1030).to(dtype), fb.randint(0, 1030, (11,))
    target[4] = -100
    results = []
    for kind in (dtype, fb.float32):
        x = leaf(scores, kind)
        loss = F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)
        assert loss.dtype == kind
        loss.backward(fb.ones_like(loss))
        results.append((loss.detach(), x.grad))
    (loss, grad), (wide_loss, wide_grad) = results
    assert loss.equal(wide_loss.to(dtype)) and grad.equal(wide_grad.to(dtype)) and grad[4].eq(0).all()


def test_cross_entropy_second_order():
    x = fb.randn(3, 5).to(fb.bfloat16).requires_grad_()
    (slope,) = fb.autograd.grad(F.cross_entropy(x, fb.tensor([0, 1, 2]), reduction="none").sum(), x, create_graph=True)
    slope.float().square().sum().backward()
    assert slope.dtype == x.grad.dtype == fb.bfloat16 and x.grad.float().abs().sum() > 0


OPTIMIZERS = [
    (fb.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}), (fb.optim.SGD, {"lr": 0.1}), (fb.optim.AdamW, {"lr": 0.01}),
    (fb.optim.Adam, {"lr": 0.01, "amsgrad": True}), (fb.optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5}),
    (fb.optim.Adagrad, {"lr": 0.1}), (fb.optim.Adadelta, {"lr": 0.1}), (fb.optim.Adamax, {"lr": 0.01}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS, ids=lambda x: getattr(x, "__name__", ""))
def test_steps_round_parameters_and_state_once(dtype, optimizer, options):
    """A step in half precision is a step in float32 from the same numbers, rounded."""
    fb.manual_seed(1)
    start, grads = fb.randn(2500).to(dtype), [fb.randn(2500).to(dtype) for _ in range(3)]
    p = fb.nn.Parameter(start.clone())
    low = optimizer([p], **options)
    for g in grads:
        wide = fb.nn.Parameter(p.detach().float())
        high = optimizer([wide], **options)
        for key, value in low.state.get(p, {}).items():
            high.state[wide][key] = value.float() if isinstance(value, fb.Tensor) and value.ndim else fb.clone(value)
        p.grad, wide.grad = g, g.float()
        low.step()
        high.step()
        assert p.dtype == dtype and p.detach().equal(wide.detach().to(dtype))
        for key, value in low.state[p].items():
            if isinstance(value, fb.Tensor) and value.ndim:
                assert value.equal(high.state[wide][key].to(value.dtype)), key
