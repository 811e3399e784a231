"""The ways an elementwise loop can go (in place, one fixed operand, packed tiles, halves) give the same bits."""

import operator

import numpy as np
import pytest

import flambeau as fb

OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.gt, fb.maximum, fb.atan2)


def same(x, y):
    return x.dtype == y.dtype and np.array_equal(x.float().numpy(), y.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16, fb.float16, fb.int64])
@pytest.mark.parametrize("shape", [(5, 7), (3, 130), (4, 1, 129), (2, 3, 1500), (70000,)])
def test_one_element_of_an_operand_stands_for_many(dtype, shape):
    fb.manual_seed(0)
    x = (fb.rand(*shape) * 9 + 1).to(dtype)
    column = (fb.rand(*shape[:-1], 1) * 3 + 1).to(dtype)
    for function in OPERATORS:
        for a, b in ((x, column), (column, x), (x[..., ::2], column), (x, column[..., :1].expand(*shape[:-1], 1))):
            whole = fb.broadcast_shapes(a.shape, b.shape)
            assert same(function(a, b), function(a.expand(whole).contiguous(), b.expand(whole).contiguous()))


@pytest.mark.parametrize("shape", [(5, 7), (3, 130), (70000,)])
def test_numbers_stand_for_tensors(shape):
    fb.manual_seed(0)
    x = fb.rand(*shape) * 9 + 1
    for function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.gt):
        assert same(function(x, 3), function(x, fb.full(shape, 3.0)))
        assert same(function(0.1, x), function(fb.full(shape, 0.1), x))
    rows = fb.rand(9, 600)
    expected = rows.clone()
    expected[:, :300] = expected[:, :300] + 1
    rows[:, :300].add_(1)
    assert fb.equal(rows, expected)
    halves = x.bfloat16()  # a number keeps its digits beside halves
    assert same(halves * 0.1, (halves.float() * np.float32(0.1)).bfloat16())


@pytest.mark.parametrize("dtype", [fb.bfloat16, fb.float16])
def test_halves_round_like_numbers_one_by_one(dtype):
    bits = fb.arange(65536, dtype=fb.int32).to(fb.uint16)
    every = bits.view(dtype)
    wide = every.float()
    assert same(fb.stack([every[i].float() for i in range(0, 65536, 257)]), wide[::257])
    back = wide.to(dtype).view(fb.uint16)
    nan = wide.isnan()
    assert fb.equal(back[~nan], bits[~nan]) and bool(wide.to(dtype).isnan()[nan].all())
    fb.manual_seed(0)
    x = fb.randn(1003) * fb.exp(fb.randn(1003) * 20)
    x[::50] = float("nan")
    x[1::50] = -float("inf")
    x[2::50] = 1 + 2.0**-9  # between two bfloat16
    assert same(x.to(dtype), fb.cat([x[i : i + 1].to(dtype) for i in range(len(x))]))
    a, b = x.to(dtype), x.flip(0).to(dtype)
    for function in (operator.add, operator.sub, operator.mul, operator.truediv):
        assert same(function(a, b), function(a.float(), b.float()).to(dtype))
        assert same(function(a[::2], b[::2]), function(a.float(), b.float()).to(dtype)[::2])


def test_floats_out_of_range_become_the_least_integer():
    values = [1.9, -1.9, 0.0, 2.0**31, -(2.0**31), 3e9, -3e9, float("nan"), float("inf"), 2147483520.0, -0.5]
    least = -(2**31)
    expected = [1, -1, 0, least, least, least, least, least, least, 2147483520, 0]
    assert fb.tensor(values).to(fb.int32).tolist() == expected
    assert [fb.tensor(v).to(fb.int32).item() for v in values] == expected


@pytest.mark.parametrize("magnitude", [10, 2**40, 2**51 - 1, 2**52, 2**62])
def test_whole_numbers_divide_exactly(magnitude):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-magnitude, magnitude, 2000), rng.integers(1, magnitude, 2000) * rng.choice([-1, 1], 2000)
    x[:600] = x[:600] // 3 * 3
    y[:300] = 3
    x[-2:], y[-2:] = (magnitude, -magnitude), (1, -1)
    a, b = fb.from_numpy(x), fb.from_numpy(y)
    assert np.array_equal((a // b).numpy(), x // y) and np.array_equal((a % b).numpy(), x % y)
    assert np.array_equal(fb.fmod(a, b).numpy(), np.fmod(x, y))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 31, 1000, 70001, 200000])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_running_sums_of_any_length(n, dtype):
    fb.manual_seed(0)
    x = fb.randn(n, dtype=dtype)
    expected = np.cumsum(x.double().numpy())
    np.testing.assert_allclose(x.cumsum(0).numpy(), expected, rtol=1e-6, atol=1e-6 * n**0.5)


@pytest.mark.parametrize("dtype", [fb.int8, fb.int16, fb.bfloat16, fb.float32, fb.float64, fb.complex128])
@pytest.mark.parametrize("m, n", [(15, 64), (16, 16), (17, 33), (31, 2051), (100, 1030)])
def test_transposed_operands_of_any_size(dtype, m, n):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-50, 50, size) for size in ((3, m, n), (3, n, m)))
    a, b = fb.tensor(x).to(dtype), fb.tensor(y).to(dtype)
    turned = y.swapaxes(1, 2)
    assert np.array_equal(b.mT.contiguous().to(fb.complex128).numpy(), turned)
    assert np.array_equal((a.to(fb.int16 if dtype is fb.int8 else dtype) + b.mT).to(fb.complex128).numpy(), x + turned)
    assert np.array_equal((b.mT * 2.0).to(fb.complex128).numpy(), turned * 2)
    assert np.array_equal(fb.where(a == a, b.mT, a).to(fb.complex128).numpy(), turned)
    flipped = b[:, ::2].mT[..., : n // 2]  # lines that are not adjacent
    assert np.array_equal((flipped + flipped).to(fb.complex128).numpy(), 2 * turned[..., ::2][..., : n // 2])


@pytest.mark.parametrize("n", [1, 7, 8, 9, 1000, 70001])
@pytest.mark.parametrize("dtype", [fb.bool, fb.uint8, fb.int32, fb.int64])
def test_running_sums_of_integers_wrap_around(n, dtype):
    fb.manual_seed(0)
    x = fb.randint(-(2**62) if dtype is fb.int64 else 0, 2**62 if dtype is fb.int64 else 2, (n,)).to(dtype)
    assert np.array_equal(x.cumsum(0).numpy(), np.cumsum(x.numpy().astype(np.int64)))
    rows = x.expand(3, n).contiguous()
    assert np.array_equal(rows.cumsum(1).numpy(), np.cumsum(rows.numpy().astype(np.int64), axis=1))
