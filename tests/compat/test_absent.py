"""Placeholders for what PyTorch has and flambeau has not."""

from flambeau.compat import absent


def test_a_placeholder_holds_nothing():
    tags = absent.module("torch.fx").Node.tags
    assert "pointwise" not in tags and list(tags) == []
    assert tags[int] is tags  # it can still be subscripted in annotations
