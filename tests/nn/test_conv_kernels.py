"""Convolutions of every kind of shape and all floating dtypes, against sums over taps in float64."""

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn import functional as F

ROUNDING = {fb.float32: 2e-6, fb.float64: 1e-14, fb.bfloat16: 2.0**-8, fb.float16: 2.0**-10}

# input, weight, stride, padding, dilation, groups
CASES = [
    ((2, 3, 31, 29), (64, 3, 7, 7), 2, 3, 1, 1), ((1, 32, 9, 9), (48, 32, 3, 3), 2, 1, 1, 1),
    ((3, 20, 13, 11), (17, 20, 5, 5), 1, 2, 1, 1), ((2, 64, 7, 7), (96, 64, 3, 3), 1, 2, 2, 1),
    ((2, 24, 17, 17), (24, 24, 1, 7), 1, (0, 3), 1, 1), ((2, 24, 17, 17), (24, 24, 7, 1), 1, (3, 0), 1, 1),
    ((1, 130, 6, 5), (530, 130, 3, 3), 1, 1, 1, 1), ((30, 10, 9, 9), (40, 10, 2, 2), 1, 0, 1, 1),
    ((4, 16, 12, 10), (33, 16, 1, 1), 3, 0, 1, 1), ((2, 16, 8, 8), (16, 16, 1, 1), (1, 2), 0, 1, 1),
    ((1, 1, 1), (2, 1, 1), 3, 1, 1, 1), ((1, 4, 2, 2), (3, 4, 5, 5), 1, 4, 1, 1), ((2, 1, 403), (20, 1, 10), 5, 0, 1, 1),
    ((2, 12, 60), (18, 12, 9), 1, 4, 1, 1), ((2, 8, 41), (8, 8, 3), 2, 5, 4, 1), ((1, 6, 5, 9, 8), (20, 6, 3, 3, 3), 1, 1, 1, 1),
    ((2, 5, 6, 7, 9), (32, 5, 2, 3, 4), (2, 1, 3), (0, 1, 2), (1, 2, 1), 1), ((1, 32, 5, 5, 5), (32, 2, 3, 3, 3), 1, 1, 1, 16),
    ((2, 128, 9, 7), (128, 4, 3, 3), 1, 1, 1, 32), ((2, 64, 9, 9), (64, 8, 3, 3), 2, 1, 1, 8),
    ((2, 48, 8, 8), (96, 3, 3, 3), 1, 1, 1, 16), ((1, 64, 6, 6), (64, 32, 3, 3), 1, 1, 1, 2),
    ((2, 40, 15, 14), (40, 1, 3, 3), 2, 1, 1, 40), ((1, 17, 20, 150), (17, 1, 5, 5), 1, 2, 1, 17),
    ((2, 24, 9, 9), (48, 1, 3, 3), 1, 2, 2, 24), ((2, 6, 9, 9), (6, 1, 3, 3), 1, 1, 1, 6), ((1, 32, 300), (32, 1, 3), 1, 1, 1, 32),
    ((2, 12, 9, 9), (30, 4, 3, 3), 1, 1, 1, 3), ((1, 64, 16), (64, 1, 3), 7, 1, 1, 64),
]  # fmt: skip


