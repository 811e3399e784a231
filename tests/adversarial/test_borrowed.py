"""Objects that change the container they are read from: Note [Borrowed items] in csrc/bindings/items.h."""

import gc

import numpy as np
import pytest

import flambeau as fb


class Meddler:
    """An integer that does something to a list when it is read."""

    def __init__(self, values, action, result=1):
        self.values, self.action, self.result = values, action, result

    def __index__(self):
        self.action(self.values)
        gc.collect()
        return self.result


def grow(values):
    values.extend([1] * 10_000)


def shrink(values):
    values.clear()


def replace(values):
    values[:] = [object() for _ in values]


def list_with(action, *rest):
    values = []
    values.append(Meddler(values, action))
    values.extend(rest)
    return values


ACTIONS = pytest.mark.parametrize("action", [grow, shrink, replace], ids=lambda f: f.__name__)


@ACTIONS
def test_data_is_read_once(action):
    assert fb.tensor(list_with(action, 2, 3)).tolist() == [1, 2, 3]


@ACTIONS
def test_nested_data_is_read_once(action):
    inner = list_with(action, 5)
    outer = [[1, 2], inner, [3, 4]]
    inner[0].values = outer
    assert fb.tensor(outer).tolist() == [[1, 2], [1, 5], [3, 4]]


@ACTIONS
def test_shapes_are_read_once(action):
    assert fb.zeros(list_with(action, 2, 3)).shape == (1, 2, 3)
    assert fb.ones(6).reshape(list_with(action, 2, 3)).shape == (1, 2, 3)
    assert fb.Size(list_with(action, 2, 3)) == (1, 2, 3)


@ACTIONS
def test_indices_are_read_once(action):
    x = fb.arange(24).reshape(2, 3, 4)
    assert x[tuple(list_with(action, 2, slice(None)))].tolist() == [20, 21, 22, 23]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        x[list_with(action, slice(None))] = 0
    assert x[1].sum() == 0 and x[0].sum() == 66


def test_a_sequence_that_makes_its_items():
    class Rows:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            if i > 1:
                raise IndexError
            return [float(i), [1.0, 2.0][i]]

    assert fb.tensor(Rows()).tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert fb.tensor([Rows(), Rows()]).shape == (2, 2, 2)


def test_arrays_in_lists():
    made = fb.tensor([np.eye(3)[[0, 1]]])
    assert made.tolist() == [[[1, 0, 0], [0, 1, 0]]]
    assert made.dtype == fb.float64
    assert fb.tensor([np.arange(3, dtype=np.int16), [1, 2, 3]]).dtype == fb.int64
    assert fb.tensor([np.ones(2, np.float16), np.ones(2, np.float32)]).dtype == fb.float32
    assert fb.tensor([np.array(2.0), 1]).tolist() == [2.0, 1.0]
    assert fb.tensor((np.arange(6)[::-2], np.arange(3))).tolist() == [[5, 3, 1], [0, 1, 2]]


def test_numpy_scalars_bring_their_dtype():
    assert fb.tensor([np.float64(1)]).dtype == fb.float64
    assert fb.tensor([np.int8(1), np.int8(2)]).dtype == fb.int8
    assert fb.tensor([np.float16(1), 2.5]).dtype == fb.float32
    assert fb.tensor([np.bool_(True), False]).dtype == fb.bool


def test_storage_as_data():
    storage = fb.arange(3, dtype=fb.uint8).untyped_storage()
    assert fb.tensor(storage, dtype=fb.uint8).tolist() == [0, 1, 2]


def test_a_tensor_that_changes_while_it_is_read():
    """A later element resizes a tensor that was read before."""
    x = fb.arange(4)
    resized = Meddler(None, lambda _: x.resize_(100_000))
    assert fb.tensor([x, [1, 2, 3, resized]]).tolist() == [[0, 1, 2, 3], [1, 2, 3, 1]]
    x = fb.arange(4)
    emptied = Meddler(None, lambda _: x.set_(fb.empty(0, dtype=fb.int64)))
    assert fb.tensor([x, [1, 2, 3, emptied]]).tolist() == [[0, 1, 2, 3], [1, 2, 3, 1]]


