"""Indexing in every form NumPy has, and the ops that read and write by index tensors."""

from collections import deque

import numpy as np
import pytest

import flambeau as fb


def tensor_and_array(*shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return fb.from_numpy(array.copy()), array


def same(tensor, array):
    assert tuple(tensor.shape) == np.shape(array)
    assert tensor.tolist() == np.asarray(array).tolist()


BASIC = [
    np.s_[0],
    np.s_[-1, 2],
    np.s_[..., 1],
    np.s_[None, :, None, 0],
    np.s_[1:0:-1],
    np.s_[::-1, ::-2, ::-1],
    np.s_[:, 2:100, -100:3],
    np.s_[:, 3:1],
    np.s_[0, ..., None],
    np.s_[()],
]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic_indices_are_views(index):
    x, array = tensor_and_array(2, 3, 4)
    same(x[index], array[index])
    if x[index].numel():
        x[index] = -7
        array[index] = -7
        same(x, array)
        assert x[index].data_ptr() >= x.data_ptr()


ROWS, COLUMNS = np.array([1, 0, 1]), np.array([[0], [-1]])
MASK = np.arange(12).reshape(3, 4) % 3 == 0
ADVANCED = [
    (ROWS,),
    (slice(None), COLUMNS),
    (ROWS, slice(None), ROWS),
    (slice(None), ROWS, ROWS),
    (COLUMNS, slice(None, None, -1), COLUMNS),
    (None, ROWS, None),
    (slice(None), MASK),
    (np.array([True, False]),),
    (np.array([True, False]), slice(None), np.array([2])),
    (Ellipsis, np.array([-1, -4])),
    (np.array([], dtype=int),),
    (True,),
    (False, 0),
    (np.array(True), slice(1, 2)),
    (np.array([1, 1], dtype=np.int8), slice(None), np.array([0, 3], dtype=np.int16)),
]


@pytest.mark.parametrize("index", ADVANCED, ids=range(len(ADVANCED)))
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["contiguous", "permuted"])
def test_advanced_indices(index, order):
    x, array = tensor_and_array(2, 3, 4)
    back = np.argsort(order)
    x = x.permute(*order).contiguous().permute(*back)
    array = np.ascontiguousarray(array.transpose(order)).transpose(back)
    ours = tuple(fb.from_numpy(i) if isinstance(i, np.ndarray) else i for i in index)
    expected = array[index]
    same(x[ours], expected)
    values = -np.arange(expected.size).reshape(expected.shape) - 1
    x[ours] = fb.from_numpy(np.ascontiguousarray(values))
    array[index] = values
    same(x, array)
    x[ours] = 5
    array[index] = 5
    same(x, array)


def test_integers_beside_index_tensors_select_first():
    x = fb.zeros(2, 3, 4)
    assert x[0, :, fb.tensor([0, 1])].shape == (3, 2)


def test_lists_and_arrays_are_indices_too():
    x, array = tensor_and_array(3, 4)
    same(x[[0, 2]], array[[0, 2]])
    same(x[[True, False, True]], array[[True, False, True]])
    same(x[np.array([1])], array[[1]])


def test_a_value_that_is_part_of_the_target():
    x, array = tensor_and_array(6)
    x[fb.tensor([1, 2, 3])] = x[:3]
    array[[1, 2, 3]] = array[:3].copy()
    same(x, array)
    m = fb.tensor([True, False, True])
    m[m] = False
    assert m.tolist() == [False, False, False]


def test_the_last_of_repeated_writes_stays():
    index = fb.arange(100_000) % 7
    x = fb.zeros(7, dtype=fb.int64)
    x[index] = fb.arange(100_000)
    assert x.tolist() == [max(i for i in range(99_990, 100_000) if i % 7 == r) for r in range(7)]


BAD = [
    (lambda x: x[2], "index 2 is out of bounds for dimension 0 with size 2"),
    (lambda x: x[0, -4], "index -4 is out of bounds for dimension 1 with size 3"),
    (lambda x: x[0, 0, 0], "too many indices"),
    (lambda x: x[..., ...], "single ellipsis"),
    (lambda x: x[fb.tensor([0, 2])], "index 2 is out of bounds for dimension 0 with size 2"),
    (lambda x: x[:, fb.tensor([-4])], "index -4 is out of bounds for dimension 1 with size 3"),
    (lambda x: x[fb.tensor([True, False, True])], "mask"),
    (lambda x: x[fb.tensor([0, 1]), fb.tensor([0, 1, 2])], "broadcast"),
    (lambda x: x[fb.tensor([0.5])], "must be long, int, byte or bool"),
    (lambda x: x[fb.tensor([2**64 - 1], dtype=fb.uint64)], "out of bounds"),
    (lambda x: x.gather(1, fb.tensor([[3], [0]])), "gather: index 3 is out of bounds for dimension 1 with size 3"),
    (lambda x: x.gather(1, fb.tensor([[-1], [0]])), "gather: index -1 is out of bounds"),
    (lambda x: x.index_select(0, fb.tensor([-1])), "index_select: index -1 is out of bounds"),
    (lambda x: x.take(fb.tensor([6])), "take: index 6 is out of bounds"),
]


