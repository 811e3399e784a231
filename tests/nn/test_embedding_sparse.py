"""Embeddings: sparse gradients, and what is refused."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F


def test_the_gradient_holds_the_rows_in_use() -> None:
    table = fb.nn.Embedding(6, 3, padding_idx=0, sparse=True)
    table(fb.tensor([[0, 4], [4, 2]])).sum().backward()
    grad = table.weight.grad
    assert grad is not None and grad.is_sparse and grad.shape == (6, 3)
    assert grad._indices().tolist() == [[4, 4, 2]]
    assert grad.to_dense()[:, 0].tolist() == [0, 0, 1, 0, 2, 0]


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("kind", [fb.int32, fb.int64])
def test_bags_give_the_gradient_of_dense_ones(mode: str, kind: fb.dtype) -> None:
    indices = fb.tensor([[0, 1], [2, 2]], dtype=kind)
    grads = []
    for sparse in (False, True):
        weight = fb.ones(5, 2).requires_grad_()
        F.embedding_bag(indices, weight, mode=mode, sparse=sparse, padding_idx=1).sum().backward()
        assert weight.grad is not None and weight.grad.is_sparse == sparse
        grads.append(weight.grad.to_dense().tolist())
    assert grads[0] == grads[1]


def test_sparse_gradients_add_up_and_train() -> None:
    table = fb.nn.Embedding(3, 1, sparse=True)
    before = table.weight.detach().clone()
    for _ in range(2):
        table(fb.tensor([1])).sum().backward()
    fb.optim.SGD(table.parameters(), lr=0.5).step()
    assert (before - table.weight).squeeze(1).tolist() == pytest.approx([0, 1, 0])


def test_sparse_gradients_are_not_divided_by_frequency() -> None:
    table = fb.nn.Embedding(3, 1, scale_grad_by_freq=True, sparse=True)
    result = table(fb.tensor([1, 1])).sum()
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        result.backward()


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_bags_name_themselves_when_an_index_is_out_of_range(max_norm: float | None) -> None:
    with pytest.raises(IndexError, match="embedding_bag: Expected idx >= 0 && idx < num_embeddings"):
        F.embedding_bag(fb.tensor([[0, -1]]), fb.ones(3, 2), max_norm=max_norm)


def test_factors_of_another_dtype_are_refused() -> None:
    with pytest.raises(TypeError, match="to have the same type as weight"):
        F.embedding_bag(
            fb.tensor([[0, 1]]), fb.ones(3, 2), mode="sum", per_sample_weights=fb.ones(1, 2, dtype=fb.float64)
        )


def test_module_load_decides_what_is_loaded() -> None:
    x, y = fb.zeros(2), fb.ones(2)
    assert x.module_load(y).tolist() == [1, 1] and x.tolist() == [1, 1]
    assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()


def test_a_subclass_overrides_module_load() -> None:
    class Doubled(fb.Tensor):
        def module_load(self, other, assign=False):
            return other * 2

    fb.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = fb.nn.Linear(1, 1, bias=False)
        layer.weight = fb.nn.Parameter(fb.zeros(1, 1).as_subclass(Doubled))
        layer.load_state_dict({"weight": fb.ones(1, 1)})
        assert layer.weight.tolist() == [[2]]
    finally:
        fb.__future__.set_swap_module_params_on_conversion(False)


def test_table_without_columns():
    table = fb.nn.Embedding(3, 0, sparse=True)
    table(fb.tensor([0, 2])).sum().backward()
    assert table.weight.grad.shape == (3, 0) and table.weight.grad.is_sparse


def test_padding_receives_no_gradient_even_if_it_is_nan():
    table = fb.ones(3, 2, requires_grad=True)
    rows = fb.nn.functional.embedding(fb.tensor([1, 2]), table, padding_idx=1)
    rows.backward(fb.tensor([[fb.nan, fb.inf], [1.0, 2.0]]))
    assert table.grad.tolist() == [[0, 0], [0, 0], [1, 2]]


def test_embedding_bag_in_the_old_order_of_arguments():
    table, words, starts = fb.arange(12.0).view(6, 2), fb.tensor([1, 2, 4]), fb.tensor([0, 2])
    with pytest.warns(UserWarning, match="Argument order"):
        old = fb.nn.functional.embedding_bag(table, words, starts)
    assert old.equal(fb.nn.functional.embedding_bag(words, table, starts))
