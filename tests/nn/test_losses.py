"""Losses against NumPy, their reductions, their errors, and their gradients."""

import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn

rng = np.random.default_rng(1)
A, B = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
P, Q = rng.uniform(0.05, 0.95, (4, 5)), rng.uniform(0.05, 0.95, (4, 5))
SIGN = np.where(rng.random((4, 5)) < 0.5, -1.0, 1.0)
D = abs(A - B)

# name: (input, target, keyword arguments, loss of each element, the module's class)
ELEMENTWISE = {
    "mse_loss": (A, B, {}, D**2, nn.MSELoss),
    "l1_loss": (A, B, {}, D, nn.L1Loss),
    "smooth_l1_loss": (A, B, {"beta": 0.7}, np.where(D < 0.7, D**2 / 1.4, D - 0.35), nn.SmoothL1Loss),
    "huber_loss": (A, B, {"delta": 0.7}, np.where(D < 0.7, D**2 / 2, 0.7 * (D - 0.35)), nn.HuberLoss),
    "kl_div": (A, Q, {}, Q * (np.log(Q) - A), nn.KLDivLoss),
    "poisson_nll_loss": (A, Q, {}, np.exp(A) - Q * A, nn.PoissonNLLLoss),
    "binary_cross_entropy": (P, Q, {}, -(Q * np.log(P) + (1 - Q) * np.log(1 - P)), nn.BCELoss),
    "binary_cross_entropy_with_logits": (A, Q, {}, np.logaddexp(0, A) - Q * A, nn.BCEWithLogitsLoss),
    "soft_margin_loss": (A, SIGN, {}, np.log1p(np.exp(-SIGN * A)), nn.SoftMarginLoss),
    "hinge_embedding_loss": (A, SIGN, {"margin": 0.8}, np.where(SIGN == 1, A, np.maximum(0, 0.8 - A)), nn.HingeEmbeddingLoss),
}  # fmt: skip


def t(x, grad=False):
    return fb.from_numpy(np.array(x)).requires_grad_(grad)


@pytest.mark.filterwarnings("ignore:kl_div")
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    a, b, kwargs, expected, module = ELEMENTWISE[name]
    loss = getattr(F, name)
    np.testing.assert_allclose(loss(t(a), t(b), reduction="none", **kwargs).numpy(), expected, rtol=1e-9)
    assert loss(t(a), t(b), **kwargs).item() == pytest.approx(expected.mean(), rel=1e-9)
    assert loss(t(a), t(b), reduction="sum", **kwargs).item() == pytest.approx(expected.sum(), rel=1e-9)
    assert module(reduction="sum", **kwargs)(t(a), t(b)).item() == pytest.approx(expected.sum(), rel=1e-9)
    assert fb.autograd.gradcheck(
        lambda x, y: loss(x, y, reduction="none", **kwargs), (t(a, True), t(b, name != "hinge_embedding_loss"))
    )
    half = loss(t(a).bfloat16(), t(b).bfloat16(), **kwargs)
    assert half.dtype == fb.bfloat16 and half.item() == pytest.approx(expected.mean(), rel=0.05, abs=0.02)
    with pytest.raises(ValueError, match="reduction"):
        loss(t(a), t(b), reduction="most", **kwargs)


def test_kl_div_takes_one_distribution_for_a_whole_batch():
    q = fb.randn(2, 5, 4, dtype=fb.float64).log_softmax(-1)
    for prior in (fb.full((1,), 0.25).log(), fb.full((1, 4), 0.25).log(), fb.full((2, 1, 4), 0.25).log()):
        p = prior.double()
        expected = (q.exp() * (q - p)).sum() / p.shape[0]
        got = F.kl_div(p, q, reduction="batchmean", log_target=True)
        assert got.item() == pytest.approx(expected.item())
        assert F.kl_div(q, p.exp(), reduction="none").shape == q.shape
    with pytest.raises(ValueError, match="by accident"):
        F.kl_div(fb.zeros(4, 1), fb.ones(4))


def test_tensors_of_one_element_may_differ_in_shape():
    assert F.mse_loss(fb.zeros(1, 1), fb.ones(1)).item() == 1
    assert F.smooth_l1_loss(fb.zeros(1), fb.ones(1, 1), reduction="none").shape == (1, 1)


@pytest.mark.filterwarnings("ignore:kl_div")
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_broadcasting_by_accident_is_an_error(name):
    a, b, kwargs, _, _ = ELEMENTWISE[name]
    with pytest.raises(ValueError, match=r"4, 1"):
        getattr(F, name)(t(a[:, :1]), t(b[:, 0]), **kwargs)


