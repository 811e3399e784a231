"""Statistical, utility, searching, sorting and set functions."""

import math

import numpy as np
import pytest

from flambeau import array_api as xp

from . import standard

SHAPES_AND_AXES = [
    ((2, 3, 4), None), ((2, 3, 4), 0), ((2, 3, 4), -1), ((2, 3, 4), (0, 2)), ((2, 3, 4), (1, 0, 2)), ((2, 3, 4), ()),
    ((), None), ((), ()), ((0, 3), 0), ((0, 3), None), ((3, 0), 0),
]  # fmt: skip
NUMERIC = [n for n in standard.DTYPES if n != "bool"]
WIDE = {"i": "int64", "u": "uint64"}


def sample(shape, name):
    return (np.arange(math.prod(shape)) % 5 + 1).reshape(shape).astype(name)


def same(found, want, name=None, **tolerance):
    want = np.asarray(want)
    assert tuple(found.shape) == want.shape
    assert name is None or found.dtype == getattr(xp, name)
    np.testing.assert_allclose(np.asarray(found), want, **(tolerance or {"rtol": 1e-5}))


@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", NUMERIC)
def test_sum_and_prod(name, shape, axis, keepdims):
    x = sample(shape, name)
    wide = WIDE.get(x.dtype.kind, name)
    for function in ("sum", "prod"):
        want = getattr(np, function)(x, axis=axis, keepdims=keepdims, dtype=wide)
        same(getattr(xp, function)(xp.asarray(x), axis=axis, keepdims=keepdims), want, wide)
        narrow = getattr(xp, function)(xp.asarray(x), axis=axis, keepdims=keepdims, dtype=xp.complex128)
        same(narrow, want.astype("complex128"), "complex128", rtol=1e-4)


@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", standard.DTYPES)
def test_truth(name, shape, axis, keepdims):
    x = np.arange(math.prod(shape)).reshape(shape).astype(name)
    args = {"axis": axis, "keepdims": keepdims}
    same(xp.all(xp.asarray(x), **args), np.all(x, **args), "bool")
    same(xp.any(xp.asarray(x), **args), np.any(x, **args), "bool")
    same(xp.count_nonzero(xp.asarray(x), **args), np.sum(x != 0, **args), "int64")


@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_moments(shape, axis, keepdims):
    for name in ("float32", "float64"):
        x = sample(shape, name)
        count = x.size if axis is None else math.prod(shape[a] for a in (axis if isinstance(axis, tuple) else (axis,)))
        with np.errstate(all="ignore"):
            if count:
                same(
                    xp.mean(xp.asarray(x), axis=axis, keepdims=keepdims), np.mean(x, axis=axis, keepdims=keepdims), name
                )
            for correction in (0, 1, 0.5):
                found = xp.var(xp.asarray(x), axis=axis, keepdims=keepdims, correction=correction)
                root = xp.std(xp.asarray(x), axis=axis, keepdims=keepdims, correction=correction)
                if count - correction <= 0:
                    assert all(
                        math.isnan(v) for v in np.asarray(found).ravel().tolist() + np.asarray(root).ravel().tolist()
                    )
                    continue
                want = np.var(x, axis=axis, keepdims=keepdims, ddof=correction)
                same(found, want, name, rtol=1e-5, atol=1e-6)
                same(root, np.sqrt(want), name, rtol=1e-5, atol=1e-6)
    z = sample(shape, "complex64")
    if z.size:
        same(xp.mean(xp.asarray(z), axis=axis), np.mean(z, axis=axis), "complex64")


@pytest.mark.parametrize("name", [n for n in NUMERIC if "complex" not in n])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
def test_extremes(name, axis, keepdims):
    x = sample((2, 3, 4), name)
    for function in ("max", "min"):
        same(
            getattr(xp, function)(xp.asarray(x), axis=axis, keepdims=keepdims),
            getattr(np, function)(x, axis=axis, keepdims=keepdims),
            name,
        )
    if axis is None or isinstance(axis, int):
        for function in ("argmax", "argmin"):
            same(
                getattr(xp, function)(xp.asarray(x), axis=axis, keepdims=keepdims),
                getattr(np, function)(x, axis=axis, keepdims=keepdims),
                "int64",
            )


