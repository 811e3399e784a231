"""What is special about sorting, selection, searching and counting, beyond the op specs."""

import numpy as np
import pytest

import flambeau as fb

NAN = float("nan")
RNG = np.random.default_rng(0)
ROWS = {
    "float32": lambda n: RNG.standard_normal(n).astype("f"),
    "float64": lambda n: RNG.standard_normal(n),
    "narrow float64": lambda n: 1 + RNG.random(n) * 1e-12,
    "int64 wide": lambda n: RNG.integers(-(2**62), 2**62, n),
    "int64 few": lambda n: RNG.integers(-3, 3, n),
    "int32": lambda n: RNG.integers(-(2**31), 2**31, n).astype("i4"),
    "uint8": lambda n: RNG.integers(0, 256, n).astype("u1"),
    "int8": lambda n: RNG.integers(-128, 128, n).astype("i1"),
    "uint64": lambda n: RNG.integers(0, 2**64, n, dtype="u8"),
    "bool": lambda n: RNG.random(n) < 0.5,
    "equal": lambda n: np.zeros(n, "f"),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("n", [0, 1, 2, 13, 48, 49, 300, 9000, 100_000])
def test_sort_is_stable_in_both_directions(kind, n):
    x = ROWS[kind](n)
    values, indices = fb.sort(fb.from_numpy(x))
    np.testing.assert_array_equal(indices.numpy(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(values.numpy(), np.sort(x))
    down = fb.sort(fb.from_numpy(x), descending=True).indices.numpy()
    want = n - 1 - np.argsort(x[::-1], kind="stable")[::-1]
    np.testing.assert_array_equal(down, want)


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16, fb.float32, fb.float64])
def test_nan_sorts_last_and_zeros_are_equal(dtype):
    x = fb.tensor([NAN, 1.0, -0.0, 0.0, -float("inf"), NAN, float("inf"), -2.0], dtype=dtype)
    assert fb.argsort(x).tolist() == [4, 7, 2, 3, 1, 6, 0, 5]
    assert fb.argsort(x, descending=True).tolist() == [0, 5, 6, 1, 2, 3, 7, 4]
    assert fb.topk(x, 2).indices.tolist() == [0, 5]
    assert fb.isnan(fb.median(x)) and fb.nanmedian(x).item() == 0


def test_sort_along_other_dimensions_and_of_views():
    x = RNG.standard_normal((20, 30, 4))
    t = fb.from_numpy(x)
    for dim in range(3):
        np.testing.assert_array_equal(fb.sort(t, dim)[0].numpy(), np.sort(x, dim))
    np.testing.assert_array_equal(fb.sort(t[::-1, ::2], 1)[1].numpy(), np.argsort(x[::-1, ::2], 1))
    np.testing.assert_array_equal(fb.msort(t).numpy(), np.sort(x, 0))


@pytest.mark.parametrize("n, k", [(1, 1), (10, 3), (100, 100), (1000, 5), (1000, 900), (50_000, 17), (50_000, 0)])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_the_best_in_order(n, k, largest):
    for x in (RNG.standard_normal(n).astype("f"), RNG.standard_normal(n), RNG.integers(0, 9, n)):
        values, indices = fb.topk(fb.from_numpy(x), k, largest=largest)
        want = np.sort(x)[::-1][:k] if largest else np.sort(x)[:k]
        np.testing.assert_array_equal(values.numpy(), want)
        np.testing.assert_array_equal(x[indices.numpy()], want)
        unsorted = fb.topk(fb.from_numpy(x), k, largest=largest, sorted=False).values.numpy()
        np.testing.assert_array_equal(np.sort(unsorted), np.sort(want))


@pytest.mark.parametrize("n", [1, 2, 999, 40_001])
def test_selection_agrees_with_sorting(n):
    for x in (RNG.standard_normal(n), RNG.integers(0, 5, n), np.zeros(n, "f"), np.arange(n) % 7 * 1.0):
        t, ordered = fb.from_numpy(x), np.sort(x)
        assert t.median().item() == ordered[(n - 1) // 2]
        for k in {1, n // 2 + 1, n}:
            value, index = fb.kthvalue(t, k)
            assert value.item() == ordered[k - 1] == x[index.item()]


def test_mode_is_the_smallest_most_frequent():
    values, indices = fb.mode(fb.tensor([[3, 1, 3, 1], [5, 5, 2, 9]]))
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 1]


def test_quantiles_agree_with_numpy():
    x = RNG.standard_normal((7, 50))
    t, q = fb.from_numpy(x), np.array([0.0, 0.1, 0.5, 1.0])
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        got = fb.quantile(t, fb.from_numpy(q), dim=1, interpolation=how)
        np.testing.assert_allclose(got.numpy(), np.quantile(x, q, 1, method=how), rtol=1e-9)
    x[2, 3] = np.nan
    assert fb.isnan(fb.quantile(t, 0.5, dim=1)).tolist() == np.isnan(np.median(x, 1)).tolist()
    np.testing.assert_allclose(fb.nanquantile(t, 0.3).item(), np.nanquantile(x, 0.3), rtol=1e-9)
    assert fb.quantile(t, 0.5, dim=0, keepdim=True).shape == (1, 50)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        fb.quantile(t, 1.5)


@pytest.mark.parametrize("kind", ["float32", "int64 wide", "int64 few", "uint8", "bool"])
def test_unique_agrees_with_numpy(kind):
    x = ROWS[kind](3000).reshape(30, 100)
    values, inverse, counts = fb.unique(fb.from_numpy(x), return_inverse=True, return_counts=True)
    want, back, many = np.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), want)
    np.testing.assert_array_equal(inverse.numpy().ravel(), back.ravel())
    np.testing.assert_array_equal(counts.numpy(), many)


