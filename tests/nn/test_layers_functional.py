"""Linear maps, embeddings, normalisation, dropout and distances against NumPy, with gradients."""

import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn

rng = np.random.default_rng(2)


def t(x, grad=False):
    return fb.from_numpy(np.array(x)).requires_grad_(grad)


def close(result, expected, tolerance=1e-9):
    np.testing.assert_allclose(result.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)


# ---- linear ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3)])
def test_linear(shape):
    x, w, b = rng.normal(size=shape), rng.normal(size=(5, 3)), rng.normal(size=5)
    close(F.linear(t(x), t(w), t(b)), x @ w.T + b)
    close(F.linear(t(x), t(w)), x @ w.T)
    close(F.linear(t(x), t(w[0])), x @ w[0])
    if x.size:
        assert fb.autograd.gradcheck(F.linear, (t(x, True), t(w, True), t(b, True)))


def test_linear_says_what_does_not_fit():
    with pytest.raises(
        ValueError,
        match=r"linear: .*cannot be multiplied \(2x4 and 3x5\): "
        r"input of shape \(2, 4\) does not fit weight of shape \(5, 3\).*\(…, 3\)",
    ):
        F.linear(fb.zeros(2, 4), fb.zeros(5, 3))


def test_bilinear():
    x, y, w, b = rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), rng.normal(size=(5, 2, 3)), rng.normal(size=5)
    close(F.bilinear(t(x), t(y), t(w), t(b)), np.einsum("ni,oij,nj->no", x, w, y) + b)
    with pytest.raises(ValueError):
        F.bilinear(t(x), t(y[:2]), t(w))
    with pytest.raises(ValueError):
        F.bilinear(t(x), t(x), t(w))


def test_grouped_mm():
    a, b = rng.normal(size=(7, 4)), rng.normal(size=(2, 4, 5))
    close(
        F.grouped_mm(t(a), t(b), offs=fb.tensor([3, 6])),
        np.concatenate([a[:3] @ b[0], a[3:6] @ b[1], np.zeros((1, 5))]),
    )
    c, d = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 6))
    close(F.grouped_mm(t(c), t(d), offs=fb.tensor([2, 6])), np.concatenate([c[0] @ d[:, :2], c[1] @ d[:, 2:]], 1))
    close(F.grouped_mm(t(a), t(d), offs=fb.tensor([1, 4])), np.stack([a[:, :1] @ d[:1], a[:, 1:] @ d[1:]]))
    close(F.grouped_mm(t(c), t(b)), c @ b)
    assert fb.autograd.gradcheck(lambda x, y: F.grouped_mm(x, y, offs=fb.tensor([3, 6])), (t(a, True), t(b, True)))
    for bad in ({"offs": fb.tensor([3])}, {"offs": fb.tensor([5, 3])}, {"offs": fb.tensor([3, 9])}, {}):
        with pytest.raises(ValueError, match="grouped_mm"):
            F.grouped_mm(t(a), t(b), **bad)


def test_names_at_the_top():
    assert fb.cosine_similarity is F.cosine_similarity and fb.layer_norm is F.layer_norm


@pytest.mark.parametrize(
    "module, shape",
    [(nn.Linear(50, 400), (400, 50)), (nn.Bilinear(50, 7, 400), (400, 50, 7)), (nn.Conv2d(5, 400, 3), (400, 5, 3, 3))],
)
def test_default_initialisation(module, shape):
    fan = 45 if isinstance(module, nn.Conv2d) else 50
    bound = 1 / math.sqrt(fan)
    assert module.weight.shape == shape
    for p in module.parameters():
        assert p.abs().max().item() <= bound
        assert p.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


# ---- embeddings --------------------------------------------------------------------------------------------------------


def test_embedding():
    table, index = rng.normal(size=(6, 3)), np.array([[0, 5], [2, 2]])
    close(F.embedding(t(index), t(table)), table[index])
    assert F.embedding(fb.zeros(0, dtype=fb.int64), t(table)).shape == (0, 3)
    assert fb.autograd.gradcheck(lambda w: F.embedding(t(index), w), (t(table, True),))
    for bad, error in ((fb.tensor([6]), IndexError), (fb.tensor([-1]), IndexError), (fb.tensor([1.0]), TypeError)):
        with pytest.raises(error, match="embedding"):
            F.embedding(bad, t(table))


def test_embedding_gradients_of_padding_and_frequency():
    index = fb.tensor([0, 2, 2, 1])
    for kwargs, expected in (
        ({"padding_idx": 2}, [1, 1, 0]), ({"scale_grad_by_freq": True}, [1, 1, 1]), ({}, [1, 1, 2]), ({"padding_idx": -1}, [1, 1, 0]),
    ):  # fmt: skip
        w = fb.ones(3, 2, requires_grad=True)
        F.embedding(index, w, **kwargs).sum().backward()
        assert w.grad[:, 0].tolist() == expected, kwargs
    m = nn.Embedding(3, 2, padding_idx=2)
    assert m.weight[2].tolist() == [0, 0] and m.weight[0].abs().sum().item() > 0


