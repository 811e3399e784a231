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
