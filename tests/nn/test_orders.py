"""Unrequested memory orders: results and gradients equal those of row-major tensors."""

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn import functional as F


def closeness(x, exact):
    """The largest difference, as a share of the largest element."""
    return ((x.double() - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("curve", ["relu", "relu6", "leaky_relu", "hardtanh"])
def test_gradients_through_channels_last_activations(curve):
    fb.manual_seed(0)
    single = [fb.randn(2, 5, 9, 8), fb.randn(7, 5, 3, 3), fb.randn(7)]
    double = [t.double().requires_grad_() for t in single]
    for t in single:
        t.requires_grad_()
    for x, weight, bias in (single, double):
        y = getattr(F, curve)(F.conv2d(x, weight, bias, padding=1))
        F.conv2d(y, weight.transpose(0, 1), stride=2).square().sum().backward()
    for t, exact in zip(single, double, strict=True):
        assert t.grad.is_contiguous()
        assert closeness(t.grad, exact.grad) < 1e-5


def test_relu_lets_gradients_of_nan_through():
    x = fb.tensor([-1.0, 0.0, 2.0, fb.nan], requires_grad=True)
    x.relu().backward(fb.ones(4))
    assert x.grad.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16])
@pytest.mark.parametrize("shape", [(70, 3, 5), (4, 20, 33, 31), (2, 3, 4, 5, 6)])
def test_bias_gradients_sum_without_loss(shape, dtype):
    """Numbers far from zero, whose plain float32 sum would drift."""
    g = (fb.rand(shape) + 1000).to(dtype)
    spatial = len(shape) - 2
    bias = fb.zeros(shape[1], dtype=dtype, requires_grad=True)
    weight = fb.zeros(shape[1], 1, *[1] * spatial, dtype=dtype)
    y = getattr(F, f"conv{spatial}d")(fb.zeros(shape[0], 1, *shape[2:], dtype=dtype), weight, bias)
    y.backward(g)
    exact = g.double().sum([d for d in range(g.dim()) if d != 1])
    assert closeness(bias.grad, exact) < (2e-7 if dtype == fb.float32 else 5e-3)


def test_weight_gradients_are_kept_in_the_order_of_the_weight():
    x = fb.randn(3, 7, requires_grad=True)
    weight = fb.randn(5, 7, requires_grad=True)
    (x @ weight.t()).sum().backward()
    assert weight.grad.is_contiguous()
    fb.testing.assert_close(weight.grad, x.detach().sum(0).expand(5, 7))
    kept = fb.randn(5, 7)
    expanded = fb.zeros(7, 5, requires_grad=True)
    expanded.t().backward(kept)  # a tensor with other owners is copied, though only a view of it arrives
    kept.zero_()
    assert expanded.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 50, 40), (2, 17, 19), (4, 37, 41), (7, 9, 9), (33, 70, 5), (64, 9, 11)])
def test_copies_that_turn_over(shape, dtype):
    values = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    for order in ((1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0)):
        turned = values.transpose(order)
        assert np.array_equal(fb.from_numpy(values).permute(order).contiguous().numpy(), turned)
        wide = np.zeros((2 * turned.shape[0], *turned.shape[1:]), dtype)
        fb.from_numpy(wide)[::2].copy_(fb.from_numpy(values).permute(order))
        assert np.array_equal(wide[::2], turned) and not wide[1::2].any()


@pytest.mark.parametrize("rows", [2, 3, 8, 31, 48])
@pytest.mark.parametrize("sizes", [(64, 512), (65, 1031), (131, 2049)])
def test_few_rows_times_a_large_weight(rows, sizes):
    fb.manual_seed(0)
    n, k = sizes
    x, weight, c = fb.randn(rows, k), fb.randn(n, k), fb.randn(rows, n)
    exact = x.double() @ weight.double().t()
    assert closeness(x @ weight.t(), exact) < 1e-6
    ours = fb.addmm(c, x, weight.t(), beta=0.5, alpha=-2.0)
    assert closeness(ours, 0.5 * c.double() - 2 * exact) < 1e-6
    threads = fb.get_num_threads()
    try:
        fb.set_num_threads(1)
        alone = x @ weight.t()
        fb.set_num_threads(2)
        assert fb.equal(alone, x @ weight.t())
    finally:
        fb.set_num_threads(threads)