def test_the_error_says_what_to_do():
    with pytest.raises(ValueError, match=r"mse_loss: Using a target size \(flambeau.Size\(\[4\]\)\).*view_as"):
        F.mse_loss(fb.zeros(4, 1), fb.zeros(4))
    assert F.mse_loss(fb.ones(3), fb.tensor(0.0)).item() == 1  # a number is meant for all elements


def test_older_arguments():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.mse_loss(fb.ones(3), fb.zeros(3), size_average=False).item() == 3
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.MSELoss(reduce=False)(fb.ones(3), fb.zeros(3)).tolist() == [1, 1, 1]


def test_weights():
    w = rng.random((4, 5))
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        each = getattr(F, name)(t(A), t(B), reduction="none").numpy()
        assert getattr(F, name)(t(A), t(B), weight=t(w)).item() == pytest.approx((each * w).sum() / w.sum())
        with pytest.raises(ValueError, match="weight"):
            getattr(F, name)(t(A), t(B), weight=t(w[0]))
    each = F.binary_cross_entropy(t(P), t(Q), reduction="none").numpy()
    assert F.binary_cross_entropy(t(P), t(Q), t(w[0])).item() == pytest.approx((each * w[0]).mean())
    pos = rng.random(5) + 0.5
    expected = -(pos * Q * -np.logaddexp(0, -A) + (1 - Q) * -np.logaddexp(0, A)).mean()
    assert F.binary_cross_entropy_with_logits(t(A), t(Q), pos_weight=t(pos)).item() == pytest.approx(expected)


def test_binary_cross_entropy_with_logits_has_the_dtype_of_the_target():
    for scores, target in ((fb.float64, fb.float32), (fb.float32, fb.float64), (fb.float32, fb.float16)):
        x = fb.zeros(3, dtype=scores, requires_grad=True)
        loss = F.binary_cross_entropy_with_logits(x, fb.ones(3, dtype=target))
        assert loss.dtype == target
        loss.backward()
        assert x.grad.dtype == scores
    for target in (fb.tensor([0, 1]), fb.tensor([True, False])):
        with pytest.raises(RuntimeError, match="can't be cast to"):
            F.binary_cross_entropy_with_logits(fb.zeros(2), target)


def test_binary_cross_entropy_at_the_ends():
    x = fb.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, fb.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert loss.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.sum().backward()
    assert x.grad[2].item() < -1e11 and x.grad[3].item() > 1e11 and bool(fb.isfinite(x.grad).all())
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.binary_cross_entropy(fb.tensor([1.5]), fb.tensor([1.0]))
    far = F.binary_cross_entropy_with_logits(fb.tensor([-1e4, 1e4]), fb.tensor([1.0, 0.0]), reduction="none")
    assert far.tolist() == [1e4, 1e4]


def test_kl_div_and_poisson():
    q = Q / Q.sum(1, keepdims=True)
    expected = (q * (np.log(q) - A)).sum() / 4
    assert F.kl_div(t(A), t(q), reduction="batchmean").item() == pytest.approx(expected)
    assert F.kl_div(t(A), t(np.log(q)), reduction="batchmean", log_target=True).item() == pytest.approx(expected)
    assert F.kl_div(t(A), t(0 * q), reduction="sum").item() == 0
    counts = np.arange(20.0).reshape(4, 5)
    stirling = np.where(
        counts > 1, counts * np.log(np.maximum(counts, 1)) - counts + 0.5 * np.log(2 * np.pi * np.maximum(counts, 1)), 0
    )
    expected = (P - counts * np.log(P + 1e-8) + stirling).mean()
    assert F.poisson_nll_loss(t(P), t(counts), log_input=False, full=True).item() == pytest.approx(expected)


def test_gaussian():
    var = rng.random((4, 5)) + 0.1
    expected = 0.5 * (np.log(var) + (A - B) ** 2 / var) + 0.5 * math.log(2 * math.pi)
    assert F.gaussian_nll_loss(t(A), t(B), t(var), full=True).item() == pytest.approx(expected.mean())
    one = F.gaussian_nll_loss(t(A), t(B), t(var[:, :1]), reduction="none").numpy()
    np.testing.assert_allclose(F.gaussian_nll_loss(t(A), t(B), t(var[:, 0]), reduction="none").numpy(), one)
    assert fb.autograd.gradcheck(F.gaussian_nll_loss, (t(A, True), t(B, True), t(var, True)))
    assert F.gaussian_nll_loss(fb.zeros(2), fb.zeros(2), fb.zeros(2)).item() == pytest.approx(0.5 * math.log(1e-6))
    for bad in (t(-var), t(var[:2]), -1.0):
        with pytest.raises(ValueError):
            F.gaussian_nll_loss(t(A), t(B), bad)


