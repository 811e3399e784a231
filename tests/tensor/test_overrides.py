"""__torch_function__: classes and modes that handle calls themselves."""

import copy
import inspect
import pickle
import threading
import types

import pytest

import flambeau as fb
from flambeau import overrides
from flambeau.overrides import DisableTorchFunctionSubclass, TorchFunctionMode


class Mine(fb.Tensor):
    """Inherits what Tensor does by itself."""


class Calls:
    """No tensor, and takes every call."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Never:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.fixture
def mine():
    return fb.arange(9.0).reshape(3, 3).as_subclass(Mine)


EXPRESSIONS = """
    x + 1 | 1 - x | 2 ** x | x @ x | x == 1 | -x | x[0] | x[:, None] | x.detach() | x.data | x.T | x.clone() | x.to(fb.float64)
    x.float() | fb.stack([x, x]) | fb.add(x, 1) | x.sum() | x.mul_(1) | x.view(9) | x.new_zeros(2) | fb.zeros_like(x)
    fb.einsum("ij,jk->ik", x, x) | fb.nn.functional.relu(x) | fb.nn.Linear(3, 2)(x) | copy.deepcopy(x) | fb.ones(3) * x
    list(x)[0] | x.max(0).values | x.split(1)[2] | fb.where(x > 1, x, 0.0)
