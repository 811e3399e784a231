"""sparse_mask, gradient checks of functions that give sparse tensors, and empty tensors of a layout."""

import pytest

import flambeau as fb

DENSE = fb.arange(1.0, 25.0).reshape(4, 6)
MASK = fb.tensor([[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0] * 6, [0, 0, 1, 0, 0, 1.0]])
LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 3)),
    "bsc": lambda x: x.to_sparse_bsc((2, 3)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_elements_at_the_places_of_a_mask(name):
    mask = LAYOUTS[name](MASK.bool())
    kept = mask._with(fb.ones_like(mask._values(), dtype=fb.float32)).to_dense()
    for x in (DENSE, DENSE.to_sparse(), DENSE.to_sparse_csr(), (DENSE * (DENSE > 9)).to_sparse()):
        found = x.sparse_mask(mask)
        assert found.layout is mask.layout and found.dtype == fb.float32 and found._nnz() == mask._nnz()
        assert found.to_dense().equal(x.to_dense() * kept)


def test_masks_with_dense_dimensions_repetitions_and_nothing():
    x = fb.arange(24.0).reshape(3, 4, 2)
    mask = fb.sparse_coo_tensor([[2, 0, 2], [1, 3, 1]], fb.zeros(3, 2), (3, 4, 2))
    found = x.sparse_mask(mask)
    assert not found.is_coalesced() and found._values().equal(x[[2, 0, 2], [1, 3, 1]])
    assert x.to_sparse().sparse_mask(mask)._values().equal(found._values())
    nothing = fb.sparse_coo_tensor(size=(3, 4, 2))
    assert x.sparse_mask(nothing)._nnz() == 0
    assert fb.sparse_coo_tensor(size=(3, 4)).sparse_mask(x[..., 0].to_sparse())._values().equal(fb.zeros(11))


def test_gradients_reach_the_masked_tensor():
    x = DENSE.clone().requires_grad_()
    x.sparse_mask(LAYOUTS["bsr"](MASK)).to_dense().sum().backward()
    expected = fb.zeros(4, 6)
    expected[:2] = expected[2:, :3] = expected[2:, 3:] = 1
    assert x.grad.equal(expected)
    y = DENSE.to_sparse().requires_grad_()
    y.sparse_mask(MASK.to_sparse()).to_dense().sum().backward()
    assert y.grad.to_dense().equal(MASK)


def test_what_is_no_mask():
    with pytest.raises(fb.errors.ArgumentError, match="operands have incompatible sizes"):
        DENSE.sparse_mask(fb.eye(3).to_sparse())
    with pytest.raises(fb.errors.DTypeError, match="expected mask to be a sparse tensor"):
        DENSE.sparse_mask(MASK)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_gradcheck_of_sparse_results(name, masked):
    check = fb.sparse.as_sparse_gradcheck(fb.autograd.gradcheck)
    x = fb.tensor([[0.0, 1.0, 0, 0, 5.0, 2.0], [0, 2.0, 0, 3.0, 0, 1.0]] * 2, dtype=fb.float64).to_sparse().requires_grad_()
    assert check(lambda x: LAYOUTS[name](x * 2), x, masked=masked)

    class Wrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda x: x._with(Wrong.apply(x._values())), x, masked=masked)


def test_the_strided_layout():
    x = DENSE.to_sparse_csr()
    assert x.to_sparse(layout=fb.strided).equal(DENSE) and DENSE.to_sparse(layout=fb.strided) is DENSE
    with pytest.raises(fb.errors.ArgumentError, match="not for layout=fb.strided"):
        DENSE.to_sparse(layout=fb.strided, blocksize=(2, 2))


