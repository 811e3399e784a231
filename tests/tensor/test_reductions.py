"""What is special about reductions, scans and softmax, beyond the op specs."""

import numpy as np
import pytest

import flambeau as fb

NAN = float("nan")
SHAPES = [
    (),
    (1,),
    (7,),
    (100,),
    (5000,),
    (200_000,),
    (3, 4),
    (1000, 3),
    (3, 1000),
    (17, 5, 33),
    (2, 3, 4, 5),
    (0, 3),
    (70_000, 4),
]


def layouts(x):
    """The same numbers in several orders in memory, as (tensor, array) pairs."""
    views = [x]
    if x.ndim:
        views += [x.T, x[::-1], x[..., ::2]]
    return [(fb.from_numpy(v) if v.ndim else fb.tensor(v.item(), dtype=fb.float64), v) for v in views]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "var", "argmax", "any", "count_nonzero"])
def test_every_axis_and_layout_agrees_with_numpy(name, shape):
    x = np.asarray(np.random.default_rng(0).standard_normal(shape))
    for t, v in layouts(x):
        axes = [None, *range(v.ndim)] + ([(0, v.ndim - 1)] if v.ndim > 1 and name != "argmax" else [])
        for axis in axes:
            if v.size == 0 and name in ("amax", "amin", "argmax", "mean", "var"):
                continue
            with np.errstate(all="ignore"):
                want = getattr(np, name)(v, axis=axis)
            got = fb.var(t, axis, correction=0) if name == "var" else getattr(fb, name)(t, axis)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)


def test_float32_sums_are_exact_to_the_last_digits():
    x = np.random.default_rng(1).random(3_000_000).astype("f")
    exact = x.astype("d").sum()
    assert abs(fb.from_numpy(x).sum().item() - exact) / exact < 1e-7
    columns = x.reshape(-1, 3)
    np.testing.assert_allclose(fb.from_numpy(columns).sum(0).numpy(), columns.astype("d").sum(0), rtol=2e-7)


def test_variance_keeps_digits_under_a_large_mean():
    x = (np.random.default_rng(2).standard_normal(100_000) + 1e4).astype("f")
    want = x.astype("d").var(ddof=1)
    assert abs(fb.from_numpy(x).var().item() - want) / want < 1e-4
    both = np.stack([x, x], 1)
    np.testing.assert_allclose(fb.from_numpy(both).var(0).numpy(), [want, want], rtol=1e-4)


def test_results_do_not_depend_on_the_number_of_threads():
    x = fb.from_numpy(np.random.default_rng(3).standard_normal((300, 1000)).astype("f"))
    ops = [
        lambda t: t.sum(),
        lambda t: t.sum(0),
        lambda t: t.std(1),
        lambda t: t.reshape(-1).cumsum(0),
        lambda t: t.reshape(-1).sort()[1],
    ]
    before = fb.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            fb.set_num_threads(n)
            results.append([op(x).numpy().tobytes() for op in ops])
    finally:
        fb.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_nan_wins_over_every_number():
    x = fb.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]])
    assert fb.isnan(x.max()) and fb.isnan(x.amin()) and fb.isnan(fb.aminmax(x).max)
    values, indices = x.max(1)
    assert fb.isnan(values[0]) and indices.tolist() == [1, 2]
    assert x.argmin().item() == 1
    assert x.argmax(0).tolist() == [1, 0, 1]


