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
    with pytest.raises(ValueError, match="batches are not available"):
        make(fb.stack([starts, starts]), fb.stack([plain, plain]), x.values())


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