@pytest.mark.parametrize("call, message", BAD, ids=range(len(BAD)))
def test_bad_indices_are_index_errors(call, message):
    with pytest.raises(IndexError, match=message):
        call(fb.zeros(2, 3))


WRITES = {
    "setitem": lambda x, i, v: x.__setitem__(i, v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 1),
    "index_put_": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "put_": lambda x, i, v: x.put_(i, v),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i, v),
    "scatter_reduce_": lambda x, i, v: x.scatter_reduce_(0, i, v, "amax"),
    "index_reduce_": lambda x, i, v: x.index_reduce_(0, i, v, "prod"),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_when_an_index_is_bad(name):
    x = fb.full((5,), 3.0)
    with pytest.raises(IndexError, match="9"):
        WRITES[name](x, fb.tensor([0, 1, 9]), fb.tensor([7.0, 7.0, 7.0]))
    assert x.tolist() == [3.0] * 5


@pytest.mark.parametrize("name", ["index_add_", "index_put_", "scatter_add_", "scatter_", "index_copy_", "setitem"])
def test_results_do_not_depend_on_the_thread_count(name):
    rng = np.random.default_rng(0)
    index = fb.from_numpy(rng.integers(0, 5000, 200_000))
    values = fb.from_numpy(rng.standard_normal(200_000).astype(np.float32))
    before, results = fb.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fb.set_num_threads(threads)
            x = fb.zeros(5000)
            WRITES[name](x, index, values)
            results.append(x.tolist())
    finally:
        fb.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("shape, dim", [((300, 400), 0), ((300, 400), 1), ((7, 50, 60), 1), ((5,), 0)])
def test_gather_and_scatter_add_are_each_others_mirror(shape, dim):
    rng = np.random.default_rng(1)
    array = rng.standard_normal(shape)
    index = rng.integers(0, shape[dim], shape)
    same(fb.gather(fb.from_numpy(array), dim, fb.from_numpy(index)), np.take_along_axis(array, index, dim))
    expected = np.zeros(shape)
    grid = list(np.indices(shape))
    grid[dim] = index
    np.add.at(expected, tuple(grid), array)
    got = fb.zeros(*shape, dtype=fb.float64).scatter_add_(dim, fb.from_numpy(index), fb.from_numpy(array))
    assert np.allclose(got.numpy(), expected)


def test_masks_of_every_density():
    rng = np.random.default_rng(2)
    array = rng.standard_normal((123, 457)).astype(np.float32)
    x = fb.from_numpy(array)
    for density in (0, 0.001, 0.5, 0.999, 1):
        mask = rng.random(array.shape) < density
        m = fb.from_numpy(mask)
        assert np.array_equal(x[m].numpy(), array[mask])
        assert np.array_equal(x.t()[m.t()].numpy(), array.T[mask.T])
        assert np.array_equal(fb.nonzero(m).numpy(), np.argwhere(mask))
        assert np.array_equal(x.masked_fill(m, 2).numpy(), np.where(mask, np.float32(2), array))
        values = np.arange(mask.sum(), dtype=np.float32)
        expected = array.copy()
        expected[mask] = values
        assert np.array_equal(x.masked_scatter(m, fb.from_numpy(values)).numpy(), expected)


def test_index_put_takes_none_for_a_whole_dimension():
    x = fb.zeros(2, 3, 2)
    x.index_put_((None, fb.tensor([0, 0, 2])), fb.tensor(1.0), accumulate=True)
    assert x[0].tolist() == [[2, 2], [0, 0], [1, 1]] and x[1].tolist() == x[0].tolist()


def test_scatter_reduce_without_self_leaves_other_elements():
    x = fb.tensor([10, 20, 30])
    index, src = fb.tensor([0, 0]), fb.tensor([-3, -4])
    results = {
        r: x.scatter_reduce(0, index, src, r, include_self=False).tolist() for r in ("sum", "mean", "amax", "amin")
    }
    assert results == {"sum": [-7, 20, 30], "mean": [-4, 20, 30], "amax": [-3, 20, 30], "amin": [-4, 20, 30]}


def test_expanded_targets_are_refused():
    x = fb.zeros(1).expand(4)
    for write in (
        lambda: x.__setitem__(fb.tensor([0]), 1),
        lambda: x.index_fill_(0, fb.tensor([0]), 1),
        lambda: x.copy_(x + 1),
    ):
        with pytest.raises(RuntimeError, match="a single memory location"):
            write()


def test_index_put_without_index_tensors_is_everywhere():
    assert fb.index_put(fb.ones(2), [], fb.tensor([1.0, 2.0]), accumulate=True).tolist() == [2, 3]
    assert fb.index_put(fb.ones(2, 2), [fb.tensor(1)], fb.tensor(4.0), accumulate=True).tolist() == [[1, 1], [5, 5]]


def test_a_mask_without_elements_fits_a_dimension_without_elements_only():
    x, mask = fb.ones(3), fb.zeros(0, dtype=fb.bool)
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[mask]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[mask] = 5
    assert x.tolist() == [1, 1, 1] and fb.ones(0, 2)[mask].shape == (0, 2)


