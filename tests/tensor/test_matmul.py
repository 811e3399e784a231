"""Products: every dtype, layout and shape against NumPy; threads, aliasing, overflow, errors."""

import itertools

import numpy as np
import pytest

import flambeau as fb

DTYPES = "float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
SHAPES = [
    ((3, 4), (4, 5)),
    ((1, 1), (1, 1)),
    ((16, 16), (16, 16)),
    ((70, 33), (33, 65)),
    ((129, 257), (257, 140)),
    ((1, 300), (300, 20)),
    ((30, 200), (200,)),
    ((200,), (200, 30)),
    ((200,), (200,)),
    ((5, 0), (0, 4)),
    ((0, 5), (5, 3)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((7, 1, 3, 4), (5, 4, 6)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((600, 1), (1, 7)),
    ((7, 600), (600, 1)),
]


def numbers(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(-100, 100, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def laid_out(x, kind):
    """The same values in another memory order."""
    if kind == "transposed" and x.ndim > 1:
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if kind == "reversed":
        return np.ascontiguousarray(np.repeat(x, 2, -1)[..., ::-1])[..., ::-2]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_agrees_with_numpy(dtype):
    rng = np.random.default_rng(0)
    layouts = list(itertools.product(["plain", "transposed", "reversed"], repeat=2))
    for (a_shape, b_shape), (left, right) in itertools.product(SHAPES, layouts):
        a, b = laid_out(numbers(rng, a_shape, dtype), left), laid_out(numbers(rng, b_shape, dtype), right)
        expected = np.matmul(a, b)
        result = (fb.from_numpy(a) @ fb.from_numpy(b)).numpy()
        assert result.shape == expected.shape and result.dtype == expected.dtype
        tolerance = {"f": 1e-4, "F": 1e-4, "d": 1e-11, "D": 1e-11}.get(expected.dtype.char, 0)
        np.testing.assert_allclose(
            result, expected, rtol=tolerance, atol=tolerance * 20, err_msg=f"{a_shape} {b_shape} {left} {right}"
        )


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16])
def test_half_types_sum_in_float(dtype):
    a = fb.full((1, 4096), 0.25).to(dtype)
    assert (a @ a.T).item() == 256.0  # a running sum in the half type would stop growing


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.complex64, fb.int64, fb.bfloat16])
@pytest.mark.parametrize(
    "a_shape, b_shape",
    [
        ((300, 400), (400, 500)),
        ((31, 5000), (5000, 17)),
        ((5000, 31), (31, 17)),
        ((64, 100, 64), (64, 64, 70)),
        ((700, 900), (900,)),
        ((300000,), (300000,)),
    ],
)
def test_thread_count_changes_no_bit(dtype, a_shape, b_shape):
    fb.manual_seed(0)
    a, b = (3 * fb.randn(*a_shape)).to(dtype), (3 * fb.randn(*b_shape)).to(dtype)
    results = []
    for threads in (1, 2, 3):
        fb.set_num_threads(threads)
        results.append(a @ b)
    assert bool((results[0] == results[1]).all()) and bool((results[0] == results[2]).all())


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("m", [1, 5, 13, 100, 205])
@pytest.mark.parametrize("k, n", [(3, 9), (16, 1024), (64, 128), (128, 127), (40, 1), (300, 31), (17, 4)])
def test_small_and_thin_products(dtype, m, k, n):
    fb.manual_seed(0)
    a, b, c = fb.randn(m, k, dtype=dtype), fb.randn(k, n, dtype=dtype), fb.randn(m, n, dtype=dtype)
    exact = a.double().numpy() @ b.double().numpy()
    bound = (1e-6 if dtype == fb.float32 else 1e-14) * k
    for left in (a, a.T.contiguous().T, fb.randn(m, 2 * k, dtype=dtype)[:, ::2].copy_(a)):
        for right in (b, b.T.contiguous().T):
            np.testing.assert_allclose((left @ right).numpy(), exact, rtol=0, atol=bound)
    beyond = fb.full((m, n + 3), 7.0, dtype=dtype)  # nothing is written past the edge
    fb.addmm(c, a, b, beta=0.5, out=beyond[:, :n])
    np.testing.assert_allclose(beyond[:, :n].numpy(), exact + 0.5 * c.numpy(), rtol=0, atol=bound + 1e-6)
    assert bool((beyond[:, n:] == 7).all())


