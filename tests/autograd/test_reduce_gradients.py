"""Gradients of reductions, scans, selections and products where calculus needs a decision: ties, zeros, no elements."""

import math

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck

inf, nan = math.inf, math.nan


def leaf(values, dtype=fb.float64):
    return fb.tensor(values, dtype=dtype, requires_grad=True)


def random(*shape, dtype=fb.float64, seed=0):
    return fb.randn(shape, dtype=dtype, generator=fb.Generator().manual_seed(seed)).requires_grad_()


def slope(f, x, weights=None):
    """The gradient of sum(weights * f(x))."""
    y = f(x)
    return fb.autograd.grad(
        y, x, fb.ones(y.shape, dtype=y.dtype) if weights is None else fb.tensor(weights, dtype=y.dtype)
    )[0]


def equal(t, values):
    np.testing.assert_allclose(t.detach().numpy(), np.asarray(values), rtol=1e-12, atol=1e-300)


# ---- products ----------------------------------------------------------------------------------------------------------


def test_prod_with_zeros_is_the_product_of_the_others():
    equal(slope(fb.prod, leaf([2, 0, 3])), [0, 6, 0])
    equal(slope(fb.prod, leaf([2, 0, 0, 3])), [0, 0, 0, 0])
    equal(slope(lambda x: x.prod(1), leaf([[2, 0, 3], [1, 2, 3]])), [[0, 6, 0], [6, 3, 2]])
    equal(slope(fb.prod, leaf([0.0])), [1])
    equal(slope(fb.prod, leaf(5.0)), 1)


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0, -1.0], [2.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 4.0]])
def test_second_derivatives_of_prod_leave_two_factors_out(values):
    x = leaf(values)
    (g,) = fb.autograd.grad(x.prod(), x, create_graph=True)
    for i in range(4):
        (row,) = fb.autograd.grad(g[i], x, retain_graph=True)
        equal(row, [0 if i == j else math.prod(v for k, v in enumerate(values) if k not in (i, j)) for j in range(4)])


def test_third_derivative_of_prod_through_two_zeros():
    x = leaf([2, 0, 0, 3])
    (g,) = fb.autograd.grad(x.prod(), x, create_graph=True)
    (row,) = fb.autograd.grad(g[1], x, create_graph=True)
    (third,) = fb.autograd.grad(row[2], x)
    equal(third, [3, 0, 0, 2])


def test_cumprod_through_zeros():
    # y = (a, ab, abc, abcd) at (2, 0, 3, 4)
    equal(slope(lambda x: x.cumprod(0), leaf([2, 0, 3, 4])), [1, 2 + 6 + 24, 0, 0])
    equal(slope(lambda x: x.cumprod(0), leaf([0, 0, 3])), [1, 0, 0])
    x = leaf([2, 0, 0, 3])
    assert gradcheck(lambda x: x.cumprod(0), x) and gradgradcheck(lambda x: x.cumprod(0), x)


# ---- extremes ----------------------------------------------------------------------------------------------------------


