"""Python operators say the same as the functions, with tensors and numbers on either side."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import flambeau as fb

from . import spec as lib
from .samples import make
from .spec import T, to_numpy

# operator, its in-place twin, the function, the dtypes
BINARY = [
    (operator.add, operator.iadd, "add", ("float32", "int64", "complex64", "bool")),
    (operator.sub, operator.isub, "sub", ("float32", "int64", "complex64")),
    (operator.mul, operator.imul, "mul", ("float32", "int64", "complex64", "bool")),
    (operator.truediv, operator.itruediv, "div", ("float32", "complex64")),
    (operator.floordiv, operator.ifloordiv, "floor_divide", ("float32", "int64")),
    (operator.mod, operator.imod, "remainder", ("float32", "int64")),
    (operator.pow, operator.ipow, "pow", ("float32", "complex64")),
    (operator.and_, operator.iand, "bitwise_and", ("int64", "bool")),
    (operator.or_, operator.ior, "bitwise_or", ("int64", "bool")),
    (operator.xor, operator.ixor, "bitwise_xor", ("int64", "bool")),
    (operator.lshift, operator.ilshift, "bitwise_left_shift", ("int64",)),
    (operator.rshift, operator.irshift, "bitwise_right_shift", ("int64",)),
]
COMPARE = [
    (operator.eq, "eq"),
    (operator.ne, "ne"),
    (operator.lt, "lt"),
    (operator.le, "le"),
    (operator.gt, "gt"),
    (operator.ge, "ge"),
]


@pytest.mark.parametrize("apply, in_place, name, dtypes", BINARY, ids=[b[2] for b in BINARY])
def test_arithmetic(apply, in_place, name, dtypes):
    function = lib.find(name)
    for dtype in dtypes:
        a, b = make(dtype, (2, 3), 1, 5).tensor(), make(dtype, (2, 3), 1, 4, 1).tensor()
        assert lib.same_bits(apply(a, b), function(a, b)), f"{name} [{dtype}]"
        number = True if dtype == "bool" else 2
        assert lib.same_bits(apply(a, number), function(a, number)), f"{name} [{dtype}] with a number on the right"
        left = apply(number, a)
        want = function(fb.full_like(a, number), a)
        close = left.dtype == want.dtype and np.allclose(to_numpy(left), to_numpy(want))
        assert close, f"{name} [{dtype}] with a number on the left"
        target = a.clone()
        same = target
        target = in_place(target, b)
        assert target is same, f"in-place {name} made a new tensor"
        assert lib.same_bits(target, function(a, b)), f"in-place {name} [{dtype}]"


@pytest.mark.parametrize("apply, name", COMPARE, ids=[c[1] for c in COMPARE])
def test_comparison(apply, name):
    a, b = make("int64", (3, 4), 0, 3).tensor(), make("int64", (3, 4), 0, 3, 1).tensor()
    assert lib.same_bits(apply(a, b), lib.find(name)(a, b))
    assert lib.same_bits(apply(a, 1), lib.find(name)(a, 1))
    mirrored = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(name, name)
    assert lib.same_bits(apply(1, a), lib.find(mirrored)(a, 1))


def test_unary():
    x = make("float32", (3,)).tensor()
    assert lib.same_bits(-x, fb.neg(x))
    assert lib.same_bits(+x, x)
    assert lib.same_bits(abs(x), fb.abs(x))
    flags = fb.tensor([True, False])
    assert (~flags).tolist() == [False, True]
    assert (~fb.tensor([0, 5])).tolist() == [-1, -6]
    assert round(fb.tensor([1.4, 2.6]).tolist()[1]) == 3


def test_matmul():
    a, b = make("float32", (2, 3)).tensor(), make("float32", (3, 4)).tensor()
    assert lib.same_bits(a @ b, fb.matmul(a, b))
    with pytest.raises(RuntimeError):
        a @ a


def test_unfit_operands():
    x = fb.ones(2)
    for apply in (operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.matmul):
        with pytest.raises(TypeError):
            apply(x, "text")
        with pytest.raises(TypeError):
            apply(object(), x)
    assert (x == "text") is False or not isinstance(x == "text", fb.Tensor)


def test_a_failed_in_place_operator_changes_nothing():
    x = fb.ones(2, dtype=fb.int64)
    with pytest.raises(RuntimeError):
        x += 1.5
    with pytest.raises(RuntimeError):
        x += fb.ones(3, 2, dtype=fb.int64)
    assert x.tolist() == [1, 1]


def test_integer_division_by_zero():
    for apply in (operator.floordiv, operator.mod):
        with pytest.raises((ZeroDivisionError, RuntimeError)):
            apply(fb.tensor([1, 2]), fb.tensor([1, 0]))
    assert np.isinf(to_numpy(fb.tensor([1, 2]) / 0)).all()


def test_truth_value():
    assert bool(fb.tensor(3)) and not bool(fb.tensor(0.0)) and bool(fb.tensor([[1]]))
    for shape in ((2,), (0,)):
        with pytest.raises(RuntimeError):
            bool(fb.zeros(shape))


def test_numbers():
    assert int(fb.tensor(3.7)) == 3 and float(fb.tensor(2)) == 2.0 and complex(fb.tensor(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][fb.tensor(1)] == 20
    with pytest.raises(TypeError):
        [10, 20][fb.tensor(1.0)]
    with pytest.raises((ValueError, RuntimeError)):
        int(fb.tensor([1, 2]))


def test_len_iteration_contains():
    x = fb.tensor([[1, 2], [3, 4]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x and 9 not in x
    for bad in (len, list):
        with pytest.raises(TypeError):
            bad(fb.tensor(1))


def test_hash_is_identity():
    x = fb.ones(2)
    assert hash(x) == hash(x) and len({x, x, fb.ones(2)}) == 2


def test_strided_operands():
    base = T(np.arange(24).reshape(4, 6), "float32")
    x = base.tensor()
    got = x[::2, ::-2] * x[1::2, ::2] - x[:2, 3:]
    v = base.values
    assert np.array_equal(to_numpy(got), v[::2, ::-2] * v[1::2, ::2] - v[:2, 3:])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_division_is_exact(dtype):
    """Against Python's unbounded integers, with numbers on both sides of what a double holds exactly."""
    rng, limits = np.random.default_rng(3), np.iinfo(dtype)
    pieces = [rng.integers(limits.min, limits.max, 600, dtype, endpoint=True), rng.integers(-50, 50, 600).astype(dtype)]
    pieces.append(np.array([limits.min, limits.max, limits.min + 1], dtype))
    if dtype == np.int64:
        pieces += [rng.integers(2**53 - 6, 2**53 + 6, 300), -rng.integers(2**53 - 6, 2**53 + 6, 300)]
    x = np.concatenate(pieces)
    y = np.roll(x, 7)
    y[::3] = np.where(rng.random(len(y[::3])) < 0.5, -1, 1) * rng.integers(1, 9, len(y[::3]))
    y[y == 0] = 3
    a, b = fb.from_numpy(x), fb.from_numpy(y)

    def each(f):
        return [(f(int(p), int(q)) - limits.min) % 2 ** (8 * dtype().itemsize) + limits.min for p, q in zip(x, y, strict=True)]

    def cut(p, q):
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    assert (a // b).tolist() == each(lambda p, q: p // q)
    assert (a % b).tolist() == each(lambda p, q: p % q)
    assert fb.div(a, b, rounding_mode="trunc").tolist() == each(cut)
    assert fb.fmod(a, b).tolist() == each(lambda p, q: p - cut(p, q) * q)


def test_outputs_too_large_for_caches():
    """These are written in another way than small ones."""
    a = fb.arange(17_000_003, dtype=fb.float32)
    doubled = a * 2.0
    assert fb.equal(doubled[::-1001], a[::-1001] * 2.0) and doubled[-1] == 2 * a[-1]
    assert fb.equal(doubled.sub_(a), a)
    table = a[:16_900_000].view(4225, 4000)
    shifted = table[:, 1:] - table[:, :-1]
    assert shifted.min() == 0 and shifted.max() <= 2 and shifted[0].sum() == 3999
    raised = table + table[:, :1]
    assert fb.equal(raised[4000], table[4000] + table[4000, 0])


@pytest.mark.parametrize(("dtype", "n"), [(fb.float16, 17), (fb.bfloat16, 3)])
def test_halves_are_rounded_before_they_are_cut(dtype, n):
    x, y = fb.tensor([1.0, -1.0], dtype=dtype), fb.tensor([1 / n, 1 / n], dtype=dtype)
    assert (x.float() / y.float())[0].item() < (x / y)[0].item() == n
    assert fb.div(x, y, rounding_mode="trunc").tolist() == [n, -n]


def test_numbers_first():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    for f, values, slopes in (
        (fb.add, [5, 6], [1, 1]),
        (fb.sub, [3, 2], [-1, -1]),
        (fb.mul, [4, 8], [4, 4]),
        (fb.div, [4, 2], [-4, -1]),
        (fb.true_divide, [4, 2], [-4, -1]),
    ):
        assert f(4, x).tolist() == values
        assert fb.autograd.grad(f(4, x).sum(), x)[0].tolist() == slopes
        assert fb.func.vmap(lambda row, f=f: f(4, row))(x.detach().view(2, 1)).flatten().tolist() == values
    assert fb.floor_divide(7, fb.tensor([2, 3])).tolist() == [3, 2]
    assert fb.add(1, fb.tensor([1, 2]), alpha=3).tolist() == [4, 7]
    assert fb.mul(2, fb.ones(2), out=fb.empty(2)).tolist() == [2, 2]
    assert fb.mul(2, 3).dtype == fb.int64 and fb.add(2, 0.5).item() == 2.5
    with pytest.raises(TypeError, match="must be"):
        fb.add("1", fb.ones(2))