def test_unique_slices_and_runs():
    x = RNG.integers(0, 2, (40, 3))
    values, inverse, counts = fb.unique(fb.from_numpy(x), dim=0, return_inverse=True, return_counts=True)
    want, back, many = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), want)
    np.testing.assert_array_equal(inverse.numpy(), back.ravel())
    np.testing.assert_array_equal(counts.numpy(), many)
    assert fb.unique_consecutive(fb.tensor([1, 1, 2, 2, 1])).tolist() == [1, 2, 1]
    assert fb.unique_consecutive(fb.tensor([[1, 1, 2], [3, 3, 4]]), dim=1).tolist() == [[1, 2], [3, 4]]
    assert fb.unique(fb.tensor([NAN, NAN])).shape == (2,)
    assert fb.unique(fb.zeros(0)).shape == (0,)


@pytest.mark.parametrize("n", [0, 1, 10, 1000])
def test_searchsorted_agrees_with_numpy(n):
    edges, x = np.sort(RNG.integers(0, 50, n)).astype("d"), RNG.integers(-5, 55, 500).astype("d")
    for side in ("left", "right"):
        got = fb.searchsorted(fb.from_numpy(edges), fb.from_numpy(x), side=side)
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(edges, x, side))
    got = fb.bucketize(fb.from_numpy(x), fb.from_numpy(edges), out_int32=True)
    assert got.dtype == fb.int32 and got.tolist() == np.searchsorted(edges, x).tolist()


def test_searchsorted_by_rows_and_with_a_sorter():
    edges = fb.tensor([[1, 3, 5], [2, 4, 6]])
    assert fb.searchsorted(edges, fb.tensor([[3, 9], [3, 0]])).tolist() == [[1, 3], [1, 0]]
    mixed = fb.tensor([5, 1, 3])
    assert fb.searchsorted(mixed, 4, sorter=fb.argsort(mixed)).item() == 2
    with pytest.raises(IndexError, match="sorter"):
        fb.searchsorted(mixed, 4, sorter=fb.tensor([0, 1, 7]))
    with pytest.raises(RuntimeError, match="contradict"):
        fb.searchsorted(mixed, 4, right=True, side="left")
    with pytest.raises(RuntimeError, match="shapes"):
        fb.searchsorted(edges, fb.zeros(3, 2, dtype=fb.int64))


@pytest.mark.parametrize("count", [0, 3, 100, 5000])
def test_isin_agrees_with_numpy(count):
    for x, tests in (
        (RNG.integers(0, 3000, 2000), RNG.integers(0, 3000, count)),
        (RNG.integers(0, 2**60, 2000), RNG.integers(0, 2**60, count)),
        (RNG.integers(0, 99, 2000) / 7, RNG.integers(0, 99, count) / 7),
    ):
        t, wanted = fb.from_numpy(x), fb.from_numpy(tests)
        np.testing.assert_array_equal(fb.isin(t, wanted).numpy(), np.isin(x, tests))
        np.testing.assert_array_equal(fb.isin(t, wanted, invert=True).numpy(), ~np.isin(x, tests))
    assert fb.isin(fb.tensor([NAN, 1.0]), fb.tensor([NAN])).tolist() == [False, False]
    assert fb.isin(2, fb.tensor([1, 2])).item() is True


def test_counting():
    x = RNG.integers(0, 40, 10_000)
    np.testing.assert_array_equal(fb.bincount(fb.from_numpy(x)).numpy(), np.bincount(x))
    w = RNG.random(10_000)
    np.testing.assert_allclose(
        fb.bincount(fb.from_numpy(x), fb.from_numpy(w), 50).numpy(), np.bincount(x, w, 50), rtol=1e-9
    )
    with pytest.raises(RuntimeError, match="non-negative"):
        fb.bincount(fb.tensor([1, -1]))
    with pytest.raises(TypeError):
        fb.bincount(fb.tensor([1.5]))
    y = RNG.standard_normal(5000)
    hist, edges = np.histogram(y, 20)
    got = fb.histogram(fb.from_numpy(y), 20)
    np.testing.assert_array_equal(got.hist.numpy(), hist)
    np.testing.assert_allclose(got.bin_edges.numpy(), edges, rtol=1e-12)
    np.testing.assert_array_equal(fb.histc(fb.from_numpy(y), 20).numpy(), hist)
    points = RNG.standard_normal((1000, 2))
    boxes, _ = np.histogramdd(points, [3, 4])
    np.testing.assert_array_equal(fb.histogramdd(fb.from_numpy(points), [3, 4]).hist.numpy(), boxes)


def test_wrong_arguments_are_named():
    with pytest.raises(RuntimeError, match="topk.*k is 4"):
        fb.topk(fb.zeros(3), 4)
    with pytest.raises(IndexError, match="sort"):
        fb.sort(fb.zeros(3), 1)
    with pytest.raises(TypeError, match="complex64"):
        fb.sort(fb.tensor([1j]))
    with pytest.raises(RuntimeError, match="kthvalue"):
        fb.kthvalue(fb.zeros(3), 0)
    with pytest.raises(RuntimeError, match="bins"):
        fb.histc(fb.zeros(3), 0)