def test_embedding_max_norm_changes_the_rows_in_use():
    w = fb.tensor([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]], requires_grad=True)
    out = F.embedding(fb.tensor([0, 1]), w, max_norm=1.0)
    close(out, [[0.6, 0.8], [0.3, 0.4]], 1e-6)
    assert w[2].tolist() == [30, 40] and w.is_leaf


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    table, flat, offsets = rng.normal(size=(6, 3)), np.array([0, 5, 2, 2, 1]), np.array([0, 2, 2])
    reduce = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.max(0)}[mode]
    bags = [flat[:2], flat[:0], flat[2:]]
    expected = [reduce(table[b]) if len(b) else np.zeros(3) for b in bags]
    close(F.embedding_bag(t(flat), t(table), t(offsets), mode=mode), expected)
    last = np.append(offsets, 5)
    close(F.embedding_bag(t(flat), t(table), t(last), mode=mode, include_last_offset=True), expected)
    square = flat[:4].reshape(2, 2)
    close(F.embedding_bag(t(square), t(table), mode=mode), [reduce(table[b]) for b in square])
    without = [reduce(table[b[b != 2]]) if (b != 2).any() else np.zeros(3) for b in bags]
    close(F.embedding_bag(t(flat), t(table), t(offsets), mode=mode, padding_idx=2), without)
    if mode == "sum":
        w = rng.random(5)
        weighted = [(table[b] * w[i : i + len(b), None]).sum(0) for b, i in zip(bags, (0, 2, 2), strict=True)]
        close(F.embedding_bag(t(flat), t(table), t(offsets), mode="sum", per_sample_weights=t(w)), weighted)
    assert fb.autograd.gradcheck(lambda x: F.embedding_bag(t(flat), x, t(offsets), mode=mode), (t(table, True),))


def test_embedding_bag_errors():
    table = fb.ones(4, 2)
    for call in (
        lambda: F.embedding_bag(fb.tensor([1]), table),
        lambda: F.embedding_bag(fb.tensor([1]), table, fb.tensor([1])),
        lambda: F.embedding_bag(fb.tensor([1, 2]), table, fb.tensor([0, 5])),
        lambda: F.embedding_bag(fb.tensor([[1]]), table, fb.tensor([0])),
        lambda: F.embedding_bag(fb.tensor([[1]]), table, mode="median"),
        lambda: F.embedding_bag(fb.tensor([[9]]), table),
    ):
        with pytest.raises((ValueError, IndexError)):
            call()


