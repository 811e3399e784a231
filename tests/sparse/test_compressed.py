"""Compressed sparse layouts: CSR, CSC, BSR and BSC, their parts, conversions, products, text and files."""

import copy
import pickle

import pytest

import flambeau as fb

DENSE = fb.tensor([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 0], [0, 0, 0, 5]])
MADE = {
    "csr": lambda x=DENSE: x.to_sparse_csr(),
    "csc": lambda x=DENSE: x.to_sparse_csc(),
    "bsr": lambda x=DENSE: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x=DENSE: x.to_sparse_bsc((2, 2)),
}
STARTS = {"csr": ("crow_indices", "col_indices"), "csc": ("ccol_indices", "row_indices")}
STARTS |= {"bsr": STARTS["csr"], "bsc": STARTS["csc"]}


@pytest.fixture(params=sorted(MADE))
def name(request):
    return request.param


def parts(x, name):
    return [getattr(x, part)().tolist() for part in STARTS[name]]


def test_parts():
    assert parts(MADE["csr"](), "csr") == [[0, 2, 3, 4, 5], [0, 2, 2, 1, 3]]
    assert parts(MADE["csc"](), "csc") == [[0, 1, 2, 4, 5], [0, 2, 0, 1, 3]]
    assert MADE["csc"]().values().tolist() == [1, 4, 2, 3, 5]
    assert parts(MADE["bsr"](), "bsr") == [[0, 2, 4], [0, 1, 0, 1]]
    assert MADE["bsr"]().values()[1].tolist() == [[2, 0], [3, 0]] and MADE["bsc"]().values()[1].tolist() == [[0, 4], [0, 0]]


def test_what_a_layout_is(name):
    x = MADE[name]()
    layout = getattr(fb, f"sparse_{name}")
    assert x.layout is layout and not x.is_sparse and x.is_sparse_csr == (name == "csr") and x.sparse_dim() == 2 and x.dense_dim() == 0
    assert x.shape == (4, 4) and x.dtype == fb.float32 and x.to_dense().equal(DENSE) and x._nnz() == x.values().shape[0]
    other = STARTS["csc" if name.endswith("r") else "csr"]
    for part in other:
        kind = "column" if name.endswith("r") else "row"
        with pytest.raises(RuntimeError, match=f"{part} expected sparse {kind} compressed tensor layout but got Sparse{name.capitalize()}"):
            getattr(x, part)()
    for call in (x.indices, x.coalesce, x.is_coalesced):
        with pytest.raises(RuntimeError, match=f"expected sparse coordinate tensor layout but got Sparse{name.capitalize()}"):
            call()


@pytest.mark.parametrize("target", ["coo", *sorted(MADE)])
def test_conversions(name, target):
    x = MADE[name]()
    options = {"blocksize": (2, 2)} if target.startswith("b") else {}
    layout = getattr(fb, f"sparse_{target}")
    for made in (x.to_sparse(layout=layout, **options), getattr(x, f"to_sparse_{target}")(*options.values())):
        assert made.layout is layout and made.to_dense().equal(DENSE)
    if target != "coo" and not (name.startswith("b") and target.startswith("c")):  # zeros in blocks stay
        assert parts(made, target) == parts(DENSE.to_sparse(layout=layout, **options), target)


def test_constructors(name):
    x = MADE[name]()
    starts, plain = (getattr(x, part)() for part in STARTS[name])
    layout = getattr(fb, f"sparse_{name}")
    for again in (
        getattr(fb, f"sparse_{name}_tensor")(starts, plain, x.values()),
        getattr(fb, f"sparse_{name}_tensor")(starts.int(), plain.int(), x.values().double(), (4, 4), dtype=fb.float32),
        fb.sparse_compressed_tensor(starts, plain, x.values(), (4, 4), layout=layout),
    ):
        assert again.layout is layout and again.to_dense().equal(DENSE) and again.dtype == fb.float32
    assert getattr(fb, f"sparse_{name}_tensor")(starts.int(), plain.int(), x.values()).to(fb.float64).t().t().values().dtype == fb.float64
    narrow = getattr(fb, f"sparse_{name}_tensor")(starts.int(), plain.int(), x.values())
    assert {getattr(narrow, part)().dtype for part in STARTS[name]} == {fb.int32}
    make = getattr(fb, f"sparse_{name}_tensor")
    with pytest.raises(ValueError, match=f"{STARTS[name][0]} must rise from 0 to {len(plain)}"):
        make(starts + 1, plain, x.values())
    with pytest.raises(ValueError, match="sorted and distinct"):
        make([0, 2], [1, 0], x.values()[:2])
    with pytest.raises(RuntimeError):
        make(starts, plain + 9, x.values(), (4, 4))
    with pytest.raises(ValueError, match="does not fit"):
        make(starts, plain, x.values(), (5, 4) if name.endswith("r") else (4, 5))
    with pytest.raises(ValueError, match=r"values must have dimensionality > sum of batch and block dimensionalities"):
        make(fb.stack([starts, starts]), fb.stack([plain, plain]), x.values()[0])
    with pytest.raises(ValueError, match="or batches of vectors of one shape"):
        make(fb.stack([starts, starts]), plain, x.values())
    with pytest.raises(ValueError, match="one value for each index"):
        make(starts, plain, x.values()[:-1])


