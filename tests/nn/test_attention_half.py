"""Attention of float16 and bfloat16 on every level of the processor, against float64."""

import math

import numpy as np
import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn.functional import scaled_dot_product_attention as attention

ROUNDING = {fb.bfloat16: 2.0**-8, fb.float16: 2.0**-11}
LEVELS = [level for level in ("avx2", "avx512_bf16") if level == "avx2" or _C.cpu_level() == level]


@pytest.fixture(params=LEVELS)
def level(request):
    before = _C.cpu_level()
    _C.set_cpu_level(request.param)
    yield request.param
    _C.set_cpu_level(before)


# heads, key heads, queries, keys, features, features of values
SHAPES = [
    (2, 2, 1, 5, 8, 8), (4, 2, 1, 1500, 64, 64), (2, 1, 3, 40, 5, 7), (2, 2, 15, 17, 16, 33), (2, 2, 16, 16, 16, 16),
    (3, 3, 17, 19, 32, 48), (4, 2, 71, 300, 64, 64), (2, 2, 197, 197, 64, 64), (1, 1, 141, 259, 80, 16), (2, 2, 20, 30, 12, 20),
]  # fmt: skip


def reference(q, k, v, mask, causal, grad):
    """Result and gradients in float64, with all scores at once."""
    leaves = [t.detach().to(fb.float64).requires_grad_() for t in (q, k, v)]
    q, k, v = leaves
    shared = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~fb.ones(scores.shape[-2:], dtype=fb.bool).tril(), -math.inf)
    if mask is not None and mask.dtype == fb.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask.to(fb.float64)
    out = scores.softmax(-1) @ v
    out.backward(grad.to(fb.float64))
    return [out.detach(), *(t.grad for t in leaves)]


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "added"])
def test_against_float64(level, dtype, shape, kind):
    heads, key_heads, length, source, features, value_features = shape
    rng = np.random.default_rng(length + source)

    def values(h, n, e):
        x = rng.standard_normal((2, n, h, e)).astype(np.float32)
        return fb.tensor(x).to(dtype).transpose(1, 2).requires_grad_()

    q, k, v = (
        values(heads, length, features),
        values(key_heads, source, features),
        values(key_heads, source, value_features),
    )
    mask = None
    if kind == "bool":
        mask = fb.tensor(rng.random((2, 1, length, source)) < 0.8)
        mask[..., 0] = True
    elif kind == "added":
        mask = fb.tensor(rng.standard_normal((length, source)).astype(np.float32)).to(dtype)
    grad = fb.tensor(rng.standard_normal((2, heads, length, value_features)).astype(np.float32)).to(dtype)
    out = attention(q, k, v, mask, is_causal=kind == "causal", enable_gqa=heads != key_heads)
    assert out.dtype == dtype and out.shape == grad.shape
    out.backward(grad)
    for got, expected in zip(
        [out, q.grad, k.grad, v.grad], reference(q, k, v, mask, kind == "causal", grad), strict=True
    ):
        assert got.dtype == dtype
        error = (got.detach().to(fb.float64) - expected).abs()
        # weights and slopes are rounded to the dtype before they are multiplied
        assert (error <= 4 * ROUNDING[dtype] * (expected.abs() + expected.abs().max() * 0.5 + 0.01)).all(), error.max()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_queries_that_see_nothing(level, dtype):
    q = fb.randn(1, 1, 40, 16).to(dtype)
    mask = fb.ones(40, 40, dtype=fb.bool)
    mask[3] = False
    out = attention(q, q, q, mask)
    assert out[0, 0, 3].eq(0).all() and out.isfinite().all()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("length", [2, 100])
def test_same_bits_for_every_number_of_threads(level, dtype, length):
    x = fb.randn(3, 4, length, 32).to(dtype)
    threads, results = fb.get_num_threads(), []
    try:
        for count in (1, 2):
            fb.set_num_threads(count)
            q = x.clone().requires_grad_()
            out = attention(q, q, q, is_causal=True)
            out.backward(x)
            results.append((out.detach().view(fb.int16), q.grad.view(fb.int16)))
    finally:
        fb.set_num_threads(threads)
    assert results[0][0].equal(results[1][0]) and results[0][1].equal(results[1][1])


def test_mask_gradient_and_second_order():
    q = fb.randn(1, 2, 20, 16).to(fb.bfloat16).requires_grad_()
    mask = fb.zeros(20, 20, dtype=fb.bfloat16, requires_grad=True)
    out = attention(q, q, q, mask)
    (slope,) = fb.autograd.grad(out.float().square().sum(), q, create_graph=True)
    slope.float().square().sum().backward()
    assert mask.grad.dtype == fb.bfloat16 and mask.grad.isfinite().all()
    assert q.grad.dtype == fb.bfloat16 and q.grad.isfinite().all() and q.grad.float().abs().sum() > 0
