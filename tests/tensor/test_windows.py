"""Window functions against scipy.signal.windows."""

import numpy as np
import pytest
from scipy.signal import windows as reference

import flambeau as fb

W = fb.signal.windows
CASES = {
    "bartlett": ({}, "bartlett", ()),
    "blackman": ({}, "blackman", ()),
    "cosine": ({}, "cosine", ()),
    "exponential": ({"tau": 2.5}, "exponential", (None, 2.5)),
    "gaussian": ({"std": 1.7}, "gaussian", (1.7,)),
    "general_cosine": ({"a": [0.4, 0.35, 0.25]}, "general_cosine", ([0.4, 0.35, 0.25],)),
    "general_hamming": ({"alpha": 0.6}, "general_hamming", (0.6,)),
    "hamming": ({}, "hamming", ()),
    "hann": ({}, "hann", ()),
    "kaiser": ({"beta": 5.0}, "kaiser", (5.0,)),
    "nuttall": ({}, "nuttall", ()),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 32])
def test_window(name, sym, count):
    options, other, positional = CASES[name]
    window = getattr(W, name)(count, sym=sym, dtype=fb.float64, **options)
    expected = getattr(reference, other)(count, *positional, sym=sym)
    np.testing.assert_allclose(window.numpy(), expected, atol=1e-12)


def test_every_window_is_here():
    assert set(CASES) == set(W.__all__)


def test_options_and_errors():
    assert W.hann(3).dtype == fb.float32 and W.hann(3, requires_grad=True).requires_grad
    for call in (
        lambda: W.hann(-1),
        lambda: W.hann(3, dtype=fb.int64),
        lambda: W.bartlett(3, dtype=fb.bfloat16),
        lambda: W.gaussian(3, std=0.0),
        lambda: W.kaiser(3, beta=-1.0),
        lambda: W.exponential(3, tau=0.0),
        lambda: W.exponential(3, center=1.0),
        lambda: W.general_cosine(3, a=[]),
    ):
        with pytest.raises(ValueError):
            call()