def test_integers_wrap_around():
    x = fb.tensor([[100, 100]], dtype=fb.int8)
    assert (x @ x.T).item() == np.int8(20000 & 0xFF if 20000 & 0xFF < 128 else (20000 & 0xFF) - 256)


def test_addmm_ignores_input_when_beta_is_zero():
    nan = fb.full((2, 2), float("nan"))
    eye = fb.eye(2)
    for result in (fb.addmm(nan, eye, eye, beta=0), fb.baddbmm(nan[None], eye[None], eye[None], beta=0)):
        assert bool((result == eye).all())
    assert bool((fb.addmv(nan[0], eye, fb.ones(2), beta=0) == 1).all())


def test_scaled_sums():
    rng = np.random.default_rng(1)
    c, a, b = rng.standard_normal((40, 50)), rng.standard_normal((40, 300)), rng.standard_normal((300, 50))
    result = fb.addmm(fb.from_numpy(c), fb.from_numpy(a), fb.from_numpy(b), beta=0.5, alpha=-2)
    np.testing.assert_allclose(result.numpy(), 0.5 * c - 2 * a @ b, rtol=1e-12, atol=1e-11)
    target = fb.from_numpy(c.copy())
    assert target.addmm_(fb.from_numpy(a), fb.from_numpy(b)) is target
    np.testing.assert_allclose(target.numpy(), c + a @ b, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("m, k, n", [(3, 4, 2), (5, 10, 5), (40, 50, 60), (200, 300, 170)])
def test_memory_order_of_the_target_changes_no_bit(m, k, n):
    fb.manual_seed(0)
    c, a, b = fb.randn(m, n), fb.randn(m, k), fb.randn(k, n)
    turned = c.T.contiguous().T
    turned.addmm_(a, b, beta=2, alpha=3)
    assert bool((turned == fb.addmm(c, a, b, beta=2, alpha=3)).all())


def test_empty_sums_are_zero_or_the_scaled_input():
    assert bool((fb.zeros(2, 0) @ fb.zeros(0, 3) == 0).all())
    result = fb.addmm(fb.ones(2, 3), fb.zeros(2, 0), fb.zeros(0, 3), beta=3)
    assert bool((result == 3).all())


def test_out_may_be_an_operand():
    a = fb.tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = a @ a
    fb.mm(a, a, out=a)
    assert bool((a == expected).all())


def test_out_of_another_layout_and_shape():
    a, b = fb.randn(5, 6), fb.randn(6, 7)
    turned = fb.empty(7, 5).T
    fb.matmul(a, b, out=turned)
    assert bool((turned == a @ b).all())
    grown = fb.empty(0)
    fb.matmul(a, b, out=grown)
    assert grown.shape == (5, 7)
    with pytest.raises(RuntimeError, match="dtype"):
        fb.matmul(a, b, out=fb.empty(5, 7, dtype=fb.float64))


@pytest.mark.parametrize("name, shapes", [("outer", [(3,), (4,)]), ("inner", [(3, 4), (2, 4)]), ("addr", [(3, 4), (3,), (4,)])])
def test_out_of_a_dtype_that_holds_the_product(name, shapes):
    op, inputs = getattr(fb, name), [fb.randn(shape) for shape in shapes]
    expected = op(*inputs)
    out = fb.empty(expected.shape, dtype=fb.float64)
    assert op(*inputs, out=out) is out
    assert bool((out == expected.double()).all())
    with pytest.raises(TypeError, match="can't be cast"):
        op(*inputs, out=fb.empty(expected.shape, dtype=fb.int32))


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk->ki", [(3, 4), (4, 5)]),
        ("ii", [(4, 4)]),
        ("ii->i", [(4, 4)]),
        ("ij->", [(3, 4)]),
        ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ij,ij->", [(3, 4), (3, 4)]),
        ("i,j", [(3,), (4,)]),
        ("ijk,lk,mj->ilm", [(2, 3, 4), (5, 4), (6, 3)]),
        ("a...b,bc->ac...", [(2, 3, 4, 5), (5, 6)]),
        ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
        ("ij,jk", [(3, 0), (0, 4)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 5)]),
        ("ab,cd,ef->ace", [(2, 3), (4, 5), (6, 7)]),
    ],
)
def test_einsum(equation, shapes):
    rng = np.random.default_rng(2)
    operands = [rng.standard_normal(shape) for shape in shapes]
    result = fb.einsum(equation, *map(fb.from_numpy, operands))
    np.testing.assert_allclose(result.numpy(), np.einsum(equation, *operands), rtol=1e-12, atol=1e-12)


