"""Manipulation and indexing functions, against NumPy and against the standard's words on errors."""

import numpy as np
import pytest

from flambeau import array_api as xp

from . import standard

X = np.arange(24).reshape(2, 3, 4)


def same(found, want):
    assert tuple(found.shape) == np.shape(want)
    assert found.tolist() == np.asarray(want).tolist()


@pytest.mark.parametrize("name", standard.DTYPES)
def test_every_dtype_keeps_its_dtype(name):
    dtype = getattr(xp, name)
    x = xp.asarray(X % 2, dtype=dtype)
    index = xp.asarray([1, 0])
    for y in (
        xp.broadcast_to(x, (5, 2, 3, 4)), xp.concat([x, x]), xp.expand_dims(x, 0), xp.flip(x), xp.moveaxis(x, 0, 1),
        xp.permute_dims(x, (2, 0, 1)), xp.repeat(x, 2), xp.reshape(x, (-1,)), xp.roll(x, 1), xp.squeeze(x[:1], 0),
        xp.stack([x, x]), xp.take(x, index, axis=0), xp.take_along_axis(x, xp.zeros((2, 3, 1), dtype=xp.int64)),
        xp.tile(x, (2,)), xp.unstack(x)[0], xp.matrix_transpose(x), xp.broadcast_arrays(x, x)[1],
    ):  # fmt: skip
        assert y.dtype == dtype
    same(xp.concat([x, x], axis=1), np.concatenate([X % 2, X % 2], axis=1).astype(name))
    same(xp.flip(x, axis=(0, 2)), np.flip(X % 2, (0, 2)).astype(name))


def test_broadcast():
    a, b = xp.ones((3, 1)), xp.zeros(4)
    out = xp.broadcast_arrays(a, b)
    assert isinstance(out, tuple) and [tuple(o.shape) for o in out] == [(3, 4), (3, 4)]
    assert xp.broadcast_arrays() == ()
    assert xp.broadcast_shapes() == () and xp.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert xp.broadcast_shapes((0, 1), (1, 5)) == (0, 5)
    for bad in (((2,), (3,)), ((2, 3), (2,)), ((0,), (2,)), ((-1,),)):
        with pytest.raises(ValueError):
            xp.broadcast_shapes(*bad)
    with pytest.raises(ValueError):
        xp.broadcast_to(xp.ones(3), (3, 2))
    with pytest.raises(ValueError):
        xp.broadcast_to(xp.ones((2, 3)), (3,))
    with pytest.raises(ValueError):
        xp.broadcast_arrays(xp.ones(2), xp.ones(3))


def test_concat_and_stack():
    a, b = xp.ones((2, 3)), xp.zeros((2, 1))
    assert xp.concat([a, b], axis=-1).shape == (2, 4)
    assert xp.concat((a, b), axis=None).shape == (8,)
    assert xp.concat([xp.asarray(1), xp.asarray([2])], axis=None).tolist() == [1, 2]
    assert xp.concat([xp.ones((0, 3)), a]).shape == (2, 3)
    same(xp.stack([a, a], axis=-1), np.ones((2, 3, 2)))
    for call in (
        lambda: xp.concat([a, b]),
        lambda: xp.concat([]),
        lambda: xp.concat([xp.ones(0), a]),
        lambda: xp.stack([a, b]),
        lambda: xp.stack([]),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: xp.concat([a], axis=2), lambda: xp.stack([a], axis=3), lambda: xp.concat([xp.asarray(1)])):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(TypeError):
        xp.concat([a, xp.asarray([[1, 2, 3]])])
    with pytest.raises(TypeError):
        xp.stack([a, [1.0]])
    with pytest.raises(TypeError):
        xp.concat(a)


def test_expand_dims():
    x = xp.ones((2, 3))
    for axis, shape in (
        (0, (1, 2, 3)),
        (-1, (2, 3, 1)),
        (-3, (1, 2, 3)),
        ((0, -1), (1, 2, 3, 1)),
        ((3, 1), (2, 1, 3, 1)),
    ):
        assert xp.expand_dims(x, axis).shape == shape
        assert xp.expand_dims(x, axis=axis).shape == np.expand_dims(np.ones((2, 3)), axis).shape
    assert xp.expand_dims(x, ()).shape == (2, 3)
    for axis in (3, -4, (0, 4)):
        with pytest.raises(IndexError):
            xp.expand_dims(x, axis)
    with pytest.raises(ValueError, match="twice"):
        xp.expand_dims(x, (1, -3))
    with pytest.raises(TypeError):
        xp.expand_dims(x, 1.0)