def test_one_hot():
    assert F.one_hot(fb.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert F.one_hot(fb.tensor(1), 3).tolist() == [0, 1, 0] and F.one_hot(fb.zeros(0, dtype=fb.int64), 3).shape == (
        0,
        3,
    )
    for bad in (
        lambda: F.one_hot(fb.tensor([3]), 3),
        lambda: F.one_hot(fb.tensor([-1])),
        lambda: F.one_hot(fb.tensor([1.0])),
    ):
        with pytest.raises((ValueError, TypeError)):
            bad()


# ---- normalisation -----------------------------------------------------------------------------------------------------


def standardised(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm_and_rms_norm():
    x, w, b = rng.normal(size=(4, 3, 5)), rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    close(F.layer_norm(t(x), (3, 5), t(w), t(b), 1e-3), standardised(x, (1, 2), 1e-3) * w + b)
    close(F.layer_norm(t(x), [5]), standardised(x, (2,), 1e-5))
    rms = x / np.sqrt((x**2).mean((1, 2), keepdims=True) + 1e-3)
    close(F.rms_norm(t(x), (3, 5), t(w), 1e-3), rms * w)
    assert fb.autograd.gradcheck(lambda *a: F.layer_norm(a[0], (3, 5), *a[1:]), (t(x, True), t(w, True), t(b, True)))
    assert fb.autograd.gradcheck(lambda *a: F.rms_norm(a[0], (3, 5), *a[1:]), (t(x, True), t(w, True)))
    half = F.layer_norm(t(x).bfloat16(), (5,))
    assert half.dtype == fb.bfloat16
    close(half, standardised(x, (2,), 1e-5), 0.03)
    with pytest.raises(ValueError, match="Given normalized_shape"):
        F.layer_norm(t(x), (4,))
    with pytest.raises(ValueError, match="weight"):
        F.layer_norm(t(x), (5,), fb.ones(3))


def test_group_norm():
    x, w, b = rng.normal(size=(4, 6, 5)), rng.normal(size=6), rng.normal(size=6)
    expected = standardised(x.reshape(4, 3, 10), (2,), 1e-5).reshape(x.shape) * w[:, None] + b[:, None]
    close(F.group_norm(t(x), 3, t(w), t(b)), expected)
    assert fb.autograd.gradcheck(lambda *a: F.group_norm(a[0], 3, *a[1:]), (t(x, True), t(w, True), t(b, True)))
    with pytest.raises(ValueError, match="divisible"):
        F.group_norm(t(x), 4)
    with pytest.raises(ValueError):
        nn.GroupNorm(4, 6)


def test_batch_norm_follows_the_batch_and_remembers():
    x = rng.normal(2, 3, size=(8, 3, 4))
    m = nn.BatchNorm1d(3, momentum=0.2).double()
    close(m(t(x)), standardised(x, (0, 2), 1e-5))
    mean, var = 0.2 * x.mean((0, 2)), 0.8 + 0.2 * x.var((0, 2), ddof=1)
    close(m.running_mean, mean)
    close(m.running_var, var)
    assert m.num_batches_tracked.item() == 1 and not m.running_mean.requires_grad
    close(m.eval()(t(x)), (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5))
    assert m.num_batches_tracked.item() == 1
    average = nn.BatchNorm1d(3, momentum=None).double()
    for i in range(3):
        average(t(x + i))
    close(average.running_mean, x.mean((0, 2)) + 1)
    m.reset_running_stats()
    assert m.running_var.tolist() == [1, 1, 1] and m.num_batches_tracked.item() == 0
    w, b = rng.normal(size=3), rng.normal(size=3)
    assert fb.autograd.gradcheck(
        lambda *a: F.batch_norm(a[0], None, None, a[1], a[2], training=True), (t(x, True), t(w, True), t(b, True))
    )
    untracked = nn.BatchNorm1d(3, track_running_stats=False).double().eval()
    close(untracked(t(x)), standardised(x, (0, 2), 1e-5))


def test_batch_norm_errors():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(fb.zeros(1, 3))
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(3)(fb.zeros(1, 3))
    with pytest.raises(ValueError, match="running_mean should contain 4"):
        nn.BatchNorm1d(3)(fb.zeros(2, 4))
    with pytest.raises(ValueError, match="training=False"):
        F.batch_norm(fb.zeros(2, 3), None, None)


def test_sync_batch_norm_is_batch_norm_in_one_process():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2)))
    net[0].running_mean.fill_(2)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert isinstance(converted[0], nn.SyncBatchNorm) and isinstance(converted[1][0], nn.SyncBatchNorm)
    assert converted[0].running_mean.tolist() == [2, 2, 2]


def test_instance_norm():
    x = rng.normal(2, 3, size=(4, 3, 5))
    close(F.instance_norm(t(x)), standardised(x, (2,), 1e-5))
    m = nn.InstanceNorm1d(3, affine=True, track_running_stats=True).double()
    close(m(t(x)), standardised(x, (2,), 1e-5))
    close(m.running_mean, 0.1 * x.mean((0, 2)))
    close(m.running_var, 0.9 + 0.1 * x.var(2, ddof=1).mean(0))
    close(nn.InstanceNorm1d(3)(t(x[0])), standardised(x[0], (1,), 1e-5))
    assert fb.autograd.gradcheck(F.instance_norm, (t(x, True),))
    with pytest.raises(ValueError, match="spatial"):
        F.instance_norm(fb.zeros(2, 3, 1))