@pytest.mark.parametrize(
    "sizes, kernel, options",
    [
        ((3, 16, 9, 11), (3, 3), {"padding": 1}),
        ((2, 32, 10, 7), (3, 5), {"stride": 2, "padding": 2}),
        ((1, 16, 13, 13), (7, 7), {"stride": 3}),
        ((2, 48, 6, 6), (3, 3), {"padding": 4, "dilation": 2}),
        ((2, 16, 5, 300), (1, 2), {}),
        ((2, 16, 1, 1), (3, 3), {"padding": 1}),
        ((2, 32, 8, 8), (8, 8), {"padding": 3}),
    ],
)
@pytest.mark.parametrize("order", [fb.contiguous_format, fb.channels_last])
def test_depthwise_convolutions(sizes, kernel, options, order):
    fb.manual_seed(0)
    channels = sizes[1]
    weight, bias = fb.randn(channels, 1, *kernel), fb.randn(channels)
    dense = fb.zeros(channels, channels, *kernel, dtype=fb.float64)  # the same as a convolution of all channels
    dense.diagonal().copy_(weight.double().squeeze(1).permute(1, 2, 0))
    leaves = [t.requires_grad_() for t in (fb.randn(*sizes).double(), dense, bias.double())]
    y = F.conv2d(*leaves, **options)
    slopes = fb.cos(fb.arange(y.numel(), dtype=fb.float64)).reshape(y.shape)
    gx, gw, gb = fb.autograd.grad(y, leaves, slopes)
    exact = y, gx, gw.diagonal().permute(2, 0, 1).unsqueeze(1), gb
    threads = fb.get_num_threads()
    for dtype, bound in ((fb.float32, 1e-5), (fb.float64, 2e-14)):
        own = [t.to(dtype, copy=True).requires_grad_() for t in (leaves[0].detach(), weight, bias)]
        x = own[0].contiguous(memory_format=order)
        results = []
        for count in (threads, 1):
            try:
                fb.set_num_threads(count)
                y = F.conv2d(x, *own[1:], **options, groups=channels)
                results.append((y, *fb.autograd.grad(y, own, slopes.to(dtype).contiguous(memory_format=order))))
            finally:
                fb.set_num_threads(threads)
        for found, alone, expected in zip(*results, exact, strict=True):
            assert closeness(found, expected) < bound
            assert fb.equal(found, alone)


def test_depthwise_convolutions_of_what_is_not_finite():
    def run(x, weight):
        x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
        y = F.conv2d(x, weight, padding=1, groups=2)
        return y.detach(), *fb.autograd.grad(y, (x, weight), fb.ones_like(y))

    x, weight = fb.ones(1, 2, 6, 9), fb.ones(2, 1, 3, 3)
    weight[0, 0, 0, 0] = fb.inf
    y, gx, gw = run(x, weight)
    assert fb.equal(fb.isinf(y[0, 0, 1:, 1:]), fb.ones(5, 8, dtype=fb.bool))
    assert y[0, 0, 0].tolist() == [4, *[6] * 7, 4]
    assert y[0, 0, :, 0].tolist() == [4, *[6] * 4, 4]
    assert y[0, 1].isfinite().all()
    assert fb.isinf(gx[0, 0, :-1, :-1]).all()
    assert gx[0, 0, -1].isfinite().all()
    assert gw.isfinite().all()
    x[0, 1, 0, 0] = fb.inf
    gw = run(x, weight)[2]
    assert fb.isinf(gw[1, 0]).tolist() == [[True, True, False], [True, True, False], [False] * 3]
    assert not gw.isnan().any()


