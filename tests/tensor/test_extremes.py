"""The ends of what arguments can be: lowest integers, infinite ranges, sizes beyond memory, dimensions of size 0."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb
from flambeau.nn import functional as F

SIGNED = (fb.int8, fb.int16, fb.int32, fb.int64)


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_gcd_and_lcm_of_the_lowest_number(dtype):
    low = fb.iinfo(dtype).min
    for other in (6, 96, -7, low // 2, 1, 100):
        x, y = fb.tensor([low, other], dtype=dtype), fb.tensor([other, low], dtype=dtype)
        assert fb.gcd(x, y).tolist() == [math.gcd(low, other)] * 2
        bits = fb.iinfo(dtype).bits
        lcm = (math.lcm(low, other) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        assert fb.lcm(x, y).tolist() == [abs(lcm) if lcm != low else low] * 2
    assert fb.gcd(fb.tensor([low], dtype=dtype), fb.tensor([low], dtype=dtype)).tolist() == [low]  # wraps around


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_the_lowest_number_divided_by_minus_one_wraps_around(dtype):
    low = fb.iinfo(dtype).min
    x, y = fb.full((3,), low, dtype=dtype), fb.full((3,), -1, dtype=dtype)
    for quotient in (x // y, fb.div(x, y, rounding_mode="trunc"), fb.div(x, y, rounding_mode="floor"), -x, x.abs()):
        assert quotient.tolist() == [low] * 3
    for rest in (x % y, fb.fmod(x, y), fb.remainder(x, -1)):
        assert rest.tolist() == [0] * 3
    assert fb.sign(x).tolist() == [-1] * 3


@pytest.mark.parametrize("dtype", (*SIGNED, fb.uint8, fb.uint16, fb.uint32, fb.uint64), ids=str)
def test_shifts_by_the_width_and_more(dtype):
    bits = fb.iinfo(dtype).bits
    for by in (bits, bits + 1, 100):
        assert (fb.ones(3, dtype=dtype) << fb.full((3,), by, dtype=dtype)).tolist() == [0] * 3
        assert (fb.ones(3, dtype=dtype) >> fb.full((3,), by, dtype=dtype)).tolist() == [0] * 3
    if dtype in SIGNED:
        assert (fb.full((3,), -5, dtype=dtype) >> fb.full((3,), bits, dtype=dtype)).tolist() == [-1] * 3


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
def test_histograms_of_ranges_wider_than_the_largest_number(dtype):
    top = fb.finfo(dtype).max
    x = fb.tensor([-top, -top / 2, 0.0, top / 4, top], dtype=dtype)
    assert fb.histc(x, bins=4).tolist() == [1, 1, 2, 1]
    assert fb.histc(x, bins=4, min=-top, max=top).sum() == 5
    if dtype == fb.float32:  # of float64, histogram() refuses a range whose width is infinite
        assert fb.histogram(x, bins=4)[0].sum() == 5
    assert fb.histc(fb.tensor([top, top / 2], dtype=dtype), bins=1000).sum() == 2


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
@pytest.mark.parametrize("features", [(4, 0), (0, 4), (0, 0)])
def test_attention_without_features(dtype, features):
    e, v = features
    q, k, w = (fb.randn(2, 2, 20, n, dtype=dtype, requires_grad=True) for n in (e, e, v))
    y = F.scaled_dot_product_attention(q, k, w)
    assert y.shape == (2, 2, 20, v)
    y.sum().backward()
    assert q.grad.shape == q.shape and w.grad.shape == w.shape


def test_products_without_rows_or_columns():
    for m, n, k in ((0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)):
        for dtype in (fb.float32, fb.float64, fb.complex64, fb.int64, fb.bool):
            got = fb.ones(m, k, dtype=dtype) @ fb.ones(k, n, dtype=dtype)
            assert got.shape == (m, n) and not got.any()


# In a process of its own, with little memory: what is refused late ends the process there, not the tests.
LIMITED = """
import resource, flambeau as fb
from flambeau.nn import functional as F
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
x = fb.rand(1, 1, 4)
try:
    {call}
except (RuntimeError, MemoryError, ValueError) as error:
    print("refused", type(error).__name__)
