"""Winograd's convolution against sums in float64, and what must not be told from the direct way."""

import numpy as np
import pytest

import flambeau as fb
from flambeau._registry import private
from flambeau.nn import functional as F


def reference(x, w, bias, padding):
    """The convolution of arrays in float64, window by window."""
    py, px = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (py, py), (px, px)))
    height, width = x.shape[2] - 2, x.shape[3] - 2
    y = np.zeros((x.shape[0], w.shape[0], height, width))
    for i in range(3):
        for j in range(3):
            part = x[:, :, i : i + height, j : j + width]
            y += np.einsum("nchw,kc->nkhw", part, w[:, :, i, j].astype(np.float64), optimize=True)
    return y if bias is None else y + bias.astype(np.float64)[:, None, None]


def reference_gradients(x, w, g, padding):
    """Those of the input and the weight."""
    py, px = padding
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (py, py), (px, px)))
    gx, gw = np.zeros_like(padded), np.zeros(w.shape)
    height, width = g.shape[2:]
    g = g.astype(np.float64)
    for i in range(3):
        for j in range(3):
            window = (slice(None), slice(None), slice(i, i + height), slice(j, j + width))
            gx[window] += np.einsum("nkhw,kc->nchw", g, w[:, :, i, j].astype(np.float64), optimize=True)
            gw[:, :, i, j] = np.einsum("nkhw,nchw->kc", g, padded[window], optimize=True)
    return gx[:, :, py : py + x.shape[2], px : px + x.shape[3]], gw


def error(found, expected):
    return np.abs(found.numpy() - expected).max() / np.abs(expected).max()


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.fixture
def always():
    """Also where the direct way is faster."""
    mode = private.winograd
    mode(2)
    yield
    mode(1)


