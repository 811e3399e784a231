"""Gradients of views, copies, joins and indexing where something special happens; the numbers are from calculus."""

import pytest

import flambeau as fb

W22 = [[1.0, 2.0], [3.0, 4.0]]


def leaf(data):
    return fb.tensor(data, dtype=fb.float64, requires_grad=True)


def const(data):
    return fb.tensor(data, dtype=fb.float64)


def gradients(result, inputs, weights=None):
    """Gradients of the weighted sum of the result's elements, as lists."""
    weights = fb.ones_like(result) if weights is None else const(weights)
    return [g.tolist() for g in fb.autograd.grad(result, inputs, weights)]


# ---- in place, on views ---------------------------------------------------------------------------------------------------


def test_a_change_of_a_part_reaches_the_base():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[1:].mul_(3)
    assert gradients(y, [x]) == [[1, 3, 3]]


def test_a_part_of_a_part_overwritten_by_copy():
    x, s = leaf(W22), leaf([10.0, 20.0])
    y = x * 1
    y.t().select(0, 0).copy_(s)
    assert gradients(y, [x, s], W22) == [[[0, 2], [0, 4]], [1, 3]]


def test_neighbouring_chunks_changed_one_by_the_other():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x * 1
    a, b = y.chunk(2)
    a.mul_(2)
    b.add_(a)  # y is (2a, 2b, c + 2a, d + 2b)
    assert gradients(y, [x], [1.0, 2.0, 3.0, 4.0]) == [[2 + 6, 4 + 8, 3, 4]]


def test_rows_of_zeros_filled_from_a_leaf():
    x = leaf([1.0, 2.0, 3.0])
    y = fb.zeros(2, 3, dtype=fb.float64)
    y[0].copy_(x)
    y[1].fill_(x[1])
    assert gradients(y, [x], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) == [[1, 2 + 15, 3]]


def test_a_diagonal_of_a_reshaped_base_set_to_zero():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x * 1
    y.reshape(2, 2).diagonal().zero_()
    assert gradients(y, [x]) == [[0, 1, 1, 0]]


def test_fill_diagonal_of_a_tall_matrix():
    x = leaf([[1.0, 1.0]] * 3)
    assert gradients((x * 1).fill_diagonal_(2.0), [x]) == [[[0, 1], [1, 0], [1, 1]]]
    x = leaf([[1.0, 1.0]] * 5)
    assert gradients((x * 1).fill_diagonal_(2.0, wrap=True), [x]) == [[[0, 1], [1, 0], [1, 1], [0, 1], [1, 0]]]


def test_geometry_changed_in_place():
    x = leaf(W22)
    y = (x * 1).t_()
    assert gradients(y, [x], W22) == [[[1, 3], [2, 4]]]
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = (x * 1).unsqueeze_(0).transpose_(0, 1).squeeze_()
    assert gradients(y * y, [x]) == [[2, 4, 6, 8]]


def test_random_numbers_over_a_tensor_end_its_history():
    x = leaf([1.0, 2.0])
    assert gradients((x * 1).uniform_(), [x]) == [[0, 0]]
    assert gradients((x * 1).bernoulli_(0.5), [x]) == [[0, 0]]


def test_tensors_that_require_gradients_are_not_resized():
    y = leaf([1.0, 2.0]) * 1
    with pytest.raises(RuntimeError, match="cannot resize"):
        y.resize_(3)
    with pytest.raises(RuntimeError, match="cannot resize"):
        y.resize_as_(fb.zeros(3))


# ---- as_strided -----------------------------------------------------------------------------------------------------------


def test_as_strided_adds_up_what_it_shows_twice():
    x = leaf([1.0, 2.0, 3.0])
    assert gradients(x.as_strided((2, 2), (1, 1)), [x], W22) == [[1, 2 + 3, 4]]


def test_as_strided_may_leave_the_part_it_was_made_from():
    x = leaf([1.0, 2.0, 3.0])
    # Element 0 is outside of x[1:], so nothing is known of its gradient from there.
    assert gradients(x[1:].as_strided((2, 2), (1, 1), 0), [x], W22) == [[0, 2 + 3, 4]]
    assert gradients(x[:0].as_strided((2,), (1,), 1), [x]) == [[0, 0, 0]]


def test_as_strided_of_expanded_memory_counts_it_once():
    x = leaf([1.0, 2.0, 3.0])
    shown = x[:1].expand(3).as_strided((2,), (1,), 0)
    assert shown.tolist() == [1, 2]
    assert gradients(shown, [x], [5.0, 7.0]) == [[5, 0, 0]]


