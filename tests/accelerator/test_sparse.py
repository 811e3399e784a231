"""Sparse tensors on accelerators."""

import pytest

import flambeau as fb

DEVICE = fb.device("sim", 0)


def matrix(device, **options):
    return fb.sparse_coo_tensor([[0, 1, 2, 0], [1, 0, 2, 1]], [1.0, 2.0, 3.0, 4.0], (3, 3), device=device, **options)


def dense(device):
    return fb.arange(9.0, device=device).reshape(3, 3)


CALLS = {
    "constructor": matrix,
    "to": lambda d: matrix("cpu").to(d),
    "empty": lambda d: fb.sparse_coo_tensor(size=(2, 2), device=d),
    "rows": lambda d: fb.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "to_sparse": lambda d: dense(d).to_sparse(),
    "to_sparse_csr": lambda d: matrix(d).to_sparse_csr(),
    "product": lambda d: matrix(d) @ dense(d),
    "sparse product": lambda d: matrix(d) @ matrix(d),
    "sum": lambda d: matrix(d) + matrix(d).t(),
    "index_select": lambda d: matrix(d).index_select(0, fb.tensor([2, 0], device=d)),
    "softmax": lambda d: fb.sparse.softmax(matrix(d), 1),
    "zeros_like": lambda d: fb.zeros_like(matrix(d)),
}


@pytest.mark.filterwarnings("ignore:.*has no kernel")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_are_those_of_the_cpu(call):
    there, here = call(DEVICE), call("cpu")
    assert there.device == DEVICE and there.layout is here.layout
    assert fb.allclose(there.cpu().to_dense(), here.to_dense())


def test_embeddings_with_sparse_gradients_train():
    def trained(device):
        layer = fb.nn.Embedding(5, 3, sparse=True, _weight=fb.arange(15.0).reshape(5, 3)).to(device)
        optimizer = fb.optim.SparseAdam(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            layer(fb.tensor([1, 2, 1], device=device)).square().sum().backward()
            assert layer.weight.grad is not None and layer.weight.grad.is_sparse
            optimizer.step()
        return layer.weight.detach().cpu()

    assert fb.allclose(trained(DEVICE), trained("cpu"))
