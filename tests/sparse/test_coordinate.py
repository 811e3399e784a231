"""Sparse tensors: construction, conversion, products with gradients, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fb
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError, StateError

INDICES = [[0, 1, 1, 2, 3], [1, 0, 0, 2, 1]]


def coo(values=None, **options):
    values = fb.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) if values is None else values
    return fb.sparse_coo_tensor(INDICES, values, (4, 3), **options)


def dense_of(x):
    """The elements by NumPy, repeated places added."""
    out = np.zeros(tuple(x.shape), x._values().numpy().dtype)
    np.add.at(out, tuple(x._indices().numpy()), x._values().detach().numpy())
    return out


def test_parts_and_layout():
    x = coo()
    assert isinstance(x, fb.Tensor) and x.is_sparse and not x.is_sparse_csr and x.layout is fb.sparse_coo
    assert x.shape == (4, 3) and x.ndim == 2 and x.dtype == fb.float32 and x.sparse_dim() == 2 and x.dense_dim() == 0
    assert x._nnz() == 5 and not x.is_coalesced()
    with pytest.raises(StateError, match=r"values: .*coalesce\(\)"):
        x.values()
    y = x.coalesce()
    assert y.is_coalesced() and y.indices().tolist() == [[0, 1, 2, 3], [1, 0, 2, 1]] and y.values().tolist() == [1.0, 5.0, 4.0, 5.0]
    assert y.coalesce() is y
    assert np.array_equal(x.to_dense().numpy(), dense_of(x))


def test_dense_to_sparse_and_back():
    d = fb.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, -1.0]])
    s = d.to_sparse()
    assert s.is_coalesced() and s.indices().tolist() == [[0, 1, 1], [1, 0, 2]] and fb.equal(s.to_dense(), d)
    assert fb.equal(d.to_sparse(1).to_dense(), d) and d.to_sparse(1).dense_dim() == 1
    assert fb.equal(fb.zeros(2, 2).to_sparse().to_dense(), fb.zeros(2, 2))
    assert fb.equal(fb.sparse_coo_tensor(size=(2, 3)).to_dense(), fb.zeros(2, 3))
    assert d.to_dense() is d


def test_compressed_rows():
    c = fb.sparse_csr_tensor([0, 2, 3], [0, 1, 2], [1.0, 2.0, 3.0], (2, 3))
    assert c.layout is fb.sparse_csr and c.is_sparse_csr and not c.is_sparse
    assert c.crow_indices().tolist() == [0, 2, 3] and c.col_indices().tolist() == [0, 1, 2]
    assert c.to_dense().tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    assert (c @ fb.ones(3)).tolist() == [3.0, 3.0]
    assert coo().to_sparse_csr().crow_indices().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ArgumentError, match="crow_indices must rise"):
        fb.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 3))


@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_products(kind):
    a = coo() if kind == "coo" else coo().to_sparse_csr()
    d, b, left = dense_of(coo()), fb.arange(6.0).view(3, 2), fb.arange(8.0).view(2, 4)
    want = d @ b.numpy()
    for got in (a @ b, fb.mm(a, b), fb.spmm(a, b), fb.sparse.mm(a, b), a.matmul(b), fb.matmul(a, b)):
        assert np.allclose(got.numpy(), want)
    assert np.allclose((left @ a).numpy(), left.numpy() @ d)
    assert np.allclose((a @ fb.ones(3)).numpy(), d.sum(1))
    assert np.allclose(fb.nn.functional.linear(a, fb.ones(2, 3), fb.ones(2)).numpy(), d @ np.ones((3, 2)) + 1)
    both = fb.sparse.mm(a, a.t())
    assert both.layout is a.layout and np.allclose(both.to_dense().numpy(), d @ d.T)
    assert np.allclose(fb.sparse.addmm(fb.ones(4, 2), a, b, beta=0.5, alpha=2).numpy(), 0.5 + 2 * want)


def test_gradients_flow_into_values_and_the_dense_factor():
    values = fb.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=fb.float64, requires_grad=True)
    b = fb.linspace(-1, 1, 6, dtype=fb.float64).view(3, 2).requires_grad_()
    assert fb.autograd.gradcheck(lambda v, b: coo(v) @ b, (values, b))
    assert fb.autograd.gradcheck(lambda v: fb.sparse.mm(coo(v), coo(v).t()).to_dense(), (values,))
    assert fb.autograd.gradcheck(lambda v: fb.sparse.softmax(coo(v), 1).to_dense(), (values,))
    assert fb.autograd.gradcheck(lambda v: fb.sparse.sum(coo(v), 0).to_dense(), (values,))


def test_leaf_has_a_sparse_gradient():
    a = fb.eye(3).to_sparse().requires_grad_()
    (a @ fb.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert a.requires_grad and a.is_leaf and a.grad.is_sparse and a.grad.values().tolist() == [1.0, 2.0, 3.0]


def test_kept_for_backward_of_a_function():
    class Product(fb.autograd.Function):
        @staticmethod
        def forward(ctx, values, b):
            a = coo(values)
            ctx.save_for_backward(a, b)
            return fb.matmul(a, b)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            rows, columns = a._indices()
            return (g @ b.t())[rows, columns], a.t() @ g

    values = fb.ones(5, dtype=fb.float64, requires_grad=True)
    b = fb.linspace(-1, 1, 6, dtype=fb.float64).view(3, 2).requires_grad_()
    assert fb.autograd.gradcheck(Product.apply, (values, b))


def test_arithmetic():
    a, d = coo(), dense_of(coo())
    other = fb.arange(12.0).view(4, 3)
    for got, want in [
        (a * 2, d * 2), (3 * a, d * 3), (a / 2, d / 2), (-a, -d), (a + a, d + d), (a - a, d - d), (a * other, d * other.numpy()),
        (other * a, d * other.numpy()), (a.coalesce() * (other > 4).float().to_sparse(), d * (other.numpy() > 4)),
        (a**2, d**2), (fb.tanh(a), np.tanh(d)), (a.abs(), abs(d)), (a.t(), d.T), (a.transpose(0, 1), d.T), (a.T, d.T),
        (a.double(), d), (a.clone(), d), (a.detach(), d), (a.unsqueeze(0), d[None]), (fb.cat([a, a]), np.concatenate([d, d])),
        (fb.cat([a, a], 1), np.concatenate([d, d], 1)), (a[1], d[1]), (a.index_select(0, fb.tensor([2, 0])), d[[2, 0]]),
        (a.sum(0), d.sum(0)), (a.sum(1, keepdim=True), d.sum(1, keepdims=True)), (a.to("cpu", fb.float64), d),
    ]:  # fmt: skip
        assert got.is_sparse and np.allclose(got.to_dense().numpy(), want)
    assert np.allclose((other + a).numpy(), other.numpy() + d) and np.allclose((other - a).numpy(), other.numpy() - d)
    assert a.sum() == 15.0 and fb.allclose(a.norm(), fb.tensor(np.linalg.norm(d)))
    scaled = coo()
    scaled.mul_(2)
    assert np.allclose(scaled.to_dense().numpy(), 2 * d)


def test_softmax_leaves_out_what_is_not_kept():
    x = fb.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 2.0, 7.0], (2, 3))
    e = np.exp([1.0, 2.0])
    assert np.allclose(fb.sparse.softmax(x, 1).values().numpy(), [*(e / e.sum()), 1.0])
    assert np.allclose(fb.sparse.log_softmax(x, 1).values().numpy(), [*np.log(e / e.sum()), 0.0], atol=1e-6)


def test_hybrid_and_diagonals():
    x = fb.sparse_coo_tensor([[0, 2, 2]], fb.arange(6.0).view(3, 2), (3, 2))
    assert x.dense_dim() == 1 and x.to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0], [6.0, 8.0]]
    d = fb.sparse.spdiags(fb.arange(9.0).view(3, 3), fb.tensor([0, -1, 2]), (3, 4))
    assert d.to_dense().tolist() == [[0.0, 0.0, 8.0, 0.0], [3.0, 1.0, 0.0, 0.0], [0.0, 4.0, 2.0, 0.0]]


def test_older_names_and_copies():
    x = fb.sparse.FloatTensor(fb.tensor([[0, 1], [1, 0]]), fb.tensor([1.0, 2.0]), fb.Size([2, 2]))
    assert isinstance(x, fb.sparse.FloatTensor) and not isinstance(x, fb.sparse.LongTensor)
    assert not isinstance(fb.ones(2), fb.sparse.FloatTensor)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.is_sparse and fb.equal(y.to_dense(), x.to_dense())
    m = fb.nn.Linear(2, 2)
    m.register_buffer("adjacency", x)
    assert m.double().adjacency.dtype == fb.float64 and m.adjacency.is_sparse


def test_text():
    assert repr(coo()) == (
        "tensor(indices=tensor([[0, 1, 1, 2, 3],\n                       [1, 0, 0, 2, 1]]),\n"
        "       values=tensor([1., 2., 3., 4., 5.]),\n       size=(4, 3), nnz=5, layout=flambeau.sparse_coo)"
    )


def test_refusals_say_the_way_out():
    with pytest.raises(OutOfRangeError, match="index 3, which is out of range for dim 1 of size 3"):
        fb.sparse_coo_tensor([[0], [3]], [1.0], (2, 3))
    with pytest.raises(OutOfRangeError, match="index -1"):
        fb.sparse_coo_tensor([[-1], [0]], [1.0], (2, 3))
    with pytest.raises(ArgumentError, match="indices and values must have same nnz, got 2 indices for 1 values"):
        fb.sparse_coo_tensor([[0, 1]], [1.0], (2,))
    with pytest.raises(ArgumentError, match="must be sparse_dim"):
        fb.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 2))
    with pytest.raises(ArgumentError, match="cannot be multiplied"):
        coo() @ fb.ones(4, 1)
    for call in (lambda: coo().exp(), lambda: coo() + 1, lambda: coo().numpy(), lambda: coo().view(12), lambda: coo() + fb.ones(4, 3)):
        with pytest.raises(DTypeError, match="to_dense"):
            call()
    with pytest.raises(DTypeError, match="one dtype"):
        coo() @ fb.ones(3, 1, dtype=fb.float64)


def test_checking_invariants_is_a_block_and_a_decorator():
    @fb.sparse.check_sparse_tensor_invariants(enable=True)
    def made():
        return fb.sparse.check_sparse_tensor_invariants.is_enabled()

    assert made()


def test_dense_tensors_say_which_layout_a_method_wants():
    dense = fb.eye(2)
    wants = {"indices": "coordinate ", "coalesce": "coordinate ", "is_coalesced": "coordinate ", "values": ""}
    wants |= {"crow_indices": "row compressed ", "col_indices": "row compressed "}
    wants |= {"ccol_indices": "column compressed ", "row_indices": "column compressed "}
    for name, layout in wants.items():
        with pytest.raises(RuntimeError, match=f"^{name} expected sparse {layout}tensor layout but got Strided"):
            getattr(dense, name)()
    assert (dense.sparse_dim(), dense.dense_dim()) == (0, 2)
    rows = dense.to_sparse_csr()
    assert fb.Tensor.crow_indices(rows).tolist() == [0, 1, 2] and fb.Tensor.values(rows).tolist() == [1.0, 1.0]
    assert fb.Tensor.sparse_dim(dense.to_sparse(1)) == fb.Tensor.dense_dim(dense.to_sparse(1)) == 1
    assert (dense.to_sparse(1).sparse_dim(), dense.to_sparse(1).dense_dim()) == (1, 1)


def test_functions_of_the_kept_elements_in_place_and_into_out():
    x = fb.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [-1.0, 2.0, 3.0], (2, 2))
    expected = x.to_dense().sin()
    out = fb.sparse_coo_tensor([[0], [0]], [1.0], (2, 2))
    assert fb.sin(x, out=out) is out and fb.equal(out.to_dense(), expected)
    with pytest.raises(RuntimeError, match="sin_ requires coalesced input"):
        x.sin_()
    x = x.coalesce()
    assert x.sin_() is x and fb.equal(x.to_dense(), expected) and x.is_coalesced()
    rows = fb.eye(3).to_sparse_csr()
    assert fb.equal(rows.neg_().to_dense(), -fb.eye(3))
    dense = fb.zeros(3)
    assert fb.mv(rows, fb.ones(3), out=dense) is dense and dense.tolist() == [-1.0, -1.0, -1.0]
    with pytest.raises(TypeError, match="can't be cast to the desired output type"):
        fb.eye(2, dtype=fb.int64).to_sparse().sin_()
    with pytest.raises(TypeError, match="can't be cast to the desired output type"):
        fb.sin(x, out=fb.eye(2, dtype=fb.int64).to_sparse())
    with pytest.raises(TypeError, match="out= must be sparse"):
        fb.sin(x, out=fb.zeros(2, 2))
    with pytest.raises(RuntimeError, match="cannot hold a result of shape"):
        fb.sin(x, out=fb.eye(3).to_sparse())


def test_a_number_becomes_sparse():
    assert fb.tensor(0.0).to_sparse()._nnz() == 0 and fb.tensor(0.0).to_sparse().to_dense().item() == 0
    assert fb.tensor(2.0).to_sparse().to_dense().item() == 2


@pytest.mark.parametrize("layout", [fb.sparse_coo, fb.sparse_csr])
def test_arithmetic_in_place(layout):
    dense = fb.tensor([[1.0, 0.0, -2.0], [0.0, 3.0, 4.0]])
    other = fb.tensor([[0.0, 5.0, 1.0], [0.0, 2.0, 0.0]])
    for name, operand in {"add": other, "sub": other, "mul": other, "div": 2.0, "floor_divide": 2.0, "pow": 2}.items():
        x = dense.to_sparse(layout=layout)
        sparse = operand.to_sparse(layout=layout) if isinstance(operand, fb.Tensor) else operand
        assert getattr(x, name + "_")(sparse) is x and x.layout is layout
        assert fb.equal(x.to_dense(), getattr(dense, name)(operand)), name
    total = dense.clone()
    total.add_(other.to_sparse(layout=layout), alpha=2)
    assert fb.equal(total, dense + 2 * other)
    assert dense.to_sparse(layout=layout).zero_()._nnz() == 0
    with pytest.raises(TypeError, match="Sparse division requires a scalar or zero-dim dense tensor divisor"):
        dense.to_sparse(layout=layout).div_(other)
    with pytest.raises(RuntimeError, match=r"same size, but self has size \[2, 3\] while other has size \[3\]"):
        dense.to_sparse(layout=layout).add_(fb.ones(3).to_sparse())


def test_parts_of_tensors_of_any_rank():
    dense = fb.arange(24.0).reshape(2, 3, 4) * (fb.arange(24).reshape(2, 3, 4) % 3 > 0)
    for x in (dense.to_sparse(), dense.to_sparse(2), (dense.to_sparse() + dense.to_sparse()) * 0.5):
        for dim, size in enumerate(dense.shape):
            index = fb.tensor([size - 1, 0, 0])
            assert fb.equal(x.index_select(dim, index).to_dense(), dense.index_select(dim, index))
            assert fb.equal(x.narrow_copy(dim, 1, size - 1).to_dense(), dense.narrow(dim, 1, size - 1))
            assert fb.equal(x.select(dim, -1).to_dense(), dense.select(dim, -1))
        assert fb.equal(fb.stack([x, x], 1).to_dense(), fb.stack([dense, dense], 1))
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.index_select(3, fb.tensor([0]))
        with pytest.raises(IndexError, match=r"index 2 out of range for tensor of size \[2, 3, 4\] at dimension 0"):
            x.select(0, 2)
        with pytest.raises(IndexError, match="exceeds dimension size"):
            x.narrow_copy(0, 1, 2)
    leaf = fb.tensor([1.0, 2.0], requires_grad=True)
    fb.sparse_coo_tensor([[0, 1]], leaf, (2,)).index_select(0, fb.tensor([1, 1])).to_dense().sum().backward()
    assert leaf.grad.tolist() == [0.0, 2.0]


def test_sums_of_integers_do_not_overflow():
    x = fb.tensor([[100, 100, 0], [0, 100, 100]], dtype=fb.int8)
    for layout in (fb.sparse_coo, fb.sparse_csr):
        s = x.to_sparse(layout=layout)
        assert s.sum().dtype == fb.int64 and s.sum() == 400
        total = fb.sum(s, 1) if layout is fb.sparse_coo else s.sum()
        assert total.dtype == fb.int64
    assert x.to_sparse().sum(1).to_dense().tolist() == [200, 200]
    assert x.to_sparse().sum(0).to_dense().tolist() == [100, 200, 100]
    assert (x > 0).to_sparse().sum(1).to_dense().tolist() == [2, 2]


def test_products_broadcast():
    a = fb.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    row, column, wide = fb.tensor([[2.0, 0.0, 5.0]]), fb.tensor([[3.0], [0.0]]), fb.ones(4, 2, 3)
    for other in (row, column, wide, fb.tensor(2.0), fb.tensor([1.0, 2.0, 3.0])):
        for right in (other, other.to_sparse()):
            assert (a.to_sparse() * right).to_dense().equal(a * other)
            assert (right * a.to_sparse()).to_dense().equal(a * other)
    hybrid = fb.arange(12.0).view(2, 3, 2).to_sparse(1)
    assert (hybrid * fb.tensor(2.0).to_sparse()).to_dense().equal(hybrid.to_dense() * 2)
    x = a.to_sparse().requires_grad_()
    (x * row.to_sparse()).to_dense().sum().backward()
    assert x.grad.to_dense().tolist() == [[2, 0, 5], [0, 0, 0]]


def test_batches_of_products():
    a, b = fb.randn(3, 4, 5, dtype=fb.float64), fb.randn(3, 5, 2, dtype=fb.float64)
    a[1], a[2, :, 3] = 0, 0
    fb.testing.assert_close(a.to_sparse().bmm(b), a.bmm(b))
    assert fb.bmm(fb.zeros(2, 0, 5).to_sparse(), fb.ones(2, 5, 3)).shape == (2, 0, 3)
    with pytest.raises(ValueError, match="inner sizes must agree"):
        a.to_sparse().bmm(b[:, :4])


def test_any_along_a_dimension():
    x = fb.tensor([[0, 1, 0], [0, 0, 0]]).to_sparse()
    assert x.any(1).to_dense().tolist() == [True, False] and x.any(0).to_dense().tolist() == [False, True, False]
    cancels = fb.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, -1.0], (2, 2))
    assert not cancels.any(1).to_dense().any()


def test_numbers_that_make_a_tensor():
    assert fb.sparse_coo_tensor(fb.tensor([[0.0, 2.0]]), fb.ones(2), (3,)).to_dense().tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="whole numbers"):
        fb.sparse_coo_tensor(fb.tensor([[0.5]]), fb.ones(1), (3,))
    empty = fb.sparse_coo_tensor(fb.empty(3, 0), fb.empty(0, 2, 4))
    assert empty.shape == (0, 0, 0, 2, 4) and empty._nnz() == 0
    with pytest.raises(ValueError, match="values has incorrect size"):
        fb.sparse_coo_tensor([[0]], fb.ones(1, 2), (1, 3))


@pytest.mark.parametrize(
    "diagonals, offsets, shape, message",
    [
        (fb.ones(2, 5), [0, 0], (5, 5), "duplicate"), (fb.ones(3, 3), [-1, 0], (3, 3), "does not match the number"),
        (fb.ones(1, 3), [0], (3, 2, 3), "must be 2d"), (fb.ones(1, 2, 3), [0], (3, 3), "vector or matrix"),
        (fb.ones(1, 5), fb.zeros(1, dtype=fb.int32), (5, 5), "dtype Long"),
    ],
)  # fmt: skip
def test_diagonals_that_do_not_fit(diagonals, offsets, shape, message):
    with pytest.raises(RuntimeError, match=message):
        fb.sparse.spdiags(diagonals, fb.as_tensor(offsets), shape)


def test_no_diagonals():
    assert not fb.sparse.spdiags(fb.ones(0, 3), fb.tensor([], dtype=fb.int64), (3, 3)).to_dense().any()