"""
TOO_LARGE = [
    "F.adaptive_avg_pool1d(x, 10**10)",
    "F.adaptive_avg_pool1d(x, 2**62)",
    "F.adaptive_avg_pool1d(x, 2**63 - 1)",
    "F.adaptive_max_pool1d(x, 10**10)",
    "F.adaptive_avg_pool2d(fb.rand(1, 1, 4, 4), (10**10, 2))",
    "F.adaptive_max_pool2d(fb.rand(1, 1, 4, 4), (10**10, 10**10))",
    "F.adaptive_avg_pool3d(fb.rand(1, 1, 4, 4, 4), 10**6)",
    "fb.histc(x, bins=10**11)",
    "fb.histc(x, bins=2**62)",
    "fb.histogram(x.flatten(), bins=10**11)",
    "fb.histogramdd(fb.rand(4, 2), bins=[2**40, 2**40])",
    "fb.bincount(fb.tensor([1]), minlength=2**62)",
    "fb.bincount(fb.tensor([1]), minlength=10**12)",
    "fb.bincount(fb.tensor([2**62]))",
    "fb.repeat_interleave(x, fb.tensor([2**62] * 4), 2)",
    "fb.repeat_interleave(x, 2**62)",
    "fb.repeat_interleave(fb.tensor([2**62, 2**62]))",
    "F.interpolate(fb.rand(1, 1, 4, 4), size=(2**31, 2**31))",
    "F.one_hot(fb.tensor([1]), 2**62)",
]
FACTORIES = ["zeros", "ones", "empty", "rand", "randn"]
TOO_LARGE += [f"fb.{name}(2**40, 2**40)" for name in FACTORIES] + [f"fb.{name}(2**63 - 1)" for name in FACTORIES]
TOO_LARGE += [f"x.new_{name}((2**40, 2**40))" for name in ("zeros", "ones", "empty")]
TOO_LARGE += [
    "fb.full((2**40, 2**40), 1.0)",
    "fb.randint(0, 5, (2**40, 2**40))",
    "fb.eye(2**32)",
    "fb.arange(2**62)",
    "fb.linspace(0, 1, 2**62)",
    "fb.logspace(0, 1, 2**62)",
    "fb.randperm(2**62)",
    "fb.empty_strided((2, 2), (2**62, 1))",
    "fb.zeros(1).resize_(2**40, 2**40)",
    "fb.zeros(1).expand(2**62, 2**62)",
    "fb.zeros(1).repeat(2**62, 2**62)",
    "fb.tril_indices(2**40, 2**40)",
]


def test_sizes_beyond_memory_are_refused():
    """All in one process: each is refused before anything is written."""
    calls = "\n".join(LIMITED.partition("try:")[2].replace("{call}", call).join(("try:", "")) for call in TOO_LARGE)
    script = LIMITED.partition("try:")[0] + calls
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("refused") == len(TOO_LARGE), done.stdout


def test_adaptive_pooling_to_more_places_than_pixels():
    x = fb.arange(4.0).reshape(1, 1, 4)
    want = np.repeat(np.arange(4.0), 2)
    assert F.adaptive_avg_pool1d(x, 8).flatten().tolist() == want.tolist()
    assert F.adaptive_max_pool1d(x, 8).flatten().tolist() == want.tolist()
    assert F.adaptive_avg_pool1d(x, 0).shape == (1, 1, 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_clamp_to_two_numbers(dtype):
    x = fb.tensor([math.nan, -3.0, -0.0, 0.5, math.inf, -math.inf], dtype=getattr(fb, dtype))
    low, high = (fb.tensor(v, dtype=x.dtype) for v in (-1.0, 1.0))
    assert_same(x.clamp(-1, 1), x.clamp(low, high))
    assert_same(x.clamp(1, -1), x.clamp(high, low))  # the upper bound wins
    assert x.clamp(math.nan, 1).isnan().all() and x.clamp(0, math.nan).isnan().all()
    with pytest.raises(NotImplementedError, match="clamp"):
        x.clamp(1j, 2)


def assert_same(a, b):
    assert a.dtype == b.dtype and fb.equal(a.isnan(), b.isnan())
    assert fb.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