def test_local_response_norm():
    x = rng.normal(size=(2, 7, 3))
    for size in (1, 3, 4):
        padded = np.pad(x**2, ((0, 0), (size // 2, (size - 1) // 2), (0, 0)))
        mean = np.stack([padded[:, c : c + size].sum(1) for c in range(7)], 1) / size
        close(F.local_response_norm(t(x), size, 0.5, 0.7, 2.0), x / (2 + 0.5 * mean) ** 0.7)
    close(
        nn.CrossMapLRN2d(3, 0.5, 0.7, 2.0)(t(x[..., None])),
        nn.LocalResponseNorm(3, 0.5, 0.7, 2.0)(t(x))[..., None].numpy(),
    )


def test_normalize_and_distances():
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    close(F.normalize(t(x)), x / np.linalg.norm(x, axis=1, keepdims=True))
    assert F.normalize(fb.zeros(2, 2)).tolist() == [[0, 0], [0, 0]]
    out = fb.empty(4, 3, dtype=fb.float64)
    assert F.normalize(t(x), out=out) is out
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    close(F.cosine_similarity(t(x), t(y)), cosine)
    close(nn.CosineSimilarity(dim=0)(t(x.T), t(y.T)), cosine)
    close(nn.PairwiseDistance(p=1, keepdim=True)(t(x), t(y)), abs(x - y + 1e-6).sum(1, keepdims=True))
    assert fb.autograd.gradcheck(F.cosine_similarity, (t(x, True), t(y, True)))


# ---- dropout -----------------------------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps():
    fb.manual_seed(0)
    x = fb.ones(100, 100, requires_grad=True)
    y = F.dropout(x, 0.3)
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(0.7, abs=0.02)
    np.testing.assert_allclose(y[kept].detach().numpy(), 1 / 0.7, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert F.dropout(x, 0.3, training=False) is x and F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).abs().sum().item() == 0
    z = fb.ones(10)
    assert F.dropout(z, 0.5, inplace=True) is z
    fb.manual_seed(3)
    again = F.dropout(fb.ones(50), 0.5)
    fb.manual_seed(3)
    assert fb.equal(again, F.dropout(fb.ones(50), 0.5))
    for bad in (lambda: F.dropout(z, 1.5), lambda: nn.Dropout(-0.1)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            bad()


@pytest.mark.parametrize(
    "function, shape", [(F.dropout1d, (40, 30, 3)), (F.dropout2d, (40, 30, 2, 2)), (F.dropout3d, (40, 30, 2, 1, 2))]
)
def test_channel_dropout(function, shape):
    y = function(fb.ones(*shape), 0.5).flatten(2)
    assert bool((y == y[..., :1]).all()) and set(y.unique().tolist()) == {0.0, 2.0}
    single = function(fb.ones(*shape[1:]), 0.5)
    assert single.shape == shape[1:]


def test_alpha_dropout_keeps_mean_and_variance():
    fb.manual_seed(0)
    y = F.alpha_dropout(fb.randn(200, 200), 0.3, training=True)
    assert y.mean().item() == pytest.approx(0, abs=0.03) and y.std().item() == pytest.approx(1, abs=0.03)
    whole = F.feature_alpha_dropout(fb.randn(100, 100, 4), 0.5, training=True)
    dropped = whole.std(2) < 1e-6
    assert dropped.double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert nn.AlphaDropout().eval()(fb.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("function", [F.gelu, F.softplus, F.softshrink, F.hardshrink, F.logsigmoid])
def test_activations_into_a_given_tensor(function):
    x, out = fb.randn(3, 4), fb.empty(0)
    assert function(x, out=out) is out and fb.equal(out, function(x))
    with pytest.raises(RuntimeError):
        function(x, out=fb.empty(0, dtype=fb.int64))
    with pytest.raises(RuntimeError):
        function(x.requires_grad_(), out=fb.empty(0))


def test_linear_into_a_given_tensor():
    x, weight, bias, out = fb.randn(3, 4), fb.randn(5, 4), fb.randn(5), fb.empty(0)
    assert F.linear(x, weight, bias, out=out) is out and fb.equal(out, F.linear(x, weight, bias))


def test_an_index_that_no_row_has():
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(fb.tensor([0, 7]), fb.ones(3, 2))


@pytest.mark.parametrize(
    ("function", "shape"), [(F.dropout1d, (3, 4)), (F.dropout3d, (3, 2, 2, 2)), (F.dropout2d, (2, 3, 4, 4))]
)
def test_channel_dropout_in_place(function, shape):
    for p in (0.0, 0.5, 1.0):
        x = fb.ones(shape)
        assert function(x, p, True, True) is x
        assert set(x.flatten().tolist()) <= ({0.0, 1 / (1 - p)} if p < 1 else {0.0})
    y = fb.ones(shape, requires_grad=True)
    function(y * 1, 1.0, True, True).sum().backward()
    assert y.grad.abs().sum().item() == 0


def test_embedding_bag_of_half_numbers_sums_unrounded_products():
    table, weights = fb.tensor([[1.0], [1.0]], dtype=fb.bfloat16), fb.tensor([[1.0078125, -1.0]], dtype=fb.bfloat16)
    table[0] = 1.0078125  # the product needs 15 bits, of which bfloat16 has 8
    result = F.embedding_bag(fb.tensor([[0, 1]]), table, mode="sum", per_sample_weights=weights)
    assert result.item() == fb.tensor(1.0078125**2 - 1).bfloat16().item()


def test_the_last_bag_ends_with_the_input_whatever_the_last_offset_says():
    table = fb.randn(5, 2)
    bags = F.embedding_bag(fb.tensor([0, 1, 2, 3]), table, fb.tensor([0, 3, 3]), include_last_offset=True)
    assert fb.allclose(bags, fb.stack([table[:3].mean(0), table[3]]))
