"""Products and convolutions that processors compute in blocks, and long rows: sizes at which the kernels change."""

from __future__ import annotations

import pytest

import flambeau as fb
from flambeau.nn import functional as F

DEVICE = fb.device("sim", 0)
TOLERANCE = {fb.float32: 1e-5, fb.float64: 1e-12, fb.bfloat16: 1e-2, fb.float16: 2e-3}


@pytest.fixture(autouse=True)
def _numbers():
    fb.manual_seed(0)


def close(got, expected, dtype=fb.float32) -> None:
    assert got.device == DEVICE and got.shape == expected.shape and got.dtype == expected.dtype
    assert got.stride() == expected.stride()
    here, there = got.detach().cpu().double(), expected.detach().double()
    size = there.abs().max().clamp(min=1).item()
    assert (here - there).abs().max().item() <= 4 * TOLERANCE[dtype] * size


def transposed(t):
    return t.mT.contiguous().mT


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16], ids=str)
@pytest.mark.parametrize(
    "rows, length, columns", [(64, 64, 64), (50, 37, 130), (7, 300, 65), (1, 70, 128), (90, 41, 1)]
)
def test_products(rows, length, columns, dtype):
    a, b = fb.randn(rows, length).to(dtype), fb.randn(length, columns).to(dtype)
    for x, y in [(a, b), (transposed(a), b), (a, transposed(b))]:
        close(x.to(DEVICE) @ y.to(DEVICE), x @ y, dtype)


def test_products_of_batches_and_with_more_than_the_product():
    a, b, c = fb.randn(3, 40, 50), fb.randn(3, 50, 72), fb.randn(3, 40, 72)
    wide = b[0].expand(3, 50, 72)
    for right in (b, wide, transposed(b)):
        on = right.to(DEVICE) if right is not wide else b[0].to(DEVICE).expand(3, 50, 72)
        close(a.to(DEVICE).bmm(on), a.bmm(right))
        close(
            fb.baddbmm(c.to(DEVICE), a.to(DEVICE), on, beta=0.5, alpha=-2), fb.baddbmm(c, a, right, beta=0.5, alpha=-2)
        )
    close(F.linear(a.to(DEVICE), b[0].mT.to(DEVICE), c[0, 0].to(DEVICE)), F.linear(a, b[0].mT, c[0, 0]))
    out = fb.empty(72, 40, device=DEVICE).mT
    fb.mm(a[0].to(DEVICE), b[0].to(DEVICE), out=out)
    assert (out.cpu() - a[0] @ b[0]).abs().max() < 1e-4


@pytest.mark.parametrize(
    "channels, outputs, window, options",
    [
        (3, 20, (3, 3), {"padding": 1}),
        (16, 33, (3, 2), {"padding": (2, 1), "stride": (2, 1)}),
        (32, 70, (3, 3), {"padding": 2, "dilation": 2}),
        (64, 32, (2, 3), {"groups": 2, "stride": 2}),
        (16, 16, (5, 5), {"padding": 4, "stride": 3, "groups": 1}),
    ],
)
@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16], ids=str)
def test_convolutions(channels, outputs, window, options, dtype):
    x = fb.randn(2, channels, 9, 11).to(dtype)
    w = (fb.randn(outputs, channels // options.get("groups", 1), *window) * 0.2).to(dtype)
    bias = fb.randn(outputs).to(dtype)
    results = []
    for device in (fb.device("cpu"), DEVICE):
        leaves = [t.to(device).requires_grad_() for t in (x, w, bias)]
        y = F.conv2d(*leaves, **options)
        factor = fb.arange(y.numel()).remainder(5).sub(2).reshape(y.shape).to(dtype).to(device)
        results.append([y, *fb.autograd.grad(y, leaves, factor)])
    for got, expected in zip(results[1], results[0], strict=True):
        close(got, expected, dtype)


def test_rows_that_are_long_and_not_side_by_side():
    """A piece of a row for each group, and its end."""
    a, b = fb.randn(6, 5, 300), fb.randn(300)
    ours, row = a.to(DEVICE), b.to(DEVICE)
    close(ours * row, a * b)
    close(ours[:, ::2, 3:200] + row[3:200], a[:, ::2, 3:200] + b[3:200])
    close(ours.permute(2, 0, 1) - ours[:, :, :1].permute(2, 0, 1), a.permute(2, 0, 1) - a[:, :, :1].permute(2, 0, 1))
    ours[:, 1:4, 64:128] = 2.5
    a[:, 1:4, 64:128] = 2.5
    close(ours, a)
    close(ours[..., ::2].exp().to(fb.float64), a[..., ::2].exp().to(fb.float64))


@pytest.mark.parametrize("shape, dim", [((3, 700), 1), ((700, 3), 0), ((2, 300, 40), 1), ((1, 70000), 1)])
def test_long_reductions(shape, dim):
    a = fb.randn(shape)
    for op in ("sum", "amax", "argmax", "var", "logsumexp", "softmax", "cumsum"):
        got, expected = getattr(a.to(DEVICE), op)(dim), getattr(a, op)(dim)
        if op == "argmax":
            assert got.cpu().equal(expected)
        else:
            assert (got.cpu() - expected).abs().max() <= 2e-5 * expected.abs().max().clamp(min=1), op