def test_einsum_sublists_and_broadcasting():
    a, b = fb.randn(3, 4), fb.randn(4, 5)
    assert bool((fb.einsum(a, [0, 1], b, [1, 2], [0, 2]) == a @ b).all())
    assert fb.einsum(a, [..., 1], b, [1, 2], [..., 2]).shape == (3, 5)
    assert fb.einsum("ij,jk->ik", fb.randn(3, 1), b).shape == (3, 5)


@pytest.mark.parametrize(
    "equation, message",
    [
        ("ij,jk->iz", "does not appear"),
        ("i", "terms"),
        ("i.j,jk", "ellipsis"),
        ("ij,jk->ii", "more than once"),
        ("i1,jk", "invalid subscript"),
        ("ijk,jk", "number of subscripts"),
        ("ij,ik->jk", "does not broadcast"),
    ],
)
def test_einsum_errors(equation, message):
    with pytest.raises(ValueError, match=message):
        fb.einsum(equation, fb.randn(3, 4), fb.randn(4, 5))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, float("inf")])
def test_cdist(p):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 30, 4)), rng.standard_normal((1, 7, 4))
    difference = np.abs(x[:, :, None] - y[:, None])
    if p == 0:
        expected = (difference != 0).sum(-1)
    elif p == float("inf"):
        expected = difference.max(-1)
    else:
        expected = (difference**p).sum(-1) ** (1 / p)
    np.testing.assert_allclose(
        fb.cdist(fb.from_numpy(x), fb.from_numpy(y), p=p).numpy(), expected, rtol=1e-9, atol=1e-7
    )