def test_the_first_of_equals_is_found():
    for n in (5, 100, 100_000):
        x = fb.zeros(n)
        x[n // 2] = 1.0
        x[n - 1] = 1.0
        assert x.argmax().item() == n // 2
        assert x.argmin().item() == 0
    narrow = fb.zeros(5000, 3)
    narrow[700, 1] = narrow[300, 1] = 2.0
    assert narrow.max(0).indices.tolist() == [0, 300, 0]


def test_small_integers_are_summed_without_overflow():
    assert fb.full((1000,), 200, dtype=fb.uint8).sum().item() == 200_000
    assert fb.ones(70_000, dtype=fb.bool).sum().dtype == fb.int64
    assert fb.full((4,), 100, dtype=fb.int8).cumsum(0).tolist() == [100, 200, 300, 400]
    assert fb.full((600,), 300, dtype=fb.float16).sum(dtype=fb.float32).item() == 180_000


def test_nothing_to_choose_from_is_an_error():
    with pytest.raises(RuntimeError, match="amax"):
        fb.zeros(0).amax()
    with pytest.raises(IndexError, match="dim 1"):
        fb.zeros(3, 0).max(1)
    with pytest.raises(IndexError):
        fb.zeros(0).argmax()
    assert fb.zeros(3, 0).sum(1).tolist() == [0, 0, 0]
    assert fb.zeros(0, 3).amax(1).shape == (0,)
    assert fb.isnan(fb.zeros(0).mean())


def test_wrong_arguments_are_named():
    with pytest.raises(IndexError, match="sum"):
        fb.zeros(2).sum(3)
    with pytest.raises(RuntimeError, match="mean.*int64"):
        fb.tensor([1, 2]).mean()
    with pytest.raises(TypeError, match="complex64"):
        fb.tensor([1j]).max()
    with pytest.raises(RuntimeError, match="var"):
        fb.tensor([1]).var()
    with pytest.raises(RuntimeError, match="fro"):
        fb.ones(2).norm("spectral")


def test_complex_numbers_reduce_part_by_part():
    x = np.array([[1 + 2j, 3 - 1j], [0.5j, -2]], dtype=np.complex64)
    t = fb.from_numpy(x)
    np.testing.assert_allclose(t.sum(0).numpy(), x.sum(0), rtol=1e-6)
    np.testing.assert_allclose(t.mean().numpy(), x.mean(), rtol=1e-6)
    np.testing.assert_allclose(t.prod().numpy(), x.prod(), rtol=1e-6)
    np.testing.assert_allclose(t.var(1).numpy(), x.var(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(t.norm().item(), np.linalg.norm(x), rtol=1e-6)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, float("inf"), -float("inf")])
def test_norms_of_every_order(order):
    x = np.random.default_rng(4).standard_normal((40, 6))
    got = fb.from_numpy(x).norm(order, dim=0)
    np.testing.assert_allclose(got.numpy(), [np.linalg.norm(c, order) for c in x.T], rtol=1e-9)


@pytest.mark.parametrize(
    "shape, dim", [((5, 3), 0), ((5, 3), 1), ((200, 7), 0), ((3000, 2), 0), ((2, 300, 40), 1), ((4, 2000), 1)]
)
def test_softmax_along_any_dimension(shape, dim):
    numbers = np.random.default_rng(5).standard_normal(shape) * 5
    for dtype, tolerance in ((fb.float64, 1e-12), (fb.float32, 1e-5), (fb.bfloat16, 2e-2)):
        t = fb.from_numpy(numbers).to(dtype)
        x = t.to(fb.float64).numpy()
        e = np.exp(x - x.max(dim, keepdims=True))
        want = e / e.sum(dim, keepdims=True)
        np.testing.assert_allclose(fb.softmax(t, dim).to(fb.float64).numpy(), want, rtol=tolerance, atol=tolerance / 10)
        np.testing.assert_allclose(
            fb.log_softmax(t, dim).to(fb.float64).numpy(), np.log(want), rtol=tolerance, atol=tolerance
        )


def test_softmax_and_logsumexp_of_extreme_numbers():
    x = fb.tensor([1000.0, 1000.0, -float("inf")])
    assert fb.softmax(x, 0).tolist() == [0.5, 0.5, 0.0]
    assert abs(fb.logsumexp(x, 0).item() - 1000.693) < 1e-3
    assert fb.logsumexp(fb.tensor([-float("inf")] * 3), 0).item() == -float("inf")
    assert fb.logsumexp(fb.zeros(0), 0).item() == -float("inf")
    assert fb.isnan(fb.softmax(fb.tensor([1.0, NAN]), 0)).all()


@pytest.mark.parametrize("shape, dim", [((200_000,), 0), ((7, 100), 1), ((100, 7), 0), ((3, 50, 4), 1), ((0, 3), 0)])
def test_running_sums_products_and_extremes(shape, dim):
    x = np.random.default_rng(6).standard_normal(shape)
    t = fb.from_numpy(x)
    np.testing.assert_allclose(t.cumsum(dim).numpy(), x.cumsum(dim), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((t / 2).cumprod(dim).numpy(), (x / 2).cumprod(dim), rtol=1e-9, atol=1e-12)
    values, places = t.cummax(dim)
    np.testing.assert_array_equal(values.numpy(), np.maximum.accumulate(x, dim))
    np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), dim), values.numpy())
    np.testing.assert_allclose(fb.logcumsumexp(t, dim).numpy(), np.logaddexp.accumulate(x, dim), rtol=1e-9)


def test_running_extremes_take_the_last_of_equals_and_keep_nan():
    values, places = fb.tensor([1.0, 1.0, NAN, 2.0]).cummax(0)
    assert places.tolist() == [0, 1, 2, 2]
    assert fb.isnan(values).tolist() == [False, False, True, True]