# ---- classes -----------------------------------------------------------------------------------------------------------


def log_softmax(x, axis=1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


CLASSES = np.array([0, 3, 4, 3])
WEIGHT = rng.random(5) + 0.2


def reference(scores, classes, weight=None, ignore=-100, smoothing=0.0):
    """Loss of each sample and its share in the mean, by a loop."""
    logp = log_softmax(scores)
    weight = np.ones(scores.shape[1]) if weight is None else weight
    loss, share = np.zeros(classes.shape), np.zeros(classes.shape)
    for place in np.ndindex(classes.shape):
        c = classes[place]
        if c != ignore:
            row = logp[(place[0], slice(None), *place[1:])]
            loss[place] = -(1 - smoothing) * weight[c] * row[c] - smoothing / len(row) * (weight * row).sum()
            share[place] = weight[c]
    return loss, share


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignore", [-100, 3])
def test_cross_entropy_of_classes(smoothing, weight, ignore):
    for scores, classes in ((A, CLASSES), (rng.normal(size=(2, 5, 3, 2)), rng.integers(0, 5, (2, 3, 2)))):
        loss, share = reference(scores, classes, weight, ignore, smoothing)
        kwargs = {"weight": None if weight is None else t(weight), "ignore_index": ignore, "label_smoothing": smoothing}
        np.testing.assert_allclose(
            F.cross_entropy(t(scores), t(classes), reduction="none", **kwargs).numpy(), loss, rtol=1e-9
        )
        assert F.cross_entropy(t(scores), t(classes), **kwargs).item() == pytest.approx(loss.sum() / share.sum())
        assert nn.CrossEntropyLoss(reduction="sum", **kwargs)(t(scores), t(classes)).item() == pytest.approx(loss.sum())
        assert fb.autograd.gradcheck(lambda x: F.cross_entropy(x, t(classes), **kwargs), (t(scores, True),))  # noqa: B023


def test_nll_and_unbatched():
    logp = log_softmax(A)
    assert F.nll_loss(t(logp), t(CLASSES), t(WEIGHT)).item() == pytest.approx(
        -(logp[range(4), CLASSES] * WEIGHT[CLASSES]).sum() / WEIGHT[CLASSES].sum()
    )
    assert F.cross_entropy(t(A[0]), fb.tensor(2)).item() == pytest.approx(-logp[0, 2])
    assert math.isnan(F.cross_entropy(t(A), fb.full((4,), -100)).item())
    assert F.cross_entropy(t(A), fb.full((4,), -100), reduction="sum").item() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities(smoothing):
    target = Q / Q.sum(1, keepdims=True)
    smooth = target * (1 - smoothing) + smoothing / 5
    loss = -(log_softmax(A) * smooth * WEIGHT).sum(1)
    result = F.cross_entropy(t(A), t(target), t(WEIGHT), label_smoothing=smoothing)
    assert result.item() == pytest.approx(loss.mean())
    assert fb.autograd.gradcheck(F.cross_entropy, (t(A, True), t(target, True)))


def test_wrong_classes():
    for target, error, text in (
        (fb.tensor([0, 1, 2, 5]), IndexError, "5 is out of bounds for 5 classes"),
        (fb.tensor([0, 1, 2, -1]), IndexError, "-1 is out of bounds"),
        (fb.tensor([0, 1, 2]), ValueError, r"batch_size \(4\) to match target batch_size \(3\)"),
        (fb.zeros(4), ValueError, "probabilities"),
        (fb.zeros(4, dtype=fb.int16), TypeError, "int64"),
    ):
        with pytest.raises(error, match=text):
            F.cross_entropy(t(A), target)
    with pytest.raises(ValueError, match="label_smoothing"):
        F.cross_entropy(t(A), t(CLASSES), label_smoothing=2)
    with pytest.raises(ValueError, match="all 5 classes or no classes"):
        F.cross_entropy(t(A), t(CLASSES), fb.ones(3))


def test_linear_cross_entropy_in_one_piece_or_in_chunks():
    w, x = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    plain = F.cross_entropy(t(x @ w.T), t(CLASSES), t(WEIGHT), ignore_index=3)
    for options in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=3)):
        result = F.linear_cross_entropy(t(x), t(w), t(CLASSES), weight=t(WEIGHT), ignore_index=3, options=options)
        assert result.item() == pytest.approx(plain.item())
    m = nn.LinearCrossEntropyLoss(3, 5, out_features=(2,), bias=True)
    assert m(fb.randn(4, 3), fb.zeros(4, 2, dtype=fb.int64)).shape == ()