def test_ties_share_where_no_index_is_given():
    x = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
    equal(slope(lambda x: x.amax(1), leaf(x)), [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    equal(slope(lambda x: x.amin(), leaf(x)), [[1, 0, 0], [0, 0, 0]])
    equal(slope(fb.max, leaf(x)), [[0, 0.5, 0.5], [0, 0, 0]])
    equal(slope(fb.median, leaf([1, 2, 2, 2, 3])), [0, 1 / 3, 1 / 3, 1 / 3, 0])
    equal(slope(lambda x: sum(fb.aminmax(x)), leaf([1, 1, 5])), [0.5, 0.5, 1])


def test_the_element_an_index_names_gets_all():
    x = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
    indices = leaf(x).max(1)[1]
    equal(slope(lambda x: x.max(1)[0], leaf(x)), np.eye(3)[indices.numpy()])
    equal(slope(lambda x: x.min(dim=0, keepdim=True)[0], leaf(x)), [[1, 0, 0], [0, 1, 1]])
    for op in (lambda x: x.kthvalue(2, 1), lambda x: x.mode(1), lambda x: x.median(1), lambda x: x.cummax(1)):
        t = leaf(x)
        values, indices = op(t)
        (g,) = fb.autograd.grad(values.sum(), t)
        counts = np.zeros((2, 3))
        index = indices.numpy().reshape(2, -1)
        for row in range(2):
            np.add.at(counts[row], index[row], 1)
        equal(g, counts)


def test_nan_gets_the_gradient_of_a_nan_maximum():
    equal(slope(fb.max, leaf([1, nan, 2, nan])), [0, 0.5, 0, 0.5])
    equal(slope(lambda x: x.max(0)[0], leaf([1, nan, 2])), [0, 1, 0])


def test_two_operands_share_ties():
    a, b = leaf([1, 2, 5]), leaf([1, 3, 4])
    fb.max(a, b).sum().backward()
    equal(a.grad, [0.5, 0, 1])
    equal(b.grad, [0.5, 1, 0])
    a.grad = b.grad = None
    fb.min(a, b).sum().backward()
    equal(a.grad, [0.5, 1, 0])
    equal(b.grad, [0.5, 0, 1])


def test_sorted_gradients_go_home():
    equal(slope(lambda x: x.sort()[0], leaf([3, 1, 2]), [10, 20, 30]), [30, 10, 20])
    equal(slope(lambda x: x.sort(descending=True)[0], leaf([3, 1, 2]), [10, 20, 30]), [10, 30, 20])
    equal(slope(lambda x: x.topk(2)[0], leaf([3, 1, 2]), [10, 20]), [10, 0, 20])
    equal(slope(fb.msort, leaf([[3, 1], [1, 2]]), [[1, 2], [3, 4]]), [[3, 2], [1, 4]])
    for op in (lambda x: x.sort()[0], lambda x: x.topk(1)[0], lambda x: x.max(0)[0], lambda x: x.cummin(0)[0]):
        equal(slope(op, leaf(2.0)), 1)


def test_places_and_counts_have_no_history():
    x = leaf([3.0, 1.0])
    for result in (x.argmax(), x.argsort(), x.count_nonzero(), (x > 0).any(), fb.histc(x, 3), fb.searchsorted(x, x)):
        assert not result.requires_grad


# ---- moments and norms -------------------------------------------------------------------------------------------------


def test_moments_of_equal_elements_and_of_one():
    equal(slope(fb.std, leaf([2, 2, 2])), [0, 0, 0])
    equal(slope(lambda x: x.var(correction=0), leaf([1, 3])), [-1, 1])
    assert slope(fb.var, leaf([1.0])).isnan().all()
    x = leaf([1, 3, 5])
    variance, mean = fb.var_mean(x)
    (g,) = fb.autograd.grad([variance, mean], x, [fb.tensor(1.0, dtype=fb.float64), fb.tensor(3.0, dtype=fb.float64)])
    equal(g, [-2 + 1, 1, 2 + 1])


def test_variance_of_complex_numbers():
    z = fb.tensor([1 + 1j, 3 - 1j], dtype=fb.complex128, requires_grad=True)
    equal(slope(lambda z: fb.var(z, correction=0), z), [-1 + 1j, 1 - 1j])
    assert gradcheck(lambda z: fb.std_mean(z, 0), random(4, 2, dtype=fb.complex128))


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3.5, inf])
def test_norms_have_gradient_zero_at_zero(p):
    x = leaf([[0.0, 0.0], [3.0, -4.0]])
    g = slope(lambda x: x.norm(p, dim=1), x)
    equal(g[0], [0, 0])
    if p == 2:
        equal(g[1], [0.6, -0.8])
    x = leaf([0.0, 0.0])
    (g,) = fb.autograd.grad(fb.linalg.vector_norm(x, p), x, create_graph=True)
    if g.requires_grad:
        assert fb.autograd.grad(g.sum(), x, allow_unused=True)[0].isfinite().all()


def test_infinity_norm_shares_ties():
    equal(slope(lambda x: x.norm(inf), leaf([3, -3, 1])), [0.5, -0.5, 0])
    equal(slope(lambda x: x.norm(-inf), leaf([3, -3, 1])), [0, 0, 1])


# ---- scans and softmax -------------------------------------------------------------------------------------------------


def test_cumsum_sums_what_follows():
    equal(slope(lambda x: x.cumsum(0), leaf([1, 2, 3]), [1, 10, 100]), [111, 110, 100])
    equal(slope(lambda x: x.cumsum(0), leaf([[1, 2], [3, 4]]), [[1, 2], [10, 20]]), [[11, 22], [10, 20]])
    assert gradgradcheck(lambda x: x.cumsum(1), random(2, 3, 2))


def test_softmax_rows_of_minus_infinity():
    g = slope(lambda x: x.softmax(1), leaf([[-inf, 0.0, 0.0], [-inf, -inf, -inf]]), [[1, 2, 4], [1, 2, 4]])
    equal(g[0], [0, -0.5, 0.5])
    assert g[1].isnan().all()
    g = slope(lambda x: x.log_softmax(1), leaf([[-inf, 0.0, 0.0], [-inf, -inf, -inf]]), [[1, 0, 1], [1, 2, 4]])
    equal(g[0], [1, -1, 0])
    assert g[1].isnan().all()
    g = slope(lambda x: x.logsumexp(1), leaf([[-inf, 0.0], [1000.0, 1000.0]]))
    equal(g, [[0, 1], [0.5, 0.5]])


