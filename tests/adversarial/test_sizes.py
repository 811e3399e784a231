"""Numbers so large that sizes computed from them do not fit in 64 bits, or in memory: an error, quickly."""

import pytest

import flambeau as fb

F = fb.nn.functional
HUGE = (2**31, 2**40, 2**62, 2**63 - 1)


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("name", ["stride", "padding", "dilation", "groups", "output_padding"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "bfloat16"])
def test_windows_of_convolutions(name, huge, dtype):
    x, w = fb.ones(1, 2, 5, 5, dtype=getattr(fb, dtype)), fb.ones(2, 2, 3, 3, dtype=getattr(fb, dtype))
    for call in (F.conv2d, F.conv_transpose2d):
        if name == "output_padding" and call is F.conv2d:
            continue
        with pytest.raises((ValueError, MemoryError, RuntimeError)):
            call(x, w, **{name: huge})
        if name != "groups":
            with pytest.raises((ValueError, MemoryError, RuntimeError)):
                call(x, w, **{name: (huge, huge)})


def test_expanded_weights():
    """Sizes that take no memory, by repetition."""
    with pytest.raises((ValueError, MemoryError, RuntimeError)):
        F.conv1d(fb.ones(1, 1, 5), fb.ones(1, 1, 1).expand(1, 1, 2**40), padding=2**30, dilation=2**30)
    with pytest.raises((ValueError, MemoryError, RuntimeError)):
        F.conv_transpose1d(fb.ones(1, 1, 1).expand(1, 1, 2**40), fb.ones(1, 1, 3), stride=2**30)


def test_pivots_without_an_absolute_value():
    for pivots in ([-(2**31)] * 4, [1, 2, -(2**31), -(2**31)], [0, 1, 2, 3], [5, 1, 1, 1], [1, 1, 1, -1]):
        with pytest.raises(ValueError, match="pivot"):
            fb.linalg.ldl_solve(fb.eye(4), fb.tensor(pivots, dtype=fb.int32), fb.ones(4, 2))


def test_numbers_at_the_end_of_the_range():
    """Sums and negations that would leave 64 bits."""
    x = fb.ones(2, dtype=fb.float64, requires_grad=True)
    with pytest.raises(ValueError, match="n must be less"):
        x.polygamma(2**63 - 1)
    assert fb.round(x, decimals=-(2**63)).isnan().all() or (fb.round(x, decimals=-(2**63)) == 0).all()
    with pytest.raises(ValueError):
        y = (x * 1)._as_strided_([2], [1], 0, fb.float64, [-(2**62)], [3], 0, fb.float64)
        y.sum().backward()


def test_more_results_than_bits_of_a_word():
    x = fb.ones(40, 3, requires_grad=True)
    sum(part.sum() * i for i, part in enumerate(x.unbind(0))).backward()
    assert x.grad[:, 0].tolist() == list(range(40))