# ---- margins -----------------------------------------------------------------------------------------------------------


def test_multi_margin():
    for p in (1, 2):
        expected = []
        for row, c in zip(A, CLASSES, strict=True):
            terms = [max(0, 0.7 - row[c] + row[i]) ** p * WEIGHT[c] for i in range(5) if i != c]
            expected.append(sum(terms) / 5)
        result = F.multi_margin_loss(t(A), t(CLASSES), p=p, margin=0.7, weight=t(WEIGHT), reduction="none")
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9)
    assert fb.autograd.gradcheck(lambda x: F.multi_margin_loss(x, t(CLASSES)), (t(A, True),))
    with pytest.raises(IndexError):
        F.multi_margin_loss(t(A), fb.tensor([0, 1, 2, 5]))


def test_multilabel_margin():
    target = np.array([[3, 0, -1, 1, 4], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [2, -1, 2, -1, 0]])
    expected = []
    for row, labels in zip(A, target, strict=True):
        true = list(labels[: list(labels).index(-1)]) if -1 in labels else list(labels)
        expected.append(sum(max(0, 1 - row[i] + row[j]) for i in true for j in range(5) if j not in true) / 5)
    np.testing.assert_allclose(F.multilabel_margin_loss(t(A), t(target), reduction="none").numpy(), expected, rtol=1e-9)
    assert fb.autograd.gradcheck(lambda x: F.multilabel_margin_loss(x, t(target)), (t(A, True),))


def test_pairs_and_triplets():
    sign = np.array([1.0, -1, 1, -1])
    cosine = (A * B).sum(1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)
    expected = np.where(sign == 1, 1 - cosine, np.maximum(0, cosine - 0.1))
    result = F.cosine_embedding_loss(t(A), t(B), t(sign), margin=0.1, reduction="none")
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9, atol=1e-12)
    ranking = np.maximum(0, -SIGN * (A - B) + 0.2).mean()
    assert F.margin_ranking_loss(t(A), t(B), t(SIGN), margin=0.2).item() == pytest.approx(ranking)

    def distance(x, y):
        return np.linalg.norm(x - y + 1e-6, axis=1)

    C = rng.normal(size=(4, 5))
    near, far = distance(A, B), np.minimum(distance(A, C), distance(B, C))
    expected = np.maximum(0, near - far + 0.5).mean()
    assert F.triplet_margin_loss(t(A), t(B), t(C), margin=0.5, swap=True).item() == pytest.approx(expected)
    with_function = F.triplet_margin_with_distance_loss(
        t(A), t(B), t(C), distance_function=nn.PairwiseDistance(), margin=0.5, swap=True
    )
    assert with_function.item() == pytest.approx(expected)
    assert fb.autograd.gradcheck(F.triplet_margin_loss, (t(A, True), t(B, True), t(C, True)))
    with pytest.raises(ValueError):
        F.triplet_margin_loss(t(A), t(B), t(C), margin=0)
    expected = -(Q * -np.logaddexp(0, -A) + (1 - Q) * -np.logaddexp(0, A)).mean()
    assert F.multilabel_soft_margin_loss(t(A), t(Q)).item() == pytest.approx(expected)


def test_adaptive_softmax_is_a_distribution():
    m = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x, classes = fb.randn(6, 8), fb.tensor([0, 3, 4, 9, 10, 19])
    logp = m.log_prob(x)
    np.testing.assert_allclose(logp.exp().sum(1).detach().numpy(), 1, rtol=1e-5)
    out, loss = m(x, classes)
    np.testing.assert_allclose(out.detach().numpy(), logp[fb.arange(6), classes].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert loss.item() == pytest.approx(-out.mean().item(), rel=1e-5)
    assert m.predict(x).tolist() == logp.argmax(1).tolist()
    with pytest.raises(IndexError):
        m(x, classes + 1)
    with pytest.raises(ValueError):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])