def test_logcumsumexp_starts_late_and_does_not_overflow():
    equal(slope(lambda x: x.logcumsumexp(0), leaf([-inf, -inf, 1])), [0, 0, 1])
    equal(slope(lambda x: x.logcumsumexp(0), leaf([-900.0, 0.0, 900.0])), [1, 1, 1])
    assert gradgradcheck(lambda x: x.logcumsumexp(1), random(2, 5))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("op", [fb.softmax, fb.log_softmax])
def test_softmax_of_every_shape(op, dim):
    x = random(3, 4, 5)
    assert gradcheck(lambda x: op(x, dim), x) and gradgradcheck(lambda x: op(x, dim), x)
    # Large and half-precision ones against double.
    big = random(5, 70, 300, seed=1)
    g = fb.randn(5, 70, 300, generator=fb.Generator().manual_seed(2))
    (exact,) = fb.autograd.grad(op(big, dim), big, g.double())
    for dtype, tolerance in ((fb.float32, 1e-5), (fb.bfloat16, 0.1)):
        low = big.detach().to(dtype).requires_grad_()
        (found,) = fb.autograd.grad(op(low, dim), low, g.to(dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found.double().numpy(), exact.numpy(), atol=tolerance * exact.abs().max().item())


def test_half_precision_softmax_can_compute_wider():
    x = leaf([1.0, 2.0], fb.float16)
    y = x.softmax(0, dtype=fb.float32)
    (g,) = fb.autograd.grad(y, x, fb.tensor([1.0, 0.0]))
    assert g.dtype == fb.float16
    np.testing.assert_allclose(g.numpy(), [0.1966, -0.1966], rtol=1e-3)


# ---- nothing to reduce -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        fb.sum,
        fb.nansum,
        fb.mean,
        fb.prod,
        fb.var,
        fb.std,
        fb.norm,
        lambda x: x.amax(1),
        lambda x: x.softmax(0),
        lambda x: x.log_softmax(1),
        lambda x: x.logsumexp(0),
        lambda x: x.cumsum(0),
        lambda x: x.cumprod(1),
        lambda x: x.sort(0)[0],
        lambda x: x @ fb.ones(3, 2, dtype=fb.float64),
        lambda x: fb.einsum("ij,kj->ik", x, x),
        lambda x: fb.cdist(x, x),
    ],
)
def test_empty_inputs_have_empty_gradients(op):
    x = fb.zeros(0, 3, dtype=fb.float64, requires_grad=True)
    assert slope(op, x).shape == (0, 3)


def test_a_product_over_nothing_has_gradient_zero():
    a = fb.zeros(2, 0, requires_grad=True)
    b = fb.zeros(0, 3, requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.shape == (2, 0) and b.grad.shape == (0, 3)


# ---- products ----------------------------------------------------------------------------------------------------------

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (5, 3, 2)),
]


@pytest.mark.parametrize("dtype", [fb.float64, fb.complex128])
@pytest.mark.parametrize("left, right", SHAPES)
def test_matmul_of_every_rank(left, right, dtype):
    a, b = random(*left, dtype=dtype), random(*right, dtype=dtype, seed=1)
    assert gradcheck(fb.matmul, (a, b))
    if dtype == fb.float64:
        assert gradgradcheck(fb.matmul, (a, b))


def test_matrix_gradients_are_products_with_the_other_factor():
    a, b = leaf([[1, 2], [3, 4]]), leaf([[5, 6], [7, 8]])
    g = fb.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=fb.float64)
    ga, gb = fb.autograd.grad(a @ b, [a, b], g)
    equal(ga, [[5, 7], [12, 16]])
    equal(gb, [[1, 6], [2, 8]])
    start, m1, m2 = leaf([1, 1]), leaf([[1, 2]]), leaf([[1, 2], [3, 4]])
    grads = fb.autograd.grad(
        fb.addmm(start, m1, m2, beta=3, alpha=2), [start, m1, m2], fb.tensor([[1.0, 10.0]]).double()
    )
    equal(grads[0], [3, 30])
    equal(grads[1], [[42, 86]])
    equal(grads[2], [[2, 20], [4, 40]])


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iij,jj->i", [(2, 2, 3), (3, 3)]),
        ("iii->i", [(2, 2, 2)]),
        ("ij->", [(2, 3)]),
        ("ij->ji", [(2, 3)]),
        ("i,j->", [(2,), (3,)]),
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]),
        ("i...,i->...", [(2, 3, 2), (2,)]),
        ("ij,ij->ij", [(2, 3), (1, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 2)]),
        ("ab,b", [(2, 3), (3,)]),
        ("bhqd, bhkd -> bhqk", [(1, 2, 3, 2), (1, 2, 2, 2)]),
    ],
)
def test_einsum(equation, shapes):
    operands = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert gradcheck(lambda *t: fb.einsum(equation, *t), operands)
    assert gradgradcheck(lambda *t: fb.einsum(equation, *t), operands)