def test_chains_and_contractions():
    rng = np.random.default_rng(4)
    a, b, c = rng.standard_normal((3, 40)), rng.standard_normal((40, 5)), rng.standard_normal((5, 6))
    tensors = [fb.from_numpy(x) for x in (a, b, c)]
    np.testing.assert_allclose(fb.linalg.multi_dot(tensors).numpy(), a @ b @ c, rtol=1e-10)
    np.testing.assert_allclose(fb.chain_matmul(*tensors).numpy(), a @ b @ c, rtol=1e-10)
    x, y = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 3, 5))
    result = fb.tensordot(fb.from_numpy(x), fb.from_numpy(y), dims=([1, 2], [1, 0]))
    np.testing.assert_allclose(result.numpy(), np.tensordot(x, y, ([1, 2], [1, 0])), rtol=1e-10)
    np.testing.assert_allclose(fb.kron(tensors[2], tensors[0]).numpy(), np.kron(c, a), rtol=1e-12)
    u, v = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    np.testing.assert_allclose(fb.linalg.cross(fb.from_numpy(u), fb.from_numpy(v)).numpy(), np.cross(u, v), rtol=1e-10)
    square = fb.tensor([[1, 1], [1, 0]])
    assert fb.matrix_power(square, 10).tolist() == [[89, 55], [55, 34]]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fb.randn(3, 4) @ fb.randn(3, 4), ValueError, "inner sizes"),
        (lambda: fb.randn(3, 4) @ fb.randn(4, 3).double(), RuntimeError, "same dtype"),
        (lambda: fb.matmul(fb.tensor(1.0), fb.randn(3)), ValueError, "at least 1 dimension"),
        (lambda: fb.mm(fb.randn(3), fb.randn(3, 3)), ValueError, "matrix"),
        (lambda: fb.bmm(fb.randn(2, 3, 4), fb.randn(3, 4, 5)), ValueError, "batches of the same size"),
        (lambda: fb.dot(fb.randn(3), fb.randn(4)), ValueError, "same size"),
        (lambda: fb.addmm(fb.randn(7), fb.randn(3, 4), fb.randn(4, 5)), ValueError, "expand"),
        (lambda: fb.randn(2, 3, 4) @ fb.randn(5, 4, 6), ValueError, "broadcast"),
        (lambda: fb.tensordot(fb.randn(2, 3), fb.randn(2, 3), dims=1), ValueError, "same size"),
        (lambda: fb.cross(fb.randn(4), fb.randn(4)), ValueError, "size 3"),
        (lambda: fb.cdist(fb.randn(3, 4), fb.randn(3, 5)), ValueError, "columns"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_einsum_promotes_where_products_are_not_summed():
    places, rates = fb.arange(3), fb.tensor([0.5, 2.0], requires_grad=True)
    angles = fb.einsum("i, j -> i j", places, rates)
    assert angles.dtype == fb.float32 and angles.tolist() == [[0.0, 0.0], [0.5, 2.0], [1.0, 4.0]]
    angles.sum().backward()
    assert rates.grad.tolist() == [3.0, 3.0]
    assert fb.einsum("i,i->i", places, fb.ones(3, dtype=fb.float64)).dtype == fb.float64
    with pytest.raises(fb.errors.ArgumentError, match="same dtype"):
        fb.einsum("ij,j->i", fb.ones(2, 3), fb.arange(3))


def test_einsum_sums_integers_in_int64():
    for dtype in (fb.uint8, fb.int32, fb.bool):
        x = fb.ones(2, 300, dtype=dtype)
        assert fb.einsum("ij->i", x).dtype == fb.int64 and fb.einsum("ij->i", x).tolist() == [300, 300]
        assert fb.einsum("ij,k->ik", x, x[:, 0]).tolist() == [[300, 300], [300, 300]]
        assert fb.einsum("ij,kj->ik", x, x).dtype == dtype and fb.einsum("ij->ji", x).dtype == dtype


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128, fb.float32])
def test_batches_of_one_row_with_strides(dtype):
    """Rows of a batch are one matrix for BLAS only where their elements are adjacent."""
    x = fb.randn(3, 1, 8, dtype=dtype)[..., ::2]
    for y in (fb.randn(4, dtype=dtype), fb.randn(4, 1, dtype=dtype), fb.randn(4, 2, dtype=dtype)):
        expected = np.matmul(x.numpy(), y.numpy())
        assert np.allclose(fb.matmul(x, y).numpy(), expected, atol=1e-5)
        out = fb.empty(expected.shape, dtype=dtype)
        assert np.allclose(fb.matmul(x, y, out=out).numpy(), expected, atol=1e-5)


def test_an_ellipsis_in_the_result_may_stand_for_nothing():
    a, b = fb.randn(2, 3), fb.randn(3, 4)
    fb.testing.assert_close(fb.einsum("ij,jk->...ik", a, b), a @ b)
    fb.testing.assert_close(fb.einsum("ii->...", a @ a.mT), (a @ a.mT).trace())
