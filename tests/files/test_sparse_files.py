"""Sparse tensors in files."""

import pytest

import flambeau as fb
from flambeau._files import sparse
from flambeau.serialization import FileError, load, save


def coo():
    return fb.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 4))


def csr():
    return fb.sparse_csr_tensor([0, 2, 3], [0, 1, 1], [1.0, 2.0, 3.0], (2, 3))


@pytest.mark.parametrize("name", ["s.pt", "s.safetensors"])
@pytest.mark.parametrize(
    "make",
    [
        coo,
        lambda: coo().coalesce(),
        csr,
        lambda: coo().requires_grad_(),
        lambda: fb.zeros(0, 3).to_sparse(),
        lambda: coo().to(fb.complex64),
    ],
)
def test_sparse_tensors_come_back(tmp_path, make, name):
    t = make()
    save({"t": t, "twice": [t, fb.ones(2)]}, tmp_path / name)
    for options in ({}, {"mmap": True}):
        back = load(tmp_path / name, **options)
        for found in (back["t"], back["twice"][0]):
            assert found.layout is t.layout and found.dtype is t.dtype and found.shape == t.shape
            assert fb.equal(found.to_dense().detach(), t.to_dense().detach())
        assert back["t"].layout is fb.sparse_csr or back["t"].is_coalesced() == t.is_coalesced()
    if name.endswith("safetensors"):
        assert back["t"].requires_grad == t.requires_grad


def test_large_ones_and_many_of_one_storage(tmp_path):
    n = 40_000
    large = fb.sparse_coo_tensor(fb.stack([fb.arange(n), fb.arange(n)]), fb.ones(n), (n, n), is_coalesced=True)
    save(large, tmp_path / "large.pt")
    assert load(tmp_path / "large.pt")._nnz() == n
    same = [fb.sparse_coo_tensor(large._indices(), large._values(), (n, n)) for _ in range(70)]
    save(same, tmp_path / "same.pt")
    with pytest.raises(FileError, match="same storage again and again"):
        load(tmp_path / "same.pt")


@pytest.mark.parametrize(
    "layout, data",
    [
        ("sparse_bsc", ()),
        ("sparse_coo", ()),
        ("sparse_coo", 5),
        ("sparse_coo", (fb.zeros(2, 1), fb.ones(1), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[7], [0]]), fb.ones(1), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[-1], [0]]), fb.ones(1), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[1, 0], [0, 0]]), fb.ones(2), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[1, 1], [0, 0]]), fb.ones(2), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[0], [0]]), fb.ones(2), (2, 2), True)),
        ("sparse_coo", (fb.tensor([[0], [0]]), fb.ones(1), (2, -2), True)),
        ("sparse_coo", (fb.tensor([[0], [0]]), fb.ones(1), "22", True)),
        ("sparse_coo", (fb.tensor([[0], [0]]).expand(2, 1 << 40), fb.ones(1).expand(1 << 40), (2, 2), True)),
        ("sparse_coo", (coo(), fb.ones(1), (2, 2), True)),
        ("sparse_csr", (fb.tensor([0, 9]), fb.tensor([0]), fb.ones(1), (1, 1))),
        ("sparse_csr", (fb.tensor([0, 1]), fb.tensor([4]), fb.ones(1), (1, 1))),
        ("sparse_csr", (fb.tensor([0, 1]), fb.tensor([0]), fb.ones(1), (1 << 60, 1))),
    ],
)
def test_parts_that_do_not_fit(layout, data):
    with pytest.raises(FileError, match="sparse tensor"):
        sparse.rebuilt(layout, data)