def reference(x, w, g, stride, padding, dilation, groups):
    """Result, gradient of the input and of the weight for float64 arrays; g makes the gradient of the result."""
    out = [(x.shape[2 + d] + 2 * p - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d, p in enumerate(padding)]
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    split = padded.reshape(len(x), groups, -1, *padded.shape[2:])
    weight = w.reshape(groups, -1, *w.shape[1:])
    y = np.zeros((len(x), groups, len(w) // groups, *out))
    slopes = g((len(x), len(w), *out)).reshape(y.shape)
    gx, gw = np.zeros_like(split), np.zeros_like(weight)
    for tap in itertools.product(*map(range, w.shape[2:])):
        seen = tuple(slice(t * dilation[d], t * dilation[d] + (out[d] - 1) * stride[d] + 1, stride[d]) for d, t in enumerate(tap))
        at = (slice(None),) * 3
        y += np.einsum("ngi...,goi->ngo...", split[at + seen], weight[at + tap])
        gx[at + seen] += np.einsum("ngo...,goi->ngi...", slopes, weight[at + tap])
        flat = slopes.reshape(*y.shape[:3], -1), split[at + seen].reshape(*split.shape[:3], -1)
        gw[at + tap] = np.einsum("ngop,ngip->goi", *flat)
    inner = tuple(slice(p, p + x.shape[2 + d]) for d, p in enumerate(padding))
    return y.reshape(len(x), len(w), *out), gx.reshape(padded.shape)[:, :, *inner], gw.reshape(w.shape)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_against_sums_over_taps(case, dtype):
    shape, weight, *window, groups = case
    n = len(shape) - 2
    stride, padding, dilation = (v if isinstance(v, tuple) else (v,) * n for v in window)
    rng = np.random.default_rng(sum(shape) + sum(weight))

    def values(sizes):
        return fb.tensor(rng.standard_normal(sizes).astype(np.float32)).to(dtype)

    x, w, bias = values(shape), values(weight), values(weight[:1])
    if n == 2 and shape[0] % 2:
        x = x.to(memory_format=fb.channels_last)
    slopes = []

    def gradient(sizes):
        slopes.append(values(sizes))
        return slopes[0].double().numpy()

    y, gx, gw = reference(x.double().numpy(), w.double().numpy(), gradient, stride, padding, dilation, groups)
    y += bias.double().numpy().reshape(-1, *(1,) * n)
    x.requires_grad_(), w.requires_grad_()
    got = getattr(F, f"conv{n}d")(x, w, bias, stride, padding, dilation, groups)
    got.backward(slopes[0])
    for ours, exact in ((got, y), (x.grad, gx), (w.grad, gw)):
        assert ours.dtype == dtype and ours.shape == exact.shape
        error = np.abs(ours.detach().double().numpy() - exact)
        bound = ROUNDING[dtype] * np.abs(exact) + min(ROUNDING[dtype], 3e-6) * np.abs(exact).max() + 1e-30
        assert (error <= bound).all(), (error / bound).max()


@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16], ids=str)
def test_threads_change_no_bit(dtype):
    before = fb.get_num_threads()
    for shape, weight, stride, groups in (
        ((4, 24, 30, 30), (40, 24, 3, 3), 2, 1), ((1, 96, 9, 9), (160, 96, 3, 3), 1, 1),
        ((8, 64, 14, 14), (64, 4, 3, 3), 1, 16), ((40, 8, 20, 20), (16, 8, 2, 2), 1, 1),
    ):  # fmt: skip
        results = []
        for threads in (1, 2, 5):
            fb.set_num_threads(threads)
            fb.manual_seed(0)
            x, w = fb.randn(shape).to(dtype).requires_grad_(), fb.randn(weight).to(dtype).requires_grad_()
            y = F.conv2d(x, w, stride=stride, groups=groups)
            y.backward(y.detach())
            results.append((y.detach(), x.grad, w.grad))
        fb.set_num_threads(before)
        for other in results[1:]:
            assert all(fb.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_what_is_not_finite_stays_where_it_is(dtype):
    x = fb.zeros(1, 32, 12, 12, dtype=dtype)
    x[0, 3, 2, 2] = float("inf")
    for groups in (1, 8, 32):
        w = fb.ones(32, 32 // groups, 5, 3, dtype=dtype)
        y = F.conv2d(x, w, stride=2, padding=2, groups=groups)
        seen = F.conv2d((x != 0).to(fb.float64), w.double(), stride=2, padding=2, groups=groups) != 0
        assert y[seen].isinf().all() and (y[~seen] == 0).all()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_nothing_to_sum(dtype):
    w = fb.ones(4, 3, 3, 3, dtype=dtype, requires_grad=True)
    y = F.conv2d(fb.ones(0, 3, 8, 8, dtype=dtype), w, padding=1)
    y.sum().backward()
    assert y.shape == (0, 4, 8, 8) and not w.grad.any()
    bias = fb.arange(4).to(dtype)
    y = F.conv2d(fb.ones(2, 0, 8, 8, dtype=dtype), fb.ones(4, 0, 3, 3, dtype=dtype), bias, padding=1)
    assert (y == bias.view(4, 1, 1)).all()
    # a stride that steps over the whole image
    x, w = fb.ones(1, 16, 1, 1, dtype=dtype, requires_grad=True), fb.ones(16, 16, 1, 1, dtype=dtype, requires_grad=True)
    y = F.conv2d(x, w, stride=3, padding=1)
    y.sum().backward()
    assert (y == 0).all() and (x.grad == 0).all() and (w.grad == 0).all()


@pytest.mark.parametrize("groups", [1, 2, 32])
@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_padding_is_not_multiplied(dtype, groups):
    """Zero times infinity would be NaN."""
    for stride in (1, 2):
        x = fb.ones(2, 32, 9, 7, dtype=dtype, requires_grad=True)
        w = fb.ones(32, 32 // groups, 3, 3, dtype=dtype)
        w[:, :, 0, 0] = float("inf")
        w.requires_grad_()
        y = F.conv2d(x, w, padding=1, stride=stride, groups=groups)
        assert y[:, :, 0].isfinite().all() and y[:, :, :, 0].isfinite().all() and y[:, :, 1:, 1:].isinf().all()
        grad = fb.ones_like(y).detach()
        (gx,) = fb.autograd.grad(y, x, grad, retain_graph=True)
        assert not gx.isnan().any() and gx[:, :, -1].isfinite().all() and gx[:, :, 1, 1].isinf().all()
        grad[:, :, 0, 0] = float("inf")
        (gw,) = fb.autograd.grad(y, w, grad)
        assert gw[:, :, 0].isfinite().all() and gw[:, :, :, 0].isfinite().all() and gw[:, :, 1:, 1:].isinf().all()