"""


@pytest.mark.parametrize("expression", [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(" | ")])
def test_results_of_a_subclass_are_of_the_subclass(mine, expression):
    result = eval(expression, {"fb": fb, "copy": copy, "x": mine})
    assert type(result) is Mine
    plain = eval(expression, {"fb": fb, "copy": copy, "x": mine.as_subclass(fb.Tensor)})
    if "Linear" not in expression:
        assert fb.equal(result.as_subclass(fb.Tensor), plain)


def test_parameters_and_plain_tensors_give_plain_tensors(mine):
    weight = fb.nn.Parameter(fb.ones(3, 3))
    assert type(weight * 2) is fb.Tensor and type(weight @ mine) is Mine
    assert type(fb.sparse_coo_tensor([[0], [1]], [1.0], (2, 2)) * 2) is not fb.Tensor


def test_subclass_keeps_gradients_and_named_results(mine):
    leaf = fb.ones(3).as_subclass(Mine).requires_grad_()
    (leaf * 2).sum().backward()
    assert fb.equal(leaf.grad, fb.full((3,), 2.0)) and leaf.is_leaf
    result = mine.max(0)
    assert type(result).__name__ == "max" and type(result.indices) is Mine


@pytest.mark.parametrize(
    "expression, func, swapped",
    [
        ("fb.add(t, c)", "fb.add", False), ("t + c", "fb.Tensor.add", False), ("t @ c", "fb.Tensor.matmul", False),
        ("fb.matmul(t, c)", "fb.matmul", False), ("t == c", "fb.Tensor.eq", False), ("t.add_(c)", "fb.Tensor.add_", False),
        ("t[c]", "fb.Tensor.__getitem__", False), ("c + t", "fb.Tensor.add", True), ("c - t", "fb.Tensor.__rsub__", True),
        ("fb.linalg.solve(t, c)", "fb.linalg.solve", False),
    ],
)  # fmt: skip
def test_an_object_that_is_no_tensor_gets_the_call(expression, func, swapped):
    t, c = fb.ones(2), Calls()
    got, types, args, kwargs = eval(expression, {"fb": fb, "t": t, "c": c})
    assert got == eval(func) and types == (Calls,) and kwargs == {}
    assert args[0] is t and args[1] is c


def test_objects_in_lists_and_keywords_are_found():
    c = Calls()
    assert fb.cat([fb.ones(2), c])[0] is fb.cat
    assert fb.sum(c, dim=0)[3] == {"dim": 0}


def test_nobody_answers():
    with pytest.raises(TypeError, match="no implementation found for 'torch.add'.*Never"):
        fb.add(fb.ones(2), Never())
    with pytest.raises(TypeError, match="no implementation found"):
        fb.ones(2).as_subclass(Mine) + Never()


def test_subclasses_are_asked_first():
    order = []

    class A(fb.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented if cls.__name__ == "B" else super().__torch_function__(func, types, args, kwargs)

    class B(A): ...

    a, b = fb.ones(2).as_subclass(A), fb.ones(2).as_subclass(B)
    with pytest.raises(TypeError):
        fb.add(a, b)
    assert order == ["B", "A"]


def test_disabled_block_and_attribute(mine):
    class Quiet(fb.Tensor):
        __torch_function__ = fb._C._disabled_torch_function_impl

    assert type(fb.ones(2).as_subclass(Quiet) + 1) is fb.Tensor
    with DisableTorchFunctionSubclass():
        assert type(mine + 1) is fb.Tensor and not overrides.has_torch_function((mine,))
    assert overrides.has_torch_function((mine,)) and not overrides.has_torch_function((fb.ones(1), 2, [fb.ones(1)]))


def test_item_assignment_is_given_away():
    seen = []

    class Watched(fb.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = fb.zeros(3).as_subclass(Watched)
    x[1] = 2.0
    assert seen == [fb.Tensor.__setitem__] and x[1].item() == 2.0


class Recorder(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_every_op_on_their_thread_only():
    with Recorder() as outer, Recorder() as inner:
        x = fb.zeros(2) + 1
        thread = threading.Thread(target=lambda: fb.ones(3))
        thread.start()
        thread.join()
    x.add(1)
    assert outer.names == inner.names == ["zeros", "add"]


def test_mode_is_closed_by_an_error():
    recorder = Recorder()
    with pytest.raises(RuntimeError), recorder:
        fb.ones(2) + fb.ones(3)
    fb.ones(2).add(1)
    assert recorder.names == ["ones", "ones", "add"]


def test_mode_sees_linear_under_its_public_name():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    layer = fb.nn.Linear(3, 2)
    x = fb.ones(1, 3)
    with Mode():
        layer(x)
    assert seen == [fb.nn.functional.linear]


def test_handling_functions_of_ones_own():
    @overrides.wrap_torch_function(lambda x, by: (x,))
    def scale(x, by):
        return x * by

    assert scale(Calls(), 2)[0] is scale and scale(fb.ones(1), 2).item() == 2.0
    assert overrides.resolve_name(fb.Tensor.add) == "torch.Tensor.add" and overrides.resolve_name(scale) is None
    assert overrides.is_tensor_like(Calls()) and not overrides.is_tensor_like(3)


def test_make_subclass_shares_memory():
    data = fb.zeros(2)
    made = fb.Tensor._make_subclass(Mine, data, True)
    assert type(made) is Mine and made.requires_grad and made.data_ptr() == data.data_ptr()


# ---- functions of nn.functional ------------------------------------------------------------------------------------------

PYTHON = [name for name in fb.nn.functional.__all__ if isinstance(getattr(fb.nn.functional, name), types.FunctionType)]
# PyTorch's are methods of the tensor by another name, and classes see the method.
METHODS = ("sigmoid", "tanh")


@pytest.mark.parametrize("name", [name for name in PYTHON if name not in METHODS])
def test_every_function_of_nn_functional_asks_first(name):
    function = getattr(fb.nn.functional, name)
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty]
    call = Calls()
    if name in ("batch_norm", "linear", "silu"):  # these ask through their op
        tensor = fb.ones(2, 2).as_subclass(Seen)
        function(*[{"running_mean": None, "running_var": None, "training": True}.get(p.name, tensor) for p in required], **(
            {"training": True} if name == "batch_norm" else {}
        ))  # fmt: skip
        assert Seen.first is function
        return
    positional = [call] * len([p for p in required if p.kind is not p.KEYWORD_ONLY])
    by_name = {p.name: call for p in required if p.kind is p.KEYWORD_ONLY}
    func, kinds, args, kwargs = function(*positional, **by_name)
    assert func is function and kinds == (Calls,) and args == tuple(positional)
    assert set(kwargs) == {p.name for p in parameters} - {p.name for p in required if p.kind is not p.KEYWORD_ONLY}
    assert pickle.loads(pickle.dumps(function)) is function


class Seen(fb.Tensor):
    first = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.first = func
        return super().__torch_function__(func, types, args, kwargs or {})


def test_functions_of_nn_functional_give_results_their_class(mine):
    grid = fb.nn.functional.affine_grid(fb.eye(2, 3)[None].as_subclass(Mine), (1, 1, 2, 2))
    image = fb.ones(1, 1, 2, 2).as_subclass(Mine)
    loss = fb.nn.functional.cross_entropy(mine, fb.tensor([0, 1, 2]))
    results = [grid, fb.nn.functional.grid_sample(image, grid, align_corners=False), loss]
    results += [fb.nn.functional.interpolate(image, scale_factor=2), fb.nn.functional.normalize(mine)]
    assert {type(result) for result in results} == {Mine} and results[3].shape == (1, 1, 4, 4)


def test_a_mode_sees_the_function_and_not_what_it_is_made_of():
    names = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func)
            return func(*args, **(kwargs or {}))

    with Names():
        fb.nn.functional.mse_loss(fb.ones(2), target=fb.zeros(2), reduction="sum")
    assert fb.nn.functional.mse_loss in names and names.count(fb.nn.functional.mse_loss) == 1 and fb.sum not in names


def test_defaults_and_keyword_only_arguments_stay_the_functions():
    assert str(inspect.signature(fb.nn.functional.gelu)).startswith("(input")
    assert fb.nn.functional.pad(fb.ones(1), (1, 1), value=2.0).tolist() == [2, 1, 2]
    with pytest.raises(TypeError):
        fb.nn.functional.mse_loss(fb.ones(1))
