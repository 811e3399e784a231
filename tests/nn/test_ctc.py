"""CTC against the sum over all alignments, one by one."""

import itertools
import math

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn import functional as F


def collapsed(path, blank):
    """What an alignment stands for: repeats count once, then blanks are dropped."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def by_enumeration(log_probs, target, blank):
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        if collapsed(path, blank) == list(target):
            total += math.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
    return -math.log(total) if total else math.inf


def sample(steps=5, batch=4, classes=3):
    x = fb.tensor(np.random.default_rng(0).standard_normal((steps, batch, classes)), requires_grad=True)
    return x, x.log_softmax(2)


@pytest.mark.parametrize("blank", [0, 2])
def test_losses_are_sums_over_alignments(blank):
    _, log_probs = sample()
    labels = [label for label in range(3) if label != blank]
    targets = [[labels[0], labels[1]], [labels[0], labels[0]], [], [labels[1]]]
    lengths, sizes = [5, 4, 3, 5], [len(t) for t in targets]
    expected = [
        by_enumeration(log_probs.detach().numpy()[:n, i], t, blank)
        for i, (n, t) in enumerate(zip(lengths, targets, strict=True))
    ]
    padded = fb.tensor([(t + [labels[0]] * 2)[:2] for t in targets])
    joined = fb.tensor([label for t in targets for label in t])
    for given in (padded, joined):
        loss = F.ctc_loss(log_probs, given, fb.tensor(lengths), sizes, blank, "none")
        np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-10)
    mean = F.ctc_loss(log_probs, padded, lengths, sizes, blank)
    assert mean.item() == pytest.approx(np.mean([e / max(s, 1) for e, s in zip(expected, sizes, strict=True)]))


def test_gradient_is_the_slope():
    x, log_probs = sample()
    given = fb.tensor([[1, 2], [1, 1], [2, 1], [1, 1]]), [5, 4, 5, 3], [2, 2, 1, 0]
    F.ctc_loss(log_probs, *given, reduction="sum").backward()
    for at in ((0, 0, 0), (2, 1, 1), (4, 2, 2), (4, 3, 1)):
        ends = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved[at] += sign * 1e-5
            ends.append(F.ctc_loss(moved.log_softmax(2), *given, reduction="sum").item())
        assert x.grad[at].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_targets_that_do_not_fit_their_input():
    x, log_probs = sample(steps=2, batch=1)
    target = fb.tensor([[1, 1]])
    assert F.ctc_loss(log_probs, target, [2], [2], reduction="sum").item() == math.inf
    loss = fb.nn.CTCLoss(zero_infinity=True)(log_probs, target, fb.tensor([2]), fb.tensor([2]))
    loss.backward()
    assert loss.item() == 0 and not x.grad.any()


def test_one_sequence_without_a_batch():
    _, log_probs = sample(batch=1)
    alone = F.ctc_loss(log_probs.squeeze(1), fb.tensor([1, 2]), fb.tensor(5), fb.tensor(2), reduction="none")
    both = F.ctc_loss(log_probs, fb.tensor([[1, 2]]), [5], [2], reduction="none")
    assert alone.shape == () and alone.item() == both.item()


def test_refused():
    _, log_probs = sample()
    target = fb.ones(4, 2, dtype=fb.int64)
    for arguments, message in (
        ((log_probs, target, [6] * 4, [1] * 4), "input length 6"),
        ((log_probs, target, [5] * 4, [3] * 4), "target length 3"),
        ((log_probs, target + 2, [5] * 4, [1] * 4), "target 3"),
        ((log_probs, target, [5] * 3, [1] * 4), "expected 4 input"),
        ((log_probs, target, [5] * 4, [1] * 4, 3), "blank"),
        ((log_probs, target[0], [5] * 4, [1] * 4), "sum to 4"),
    ):
        with pytest.raises(ValueError, match=message):
            F.ctc_loss(*arguments)
    with pytest.raises(TypeError, match="targets of dtype"):
        F.ctc_loss(log_probs, target.float(), [5] * 4, [1] * 4)
