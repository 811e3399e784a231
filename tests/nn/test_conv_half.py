"""Convolutions of float16 and bfloat16 on every level of the processor, against float64."""

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


# input, weight, stride, padding, dilation, groups
CASES = [
    ((2, 5, 9, 11), (7, 5, 3, 3), 1, 1, 1, 1), ((2, 16, 12, 12), (32, 16, 3, 3), 2, 1, 1, 1), ((2, 16, 9, 9), (24, 16, 1, 1), 1, 0, 1, 1),
    ((2, 16, 9, 9), (24, 16, 1, 1), 2, 0, 1, 1), ((1, 3, 17, 17), (8, 3, 7, 7), 2, 3, 1, 1), ((2, 8, 10, 10), (8, 1, 3, 3), 1, 1, 1, 8),
    ((2, 12, 10, 10), (18, 4, 3, 3), 1, 2, 2, 3), ((2, 3, 16, 16), (10, 3, 4, 4), 4, 0, 1, 1), ((2, 6, 30), (4, 6, 5), 1, 2, 1, 1),
    ((1, 4, 5, 6, 7), (6, 4, 3, 3, 3), 1, 1, 1, 1), ((2, 20, 9, 9), (24, 20, 4, 4), 2, 0, 1, 1), ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("last", [False, True], ids=["rows", "last"])
def test_against_float64(level, dtype, case, transposed, last):
    shape, weight, stride, padding, dilation, groups = case
    n = len(shape) - 2
    if last and n != 2:
        pytest.skip("channels_last is for images")
    call = getattr(F, f"conv{'_transpose' if transposed else ''}{n}d")
    if transposed:
        shape = (shape[0], weight[0], *shape[2:])
    rng = np.random.default_rng(sum(shape) + sum(weight))

    def values(*sizes):
        return fb.tensor(rng.standard_normal(sizes).astype(np.float32)).to(dtype)

    x, w, bias = values(*shape), values(*weight), values(weight[1] * groups if transposed else weight[0])
    if last:
        x = x.to(memory_format=fb.channels_last)
    results = []
    grad = None
    for kind in (dtype, fb.float64):
        leaves = [t.detach().to(kind).requires_grad_() for t in (x, w, bias)]
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        y = call(*leaves, **options)
        grad = values(*y.shape) if grad is None else grad
        y.backward(grad.to(kind))
        results.append([y.detach(), *(t.grad for t in leaves)])
    for got, expected in zip(*results, strict=True):
        assert got.dtype == dtype and got.shape == expected.shape
        error = (got.to(fb.float64) - expected).abs()
        bound = ROUNDING[dtype] * expected.abs() + 2.0**-17 * expected.abs().max() + 1e-6
        # the result of a transpose is rounded before its bias is added
        assert (error <= (3 if transposed else 1.01) * bound + transposed * ROUNDING[dtype] * 8).all(), (
            error / bound
        ).max()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_not_finite(level, dtype):
    x, w = fb.ones(1, 16, 8, 8, dtype=dtype), fb.ones(16, 16, 3, 3, dtype=dtype)
    x[0, 3, 0, 0] = float("nan")
    y = F.conv2d(x, w, padding=1)
    assert y[0, :, :2, :2].isnan().all() and y[0, :, 2:].isfinite().all()