def test_ragged_data_is_refused():
    for data in ([[1], [1, 2]], [[1], 2], [1, [2]], [[], [1]], [[], 1], [fb.ones(2), fb.ones(3)], [[[]], [1]]):
        with pytest.raises(ValueError, match=r"ragged|different shapes|dimensions"):
            fb.tensor(data)


def test_data_that_contains_itself():
    values = []
    values.append(values)
    with pytest.raises(ValueError, match="levels deep"):
        fb.tensor(values)


def test_lone_surrogates():
    """Text that has no UTF-8 form is an error, not a null pointer."""
    for call in (
        lambda: fb.zeros(2, **{"\ud800": 1}),
        lambda: fb.zeros(2, device="\ud800"),
        lambda: fb.device("\ud800"),
        lambda: fb.einsum("\ud800", fb.ones(2)),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()


def test_numbers_that_do_not_fit_a_device_index():
    for index in (2**40, 128, -7):
        with pytest.raises(ValueError, match="index"):
            fb.device(index)


def test_truth_that_raises():
    class Unsure:
        def __bool__(self):
            raise KeyError("unsure")

    with pytest.raises(KeyError):
        fb._C.set_grad(Unsure())
    assert fb.is_grad_enabled()


def test_entry_points_check_their_tensors():
    """Functions below the public API, which assume nothing about what they are given."""
    core = fb._C
    node = core.function_node(object(), "f", (fb.ones(1, requires_grad=True),))
    for call in (
        lambda: core.check_inplace(3),
        lambda: core.mark_written("x"),
        lambda: core.save_tensor(3, False, "f"),
        lambda: core.set_output(node, 3, False, True),
        lambda: core.run_backward((fb.ones(1, requires_grad=True),), (3,), False, False, None),
        lambda: core.set_autocast(3, True),
        lambda: core.tolist(3),
        lambda: core.lend(3),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="gradients for"):
        core.run_backward((fb.ones(1, requires_grad=True),), (), False, False, None)
    with pytest.raises(ValueError, match="names output"):
        core.run_backward(((node, 7),), (fb.ones(1),), False, False, None)


def test_data_of_another_class():
    """A sparse tensor keeps its parts in its object; its data alone means nothing."""
    x = fb.ones(3, 3)
    with pytest.raises(TypeError, match="cannot become"):
        x.data = fb.eye(3).to_sparse()
    assert x.sum() == 9


def test_objects_that_claim_to_be_tensors():
    class Impostor:
        @property
        def __class__(self):
            return fb.Tensor

    x = fb.zeros(3)
    for call in (lambda: x.__setitem__(0, Impostor()), lambda: fb.stack([Impostor()]), lambda: fb.tensor([x, Impostor()])):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            call()


def test_lengths_that_lie():
    class Short(tuple):
        def __len__(self):
            return 0

    class Long(list):
        def __len__(self):
            return 1 << 40

    assert fb.tensor(Short((1, 2))).tolist() == [1, 2]
    assert fb.tensor([Long([1, 2]), Short((3, 4))]).tolist() == [[1, 2], [3, 4]]
    assert fb.zeros(Long([2, 3])).shape == (2, 3)


def test_errors_of_an_argument_are_passed_on():
    class Stubborn:
        def __index__(self):
            raise KeyError("stubborn")

    x = fb.ones(2)
    for call in (lambda: fb.zeros(Stubborn()), lambda: fb.tensor([1, Stubborn()]), lambda: x.sum(Stubborn()), lambda: x[Stubborn()]):
        with pytest.raises(KeyError, match="stubborn"):
            call()