def test_ops(name):
    x, layout = MADE[name](), getattr(fb, f"sparse_{name}")
    for result, expected in (
        (x * 2, DENSE * 2), (x + x, DENSE * 2), (x.sin(), DENSE.sin()), (-x, -DENSE), (x / 2, DENSE / 2), (x.clone(), DENSE),
        (x.to(fb.float64), DENSE.double()), (fb.zeros_like(x), DENSE * 0), (x.abs(), DENSE), (x - x * 3, DENSE * -2),
    ):  # fmt: skip
        assert result.layout is layout and fb.allclose(result.to_dense(), expected.to(result.dtype))
    turned = {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}[name]
    for t in (x.t(), x.transpose(0, 1), x.permute(1, 0)):
        assert t.layout is getattr(fb, f"sparse_{turned}") and t.to_dense().equal(DENSE.t())
    other = fb.arange(12.0).view(4, 3)
    assert fb.allclose(x @ other, DENSE @ other) and fb.allclose(other.t() @ x, other.t() @ DENSE)
    assert fb.allclose(x @ other[:, 0], DENSE @ other[:, 0]) and x.sum().item() == 15
    assert fb.allclose(fb.addmm(fb.ones(4, 3), x, other, beta=2), 2 + DENSE @ other)
    assert fb.allclose((x @ x).to_dense(), DENSE @ DENSE) and fb.allclose((x @ x.t()).to_dense(), DENSE @ DENSE.t())
    assert copy.deepcopy(x).to_dense().equal(DENSE) and pickle.loads(pickle.dumps(x)).layout is layout


def test_gradients(name):
    x = DENSE.clone().requires_grad_()
    weight = fb.arange(8.0).view(4, 2)
    (MADE[name](x) @ weight).sum().backward()
    expected = weight.sum(1).expand(4, 4)
    kept = DENSE != 0
    assert fb.allclose(x.grad[kept], expected[kept])


def test_dense_dimensions_and_blocks():
    x = fb.arange(24.0).view(2, 3, 4)
    for name in ("csr", "csc"):
        made = getattr(x, f"to_sparse_{name}")(dense_dim=1)
        assert made.dense_dim() == 1 and made.values().shape == (6, 4) and made.to_dense().equal(x)
    wide = fb.arange(12.0).view(2, 6)
    assert wide.to_sparse_bsr((1, 3)).values().shape == (4, 1, 3) and wide.to_sparse_bsc((2, 3)).to_dense().equal(wide)
    with pytest.raises(ValueError, match=r"tensor sparse size \(2,6\) must be divisible by given blocksize \(2,4\)"):
        wide.to_sparse_bsr((2, 4))
    with pytest.raises(ValueError, match="blocksize"):
        wide.to_sparse(layout=fb.sparse_bsr)
    with pytest.raises(ValueError, match="blocksize"):
        wide.to_sparse(layout=fb.sparse_csr, blocksize=(1, 1))
    empty = fb.zeros(2, 4)
    for name in MADE:
        made = empty.to_sparse(layout=getattr(fb, f"sparse_{name}"), **({"blocksize": (1, 2)} if name.startswith("b") else {}))
        assert made._nnz() == 0 and made.to_dense().equal(empty)


def test_text():
    assert repr(MADE["csc"]()) == (
        "tensor(ccol_indices=tensor([0, 1, 2, 4, 5]),\n"
        "       row_indices=tensor([0, 2, 0, 1, 3]),\n"
        "       values=tensor([1., 4., 2., 3., 5.]), size=(4, 4), nnz=5,\n"
        "       layout=flambeau.sparse_csc)"
    )
    shown = repr(DENSE[:2].double().to_sparse_bsr((2, 4)))
    assert shown.endswith("size=(2, 4), nnz=1,\n       layout=flambeau.sparse_bsr, dtype=flambeau.float64)")
    assert "values=tensor([], size=(0,))" in repr(fb.zeros(2, 2).to_sparse_csr())


def test_files(name, tmp_path):
    x = MADE[name]()
    for file in ("x.pt", "x.safetensors"):
        fb.save({"x": x}, tmp_path / file)
        back = fb.load(tmp_path / file)["x"]
        assert back.layout is x.layout and back.to_dense().equal(DENSE) and parts(back, name) == parts(x, name)


# ---- batches ------------------------------------------------------------------------------------------------------------