@pytest.mark.parametrize(
    "sizes, kernel, options",
    [
        ((2, 3, 19, 21), (3, 3), {"stride": 2, "padding": 1}),
        ((1, 3, 40, 37), (11, 11), {"stride": 4, "padding": 2}),
        ((3, 1, 9, 12), (2, 5), {"padding": (0, 7)}),
        ((2, 4, 20, 9), (3, 1), {"padding": (3, 0), "dilation": (3, 1)}),
        ((1, 2, 3, 300), (3, 20), {"padding": 1, "stride": (1, 7)}),
        ((2, 3, 10, 10), (3, 3), {"dilation": 2}),
    ],
)
def test_weight_gradients_of_convolutions_with_few_channels(sizes, kernel, options):
    fb.manual_seed(0)
    check_weight_gradient(fb.randn(*sizes), fb.randn(24, sizes[1], *kernel), **options)


# Windows that touch but do not overlap; with pixels left over, few and many channels.
@pytest.mark.parametrize("dims, kernel", [(1, (3,)), (2, (2, 3)), (2, (5, 5)), (2, (1, 2)), (3, (2, 1, 3))])
@pytest.mark.parametrize("channels", [3, 16, 20])
@pytest.mark.parametrize("rest", [0, 1])
def test_patches(dims, kernel, channels, rest):
    fb.manual_seed(0)
    conv = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    sizes = [k * n + rest * (k > 1) for k, n in zip(kernel, (3, 4, 2), strict=False)]
    single = [fb.randn(2, channels, *sizes), fb.randn(5, channels, *kernel), fb.randn(5)]
    for x in (single[0], *([single[0].contiguous(memory_format=fb.channels_last)] if dims == 2 else [])):
        results = []
        for dtype in (fb.float32, fb.float64):
            leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, *single[1:])]
            y = conv(*leaves, stride=kernel)
            slopes = fb.cos(fb.arange(y.numel(), dtype=dtype)).reshape(y.shape)
            results.append((y.detach(), *fb.autograd.grad(y, leaves, slopes)))
        for found, exact in zip(*results, strict=True):
            assert found.stride() == exact.stride()
            assert closeness(found, exact) < 4e-6
        windows = x.double()
        for d, k in enumerate(kernel):
            windows = windows.unfold(2 + d, k, k)
        places = "xyz"[:dims]
        taps = "ijk"[:dims]
        exact = fb.einsum(f"nc{places}{taps},oc{taps}->no{places}", windows, single[1].double())
        assert closeness(results[1][0], exact + single[2].double().reshape(5, *[1] * dims)) < 1e-14
    leaves = [t.double().requires_grad_() for t in single]
    assert fb.autograd.gradcheck(lambda *t: conv(*t, stride=kernel), leaves, fast_mode=True)
    assert fb.autograd.gradgradcheck(lambda *t: conv(*t, stride=kernel), leaves, fast_mode=True)


def check_weight_gradient(x, weight, **options):
    grads, threads = [], fb.get_num_threads()
    for dtype in (fb.float32, fb.float64):
        leaf = weight.to(dtype, copy=True).requires_grad_()
        y = F.conv2d(x.to(dtype), leaf, **options)
        slopes = fb.cos(fb.arange(y.numel(), dtype=dtype)).reshape(y.shape)
        grads.append(fb.autograd.grad(y, leaf, slopes, retain_graph=True)[0])
        try:
            fb.set_num_threads(1)
            assert fb.equal(grads[-1], fb.autograd.grad(y, leaf, slopes)[0])
        finally:
            fb.set_num_threads(threads)
    assert closeness(*grads) < 1e-6