@pytest.mark.parametrize(("name", "turned"), [("csr", "csc"), ("csc", "csr"), ("bsr", "bsc"), ("bsc", "bsr")])
def test_zeros_in_the_other_direction(name, turned):
    x = LAYOUTS[name](DENSE)
    zeros = fb.zeros_like(x, layout=getattr(fb, f"sparse_{turned}"))
    assert zeros.layout is getattr(fb, f"sparse_{turned}") and zeros._nnz() == 0 and zeros.shape == x.shape
    assert zeros.to_dense().equal(fb.zeros(4, 6))
    places = fb.zeros_like(x, layout=fb.sparse_coo)
    assert places.is_sparse and places._nnz() == 0 and places.sparse_dim() == 2 and places.to_dense().equal(fb.zeros(4, 6))
    assert fb.zeros_like(x, layout=fb.strided).equal(fb.zeros(4, 6))
    wrong = fb.sparse_bsr if turned in ("csr", "csc") else fb.sparse_csr
    with pytest.raises(fb.errors.ArgumentError, match="different sparse layout is not supported"):
        fb.zeros_like(x, layout=wrong)
    with pytest.raises(fb.errors.ArgumentError, match="different sparse layout is not supported"):
        fb.empty_like(x, layout=getattr(fb, f"sparse_{turned}"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_autograd_of_sparse_tensors(name):
    x, g = MASK.clone().requires_grad_(), fb.randn(4, 6)
    mask = LAYOUTS[name](MASK)
    kept = mask._with(fb.ones_like(mask._values())).to_dense()
    for given in (g, g.sparse_mask(mask), g.to_sparse()):
        assert fb.autograd.grad(LAYOUTS[name](x) * 2, x, given)[0].equal(2 * g * (MASK != 0))
    leaf = LAYOUTS[name](MASK).requires_grad_()
    (found,) = fb.autograd.grad((leaf * 3).to_dense(), leaf, g)
    assert found.layout is leaf.layout and found.to_dense().equal(3 * g * kept)
    fb.autograd.backward([leaf * 3, x * 2], [g, g], inputs=[leaf, x])
    assert leaf.grad.to_dense().equal(3 * g * kept) and x.grad.equal(2 * g)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar"):
        fb.autograd.grad(leaf * 3, leaf)
    with pytest.raises(RuntimeError, match="is_grads_batched is not available"):
        fb.autograd.grad(leaf * 3, leaf, fb.randn(2, 4, 6), is_grads_batched=True)
    assert fb.autograd.grad((x * 2).sum(), [x, leaf], allow_unused=True)[1] is None


def test_square_blocks_by_one_number():
    assert DENSE[:, :4].to_sparse_bsr(2).values().shape == (4, 2, 2)
    assert DENSE.to_sparse(layout=fb.sparse_bsc, blocksize=2).to_sparse_bsc(2).to_dense().equal(DENSE)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6), (0, 6)])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layers_with_sparse_weights(name, shape):
    layer = fb.nn.Linear(6, 4)
    weight = MASK * fb.randn(4, 6)
    layer.weight = fb.nn.Parameter(LAYOUTS[name](weight))
    assert layer.weight.requires_grad and next(iter(layer.parameters())).layout is LAYOUTS[name](MASK).layout
    x = fb.randn(shape, requires_grad=True)
    y = layer(x)
    assert fb.allclose(y, fb.nn.functional.linear(x, weight, layer.bias), atol=1e-6) and y.shape == (*shape[:-1], 4)
    y.sum().backward()
    assert fb.allclose(x.grad, weight.sum(0).expand(shape), atol=1e-6)
    expected = x.detach().reshape(-1, 6).sum(0).expand(4, 6)
    assert fb.allclose(layer.weight.grad.to_dense(), expected.sparse_mask(LAYOUTS[name](weight)).to_dense(), atol=1e-6)
    with pytest.raises(fb.errors.ArgumentError, match="does not fit|cannot be multiplied|fit"):
        layer(fb.randn(2, 5))


def test_sparse_tensors_do_not_change_their_class():
    x = DENSE.to_sparse()
    assert x.as_subclass(type(x)).to_dense().equal(DENSE)
    with pytest.raises(fb.errors.DTypeError, match="cannot become"):
        x.as_subclass(fb.nn.Parameter)
