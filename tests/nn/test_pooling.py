"""Pooling against plain NumPy loops, in row-major, channels-last and free layout."""

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn import functional as F


def windows(size, kernel, stride, padding, dilation=1):
    """The valid positions of every window along one dimension."""
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [i * stride - padding for i in range(count)]
    return [[p for p in range(s, s + dilation * kernel, dilation) if 0 <= p < size] for s in starts]


def reduce_windows(x, spans, f):
    out = np.empty(x.shape[:2] + tuple(len(s) for s in spans))
    for at in itertools.product(*(range(len(s)) for s in spans)):
        part = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *(s[i] for s, i in zip(spans, at, strict=True)))]
        out[(slice(None), slice(None), *at)] = f(part.reshape(*x.shape[:2], -1))
    return out


def inputs(dims, channels, dtype="float32"):
    x = np.random.default_rng(dims).standard_normal((2, channels) + (9, 6, 5)[:dims]).astype(dtype)
    row = fb.tensor(x)
    yield x, row
    if dims == 1:
        return
    last = row.to(memory_format=fb.channels_last if dims == 2 else fb.channels_last_3d)
    yield x, last


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("channels", [3, 21])
@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 3, 0, 2), (2, 3, 1, 1)])
def test_max_pool(dims, channels, window):
    kernel, stride, padding, dilation = window
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    for x, t in inputs(dims, channels):
        spans = [windows(size, *window) for size in x.shape[2:]]
        expected = reduce_windows(x, spans, lambda part: part.max(-1))
        y, at = pool(t, kernel, stride, padding, dilation, return_indices=True)
        assert np.array_equal(y.numpy(), expected)
        assert np.array_equal(pool(t, kernel, stride, padding, dilation).numpy(), expected)
        flat = np.take_along_axis(x.reshape(2, channels, -1), at.numpy().reshape(2, channels, -1), -1)
        assert np.array_equal(flat.reshape(expected.shape), expected)
        if dims > 1:
            assert y.is_contiguous() == t.is_contiguous()


@pytest.mark.parametrize("option", ["stride", "padding", "dilation"])
def test_distances_are_limited(option):
    with pytest.raises(ValueError, match=r"must be less than 2\*\*31, got \(9223372036854775807, 9223372036854775807"):
        F.max_pool2d(fb.ones(1, 1, 4, 4), 1, **{option: 2**63 - 1})


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("channels", [3, 21])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_avg_pool(dims, channels, window, include):
    kernel, stride, padding = window
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
    for x, t in inputs(dims, channels):
        spans = [windows(size, *window) for size in x.shape[2:]]
        expected = reduce_windows(x, spans, lambda part: part.sum(-1) / (kernel**dims if include else part.shape[-1]))
        y = pool(t, kernel, stride, padding, count_include_pad=include)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive(dims):
    for x, t in inputs(dims, 17):
        sizes = (4, 5, 1)[:dims]
        spans = [
            [list(range(i * n // out, -(-(i + 1) * n // out))) for i in range(out)]
            for n, out in zip(x.shape[2:], sizes, strict=True)
        ]
        mean = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1](t, sizes)
        largest = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[dims - 1](t, sizes)
        expected = reduce_windows(x, spans, lambda part: part.mean(-1))
        np.testing.assert_allclose(mean.numpy(), expected, rtol=1e-5, atol=1e-6)
        assert np.array_equal(largest.numpy(), reduce_windows(x, spans, lambda part: part.max(-1)))


def test_nan_wins_in_every_layout():
    x = fb.zeros(1, 16, 4, 4)
    x[0, :, 1, 1] = float("nan")
    for t in (x, x.to(memory_format=fb.channels_last)):
        y, at = F.max_pool2d(t, 2, return_indices=True)
        assert bool(y[0, :, 0, 0].isnan().all()) and bool((y[0, :, 1, 1] == 0).all())
        assert bool((at[0, :, 0, 0] == 5).all()) and bool((at[0, :, 1, 1] == 10).all())


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    ],
)
def test_after_a_convolution(pool):
    """The convolution's result is held channels-last; values and gradients are those of a row-major one."""
    x, w = fb.randn(2, 3, 8, 8), fb.randn(18, 3, 3, 3)
    y = fb.conv2d(x, w, padding=1).detach()
    leaf = y.contiguous().clone().requires_grad_()
    expected = pool(leaf)
    (expected * expected).sum().backward()
    weight = w.clone().requires_grad_()
    free = fb.conv2d(x, weight, padding=1)
    free.retain_grad()
    got = pool(free)
    (got * got).sum().backward()
    assert np.allclose(got.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    assert np.allclose(free.grad.numpy(), leaf.grad.numpy(), atol=1e-4)
    assert got.is_contiguous()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.max_pool2d(x, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.fractional_max_pool2d(
            x, 2, output_size=2, _random_samples=fb.full((1, 2, 2), 0.3, dtype=fb.float64)
        ),
        lambda x: F.max_unpool2d(x, fb.arange(32).view(1, 2, 4, 4) % 16, 2),
        lambda x: F.lp_pool2d(x.abs() + 1, 3.0, 2),
    ],
)
def test_gradients(f):
    x = fb.randn(1, 2, 4, 4, dtype=fb.float64, requires_grad=True)
    assert fb.autograd.gradcheck(f, (x,))
    assert fb.autograd.gradgradcheck(f, (x,))


