"""Products of float16 and bfloat16 on every level of the processor, against float64."""

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau import _C
from flambeau.nn import functional as F

ROUNDING = {fb.bfloat16: 2.0**-8, fb.float16: 2.0**-11}
LEVELS = [level for level in ("avx2", "avx512_bf16") if level == "avx2" or _C.cpu_level() == level]


@pytest.fixture(params=LEVELS)
def level(request):
    before = _C.cpu_level()
    _C.set_cpu_level(request.param)
    yield request.param
    _C.set_cpu_level(before)


def matrix(rng, rows, cols, dtype, layout="rows"):
    def values(*shape):
        return fb.tensor(rng.standard_normal(shape).astype(np.float32)).to(dtype)

    if layout == "rows":
        return values(rows, cols)
    if layout == "columns":
        return values(cols, rows).t()
    if layout == "apart":
        return values(2 * rows, 2 * cols)[::2, ::2]
    if layout == "reversed":
        return values(rows, cols).flip(1)
    return values(rows, cols + 3)[:, 1 : cols + 1]  # rows that begin anywhere


def wide(x):
    return x.to(fb.float64).numpy()


def check(result, a, b, scale=1.0, more=0.0):
    """Sums in float32 in any order, rounded once to the dtype of the result."""
    a, b = wide(a), wide(b)
    expected = scale * (a @ b) + more
    sums = abs(scale) * (np.abs(a) @ np.abs(b)) + np.abs(more)
    tolerance = sums * 2.0**-24 * (a.shape[-1] + 10) + np.abs(expected) * ROUNDING[result.dtype] + 1e-7
    error = np.abs(wide(result) - expected)
    assert result.shape == expected.shape
    assert (error <= tolerance).all(), (error / tolerance).max()


# Around the edges of register blocks, panels, blocks of k and the kernels for few rows.
SHAPES = [
    (1, 1, 1), (1, 1, 2), (2, 3, 1), (1, 5, 33), (1, 64, 32), (1, 65, 31), (1, 130, 1030), (2, 9, 65), (3, 7, 40), (5, 17, 64),
    (13, 31, 3), (14, 32, 2), (15, 33, 130), (16, 16, 16), (17, 48, 33), (28, 64, 600), (48, 70, 100), (49, 70, 101), (64, 33, 1024),
    (84, 256, 64), (85, 257, 65), (29, 300, 1025), (90, 100, 2100), (1010, 40, 1030), (30, 20, 8195), (7, 1, 50), (300, 1, 70),
]  # fmt: skip


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(level, dtype, shape):
    m, n, k = shape
    rng = np.random.default_rng(m * 7 + n * 3 + k)
    layouts = ["rows", "columns", "apart", "anywhere", "reversed"]
    pairs = (
        zip(layouts, layouts[1:] + layouts[:1], strict=True)
        if m * n * k > 200000
        else itertools.product(layouts, layouts)
    )
    for left, right in pairs:
        a, b = matrix(rng, m, k, dtype, left), matrix(rng, k, n, dtype, right)
        check(a @ b, a, b)
    start, bias = matrix(rng, m, n, dtype), matrix(rng, 1, n, dtype)[0]
    check(fb.addmm(start, a, b, beta=0.5, alpha=2.0), a, b, 2.0, 0.5 * wide(start))
    check(fb.addmm(bias, a, b), a, b, more=wide(bias))
    check(F.linear(a, b.t().contiguous(), bias), a, b, more=wide(bias))
    for out in (
        fb.empty(n, m, dtype=dtype).t(),
        fb.empty(m, 2 * n, dtype=dtype)[:, ::2],
        fb.empty(m, n + 1, dtype=dtype)[:, 1:],
    ):
        fb.matmul(a, b, out=out)
        check(out, a, b)


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_batches(level, dtype):
    rng = np.random.default_rng(1)

    def values(*shape):
        return fb.tensor(rng.standard_normal(shape).astype(np.float32)).to(dtype)

    a, b = values(3, 4, 20, 33), values(3, 4, 33, 17)
    check(a @ b, a, b)
    check(a @ b[0, 0], a, b[0, 0])
    check(a[:, :1] @ b, a[:, :1], b)
    check(a.transpose(1, 2).contiguous().transpose(1, 2) @ b, a, b)
    q, k = values(2, 9, 5, 8).transpose(1, 2), values(2, 9, 5, 8).transpose(1, 2)
    check(q @ k.transpose(-1, -2), q, k.transpose(-1, -2))
    one, many = values(100, 1, 40), values(100, 40, 6)
    check(one @ many, one, many)
    vector = values(33)
    check((a @ vector).unsqueeze(-1), a, vector.unsqueeze(-1))
    assert (a[..., :0] @ b[..., :0, :]).eq(0).all()
    assert (a[:, :, :0] @ b).shape == (3, 4, 0, 17)


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("rows", [1, 8, 60, 200])
def test_special_values(level, dtype, rows):
    """NaN and infinity stay in their rows and columns; edges of blocks bring in nothing."""
    a, b = fb.ones(rows, 71, dtype=dtype), fb.ones(71, 45, dtype=dtype)
    a[0, 70] = float("inf")
    b[3, 44] = float("nan")
    for right in (b, b.t().contiguous().t()):
        result = (a @ right).float()
        assert result[0, :44].eq(float("inf")).all() and result[:, 44].isnan().all()
        assert result[1:, :44].eq(71).all()
    tiny = 2.0**-20 if dtype is fb.float16 else 2.0**-120
    assert (fb.full((rows, 40), tiny, dtype=dtype) @ fb.ones(40, 3, dtype=dtype)).float().eq(40 * tiny).all()
    large = fb.full((rows, 64), fb.finfo(dtype).max, dtype=dtype)
    assert (large @ fb.ones(64, 3, dtype=dtype)).isinf().all()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 5000, 300), (8, 1000, 900), (200, 300, 1100), (100, 100, 9000), (2000, 130, 64)], ids=str
)
def test_same_bits_for_every_number_of_threads(level, dtype, shape):
    m, n, k = shape
    rng = np.random.default_rng(2)
    x, w = matrix(rng, m, k, dtype), matrix(rng, n, k, dtype)
    threads, results = fb.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            fb.set_num_threads(count)
            results.append((x @ w.t()).view(fb.int16))
    finally:
        fb.set_num_threads(threads)
    assert results[0].equal(results[1]) and results[0].equal(results[2])


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_gradients_of_linear(level, dtype):
    rng = np.random.default_rng(3)
    x, w, bias = matrix(rng, 70, 50, dtype), matrix(rng, 90, 50, dtype), matrix(rng, 1, 90, dtype)[0]
    g = matrix(rng, 70, 90, dtype)
    for t in (x, w, bias):
        t.requires_grad_()
    F.linear(x, w, bias).backward(g)
    check(x.grad, g, w.detach())
    check(w.grad, g.t(), x.detach())
    check(bias.grad.unsqueeze(0), fb.ones(1, 70, dtype=dtype), g)