def test_axes():
    x = xp.asarray(X)
    for source, target in ((0, -1), ((0, 1), (-1, 0)), ((), ())):
        same(xp.moveaxis(x, source, target), np.moveaxis(X, source, target))
    same(xp.permute_dims(x, (-1, 0, 1)), np.transpose(X, (-1, 0, 1)))
    same(xp.flip(x), np.flip(X))
    same(xp.flip(x, axis=1), np.flip(X, 1))
    same(xp.flip(x, axis=()), X)
    with pytest.raises(ValueError):
        xp.moveaxis(x, (0, 1), (0,))
    with pytest.raises(ValueError):
        xp.moveaxis(x, (0, 0), (0, 1))
    with pytest.raises(ValueError):
        xp.permute_dims(x, (0, 1))
    with pytest.raises(ValueError):
        xp.permute_dims(x, (0, 1, 1))
    for call in (lambda: xp.flip(x, axis=3), lambda: xp.moveaxis(x, 3, 0), lambda: xp.permute_dims(x, (0, 1, 3))):
        with pytest.raises(IndexError):
            call()


def test_repeat_and_tile():
    x = xp.asarray(X)
    same(xp.repeat(x, 2), np.repeat(X, 2))
    same(xp.repeat(x, 0, axis=1), np.repeat(X, 0, axis=1))
    for dtype in (xp.int8, xp.uint16, xp.int64):
        same(xp.repeat(x, xp.asarray([2, 0, 1], dtype=dtype), axis=1), np.repeat(X, [2, 0, 1], axis=1))
    same(xp.repeat(x, xp.asarray([2]), axis=-1), np.repeat(X, 2, axis=-1))
    for reps in ((), (2,), (2, 1), (2, 1, 3), (1, 2, 1, 2), (0, 1, 1)):
        same(xp.tile(x, reps), np.tile(X, reps))
    for bad in (-1, xp.asarray([1, 2]), xp.asarray([[1, 1, 1]]), xp.asarray([1, -1, 1])):
        with pytest.raises(ValueError):
            xp.repeat(x, bad, axis=1)
    with pytest.raises(TypeError):
        xp.repeat(x, xp.asarray([1.0, 1.0, 1.0]), axis=1)
    with pytest.raises(TypeError):
        xp.repeat(x, 1.0)
    with pytest.raises(ValueError):
        xp.tile(x, (-1,))


def test_reshape_and_copies():
    x = xp.asarray(X)
    y = xp.reshape(x, (4, -1))
    same(y, X.reshape(4, -1))
    assert y.data_ptr() == x.data_ptr()
    assert xp.reshape(x, (24,), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (2, 3, 4), copy=True).data_ptr() != x.data_ptr()
    turned = xp.permute_dims(x, (2, 1, 0))
    same(xp.reshape(turned, (-1,)), X.transpose(2, 1, 0).reshape(-1))
    with pytest.raises(ValueError, match="copy"):
        xp.reshape(turned, (-1,), copy=False)
    assert xp.reshape(xp.ones((0, 3)), (3, 0), copy=False).shape == (3, 0)
    for bad in ((5, 5), (-1, -1), (-1, 5), (-2, 12)):
        with pytest.raises(ValueError):
            xp.reshape(x, bad)


def test_roll():
    x = xp.asarray(X)
    for shift, axis in (
        (1, None),
        (-5, None),
        (1, 0),
        (2, (0, 2)),
        ((1, -1), (0, 1)),
        (100, 2),
        (1, ()),
        ((1, 2), (0, 0)),
    ):
        same(xp.roll(x, shift, axis=axis), np.roll(X, shift, axis=axis))
    with pytest.raises(ValueError):
        xp.roll(x, (1, 2), axis=(0,))
    with pytest.raises(IndexError):
        xp.roll(x, 1, axis=3)
    with pytest.raises(TypeError):
        xp.roll(x, 1.5)