def test_unpool_checks_every_index():
    with pytest.raises(ValueError, match="invalid max index 16"):
        F.max_unpool2d(fb.ones(1, 1, 2, 2), fb.tensor([[[[0, 1], [2, 16]]]]), 2)
    with pytest.raises(ValueError, match="invalid max index -1"):
        F.max_unpool2d(fb.ones(1, 1, 2, 2), fb.tensor([[[[0, -1], [2, 3]]]]), 2)


def test_thread_counts_agree():
    x = fb.randn(3, 40, 30, 30)
    try:
        results = []
        for n in (1, 2):
            fb.set_num_threads(n)
            leaf = x.clone().requires_grad_()
            y = F.max_pool2d(leaf, 3, 2, 1) + F.avg_pool2d(leaf, 3, 2, 1)
            y.square().sum().backward()
            results.append((y.detach().numpy(), leaf.grad.numpy()))
    finally:
        fb.set_num_threads(2)
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.max_pool2d(fb.ones(1, 4, 4), 2, padding=2), "pad should be at most half"),
        (lambda: F.max_pool2d(fb.ones(1, 4, 4), 0), "greater than zero"),
        (lambda: F.max_pool2d(fb.ones(1, 1, 1), 3), "Output size is too small"),
        (lambda: F.max_pool2d(fb.ones(4, 4), 2), "3D or 4D"),
        (lambda: F.max_pool2d(fb.ones(1, 4, 4), (1, 2, 3)), "kernel_size must either be"),
        (lambda: F.avg_pool2d(fb.ones(1, 4, 4), 2, divisor_override=0), "divisor must be not zero"),
        (lambda: F.adaptive_avg_pool2d(fb.ones(1, 4, 4), -1), "greater than or equal to 0"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("pool", [F.max_pool1d, F.adaptive_max_pool1d])
def test_places_of_the_maxima_have_no_gradient(pool):
    x = fb.randn(1, 2, 6, dtype=fb.float64, requires_grad=True)
    (plain,) = fb.autograd.grad(pool(x, 3).sum(), x, create_graph=True)
    assert not plain.requires_grad  # constant until another element wins
    (gradient,) = fb.autograd.grad(pool(x, 3).square().sum(), x, create_graph=True)
    (second,) = fb.autograd.grad(gradient.sum(), x)
    assert second.sum().item() == 2 * pool(x, 3).numel()


@pytest.mark.parametrize(("pool", "dims"), [(F.avg_pool2d, 2), (F.avg_pool3d, 3)])
def test_means_into_a_given_tensor(pool, dims):
    x = fb.randn(2, 3, *[4] * dims)
    expected = pool(x, 2)
    for out in (fb.empty(0), fb.empty_like(expected), fb.empty(expected.shape[::-1]).permute(*range(dims + 1, -1, -1))):
        assert pool(x, 2, out=out) is out
        assert fb.equal(out, expected)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        pool(x.requires_grad_(), 2, out=fb.empty(0))
    with pytest.raises(RuntimeError, match="dtype|cast"):
        pool(x.detach(), 2, out=fb.empty(0, dtype=fb.int64))


def test_fractional_pooling_takes_samples_of_any_size():
    x = fb.arange(49.0).reshape(1, 1, 7, 7)
    expected = fb.tensor([[[[8.0, 11.0, 13.0], [29.0, 32.0, 34.0], [43.0, 46.0, 48.0]]]])
    for sample in (-1.3, 0.3, 2.6):
        assert fb.equal(F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=fb.full((1, 1, 2), sample)), expected)
    for sample in (1e30, float("nan"), -float("inf")):
        with pytest.raises(ValueError, match="must lie in"):
            F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=fb.full((1, 1, 2), sample))


