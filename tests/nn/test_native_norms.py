"""Normalisations with their statistics, and samplers with numbers for modes, against nn.functional."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F


@pytest.fixture
def x():
    fb.manual_seed(0)
    return fb.randn(4, 6, 5, dtype=fb.float64)


def check(result, expected, x, dims, keepdim=False):
    var, mean = fb.var_mean(x, dims, correction=0, keepdim=keepdim)
    for ours, theirs in zip(result, (expected, mean, (var + 1e-5).rsqrt()), strict=True):
        fb.testing.assert_close(ours, theirs)


def test_norms_with_statistics(x):
    weight, bias = fb.randn(6).double(), fb.randn(6).double()
    ours = fb.native_layer_norm(x, [6, 5], None, None, 1e-5)
    check(ours, F.layer_norm(x, [6, 5]), x, (1, 2), keepdim=True)
    ours = fb.native_group_norm(x, weight, bias, 4, 6, 5, 3, 1e-5)
    check(ours, F.group_norm(x, 3, weight, bias), x.reshape(4, 3, 10), 2)
    mean, var = fb.zeros(6).double(), fb.ones(6).double()
    ours = fb.native_batch_norm(x, weight, bias, mean, var, True, 0.1, 1e-5)
    check(ours, F.batch_norm(x, None, None, weight, bias, True), x, (0, 2))
    fb.testing.assert_close(mean, 0.1 * x.mean((0, 2)))
    result, *empty = fb.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5)
    fb.testing.assert_close(result, F.batch_norm(x, mean, var))
    assert [tuple(part.shape) for part in empty] == [(0,), (0,)]


def test_an_empty_batch():
    parts = fb.native_group_norm(fb.zeros(0, 4, 3), None, None, 0, 4, 3, 2, 1e-5)
    assert [tuple(part.shape) for part in parts] == [(0, 4, 3), (0, 2), (0, 2)]


def test_only_the_first_result_has_gradients(x):
    x.requires_grad_()
    for parts in (fb.native_layer_norm(x, [5], None, None, 1e-5), fb.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)):
        assert [part.requires_grad for part in parts] == [True, False, False]
    assert fb.autograd.gradcheck(lambda t: fb.native_layer_norm(t, [5], None, None, 1e-5)[0], (x,))


def test_sizes_must_fit(x):
    with pytest.raises(ValueError, match="native_group_norm: input of shape"):
        fb.native_group_norm(x, None, None, 4, 6, 4, 3, 1e-5)


@pytest.mark.parametrize("shape, name", [((2, 3, 4, 5), "grid_sampler_2d"), ((2, 3, 4, 5, 3), "grid_sampler_3d")])
def test_samplers_with_numbers_for_modes(shape, name):
    image, grid = fb.randn(shape), fb.rand(2, *shape[2:], len(shape) - 2) * 2 - 1
    for number, mode in enumerate(("bilinear", "nearest", "bicubic")[: 3 if len(shape) == 4 else 2]):
        for outside, padding in enumerate(("zeros", "border", "reflection")):
            expected = F.grid_sample(image, grid, mode, padding, True)
            assert fb.equal(getattr(fb, name)(image, grid, number, outside, True), expected)
            assert fb.equal(fb.grid_sampler(image, grid, number, outside, True), expected)
    with pytest.raises(ValueError, match=f"{name}: interpolation_mode"):
        getattr(fb, name)(image, grid, 3, 0, True)
    with pytest.raises(ValueError, match=f"{name}: expected input"):
        getattr(fb, name)(fb.randn(3, 3), grid, 0, 0, True)
