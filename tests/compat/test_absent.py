"""Placeholders for what PyTorch has and flambeau has not."""

from flambeau.compat import absent


def test_a_placeholder_holds_nothing():
    tags = absent.module("torch.fx").Node.tags
    assert "pointwise" not in tags and list(tags) == []
    assert tags[int] is tags  # it can still be subscripted in annotations


def test_a_module_with_two_names_keeps_its_placeholders():
    import flambeau.compat

    with flambeau.compat.torch():
        from torch.distributed._composable.fsdp import FullyShardedDataParallel as by_alias
        from torch.distributed.fsdp import FullyShardedDataParallel
    assert by_alias is FullyShardedDataParallel
    assert not isinstance(3, FullyShardedDataParallel)