def test_refusals_of_classes_and_weights():
    x, classes = fb.zeros(2, 3), fb.tensor([0, 1])
    with pytest.raises(RuntimeError, match="expected scalar type float32 but found float64"):
        F.nll_loss(x, classes, fb.ones(3, dtype=fb.float64))
    with pytest.raises(RuntimeError, match="weight tensor should be defined either for all 3 classes or no classes"):
        F.cross_entropy(x, classes, fb.ones(2))
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point target"):
        F.cross_entropy(x, x.softmax(1), ignore_index=1)
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte"):
        F.cross_entropy(x, classes.int())
    with pytest.raises(ValueError, match=r"Expected input batch_size \(2\) to match target batch_size \(3\)"):
        F.cross_entropy(x, fb.tensor([0, 1, 1]))
    with pytest.raises(RuntimeError, match="Expected floating point type for target with class probabilities"):
        F.cross_entropy(x, fb.zeros(2, 3, dtype=fb.int64))
    with pytest.raises(TypeError, match="delta must be a float or int"):
        nn.HuberLoss(delta=1j)
    with pytest.raises(ValueError, match=r"expected weight shape to be \(2,\), got \(3,\)"):
        nn.LinearCrossEntropyLoss(3, 2, weight=fb.ones(3))
    with pytest.raises(ValueError, match="label_smoothing"):
        nn.LinearCrossEntropyLoss(3, 2, label_smoothing=2.0)


@pytest.mark.parametrize("f", [F.smooth_l1_loss, F.huber_loss])
def test_line_and_parabola_at_the_ends(f):
    t = fb.tensor([math.inf, -math.inf, 1e30, 0.0, 0.5], requires_grad=True)
    loss = f(t, fb.zeros(5), reduction="none")
    assert loss.tolist()[:2] == [math.inf, math.inf] and loss.tolist()[3:] == [0.0, 0.125]
    (slope,) = fb.autograd.grad(loss.sum(), t, create_graph=True)
    assert slope.tolist() == [1.0, -1.0, 1.0, 0.0, 0.5]
    assert fb.autograd.grad(slope.sum(), t)[0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_errors_in_the_words_people_search_for():
    for call, phrase in (
        (
            lambda: F.multi_margin_loss(fb.zeros(5, 2), fb.zeros(3, dtype=fb.int64)),
            r"Expected target size \[5\].*got \[3\]",
        ),
        (
            lambda: F.linear_cross_entropy(fb.zeros(4, 5), fb.zeros(2, 3), fb.zeros(4, dtype=fb.int64)),
            r"last dimensions \(in_features\), got 5 and 3, respectively",
        ),
        (lambda: F.max_pool2d(fb.zeros(3, 4), 2), r"non-empty 3D or 4D \(batch mode\) tensor expected for input"),
        (lambda: F.embedding(fb.zeros(2), fb.zeros(3, 3)), "'indices' to have scalar type Long"),
        (lambda: fb.nn.Embedding(-1, 3), "Trying to create tensor with negative dimension -1"),
    ):
        with pytest.raises(RuntimeError, match=phrase):
            call()


@pytest.mark.parametrize("f", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_dtypes_of_differences(f):
    x = fb.tensor([0.5, 0.5])
    assert f(x, fb.tensor([True, False])).item() == f(x, fb.tensor([1, 0])).item() == f(x, fb.tensor([1.0, 0.0])).item()
    for a in (fb.tensor([1, 2]), fb.tensor([1j, 2])):
        with pytest.raises(RuntimeError, match="not implemented for"):
            f(a, a)


def test_integers_in_other_losses():
    a = fb.tensor([3, 4])
    assert F.margin_ranking_loss(a, fb.tensor([1, 9]), fb.tensor([1, -1])).item() == 0.0
    assert F.margin_ranking_loss(a, a, a, reduction="none").dtype == fb.float32
    with pytest.raises(RuntimeError, match="Integral inputs not supported"):
        F.kl_div(a.float(), a, reduction="sum")


@pytest.mark.parametrize("f", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_one_example_each(f):
    x, y = fb.randn(3, 4, dtype=fb.float64), fb.randn(3, 4, dtype=fb.float64)
    each = fb.stack([f(a, b) for a, b in zip(x, y, strict=True)])
    assert fb.allclose(fb.func.vmap(f)(x, y), each)
    slopes = fb.func.vmap(fb.func.grad(f))(x, y)
    assert fb.allclose(slopes[1], fb.func.grad(f)(x[1], y[1]))


def test_multi_margin_loss_has_the_shape_of_the_target():
    for target, shape in ((fb.tensor(1), ()), (fb.tensor([1]), (1,))):
        assert fb.nn.functional.multi_margin_loss(fb.ones(5), target, reduction="none").shape == shape