BATCH = fb.stack([fb.stack([DENSE, DENSE.t()]), fb.stack([DENSE.flip(0), DENSE * 2]), fb.stack([DENSE, DENSE.flip(1)])])
# Each matrix of a batch keeps equally many blocks.
BLOCKS = fb.ones(3, 2, 4, 4) * fb.eye(2).repeat_interleave(2, 0).repeat_interleave(2, 1) * fb.arange(1.0, 7).view(3, 2, 1, 1)


def batch(name):
    return (BLOCKS if name.startswith("b") else BATCH), MADE[name](BLOCKS if name.startswith("b") else BATCH)


def test_batches(name):
    dense, x = batch(name)
    starts, plain = (getattr(x, part)() for part in STARTS[name])
    count = 2 if name.startswith("b") else 5
    assert x._nnz() == count and x.sparse_dim() == 2 and x.dense_dim() == 0 and x.to_dense().equal(dense)
    assert starts.shape == (3, 2, 3 if name.startswith("b") else 5) and plain.shape == (3, 2, count)
    assert x.values().shape == (3, 2, count, *((2, 2) if name.startswith("b") else ()))
    again = getattr(fb, f"sparse_{name}_tensor")(starts.tolist(), plain.tolist(), x.values().tolist())
    assert again.shape == (3, 2, 4, 4) and again.to_dense().equal(dense)
    for i, j in ((0, 1), (2, 0)):
        one = MADE[name](dense[i, j])
        for picked in (x[i, j], x.select(0, i).select(0, j), x[i][j]):
            assert picked.layout is x.layout and parts(picked, name) == parts(one, name) and picked.to_dense().equal(dense[i, j])
    with pytest.raises(RuntimeError, match="selecting sparse dimensions is not supported for batched sparse compressed tensors"):
        x.select(-1, 0)
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        x[0, 0, 0, 0] = 1
    assert x[0, 0, 0, 0] == 1 and x[0, 0].select(0, 0).to_dense().equal(dense[0, 0, 0])


def test_ops_of_batches(name):
    dense, x = batch(name)
    for result, expected in (
        (x * 2, dense * 2), (x + x, dense * 2), (x.sin(), dense.sin()), (x.clone(), dense), (x.to(fb.float64), dense.double()),
        (fb.zeros_like(x), dense * 0), (copy.deepcopy(x), dense), (pickle.loads(pickle.dumps(x)), dense),
        (x.transpose(-2, -1), dense.mT), (x.transpose(0, 1), dense.transpose(0, 1)), (x.permute(1, 0, 3, 2), dense.permute(1, 0, 3, 2)),
        (x.to_sparse_coo(), dense),
    ):  # fmt: skip
        assert fb.allclose(result.to_dense(), expected.to(result.dtype)) and result.shape == expected.shape
    assert x.transpose(-2, -1).layout is not x.layout and x.transpose(0, 1).layout is x.layout and x.sum() == dense.sum()
    message = r"can only transpose dimensions of the same type \(Batch, Sparse, Dense\), got 1\(Batch\) and 2\(Sparse\)"
    with pytest.raises(RuntimeError, match=message):
        x.transpose(1, 2)
    assert fb.result_type(x, 1.0) == fb.float32 and fb.result_type(x.to(fb.int32), 1) == fb.int32
    drawn = fb.randn_like(x)
    assert parts(drawn, name) == parts(x, name) and not drawn.to_dense().equal(dense)
    source = dense.clone().requires_grad_()
    made = source.to_sparse(layout=x.layout, blocksize=(2, 2) if name.startswith("b") else None)
    (made * 3).to_dense().sum().backward()
    assert source.grad.equal((dense != 0) * 3.0)