def test_squeeze_and_unstack():
    x = xp.ones((1, 3, 1))
    assert (
        xp.squeeze(x, 0).shape == (3, 1)
        and xp.squeeze(x, (0, -1)).shape == (3,)
        and xp.squeeze(x, ()).shape == (1, 3, 1)
    )
    with pytest.raises(ValueError, match="size 3"):
        xp.squeeze(x, 1)
    with pytest.raises(ValueError):
        xp.squeeze(x, (0, 0))
    with pytest.raises(IndexError):
        xp.squeeze(x, 3)
    with pytest.raises(TypeError):
        xp.squeeze(x, None)
    parts = xp.unstack(xp.asarray(X), axis=1)
    assert isinstance(parts, tuple) and len(parts) == 3
    same(parts[1], X[:, 1])
    assert xp.unstack(xp.ones((0, 2))) == ()
    for bad in (xp.asarray(1.0), xp.ones(2)):
        with pytest.raises(IndexError):
            xp.unstack(bad, axis=bad.ndim)


@pytest.mark.parametrize("dtype", [xp.int8, xp.int64, xp.uint32, xp.uint64], ids=str)
def test_take(dtype):
    x = xp.asarray(X)
    same(xp.take(x, xp.asarray([2, 0], dtype=dtype), axis=-1), np.take(X, [2, 0], axis=-1))
    same(xp.take(xp.asarray([5, 6, 7]), xp.asarray([2], dtype=dtype)), [7])
    index = np.asarray([[[1, 0]], [[0, 0]]])
    want = np.take_along_axis(X, np.broadcast_to(index, (2, 3, 2)), axis=2)
    same(xp.take_along_axis(x, xp.asarray(index, dtype=dtype)), want)


def test_take_counts_from_the_end_and_checks():
    x = xp.asarray(X)
    same(xp.take(x, xp.asarray([-1, 0, -3]), axis=1), np.take(X, [-1, 0, -3], axis=1))
    same(xp.take(x, xp.asarray([], dtype=xp.int64), axis=1), X[:, :0])
    same(xp.take_along_axis(x, xp.asarray([[[-1]]]), axis=2), X[:, :, -1:])
    same(
        xp.take_along_axis(xp.asarray(X[:, :1]), xp.zeros((1, 3, 4), dtype=xp.int64), axis=0),
        np.broadcast_to(X[:1, :1], (1, 3, 4)),
    )
    for call in (
        lambda: xp.take(x, xp.asarray([3]), axis=1),
        lambda: xp.take(x, xp.asarray([-4]), axis=1),
        lambda: xp.take_along_axis(x, xp.asarray([[[4]]])),
        lambda: xp.take(x, xp.asarray([0]), axis=3),
        lambda: xp.take_along_axis(x, xp.asarray([[[0]]]), axis=-4),
    ):
        with pytest.raises(IndexError):
            call()
    for call in (
        lambda: xp.take(x, xp.asarray([0])),
        lambda: xp.take(x, xp.asarray([[0]]), axis=0),
        lambda: xp.take_along_axis(x, xp.asarray([0])),
        lambda: xp.take_along_axis(x, xp.zeros((2, 2, 1), dtype=xp.int64)),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: xp.take(x, xp.asarray([0.0]), axis=0), lambda: xp.take(x, [0], axis=0)):
        with pytest.raises(TypeError):
            call()


def test_indexing_of_arrays():
    x = xp.asarray(X)
    same(x[::-1, :, 1:3], X[::-1, :, 1:3])
    same(x[..., -1:-5:-2], X[..., -1:-5:-2])
    same(x[None, 1, ..., None], X[None, 1, ..., None])
    same(x[x > 10], X[X > 10])
    same(x[xp.asarray([1, 0]), xp.asarray([[2], [0]]), 1], X[np.asarray([1, 0]), np.asarray([[2], [0]]), 1])
    same(x[xp.asarray(True)], X[None])
    same(x[xp.asarray(False)], X[None][:0])
    for bad in ((0, 0, 0, 0), (Ellipsis, Ellipsis), (2,)):
        with pytest.raises(IndexError):
            x[bad]