@pytest.mark.parametrize("name", ["avg", "max"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pooling_refuses_integers(name, n):
    op = f"adaptive_{name}_pool{n}d"
    with pytest.raises(NotImplementedError, match=rf"\"{op}\" not implemented for 'Int'"):
        getattr(F, op)(fb.ones(2, *[4] * n, dtype=fb.int32), 2)


def test_adaptive_averages_of_no_channels():
    x = fb.ones(0, 10, requires_grad=True)
    y = F.adaptive_avg_pool1d(x, 5)
    y.sum().backward()
    assert y.shape == (0, 5) and x.grad.shape == (0, 10)
    assert F.adaptive_avg_pool2d(fb.ones(0, 4, 4), 2).shape == (0, 2, 2)


def test_fractional_pooling_checks_its_sizes():
    values, places = F.fractional_max_pool2d(fb.ones(2, 3, 8, 8), 2, output_size=(0, 1), return_indices=True)
    assert values.shape == places.shape == (2, 3, 0, 1) and places.dtype == fb.int64
    with pytest.raises(ValueError, match="Expect _random_samples of shape"):
        F.fractional_max_pool2d(fb.ones(2, 3, 8, 8), 2, output_size=1, _random_samples=fb.ones(0, 3, 2))
    with pytest.raises(ValueError, match="kernel_size must either be a single Int or tuple of 3 Ints"):
        F.fractional_max_pool3d(fb.ones(3, 8, 8, 8), (2, 2), output_size=1)
    with pytest.raises(ValueError, match="FractionalMaxPool3d: kernel_size must greater than 0"):
        fb.nn.FractionalMaxPool3d((2, 0, 2), output_size=1)
    with pytest.raises(ValueError, match="integer out of range: kernel size"):
        F.avg_pool1d(fb.ones(1, 1, 8), 2**63 - 5)


@pytest.mark.parametrize("spatial", [2, 3])
def test_slices_of_channels_last_tensors_stay_channels_last(spatial):
    """As in PyTorch, whose strides tell the format even with gaps."""
    form = fb.channels_last if spatial == 2 else fb.channels_last_3d
    x = fb.randn(2, 6, *(6,) * spatial).contiguous(memory_format=form)
    for part in (x[:, ::2], x[:, :, 1:], x[..., :4]):
        part = part.detach().requires_grad_()
        for name in ("max", "avg", "adaptive_avg", "adaptive_max"):
            op = getattr(F, f"{name}_pool{spatial}d")
            y = op(part, 2)
            assert y.is_contiguous(memory_format=form) and not y.is_contiguous()
            fb.testing.assert_close(y, op(part.detach().contiguous(), 2))
            (g,) = fb.autograd.grad(y.square().sum(), part)
            plain = part.detach().contiguous().requires_grad_()
            fb.testing.assert_close(g, fb.autograd.grad(op(plain, 2).square().sum(), plain)[0])