@pytest.mark.parametrize("sizes", [(7, 5, 4096), (64, 32, 6000), (32, 64, 20000), (250, 9, 5003), (256, 256, 4100)])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_small_products_of_long_sums(sizes, dtype):
    m, n, k = sizes
    fb.manual_seed(0)
    a, b, c = fb.randn(k, m, dtype=dtype), fb.randn(k, n, dtype=dtype), fb.randn(m, n, dtype=dtype)
    bound = 4e-6 if dtype is fb.float32 else 1e-14
    exact = a.double().numpy().T @ b.double().numpy()
    for left, right in ((a.t(), b), (a.t().contiguous(), b), (a.t(), b.t().contiguous().t())):
        assert closeness(left @ right, fb.from_numpy(exact)) < bound
    assert closeness(fb.addmm(c, a.t(), b, beta=2, alpha=-0.5), 2 * c.double() - 0.5 * fb.from_numpy(exact)) < bound
    threads = fb.get_num_threads()
    try:
        fb.set_num_threads(1)
        alone = a.t() @ b
    finally:
        fb.set_num_threads(threads)
    assert fb.equal(alone, a.t() @ b)


@pytest.mark.parametrize("channels", [(512, 1024), (1024, 512), (256, 256)])
@pytest.mark.parametrize("layout", [fb.contiguous_format, fb.channels_last])
def test_convolutions_by_single_pixels_of_many_channels(channels, layout):
    fb.manual_seed(0)
    into, out = channels
    x, weight, bias = fb.randn(2, into, 3, 5).to(memory_format=layout), fb.randn(out, into, 1, 1), fb.randn(out)
    results = []
    for dtype in (fb.float32, fb.float64):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, weight, bias)]
        y = F.conv2d(*leaves)
        y.backward(fb.cos(fb.arange(y.numel(), dtype=dtype)).reshape(y.shape))
        results.append([y, *(leaf.grad for leaf in leaves)])
    for ours, exact in zip(*results, strict=True):
        assert closeness(ours.detach(), exact.detach()) < 1e-5
    assert results[0][0].is_contiguous(memory_format=layout)


@pytest.mark.parametrize(
    "sizes, out, stride, groups",
    [
        ((4, 4, 16, 16), 8, 2, 1),
        ((2, 4, 9, 8), 8, (1, 3), 1),
        ((1, 8, 6, 6), 8, 2, 4),
        ((2, 16, 5, 5), 16, 2, 16),
        ((2, 6, 11), 4, 2, 1),
        ((2, 4, 5, 6, 7), 8, (2, 1, 3), 1),
    ],
)
def test_single_pixels_with_a_stride(sizes, out, stride, groups):
    convolution = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(sizes)]
    fb.manual_seed(0)
    single = fb.randn(*sizes), fb.randn(out, sizes[1] // groups, *[1] * (len(sizes) - 2)), fb.randn(out)
    grad = None
    results = []
    for dtype in (fb.float32, fb.float64):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in single]
        y = convolution(*leaves, stride, groups=groups)
        grad = fb.randn(*y.shape) if grad is None else grad
        y.backward(grad.to(dtype))
        results.append([y.detach(), *(leaf.grad for leaf in leaves)])
    for ours, exact in zip(*results, strict=True):
        assert closeness(ours, exact) < 2e-6 and ours.stride() == exact.stride()


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_logsigmoid_is_the_same_with_and_without_a_graph(dtype):
    x = fb.cat([fb.linspace(-120, 120, 4093, dtype=dtype), fb.tensor([fb.inf, -fb.inf, fb.nan], dtype=dtype)])
    leaf = x.clone().requires_grad_()
    y = F.logsigmoid(leaf)
    assert fb.allclose(y.detach(), F.logsigmoid(x), rtol=1e-6, atol=0, equal_nan=True)
    y.backward(fb.ones_like(x))
    assert fb.allclose(leaf.grad, fb.sigmoid(-x), rtol=1e-5, atol=2e-38, equal_nan=True)
    z = fb.linspace(-5, 5, 12, dtype=fb.float64, requires_grad=True)
    assert fb.autograd.gradcheck(F.logsigmoid, (z,)) and fb.autograd.gradgradcheck(F.logsigmoid, (z,))