def test_as_strided_in_place_remembers_the_layout_before():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = (x * 1).reshape(2, 2).t()
    y.as_strided_((3,), (1,), 1)
    assert gradients(y * y, [x]) == [[0, 4, 6, 8]]


def test_as_strided_scatter_erases_what_it_replaces():
    x, s = leaf([1.0, 2.0, 3.0, 4.0]), leaf([5.0, 6.0])
    y = fb.as_strided_scatter(x, s, (2,), (2,), 0)
    assert y.tolist() == [5, 2, 6, 4]
    assert gradients(y, [x, s], [1.0, 10.0, 100.0, 1000.0]) == [[0, 10, 0, 1000], [1, 100]]


def test_windows_that_overlap():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    assert gradients(x.unfold(0, 3, 1), [x], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) == [[1, 2 + 4, 3 + 5, 6]]
    assert gradients(x.unfold(0, 2, 1), [x], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]) == [[1, 2 + 3, 4 + 5, 6]]
    assert gradients(x.unfold(0, 1, 2), [x], [[1.0], [2.0]]) == [[1, 0, 2, 0]]


# ---- parts and lists ------------------------------------------------------------------------------------------------------


def test_tensor_split_at_unsorted_indices_shows_elements_twice():
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    parts = x.tensor_split([2, 1], dim=1)
    assert [p.shape[1] for p in parts] == [2, 0, 2]
    assert gradients(parts[0].sum() + 10 * parts[2].sum(), [x]) == [[[1, 11, 10]] * 2]
    parts = x.tensor_split(fb.tensor([2, 1]), dim=1)
    assert gradients(parts[0].sum() + 10 * parts[2].sum(), [x]) == [[[1, 11, 10]] * 2]


def test_atleast_of_a_list_records_each_tensor_by_itself():
    x, m = leaf([1.0, 2.0]), leaf(W22)
    row, same = fb.atleast_2d(x, m)
    assert same is m
    assert gradients(row, [x], [[3.0, 4.0]]) == [[3, 4]]


def test_parts_nobody_used_have_gradients_of_zero():
    x = leaf([1.0, 2.0, 3.0])
    _, middle, _ = x.unbind()
    assert gradients(middle * 5, [x]) == [[0, 5, 0]]
    _, rest = x.split([1, 2])
    assert gradients(rest, [x]) == [[0, 1, 1]]


def test_cat_skips_empty_vectors_and_converts():
    x, y = leaf([[1.0, 2.0]]), fb.tensor([[3.0, 4.0]], dtype=fb.float32, requires_grad=True)
    result = fb.cat([x, fb.tensor([]), y])
    g, h = fb.autograd.grad(result, [x, y], const(W22))
    assert (g.dtype, h.dtype) == (fb.float64, fb.float32)
    assert (g.tolist(), h.tolist()) == ([[1, 2]], [[3, 4]])


