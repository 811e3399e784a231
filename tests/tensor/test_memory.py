"""The caching allocator: bytes are counted, memory goes back the moment it is unused, limits are kept."""

import gc

import pytest

import flambeau as fb

MB = 1 << 20


def allocated():
    return fb.memory_allocated()


def test_freed_with_the_last_reference():
    gc.disable()
    try:
        before = allocated()
        x = fb.zeros(1000)
        assert allocated() - before == 4000
        view = x[10:20]
        del x
        assert allocated() - before == 4000, "a view keeps the memory"
        del view
        assert allocated() == before
    finally:
        gc.enable()


def test_temporaries_are_freed_within_an_expression():
    n = 1 << 20
    x = fb.ones(n)
    fb.reset_peak_memory_stats()
    base = allocated()
    y = (x + 1).mul(2).sub(3)
    assert allocated() - base == 4 * n
    assert fb.max_memory_allocated() - base <= 2 * 4 * n
    assert y[0].item() == 1


def test_in_place_allocates_nothing():
    x = fb.ones(1 << 16)
    y = fb.ones(1 << 16)
    fb.reset_peak_memory_stats()
    base = allocated()
    x.add_(y)
    fb.mul(x, y, out=x)
    assert fb.max_memory_allocated() == base


def test_memory_is_reused_not_mapped_again():
    x = fb.empty(4 * MB)
    del x
    maps = fb.memory_stats()["system_allocations"]
    for _ in range(20):
        x = fb.empty(4 * MB)
        del x
    if fb._C.config()["sanitizers"] == "off":
        assert fb.memory_stats()["system_allocations"] == maps


def test_empty_cache_returns_memory():
    x = fb.empty(32 * MB)
    del x
    fb.empty_cache()
    stats = fb.memory_stats()
    assert stats["reserved_bytes"] - stats["active_bytes"] < 32 * MB


def test_cap_and_out_of_memory_error():
    fb.empty_cache()
    fb.set_memory_cap(fb.memory_reserved() + 64 * MB)
    try:
        with pytest.raises(fb.OutOfMemoryError) as caught:
            fb.empty(100 * MB, dtype=fb.uint8)
        text = str(caught.value)
        for word in ("asked for 100.0 MiB", "held", "cached", "reserved from system", "cap"):
            assert word in text
        assert isinstance(caught.value, MemoryError)
        assert fb.ones(10).sum().item() == 10, "the library stays usable"
    finally:
        fb.set_memory_cap(None)
    assert fb.empty(100 * MB, dtype=fb.uint8).numel() == 100 * MB


def test_impossible_sizes_are_errors():
    for shape in [(1 << 62,), (1 << 40, 1 << 40), (-1,), (10**12,)]:
        with pytest.raises((fb.OutOfMemoryError, ValueError)):
            fb.empty(shape)


def test_split_blocks_coalesce():
    fb.empty_cache()
    blocks = [fb.empty(3 * MB, dtype=fb.uint8) for _ in range(6)]
    del blocks
    maps = fb.memory_stats()["system_allocations"]
    big = fb.empty(9 * MB, dtype=fb.uint8)
    if fb._C.config()["sanitizers"] == "off":
        assert fb.memory_stats()["system_allocations"] == maps, "three freed neighbours serve one larger request"
    del big


def test_statistics_add_up():
    before = fb.memory_stats()
    x = fb.empty(1000, dtype=fb.uint8)
    after = fb.memory_stats()
    assert after["allocations"] == before["allocations"] + 1
    assert after["blocks"] == before["blocks"] + 1
    assert after["active_bytes"] - before["active_bytes"] == 1024
    assert after["allocated_bytes"] - before["allocated_bytes"] == 1000
    del x
    assert fb.memory_stats()["frees"] == before["frees"] + 1
    assert "allocated" in fb.memory_summary()


def test_out_of_memory_inside_an_op_leaves_inputs_alone():
    x = fb.ones(8 * MB)
    fb.empty_cache()
    fb.set_memory_cap(fb.memory_reserved() + MB)
    try:
        with pytest.raises(fb.OutOfMemoryError, match="add: out of memory"):
            x + 1
    finally:
        fb.set_memory_cap(None)
    assert x.sum().item() == 8 * MB
