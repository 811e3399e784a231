"""flambeau.masked: each function against the op on the selected elements alone."""

import math

import pytest

import flambeau as fb
from flambeau import masked
from flambeau.testing import assert_close

X = fb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MASK = fb.tensor([[True, False, True], [False, False, False]])
NAN, INF = math.nan, math.inf

EXPECTED = {
    "sum": [4.0, 0.0], "prod": [3.0, 1.0], "amax": [3.0, -INF], "amin": [1.0, INF], "argmax": [2.0, 0.0], "argmin": [0.0, 0.0],
    "mean": [2.0, NAN], "median": [1.0, NAN], "var": [2.0, NAN], "std": [math.sqrt(2), NAN],
    "logsumexp": [math.log(math.e + math.e**3), -INF],
}  # fmt: skip
REDUCTIONS = [getattr(masked, name) for name in EXPECTED]


@pytest.mark.parametrize("name", EXPECTED)
def test_reductions_skip_masked_out_elements(name):
    f = getattr(masked, name)
    expected = fb.tensor(EXPECTED[name])
    assert_close(f(X, 1, mask=MASK), expected, equal_nan=True)
    assert_close(f(X, -1, keepdim=True, mask=MASK), expected[:, None], equal_nan=True)
    assert_close(f(X, dim=1, dtype=fb.float64, mask=MASK), expected.double(), equal_nan=True, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in EXPECTED if n not in ("argmax", "argmin", "median")])
def test_reductions_over_several_dims_equal_those_of_the_selected(name):
    fb.manual_seed(0)
    x = fb.randn(3, 4, 5, dtype=fb.float64).transpose(0, 2)
    mask = fb.rand(5, 4, 3) > 0.4
    f = getattr(masked, name)
    assert_close(f(x, mask=mask), f(x[mask], 0))
    assert_close(f(x, (), mask=mask), f(x[mask], 0))
    for j in range(4):
        assert_close(f(x, (0, -1), mask=mask)[j], f(x[:, j][mask[:, j]], 0))


@pytest.mark.parametrize("f", [f for f in REDUCTIONS if f.__name__ not in ("argmax", "argmin")])
def test_gradients_of_reductions(f):
    x = fb.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=fb.float64, requires_grad=True)
    mask = fb.tensor([[True, False, True], [True, True, False]])
    assert fb.autograd.gradcheck(lambda t: f(t, 1, mask=mask), (x,))
    (g,) = fb.autograd.grad(f(x, 1, mask=mask).sum(), x)
    assert (g[~mask] == 0).all()


@pytest.mark.parametrize("order, expected", [(2, 10**0.5), (1, 4.0), (0, 2.0), (INF, 3.0), (-INF, 1.0), (-1, 0.75)])
def test_norm(order, expected):
    result = masked.norm(X, order, 1, mask=MASK)
    assert_close(result, fb.tensor([expected, INF if order < 0 else 0.0]))


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
def test_sparse_tensors(name):
    """The mask says which elements are selected, kept or not; without a mask the kept ones are."""
    f = getattr(masked, name)
    kept = fb.tensor([[True, True, False], [True, False, False]])
    mask = fb.tensor([[True, False, True], [True, True, True]])
    for layout in (fb.sparse_coo, fb.sparse_csr):
        sparse = (X * kept).to_sparse(layout=layout)
        result = f(sparse, 1, keepdim=True, mask=mask.to_sparse())
        assert result.layout is layout
        assert_close(result.to_dense(), f(X * kept, 1, keepdim=True, mask=mask))
        assert_close(f(sparse, 1, keepdim=True).to_dense(), f(X, 1, keepdim=True, mask=kept))
    assert_close(f(X, 1, mask=mask.to_sparse()), f(X, 1, mask=mask))


def test_normalizations():
    assert_close(masked.softmax(X, 1, mask=MASK)[0, ::2], fb.softmax(X[0, ::2], 0))
    assert_close(masked.log_softmax(X, 1, mask=MASK)[0, ::2], fb.log_softmax(X[0, ::2], 0))
    assert_close(masked.softmin(X, 1, mask=MASK)[0, ::2], fb.softmax(-X[0, ::2], 0))
    assert masked.softmax(X, 1, mask=MASK)[0, 1] == 0 and masked.softmax(X, 1, mask=MASK)[1].isnan().all()
    assert_close(masked.normalize(X, 2, 1, mask=MASK), fb.tensor([[10**-0.5, 0.0, 3 * 10**-0.5], [0.0, 0.0, 0.0]]))
    assert_close(masked.cumsum(X, 1, mask=MASK), fb.tensor([[1.0, 1.0, 4.0], [0.0, 0.0, 0.0]]))
    assert_close(masked.cumprod(X, 1, mask=MASK), fb.tensor([[1.0, 1.0, 3.0], [1.0, 1.0, 1.0]]))
    assert_close(masked.logaddexp(X, X, input_mask=MASK, other_mask=~MASK), X)


def test_without_a_mask_they_are_the_ops():
    for name in ("sum", "amax", "amin", "mean", "var", "std", "logsumexp"):
        assert_close(getattr(masked, name)(X, 0), getattr(fb, name)(X, 0))
    assert_close(masked.prod(X), X.prod())
    assert masked.argmax(X) == 5
    assert_close(masked.sum(fb.tensor(2.0), mask=fb.tensor(False)), fb.tensor(0.0))
    assert_close(masked.sum(fb.tensor(2.0), 0), fb.tensor(2.0))


def test_dtypes():
    i = X.int()
    assert masked.sum(i, 1, mask=MASK).dtype is fb.int64
    assert masked.amax(i, 1, mask=MASK).tolist() == [3, -(2**31)]
    assert masked.cumsum(i, 1, mask=MASK).dtype is fb.int32
    assert masked.var(i, 1, mask=MASK).dtype is fb.float32
    assert masked.logsumexp(i, 1, mask=MASK).tolist() == [3, -(2**31)]
    big = fb.tensor([2**62, 2**62 + 1, 2**62 + 2])
    assert masked.median(big, 0, mask=fb.tensor([True, True, False])).item() == 2**62
    assert masked.mean(fb.full((4,), 60000.0, dtype=fb.float16), mask=fb.tensor([True])).item() == 60000
    assert_close(masked.var(fb.tensor([1 + 2j, 3, 5j]), 0, mask=fb.tensor([True, True, False])), fb.tensor(4 + 0j))
    assert_close(masked.sum(X, 1, mask=fb.tensor([1, 0, 2])), fb.tensor([4.0, 10.0]))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: masked.sum([1, 2]), TypeError, "masked.sum: expected input to be a tensor, got list"),
        (lambda: masked.sum(X, 5), IndexError, "Dimension out of range"),
        (lambda: masked.sum(X, (0, -2)), RuntimeError, "appears multiple times"),
        (lambda: masked.sum(X, mask=[True]), TypeError, "expected mask to be a bool tensor, got list"),
        (lambda: masked.sum(X, mask=MASK[None]), IndexError, "mask dimensionality higher"),
        (lambda: masked.mean(X.int(), 1), ValueError, "Could not infer output dtype"),
        (lambda: masked.median(X.int(), 1, mask=MASK), ValueError, "no fully masked out rows"),
        (lambda: masked.var(X, 1, True, correction=0), ValueError, "Only one of unbiased and correction"),
        (lambda: masked.amax(X.to(fb.complex64), 1, mask=MASK), TypeError, "complex numbers have no order"),
        (lambda: masked.median(X.to_sparse()), ValueError, "expected a strided tensor"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