def test_repeat_interleave_sums_over_copies():
    x = leaf([1.0, 2.0, 3.0])
    assert gradients(fb.repeat_interleave(x, fb.tensor([1, 0, 2])), [x], [1.0, 2.0, 4.0]) == [[1, 0, 6]]
    assert gradients(fb.repeat_interleave(x, 2), [x], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == [[3, 7, 11]]


def test_numbers_read_as_another_dtype_have_no_gradient():
    x = leaf([1.0, 2.0])
    assert not x.view(fb.int64).requires_grad
    assert not x.view(fb.complex128).requires_grad


# ---- writing by index -----------------------------------------------------------------------------------------------------

SELF, SOURCE, INDEX = [3.0, 1.0, 2.0], [3.0, 3.0, 0.0, 1.0], [0, 0, 2, 2]
THIRD = pytest.approx(1 / 3)
REDUCED = {  # 3 receives 3 and 3, 1 receives nothing, 2 receives 0 and 1
    ("sum", True): ([1, 1, 1], [1, 1, 1, 1]),
    ("sum", False): ([0, 1, 0], [1, 1, 1, 1]),
    ("prod", True): ([9, 1, 0], [9, 9, 2, 0]),
    ("prod", False): ([0, 1, 0], [3, 3, 1, 0]),
    ("mean", True): ([THIRD, 1, THIRD], [THIRD] * 4),
    ("mean", False): ([0, 1, 0], [0.5] * 4),
    ("amax", True): ([THIRD, 1, 1], [THIRD, THIRD, 0, 0]),
    ("amax", False): ([0, 1, 0], [0.5, 0.5, 0, 1]),
    ("amin", True): ([THIRD, 1, 0], [THIRD, THIRD, 1, 0]),
    ("amin", False): ([0, 1, 0], [0.5, 0.5, 1, 0]),
}


@pytest.mark.parametrize(("how", "include_self"), REDUCED)
def test_reductions_by_index_share_ties_evenly(how, include_self):
    x, s, index = leaf(SELF), leaf(SOURCE), fb.tensor(INDEX)
    result = x.scatter_reduce(0, index, s, how, include_self=include_self)
    assert gradients(result, [x, s]) == list(REDUCED[how, include_self])
    if how != "sum":
        result = x.index_reduce(0, index, s, how, include_self=include_self)
        assert gradients(result, [x, s]) == list(REDUCED[how, include_self])


def test_second_gradient_of_a_product_by_index():
    x, s = leaf([2.0]), leaf([3.0, 0.0])
    result = x.scatter_reduce(0, fb.tensor([0, 0]), s, "prod")  # a·b·c
    (g,) = fb.autograd.grad(result, s, create_graph=True)
    assert g.tolist() == [0, 6]
    assert gradients(g, [x, s]) == [[3], [2, 2]]


def test_second_gradient_through_two_zeros_is_refused():
    s = leaf([0.0, 0.0])
    result = fb.ones(1, dtype=fb.float64).scatter_reduce(0, fb.tensor([0, 0]), s, "prod")
    (g,) = fb.autograd.grad(result, s, create_graph=True)
    assert g.tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match="more than one zero"):
        g.sum().backward()


def test_a_source_larger_than_its_index_is_used_at_its_beginning():
    x, s, index = leaf(W22), leaf(W22), fb.tensor([[0, 1]])
    assert gradients(x.scatter(0, index, s), [x, s]) == [[[0, 1], [1, 0]], [[1, 1], [0, 0]]]
    assert gradients(x.scatter_add(0, index, s), [x, s]) == [[[1, 1], [1, 1]], [[1, 1], [0, 0]]]


def test_scatter_with_a_reduction():
    x, s, index = leaf([1.0, 2.0]), leaf([3.0, 4.0]), fb.tensor([0, 0])
    assert gradients(x.scatter(0, index, s, reduce="add"), [x, s], [1.0, 2.0]) == [[1, 2], [1, 1]]
    assert gradients(x.scatter(0, index, 5.0, reduce="add"), [x], [1.0, 2.0]) == [[1, 2]]
    assert gradients(x.scatter(0, index, 5.0, reduce="multiply"), [x], [1.0, 2.0]) == [[25, 2]]
    with pytest.raises(NotImplementedError, match="scatter_reduce"):
        x.scatter(0, index, s, reduce="multiply").sum().backward()


def test_a_slice_filled_twice_counts_once():
    x, v = leaf([1.0, 2.0, 3.0]), leaf(7.0)
    y = x.index_fill(0, fb.tensor([1, 1, -3]), v)
    assert gradients(y, [x, v], [1.0, 10.0, 100.0]) == [[0, 0, 100], 11]


def test_index_put_with_a_whole_dimension():
    x, v = leaf(W22), leaf([5.0, 6.0])
    place = (None, fb.tensor([0]))
    assert gradients(x.index_put(place, v.reshape(2, 1)), [x, v], W22) == [[[0, 2], [0, 4]], [1, 3]]
    y = x * 1
    y.index_put_(place, v.reshape(2, 1), True)
    assert gradients(y, [x, v], W22) == [W22, [1, 3]]


def test_take_along_dim_counts_from_the_end():
    x = leaf(W22)
    assert gradients(fb.take_along_dim(x, fb.tensor([[-1, -1, 0]]), 1), [x]) == [[[1, 2], [1, 2]]]


def test_bincount_is_linear_in_its_weights():
    w = leaf([1.0, 2.0, 4.0])
    assert gradients(fb.bincount(fb.tensor([0, 1, 1]), w), [w], [1.0, 2.0]) == [[1, 2, 2]]


@pytest.mark.parametrize("op", [fb.unique, fb.unique_consecutive, lambda x: fb.histogram(x, 3)[0]])
def test_what_has_no_derivative_says_so(op):
    with pytest.raises(NotImplementedError, match="not implemented"):
        op(leaf([1.0, 2.0])).sum().backward()