def test_extremes_of_nothing_and_of_nan():
    for function in (xp.max, xp.min, xp.argmax, xp.argmin):
        with pytest.raises(ValueError):
            function(xp.ones((0, 3)))
        with pytest.raises(ValueError):
            function(xp.ones((0, 3)), axis=0)
        assert function(xp.ones((0, 3)), axis=1).shape == (0,)
        with pytest.raises(IndexError):
            function(xp.ones(3), axis=1)
        with pytest.raises(TypeError):
            function(xp.ones(3, dtype=xp.complex64))
        with pytest.raises(TypeError):
            function(xp.ones(3, dtype=xp.bool))
    assert math.isnan(xp.max(xp.asarray([1.0, math.nan, 3.0]))) and math.isnan(xp.min(xp.asarray([1.0, math.nan, 3.0])))


def test_reductions_check_their_arguments():
    x = xp.ones((2, 3))
    for function in (xp.sum, xp.prod, xp.mean, xp.var, xp.std, xp.all, xp.any, xp.count_nonzero):
        for axis in (2, -3, (0, 2)):
            with pytest.raises(IndexError):
                function(x, axis=axis)
        with pytest.raises(ValueError):
            function(x, axis=(0, -2))
        with pytest.raises(TypeError):
            function(x, axis=0.0)
        with pytest.raises(TypeError):
            function([1.0])
    for function in (xp.mean, xp.var, xp.std):
        with pytest.raises(TypeError):
            function(xp.asarray([1, 2]))
    for function in (xp.sum, xp.prod, xp.cumulative_sum):
        with pytest.raises(TypeError):
            function(xp.asarray([True]))
    with pytest.raises(TypeError):
        xp.var(x, correction="1")


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("initial", [False, True])
def test_cumulative(name, initial):
    x = sample((2, 5), name)
    wide = WIDE.get(x.dtype.kind, name)
    for function, scan, first in ((xp.cumulative_sum, np.cumsum, 0), (xp.cumulative_prod, np.cumprod, 1)):
        for axis in (0, -1):
            want = scan(x, axis=axis, dtype=wide)
            if initial:
                want = np.insert(want, 0, first, axis=axis)
            same(function(xp.asarray(x), axis=axis, include_initial=initial), want, wide)
        assert function(xp.asarray(x[0]), dtype=xp.float64, include_initial=initial).dtype == xp.float64
        assert function(xp.ones((0,)), include_initial=initial).tolist() == [first] * initial
        with pytest.raises(ValueError, match="axis"):
            function(xp.asarray(x))
        with pytest.raises(IndexError):
            function(xp.asarray(x), axis=2)


@pytest.mark.parametrize("name", NUMERIC)
def test_diff(name):
    x = np.asarray([[1, 4, 9, 16], [2, 3, 5, 7]]).astype(name)
    for n in range(6):
        for axis in (0, 1):
            same(xp.diff(xp.asarray(x), n=n, axis=axis), np.diff(x, n=n, axis=axis), name)
    edge = x[:, :1]
    same(
        xp.diff(xp.asarray(x), prepend=xp.asarray(edge), append=xp.asarray(edge)),
        np.diff(x, prepend=edge, append=edge),
        name,
    )


def test_diff_errors():
    x = xp.ones(3)
    with pytest.raises(ValueError):
        xp.diff(x, n=-1)
    with pytest.raises(ValueError):
        xp.diff(x, prepend=xp.ones(1, dtype=xp.float64))
    with pytest.raises(TypeError):
        xp.diff(x, append=xp.asarray([1]))
    with pytest.raises(IndexError):
        xp.diff(xp.asarray(1.0))


@pytest.mark.parametrize("name", [n for n in NUMERIC if "complex" not in n])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_sorting(name, descending, stable):
    x = (np.arange(60) * 7 % 11).reshape(3, 20).astype(name)
    for axis in (0, -1):
        args = {"axis": axis, "descending": descending, "stable": stable}
        want = np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)
        same(xp.sort(xp.asarray(x), **args), want, name)
        order = xp.argsort(xp.asarray(x), **args)
        assert order.dtype == xp.int64
        same(xp.take_along_axis(xp.asarray(x), order, axis=axis), want, name)
        if stable:
            # equal elements keep their order, in both directions
            keys = -x.astype("float64") if descending else x
            same(order, np.argsort(keys, axis=axis, kind="stable"))


def test_sorting_errors():
    for function in (xp.sort, xp.argsort):
        with pytest.raises(IndexError):
            function(xp.ones(3), axis=1)
        with pytest.raises(IndexError):
            function(xp.asarray(1.0))
        with pytest.raises(TypeError):
            function(xp.asarray([1j]))


@pytest.mark.parametrize("name", standard.DTYPES)
def test_nonzero(name):
    x = (np.arange(12) % 3).reshape(3, 4).astype(name)
    found = xp.nonzero(xp.asarray(x))
    assert isinstance(found, tuple)
    for f, w in zip(found, np.nonzero(x), strict=True):
        same(f, w, "int64")
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(1))