def test_reductions_write_into_out():
    out = fb.empty(3)
    assert fb.sum(fb.ones(2, 3), 0, out=out) is out and out.tolist() == [2, 2, 2]
    values, indices = fb.empty(2), fb.empty(2, dtype=fb.int64)
    fb.max(fb.tensor([[1.0, 2.0], [4.0, 3.0]]), 1, out=(values, indices))
    assert values.tolist() == [2, 4] and indices.tolist() == [1, 0]


def test_integrals_and_differences():
    y = fb.tensor([[1.0, 5.0, 10.0], [0.0, 2.0, 4.0]])
    assert fb.trapezoid(y, dx=2).tolist() == [21.0, 8.0]
    assert fb.trapezoid(y, fb.tensor([0.0, 1.0, 3.0])).tolist() == [18.0, 7.0]
    assert fb.cumulative_trapezoid(y, dim=0).tolist() == [[0.5, 3.5, 7.0]]
    assert fb.diff(y, n=2).tolist() == [[1.0], [0.0]]
    assert fb.diff(fb.tensor([True, False, False])).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="exclude"):
        fb.trapezoid(y, y, dx=1)


def test_covariance_agrees_with_numpy():
    x = np.random.default_rng(7).standard_normal((4, 50))
    t = fb.from_numpy(x)
    np.testing.assert_allclose(fb.cov(t).numpy(), np.cov(x), rtol=1e-9)
    np.testing.assert_allclose(fb.corrcoef(t).numpy(), np.corrcoef(x), rtol=1e-9)
    f, a = np.arange(50) % 3, np.random.default_rng(8).random(50)
    got = fb.cov(t, fweights=fb.from_numpy(f), aweights=fb.from_numpy(a))
    np.testing.assert_allclose(got.numpy(), np.cov(x, fweights=f, aweights=a), rtol=1e-9)


@pytest.mark.parametrize("shape", [(128, 64, 128), (7, 300, 40), (3, 17, 16), (33, 5, 255), (5, 20, 5000)])
def test_first_and_last_axis_together(shape):
    a = fb.randn(*shape)
    x = a.numpy()
    np.testing.assert_allclose(a.sum((0, 2)).numpy(), x.sum((0, 2), dtype=np.float64), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(a.amax((0, 2)).numpy(), x.max((0, 2)))
    np.testing.assert_array_equal((a > 1).sum((0, 2)).numpy(), (x > 1).sum((0, 2)))
    np.testing.assert_array_equal((a > 3).any(2).numpy(), (x > 3).any(2))
    np.testing.assert_allclose(a.sum(2).numpy(), x.sum(2, dtype=np.float64), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spacing", [2, 0.5, 1 + 2j, [1.0, 2.0], "real coordinates", "whole coordinates", "complex coordinates"], ids=str)
def test_gradient_against_numpy(spacing, edge_order):
    x = fb.randn(5, 6, dtype=fb.complex128)
    if isinstance(spacing, str):
        kind = {"real": fb.float64, "whole": fb.int64, "complex": fb.complex128}[spacing.split()[0]]
        spacing = [(fb.rand(n, dtype=fb.float64) * 8 + 1).cumsum(0).to(kind) for n in x.shape]
    steps = [s.numpy() if isinstance(s, fb.Tensor) else s for s in (spacing if isinstance(spacing, list) else [spacing])]
    expected = np.gradient(x.numpy(), *steps, edge_order=edge_order)
    for ours, theirs in zip(fb.gradient(x, spacing=spacing, edge_order=edge_order), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-10)


def test_gradient_is_contiguous_along_every_dimension():
    x = fb.arange(24.0).reshape(2, 3, 4)
    assert all(part.is_contiguous() for part in fb.gradient(x))


@pytest.mark.parametrize("dtype", [fb.int64, fb.int32, fb.uint8, fb.bool, fb.complex64], ids=str)
def test_nansum_of_floats_refuses_out_of_another_kind(dtype):
    x = fb.tensor([1.5, float("nan"), 2.5])
    with pytest.raises(TypeError, match="can't be cast to the desired output type"):
        fb.nansum(x, 0, out=fb.empty(0, dtype=dtype))
    assert fb.nansum(x, 0, out=fb.empty(0, dtype=fb.float64)).item() == 4.0
    assert fb.nansum(fb.tensor([1, 2]), 0, out=fb.empty(0, dtype=dtype)).dtype == dtype