def test_batches_that_do_not_fit(name):
    uneven = fb.stack([fb.eye(4), fb.ones(4, 4)])
    with pytest.raises(RuntimeError, match="Expect the same number of specified elements per batch"):
        MADE[name](uneven)
    with pytest.raises(RuntimeError, match=r"sparse_dim\(\)!=2 is not supported"):
        uneven.to_sparse().to_sparse(layout=getattr(fb, f"sparse_{name}"), blocksize=(2, 2) if name.startswith("b") else None)
    other = {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}[name]
    with pytest.raises(RuntimeError, match="empty_like with different sparse layout is not supported"):
        fb.empty_like(MADE[name](), layout=getattr(fb, f"sparse_{other}"))
    x = MADE[name]()
    for source, message in (
        (DENSE, "different layouts"), (MADE[other](), "different layouts"), (MADE[name](fb.eye(4) * fb.eye(4)[0]), "same number"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"copy_: .*{message}"):
            x.copy_(source)
    assert x.copy_(MADE[name](DENSE * 7)).to_dense().equal(DENSE * 7)


def test_dense_dimensions_of_batches():
    x = (fb.arange(48.0) + 1).view(2, 2, 3, 4)
    for target in (fb.sparse_csr, fb.sparse_csc):
        made = x.to_sparse(layout=target, dense_dim=1)
        assert made.dense_dim() == 1 and made.values().shape == (2, 6, 4) and made.to_dense().equal(x)
        assert made.select(3, 1).to_dense().equal(x[..., 1]) and made.transpose(1, 2).to_dense().equal(x.transpose(1, 2))


def test_sampled_addmm():
    for batch in ((), (2,), (2, 3)):
        a, b = fb.randn(*batch, 4, 3), fb.randn(*batch, 3, 4)
        pattern = DENSE.expand(*batch, 4, 4).to_sparse_csr()
        expected = 0.5 * (a @ b) * (DENSE != 0) + 2 * DENSE
        for x in (pattern, MADE["csr"]()):  # one matrix serves every matrix of a batch
            assert fb.allclose(fb.sparse.sampled_addmm(x, a, b, alpha=0.5, beta=2).to_dense(), expected, atol=1e-5)
    a, b = fb.randn(4, 2, requires_grad=True), fb.randn(2, 4, requires_grad=True)
    fb.sparse.sampled_addmm(MADE["csr"](), a, b).values().sum().backward()
    assert fb.allclose(a.grad, (DENSE != 0).float() @ b.detach().t())
    out = MADE["csr"]()
    fb.sparse.sampled_addmm(out, a.detach(), b.detach(), beta=0, out=out)
    assert fb.allclose(out.to_dense(), (a @ b).detach() * (DENSE != 0))
    with pytest.raises(TypeError, match="Expected self to be a sparse matrix"):
        fb.sparse.sampled_addmm(DENSE.to_sparse(), a, b)
    with pytest.raises(ValueError, match="cannot be multiplied"):
        fb.sparse.sampled_addmm(MADE["csr"](), a, a)
    with pytest.raises(ValueError, match="does not fit a product"):
        fb.sparse.sampled_addmm(MADE["csr"](), a[:3], b)
    with pytest.raises(TypeError, match="one dtype"):
        fb.sparse.sampled_addmm(MADE["csr"](), a.double(), b.double())


@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
def test_reduced_products(reduce):
    other = fb.randn(4, 3)
    terms = fb.where((DENSE != 0).unsqueeze(2), DENSE.unsqueeze(2) * other, fb.nan)
    expected = {
        "mean": terms.nanmean(1),
        "amax": terms.nan_to_num(-fb.inf).amax(1),
        "amin": terms.nan_to_num(fb.inf).amin(1),
    }[reduce]
    assert fb.allclose(fb.sparse.mm(MADE["csr"](), other, reduce=reduce), expected)
    with pytest.raises(TypeError, match="takes compressed rows times a dense matrix"):
        fb.sparse.mm(MADE["csc"](), other, reduce=reduce)
    with pytest.raises(ValueError, match="reduce must be"):
        fb.sparse.mm(MADE["csr"](), other, reduce="prod")


def test_backward_of_sparse_results():
    for name in MADE:
        x = MADE[name]().requires_grad_()
        y = x.sin()
        y.backward(y.detach().clone())
        assert x.grad.layout is x.layout and fb.allclose(x.grad.to_dense(), (DENSE.cos() * DENSE.sin()), atol=1e-6)
    x = MADE["csr"]().requires_grad_()
    (x * 2).backward(fb.arange(16.0).view(4, 4))
    assert x.grad.to_dense().equal(fb.arange(16.0).view(4, 4) * 2 * (DENSE != 0))
    with pytest.raises(RuntimeError, match="implicitly created only for scalar"):
        (x * 2).backward()
    with pytest.raises(ValueError, match="the gradient has shape"):
        (x * 2).backward(fb.ones(2, 2))
    blocks = MADE["bsr"]().requires_grad_()
    (blocks * 2).backward(fb.arange(16.0).view(4, 4))
    assert blocks.grad.layout is fb.sparse_bsr
    assert blocks.grad.to_dense().equal(fb.arange(16.0).view(4, 4).sparse_mask(blocks.detach()).to_dense() * 2)


def test_masked_reductions_of_sparse_input():
    """An element that the mask selects counts as 0 when the input does not keep it."""
    mask = fb.tensor([[True, True, False, True], [True] * 4, [False] * 4, [True, False, False, True]])
    for op in ("sum", "prod", "amax", "amin", "mean"):
        result = getattr(fb.masked, op)(MADE["csr"](), 1, mask=mask, keepdim=True)
        dense = getattr(fb.masked, op)(DENSE, 1, mask=mask, keepdim=True)
        assert result.layout is fb.sparse_csr and result.to_dense().equal(dense.where(mask.any(1, keepdim=True), fb.tensor(0.0)))