@pytest.mark.parametrize("name", [n for n in NUMERIC if "complex" not in n])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(name, side):
    edges = np.asarray([1, 3, 3, 5]).astype(name)
    values = np.asarray([[0, 1, 2], [3, 5, 6]]).astype(name)
    same(
        xp.searchsorted(xp.asarray(edges), xp.asarray(values), side=side),
        np.searchsorted(edges, values, side=side),
        "int64",
    )
    sorter = np.asarray([3, 1, 0, 2])
    same(
        xp.searchsorted(xp.asarray(edges[[2, 1, 3, 0]]), xp.asarray(values), side=side, sorter=xp.asarray(sorter)),
        np.searchsorted(edges, values, side=side),
    )
    same(xp.searchsorted(xp.asarray(edges), 3, side=side), np.searchsorted(edges, 3, side=side))
    same(xp.searchsorted(xp.asarray(edges[:0]), xp.asarray(values), side=side), np.zeros((2, 3)))


def test_searchsorted_errors():
    x = xp.asarray([1, 2, 3])
    with pytest.raises(ValueError, match="side"):
        xp.searchsorted(x, x, side="middle")
    with pytest.raises(ValueError, match="one-dimensional"):
        xp.searchsorted(xp.ones((2, 2)), xp.ones(2))
    with pytest.raises(ValueError, match="sorter"):
        xp.searchsorted(x, x, sorter=xp.asarray([0, 1]))
    with pytest.raises(IndexError):
        xp.searchsorted(x, x, sorter=xp.asarray([0, 1, 3]))
    with pytest.raises(TypeError):
        xp.searchsorted(x, 1.5)


def test_where():
    condition = xp.asarray([[True], [False]])
    same(xp.where(condition, xp.asarray([1, 2]), -1), [[1, 2], [-1, -1]], "int64")
    same(xp.where(condition, 2j, xp.asarray([1.0], dtype=xp.float64)), [[2j], [1.0]], "complex128")
    with pytest.raises(TypeError):
        xp.where(xp.asarray([1, 0]), xp.ones(2), xp.ones(2))
    with pytest.raises(TypeError):
        xp.where(condition, 1, 2)
    with pytest.raises(TypeError):
        xp.where(condition, xp.ones(1), xp.asarray([1]))


@pytest.mark.parametrize("name", [n for n in standard.DTYPES if "int" in n])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(name, invert):
    x = np.asarray([[0, 1, 2], [3, 4, 127]]).astype(name)
    for other in ([1, 3, 127], [], [5], [[0, 1], [2, 3]]):
        other = np.asarray(other).astype(name)
        same(xp.isin(xp.asarray(x), xp.asarray(other), invert=invert), np.isin(x, other, invert=invert), "bool")
    same(xp.isin(3, xp.asarray(x), invert=invert), not invert)
    same(xp.isin(xp.asarray(x), 4, invert=invert), np.isin(x, 4, invert=invert))


@pytest.mark.parametrize("name", standard.DTYPES)
@pytest.mark.parametrize("shape", [(3, 4), (12,), (0,), ()])
def test_unique(name, shape):
    x = (np.arange(math.prod(shape)) * 7 % 5).reshape(shape).astype(name)
    everything = xp.unique_all(xp.asarray(x))
    assert everything._fields == ("values", "indices", "inverse_indices", "counts")
    values, indices, inverse, counts = np.unique(x.ravel(), return_index=True, return_inverse=True, return_counts=True)
    same(everything.values, values, name)
    same(everything.indices, indices, "int64")
    same(everything.inverse_indices, inverse.reshape(shape), "int64")
    same(everything.counts, counts, "int64")
    assert xp.unique_counts(xp.asarray(x))._fields == ("values", "counts")
    same(xp.unique_counts(xp.asarray(x)).counts, counts)
    assert xp.unique_inverse(xp.asarray(x))._fields == ("values", "inverse_indices")
    same(xp.unique_inverse(xp.asarray(x)).inverse_indices, inverse.reshape(shape))
    same(xp.unique_values(xp.asarray(x)), values, name)


def test_unique_of_nan_and_signed_zeros():
    found = xp.unique_all(xp.asarray([math.nan, 0.0, -0.0, math.nan, 1.0]))
    assert sorted(found.counts.tolist()) == [1, 1, 1, 2]
    z = [complex(0.0, -0.0), complex(-0.0, 0.0), complex(math.nan, 1), complex(math.nan, 1), 1j, -1j, 1j]
    found = xp.unique_all(xp.asarray(z))
    assert sorted(found.counts.tolist()) == [1, 1, 1, 2, 2]