def test_ranges_and_other_sequences_are_indices():
    x = fb.arange(12).view(3, 4)
    assert x[range(2)].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and x[range(3), [0, 1, 2]].tolist() == [0, 5, 10]
    assert x[range(2, -1, -1), 0].tolist() == [8, 4, 0] and x[range(0)].shape == (0, 4)
    x[range(3), fb.tensor([1, 1, 2])] = -1
    assert x[:, 1].tolist() == [-1, -1, 9] and x[2, 2] == -1
    for wrong in ("ab", b"ab", {0: 1}, {0, 1}, 1.5):
        with pytest.raises(IndexError, match="only integers, slices"):
            x[wrong]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_of_indices_is_one_per_dimension():
    x = fb.arange(12).view(3, 4)
    rows, columns = fb.tensor([0, 2, 1]), fb.tensor([1, 1, 3])
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[rows, columns]].tolist() == [1, 9, 7]
    assert x[[rows, columns]].tolist() == x[[rows.tolist(), columns.tolist()]].tolist() == [1, 9, 7]
    assert x[[0, slice(None)]].tolist() == [0, 1, 2, 3] and x[[None, rows]].shape == (1, 3, 4)
    assert x[[rows]].shape == (3, 4) and x[[[0, 2]]].shape == (2, 4) and x[[0, 2]].shape == (2, 4)
    x[[rows, columns]] = -1
    assert x[rows, columns].tolist() == [-1, -1, -1]
    assert fb.zeros(40, 2)[[[0]] * 32].shape == (32, 1, 2)  # long lists are data
    assert x[deque([rows, slice(1, 2)])].tolist() == [[-1], [-1], [5]]  # any other sequence too


def test_a_tuple_inside_an_index_is_one_index():
    x = fb.arange(12).view(3, 4)
    assert x[(0, 1), (2, 3)].tolist() == [2, 7] and x[((2,),)].tolist() == [[8, 9, 10, 11]]
    assert x[:, (1, 0)].tolist() == [[1, 0], [5, 4], [9, 8]] and x[((0, 1), (2, 0)),].shape == (2, 2, 4)
    assert x[0, ()].shape == (0,) and x[(True, False, True),].shape == (2, 4)
    assert x[()].shape == (3, 4) and x[(),].shape == (0, 4)
    with pytest.raises(RuntimeError):
        x[((slice(0, 1),),)]


def test_a_tuple_as_value_is_a_row():
    x = fb.zeros(2, 3, requires_grad=True)
    y = x.clone()
    y[:] = (1.0, 2.0, 3.0)
    y[(0, 1), (0, 0)] = (7, 8)
    assert y.tolist() == [[7, 2, 3], [8, 2, 3]]
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="expand|broadcast"):
        y[0] = (1.0, 2.0)


@pytest.mark.parametrize("kind", [fb.tensor, np.array])
def test_uint8_is_a_mask(kind):
    x = fb.arange(6.0).view(2, 3).requires_grad_()
    mask = kind([[0, 1, 0], [255, 0, 2]], dtype=fb.uint8 if kind is fb.tensor else np.uint8)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        picked = x[mask]
    assert picked.tolist() == [1, 3, 5]
    picked.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [1, 0, 1]]
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        x.detach()[mask] = fb.tensor([-1.0, -2.0, -3.0])
    assert x.tolist() == [[0, -1, 2], [-2, 4, -3]]
    with pytest.warns(UserWarning, match="uint8"), pytest.raises(IndexError, match="The shape of the mask"):
        x[kind([0, 1, 0], dtype=fb.uint8 if kind is fb.tensor else np.uint8)]


def test_a_uint8_mask_of_index_put():
    mask = fb.tensor([0, 1, 1], dtype=fb.uint8)
    assert fb.zeros(3).index_put((mask,), fb.tensor([1.0, 2.0])).tolist() == [0, 1, 2]
    assert fb.zeros(2, 3).index_put((None, mask), fb.tensor(5.0)).tolist() == [[0, 5, 5]] * 2
    with pytest.warns(UserWarning):
        assert fb.ones(2, 3)[fb.tensor(0, dtype=fb.uint8)].shape == (0, 2, 3)


def test_floats_in_a_list_are_cut_with_a_warning():
    x = fb.arange(4)
    with pytest.warns(UserWarning, match="cut to integers"):
        assert x[[1.0, 0]].tolist() == [1, 0]
    with pytest.warns(UserWarning, match="cut to integers"):
        assert x[np.array([2.7])].tolist() == [2]
    with pytest.raises(IndexError, match="must be long, int, byte or bool tensors"):
        x[fb.tensor([1.0])]


def test_a_list_may_change_while_it_is_read():
    class Sly:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            index.clear()
            if i:
                raise IndexError
            return 0

    index = [Sly(), fb.tensor([1])]
    with pytest.warns(UserWarning, match="non-tuple"):
        assert fb.arange(6).view(2, 3)[index].tolist() == [1]