def test_einsum_conjugates_the_other_operand():
    a = fb.tensor([1j], dtype=fb.complex128, requires_grad=True)
    b = fb.tensor([2 + 3j], dtype=fb.complex128)
    equal(slope(lambda a: fb.einsum("i,i->", a, b), a), [2 - 3j])


# ---- distances ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf])
def test_distances(p):
    x, y = random(2, 4, 3), random(5, 3, seed=1)
    assert gradcheck(lambda x, y: fb.cdist(x, y, p), (x, y))
    assert gradcheck(lambda x: fb.pdist(x, p), random(4, 3))
    if p not in (0.0, 1.0, inf):
        assert gradgradcheck(lambda x, y: fb.cdist(x, y, p), (random(3, 2), random(2, 2, seed=1)))


def test_points_that_meet_do_not_pull():
    x, y = leaf([[1.0, 2.0]]), leaf([[1.0, 2.0], [4.0, 6.0]])
    gx, gy = fb.autograd.grad(fb.cdist(x, y).sum(), [x, y])
    equal(gx, [[-0.6, -0.8]])
    equal(gy, [[0, 0], [0.6, 0.8]])
    big = random(40, 3)
    by_product = fb.cdist(big, big.detach().clone(), compute_mode="use_mm_for_euclid_dist")
    assert fb.autograd.grad(by_product.sum(), big)[0].isfinite().all()


# ---- composites --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        lambda x, w: fb.cov(x, aweights=w),
        lambda x, w: fb.trapezoid(x, w.cumsum(0)),
        lambda x, w: fb.quantile(x, 0.3, dim=1) * w.sum(),
        lambda x, w: fb.renorm(x, 2, 0, 0.5) * w,
        lambda x, w: fb.tensordot(x, w, dims=([1], [0])),
        lambda x, w: fb.kron(x, w),
        lambda x, w: fb.dist(x, w),
        lambda x, w: fb.linalg.vecdot(x, w),
    ],
)
def test_composites_are_differentiable(op):
    assert gradcheck(op, (random(3, 4), random(4, seed=1).detach().exp().requires_grad_()))


def test_powers_with_a_number_stay_in_double():
    equal(slope(lambda x: x**-2.1, leaf([1.7])), [-2.1 * 1.7**-3.1])


@pytest.mark.parametrize(
    ("reduce", "initial", "expected"),
    [
        ("max", 0, [1, 1, 0, 0, 0.5, 0.5]),
        ("min", 1000, [1, 1, 0, 1, 0, 0]),
        ("prod", 2, [2, 6, fb.nan, 50, 40, 40]),
        ("sum", None, [1] * 6),
    ],
)
def test_segments_with_nan(reduce, initial, expected):
    x = fb.tensor([1, fb.nan, 3, 4, 5, 5], dtype=fb.float64, requires_grad=True)
    lengths = fb.tensor([1, 2, 3, 0])
    y = fb.segment_reduce(x, reduce, lengths=lengths, initial=initial)
    unrecorded = fb.segment_reduce(x.detach(), reduce, lengths=lengths, initial=initial)
    assert fb.equal(y.detach().nan_to_num(-1), unrecorded.nan_to_num(-1))
    (grad,) = fb.autograd.grad(y.sum(), x)
    fb.testing.assert_close(grad, fb.tensor(expected, dtype=fb.float64), equal_nan=True)


def test_two_nans_in_a_product():
    x = fb.tensor([fb.nan, 2.0, fb.nan], requires_grad=True)
    (grad,) = fb.autograd.grad(fb.segment_reduce(x, "prod", lengths=fb.tensor([3])).sum(), x)
    assert grad.isnan().all()


def test_values_of_equal_extremes_are_exact():
    x = fb.full((3,), 0.1, dtype=fb.float64, requires_grad=True)
    assert fb.segment_reduce(x, "max", lengths=fb.tensor([3])).item() == 0.1
    y = fb.tensor([fb.inf, fb.inf, -fb.inf], requires_grad=True)
    assert fb.segment_reduce(y, "max", lengths=fb.tensor([2, 1, 0])).tolist() == [fb.inf, -fb.inf, -fb.inf]