# batch, channels, output channels, height, width, padding
CASES = [
    (2, 64, 64, 28, 28, (1, 1)),
    (1, 32, 48, 57, 43, (0, 0)),
    (3, 48, 80, 25, 30, (2, 2)),
    (1, 64, 32, 40, 41, (0, 2)),
    (1, 32, 32, 3, 700, (1, 0)),
    (1, 144, 272, 33, 31, (1, 1)),
    (1, 640, 32, 40, 40, (1, 1)),
    (3, 32, 64, 2, 3, (1, 1)),
    (2, 16, 16, 1, 1, (1, 1)),
    (1, 16, 32, 3, 3, (0, 0)),
    (1, 1040, 16, 5, 6, (2, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case, always):
    batch, channels, outputs, height, width, padding = case
    x, w, bias = draw(1, batch, channels, height, width), draw(2, outputs, channels, 3, 3), draw(3, outputs)
    tx, tw = fb.tensor(x, requires_grad=True), fb.tensor(w, requires_grad=True)
    y = F.conv2d(tx, tw, fb.tensor(bias), padding=padding)
    expected = reference(x, w, bias, padding)
    assert y.shape == expected.shape
    assert error(y.detach(), expected) < 5e-6
    g = draw(4, *expected.shape)
    y.backward(fb.tensor(g))
    gx, gw = reference_gradients(x, w, g, padding)
    assert error(tx.grad, gx) < 5e-6
    assert error(tw.grad, gw) < 5e-6


@pytest.mark.parametrize("groups, channels, outputs", [(4, 16, 32), (3, 48, 16), (2, 144, 144)])
def test_groups_are_convolutions_of_their_own(groups, channels, outputs, always):
    x, w = fb.tensor(draw(1, 2, groups * channels, 11, 9)), fb.tensor(draw(2, groups * outputs, channels, 3, 3))
    bias = fb.tensor(draw(3, groups * outputs))
    leaves = [t.requires_grad_() for t in (x, w, bias)]
    y = F.conv2d(x, w, bias, padding=1, groups=groups)
    g = fb.tensor(draw(4, *y.shape))
    grads = fb.autograd.grad(y, leaves, g)
    parts = [
        [t.detach().requires_grad_() for t in part]
        for part in zip(*(t.chunk(groups, d) for t, d in ((x, 1), (w, 0), (bias, 0))), strict=True)
    ]
    ys = [F.conv2d(*part, padding=1) for part in parts]
    assert fb.equal(y, fb.cat(ys, 1))
    each = [fb.autograd.grad(*own) for own in zip(ys, parts, g.chunk(groups, 1), strict=True)]
    for found, own, dim in zip(grads, zip(*each, strict=True), (1, 0, 0), strict=True):
        assert fb.equal(found, fb.cat(own, dim))


def test_it_is_taken_and_can_be_switched_off():
    x, w = fb.tensor(draw(1, 1, 64, 48, 48)), fb.tensor(draw(2, 64, 64, 3, 3))
    ours = F.conv2d(x, w, padding=1)
    with fb.backends.winograd.flags(enabled=False):
        assert not fb.backends.winograd.enabled
        direct = F.conv2d(x, w, padding=1)
    assert fb.backends.winograd.enabled
    assert not fb.equal(ours, direct)  # other roundings show that another way was taken
    assert error(ours, direct.numpy()) < 5e-6
    fb.backends.winograd.enabled = False
    try:
        assert fb.equal(F.conv2d(x, w, padding=1), direct)
    finally:
        fb.backends.winograd.enabled = True
    with pytest.raises(TypeError, match="expected a bool, got str"):
        fb.backends.winograd.enabled = "off"


def test_512_channels_lose_no_more_digits_than_promised():
    x, w = draw(1, 1, 512, 40, 40), draw(2, 32, 512, 3, 3)
    assert error(F.conv2d(fb.tensor(x), fb.tensor(w), padding=1), reference(x, w, None, (1, 1))) < 5e-6


def test_layouts_give_the_same_bits():
    x, w = fb.tensor(draw(1, 2, 32, 40, 36)), fb.tensor(draw(2, 32, 32, 3, 3))
    y = F.conv2d(x, w, padding=1)
    assert fb.equal(F.conv2d(x.contiguous(memory_format=fb.channels_last), w, padding=1), y)
    spread = fb.zeros(2, 64, 40, 72)
    spread[:, ::2, :, ::2] = x
    assert fb.equal(F.conv2d(spread[:, ::2, :, ::2], w, padding=1), y)
    turned = w.transpose(0, 1).contiguous().transpose(0, 1)
    assert fb.equal(F.conv2d(x.flip(3).flip(3), turned, padding=1), y)


def test_thread_count_changes_no_bit():
    x, w = draw(1, 2, 64, 37, 41), draw(2, 96, 64, 3, 3)

    def run():
        tx, tw = fb.tensor(x, requires_grad=True), fb.tensor(w, requires_grad=True)
        y = F.conv2d(tx, tw, padding=1)
        y.backward(y.detach())
        return y.detach(), tx.grad, tw.grad

    before = fb.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 5):
            fb.set_num_threads(threads)
            results.append(run())
    finally:
        fb.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert fb.equal(a, b)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_windows(value):
    x, w = draw(1, 1, 32, 48, 48), draw(2, 32, 32, 3, 3)
    x[0, 5, 17, 22] = value
    y = F.conv2d(fb.tensor(x), fb.tensor(w), padding=1).numpy()
    bad = ~np.isfinite(y)
    assert bad[0, :, 16:19, 21:24].all() and bad.sum() == 32 * 9
    tx = fb.tensor(draw(1, 1, 32, 48, 48), requires_grad=True)
    F.conv2d(tx, fb.tensor(w), padding=1).backward(fb.tensor(x))
    bad = ~np.isfinite(tx.grad.numpy())
    assert bad[0, :, 16:19, 21:24].all() and bad.sum() == 32 * 9
    tw = fb.tensor(w, requires_grad=True)
    F.conv2d(fb.tensor(x), tw, padding=1).backward(fb.ones(1, 32, 48, 48))
    bad = ~np.isfinite(tw.grad.numpy())
    assert bad[:, 5].all() and bad.sum() == 32 * 9


def test_large_values_do_not_overflow():
    x, w = draw(1, 1, 32, 48, 48) * np.float32(3e36), np.full((32, 32, 3, 3), 0.1, np.float32)
    y = F.conv2d(fb.tensor(x), fb.tensor(w), padding=1)
    assert error(y, reference(x, w, None, (1, 1))) < 5e-6


def test_empty_batch():
    x, w = fb.zeros(0, 64, 48, 48, requires_grad=True), fb.ones(64, 64, 3, 3, requires_grad=True)
    y = F.conv2d(x, w, padding=1)
    assert y.shape == (0, 64, 48, 48)
    y.sum().backward()
    assert x.grad.shape == x.shape and fb.equal(w.grad, fb.zeros_like(w))


def test_half_types_compute_this_way_too():
    x, w = draw(1, 1, 64, 40, 40).astype(np.float16), draw(2, 64, 64, 3, 3).astype(np.float16)
    y = F.conv2d(fb.tensor(x), fb.tensor(w), padding=1)
    assert y.dtype == fb.float16
    assert error(y.float(), reference(x, w, None, (1, 1))) < 1e-3


def test_gradients_of_gradients():
    x = fb.tensor(draw(1, 1, 32, 48, 48), requires_grad=True)
    w = fb.tensor(draw(2, 32, 32, 3, 3), requires_grad=True)

    def second(on):
        with fb.backends.winograd.flags(enabled=on):
            (gx,) = fb.autograd.grad((F.conv2d(x, w, padding=1) ** 2).sum(), x, create_graph=True)
            return fb.autograd.grad((gx**2).mean(), (x, w))

    for ours, direct in zip(second(True), second(False), strict=True):
        assert error(ours, direct.numpy()) < 2e-5
