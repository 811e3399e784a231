"""Layers and losses at the top level, where PyTorch orders their arguments differently, against nn.functional."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F


def test_layers():
    fb.manual_seed(0)
    x, weight, bias, mean, var = fb.randn(4, 3, 5), fb.randn(3), fb.randn(3), fb.randn(3), fb.rand(3) + 1
    ours = fb.batch_norm(x, weight, bias, mean, var, False, 0.1, 1e-5, False)
    assert fb.equal(ours, F.batch_norm(x, mean, var, weight, bias))
    ours = fb.instance_norm(x, weight, bias, None, None, True, 0.1, 1e-5, False)
    assert fb.equal(ours, F.instance_norm(x, weight=weight, bias=bias))
    table, rows = fb.randn(4, 2, requires_grad=True), fb.tensor([1, 3, 1])
    assert fb.equal(fb.embedding(table, rows), F.embedding(rows, table))
    (grad,) = fb.autograd.grad(fb.embedding(table, rows, 1).sum(), table)
    assert grad.sum(1).tolist() == [0, 0, 0, 2]


def test_cells():
    fb.manual_seed(0)
    x, h, c = fb.randn(2, 3), fb.randn(2, 4), fb.randn(2, 4)
    lstm, gru = fb.nn.LSTMCell(3, 4), fb.nn.GRUCell(3, 4)
    for ours, theirs in zip(fb.lstm_cell(x, (h, c), *lstm.parameters()), lstm(x, (h, c)), strict=True):
        fb.testing.assert_close(ours, theirs)
    fb.testing.assert_close(fb.gru_cell(x, h, *gru.parameters()), gru(x, h))
    with pytest.raises(ValueError, match="lstm_cell"):
        fb.lstm_cell(x, (h,), *lstm.parameters())


def test_losses_count_reductions():
    fb.manual_seed(0)
    a, b, c = (fb.randn(3, 4) for _ in range(3))
    x, y, sign, share = a[0, :3], b[0, :3], fb.tensor([1.0, -1.0, 1.0]), b.sigmoid()
    logits = F.binary_cross_entropy_with_logits
    for number, name in enumerate(("none", "mean", "sum")):
        for ours, theirs in (
            (fb.kl_div(a, share, number), F.kl_div(a, share, reduction=name)),
            (fb.poisson_nll_loss(a, share, True, False, 1e-8, number), F.poisson_nll_loss(a, share, reduction=name)),
            (fb.cosine_embedding_loss(a, b, sign, 0.1, number), F.cosine_embedding_loss(a, b, sign, 0.1, reduction=name)),
            (fb.hinge_embedding_loss(x, sign, 1.0, number), F.hinge_embedding_loss(x, sign, reduction=name)),
            (fb.margin_ranking_loss(x, y, sign, 0.1, number), F.margin_ranking_loss(x, y, sign, 0.1, reduction=name)),
            (fb.triplet_margin_loss(a, b, c, reduction=number), F.triplet_margin_loss(a, b, c, reduction=name)),
            (fb.binary_cross_entropy_with_logits(a, share, None, None, number), logits(a, share, reduction=name)),
        ):
            assert fb.equal(ours, theirs)
    with pytest.raises(ValueError, match="reduction must be 0"):
        fb.kl_div(a, b, 3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag(mode, padding):
    fb.manual_seed(0)
    table, rows, starts = fb.randn(6, 3), fb.tensor([0, 2, 2, 5, 1, 4, 4]), fb.tensor([0, 3, 3, 5])
    number = ("sum", "mean", "max").index(mode)
    result, bags, sizes, largest = fb.embedding_bag(table, rows, starts, False, number, padding_idx=padding)
    assert fb.equal(result, F.embedding_bag(rows, table, starts, mode=mode, padding_idx=padding))
    assert bags.tolist() == [0, 0, 0, 2, 2, 3, 3]
    assert sizes.tolist() == ([3, 0, 2, 2] if padding is None else [1, 0, 2, 2])
    if mode == "max":
        assert fb.equal(table.gather(0, largest)[[0, 2, 3]], result[[0, 2, 3]])
    with pytest.raises(ValueError, match="embedding_bag: mode"):
        fb.embedding_bag(table, rows, starts, False, 3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(
    ("function", "layer"),
    [
        (fb.lstm, fb.nn.LSTM),
        (fb.gru, fb.nn.GRU),
        (fb.rnn_tanh, fb.nn.RNN),
        (fb.rnn_relu, lambda *a, **k: fb.nn.RNN(*a, nonlinearity="relu", **k)),
        (fb.lstm, lambda *a, **k: fb.nn.LSTM(*a, proj_size=2, **k)),
    ],
)
def test_recurrent_layers_with_parameters_given(function, layer, both, bias):
    fb.manual_seed(0)
    module = layer(3, 4, 2, bias=bias, bidirectional=both)
    x, places = fb.randn(5, 2, 3), 4 if both else 2
    start = [fb.randn(places, 2, module.proj_size or 4), fb.randn(places, 2, 4)]
    hx = tuple(start) if function is fb.lstm else start[0]
    options = (list(module.parameters()), bias, 2, 0.0, True, both)
    output, state = module(x, hx)
    states = state if function is fb.lstm else (state,)
    for ours, theirs in zip(function(x, hx, *options, False), (output, *states), strict=True):
        assert fb.equal(ours, theirs)
    assert fb.equal(function(x.transpose(0, 1), hx, *options, True)[0], output.transpose(0, 1))
    packed = fb.nn.utils.rnn.pack_padded_sequence(x, fb.tensor([5, 3]))
    theirs, _ = module(packed, hx)
    assert fb.equal(function(packed.data, packed.batch_sizes, hx, *options)[0], theirs.data)
    function(x, hx, *options, False)[0].sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    with pytest.raises(ValueError, match="parameters do not fit"):
        function(x, hx, options[0][1:], *options[1:], False)


def test_questions_and_methods():
    x = fb.tensor([-1.0, 0.2])
    assert fb.is_signed(x)
    assert not fb.is_signed(x.to(fb.uint8))
    with fb.inference_mode():
        assert fb.is_inference(fb.ones(1))
    assert not fb.is_inference(x)
    assert fb.get_device(x) == -1
    y = x.clone().requires_grad_() * 2
    assert fb.detach_(y) is y
    assert not y.requires_grad
    assert fb.equal(x.hardshrink(0.5), F.hardshrink(x, 0.5))
    assert fb.equal(fb.hardshrink(x, 0.1), F.hardshrink(x, 0.1))
    assert fb.equal(x.prelu(fb.tensor([0.5])), F.prelu(x, fb.tensor([0.5])))


# ---- normalisations with their statistics, and samplers with numbers for modes ----------------------------------------


@pytest.fixture
def x():
    fb.manual_seed(0)
    return fb.randn(4, 6, 5, dtype=fb.float64)


def check_statistics(result, expected, x, dims, keepdim=False):
    var, mean = fb.var_mean(x, dims, correction=0, keepdim=keepdim)
    for ours, theirs in zip(result, (expected, mean, (var + 1e-5).rsqrt()), strict=True):
        fb.testing.assert_close(ours, theirs)


def test_norms_with_statistics(x):
    weight, bias = fb.randn(6).double(), fb.randn(6).double()
    ours = fb.native_layer_norm(x, [6, 5], None, None, 1e-5)
    check_statistics(ours, F.layer_norm(x, [6, 5]), x, (1, 2), keepdim=True)
    ours = fb.native_group_norm(x, weight, bias, 4, 6, 5, 3, 1e-5)
    check_statistics(ours, F.group_norm(x, 3, weight, bias), x.reshape(4, 3, 10), 2)
    mean, var = fb.zeros(6).double(), fb.ones(6).double()
    ours = fb.native_batch_norm(x, weight, bias, mean, var, True, 0.1, 1e-5)
    check_statistics(ours, F.batch_norm(x, None, None, weight, bias, True), x, (0, 2))
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


def test_margin_ranking_loss_broadcasts():
    x, y = fb.randn(2, 3), fb.randn(2, 3)
    target = fb.tensor([1.0, -1.0, 1.0])
    expected = (-target * (x - y)).clamp(min=0)
    fb.testing.assert_close(fb.margin_ranking_loss(x, y, target, reduction=0), expected)
    with pytest.raises(ValueError, match="same number of dimensions"):
        fb.nn.functional.margin_ranking_loss(x, y, target)
