"""Where gradients end up: accumulators that follow their leaves, retained gradients, sparse ones, layouts, .grad itself."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as fb
from flambeau import nn

# ---- a leaf whose data is replaced while an older graph is alive -----------------------------------------------------------


def test_accumulator_follows_a_module_made_double():
    layer = nn.Linear(2, 2)
    old = layer(fb.ones(1, 2)).sum()
    layer.double()
    layer(fb.ones(1, 2, dtype=fb.float64)).sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == fb.float64
    assert old.grad_fn is not None  # it was alive all the time


@pytest.mark.parametrize("replace", ["data", "set_", "resize"])
def test_accumulator_follows_replaced_data(replace):
    p = nn.Parameter(fb.ones(3))
    old = (p * 2).sum()
    other = fb.full((2, 2), 3.0, dtype=fb.float64)
    if replace == "data":
        p.data = other
    elif replace == "set_":
        with fb.no_grad():
            p.set_(other.float())
    else:
        with fb.no_grad():
            p.unsqueeze_(0)
    (p * p).sum().backward()
    assert p.grad.dtype == p.dtype and p.grad.shape == p.shape
    assert p.grad.equal(2 * p.detach())
    assert old.requires_grad


def test_old_graph_gives_gradients_of_the_new_dtype():
    p = nn.Parameter(fb.ones(3))
    old = (p * 2).sum()
    p.data = fb.ones(3, dtype=fb.float64)
    old.backward()
    assert p.grad.equal(fb.full((3,), 2.0, dtype=fb.float64))


def test_old_graph_of_another_shape_says_so():
    p = nn.Parameter(fb.ones(3))
    old = (p * 2).sum()
    p.data = fb.ones(2, 2)
    said = r"returned an invalid gradient at index 0 - got \(3,\).*expected shape compatible with \(2, 2\)"
    with pytest.raises(RuntimeError, match=said):
        old.backward()


# ---- inputs= ---------------------------------------------------------------------------------------------------------------


def test_retained_gradient_is_not_counted_twice():
    x = fb.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward(inputs=(y,))
    assert y.grad.tolist() == [1, 1] and x.grad is None


def test_backward_to_a_non_leaf_retains_its_gradient_and_sums():
    x = fb.ones(2, requires_grad=True)
    y = x * 2
    z = y * 3
    z.sum().backward(inputs=(y,), retain_graph=True)
    assert y.retains_grad and y.grad.tolist() == [3, 3]
    z.sum().backward(inputs=(y, x))
    assert y.grad.tolist() == [6, 6] and x.grad.tolist() == [6, 6]


def test_an_input_named_twice_counts_once():
    x = fb.ones(2, requires_grad=True)
    (x * 2).sum().backward(inputs=(x, x))
    assert x.grad.tolist() == [2, 2]


def test_hooks_of_a_leaf_run_with_inputs():
    x = fb.ones(2, requires_grad=True)
    seen = []
    x.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2).sum().backward(inputs=x)
    assert x.grad.tolist() == [20, 20] and seen == [[20, 20]]
    fb.autograd.grad((x * 2).sum(), x)
    assert len(seen) == 1 and x.grad.tolist() == [20, 20]  # nothing was accumulated


def test_hooks_on_a_non_leaf_run_before_it_is_returned():
    x = fb.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    (g,) = fb.autograd.grad(y.sum(), y)
    assert g.tolist() == y.grad.tolist() == [10, 10]


def test_order_of_hooks():
    order = []
    x = fb.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: order.append("tensor 1"))
    y.register_hook(lambda g: order.append("tensor 2"))
    y.grad_fn.register_prehook(lambda g: order.append("before"))
    y.grad_fn.register_hook(lambda a, b: order.append("after"))
    x.register_hook(lambda g: order.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: order.append("accumulated"))
    node = fb.autograd.graph.get_gradient_edge(x).node
    node.register_prehook(lambda g: order.append("before leaf"))
    node.register_hook(lambda a, b: order.append(("after leaf", a, len(b))))
    y.sum().backward()
    assert order == [
        "tensor 1", "tensor 2", "before", "after", "leaf", "before leaf", "accumulated", ("after leaf", (), 1),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["generator", "values", "list", "parameters"])
def test_any_iterable_of_tensors(form):
    x, y = nn.Parameter(fb.ones(2)), nn.Parameter(fb.full((2,), 3.0))
    loss = (x * y).sum()
    inputs = {
        "generator": (t for t in (x, y)), "values": {"a": x, "b": y}.values(), "list": [x, y], "parameters": nn.ParameterList([x, y]),
    }[form]  # fmt: skip
    gx, gy = fb.autograd.grad(loss, inputs)
    assert gx.tolist() == [3, 3] and gy.tolist() == [1, 1]


def test_backward_takes_iterables():
    x, y = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)
    loss = (x * y).sum()
    fb.autograd.backward((t for t in (loss,)), inputs=(t for t in (x,)))
    assert x.grad.tolist() == [1, 1] and y.grad is None


# ---- sparse gradients ------------------------------------------------------------------------------------------------------


def sparse(values=(1.0, 2.0)):
    return fb.sparse_coo_tensor([[0, 2]], list(values), (3,))


def test_sparse_gradient_stays_sparse_through_products():
    x = fb.full((3,), 2.0, requires_grad=True)
    (g,) = fb.autograd.grad(x * x, x, sparse())
    assert g.is_sparse and g.to_dense().tolist() == [4, 0, 8]
    (x * 3).backward(sparse())
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [3, 0, 6]


def test_sparse_gradients_accumulate():
    x = fb.ones(3, requires_grad=True)
    x.backward(sparse())
    x.backward(sparse())
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [2, 0, 4]
    x.backward(fb.ones(3))
    assert not x.grad.is_sparse and x.grad.tolist() == [3, 1, 5]
    x.backward(sparse())
    assert x.grad.tolist() == [4, 1, 7]


def test_sparse_gradient_assigned_to_a_leaf():
    x = fb.ones(3, requires_grad=True)
    x.grad = sparse()
    gc.collect()
    assert x.grad.to_dense().tolist() == [1, 0, 2]  # its object went, its elements did not
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 2, 4]


def test_an_op_that_knows_no_sparse_gradient_is_an_error():
    x = fb.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="not available for sparse tensors"):
        fb.autograd.grad(x.cumsum(0), x, sparse())


# ---- tensors that only the core holds ----------------------------------------------------------------------------------------


class Named(fb.Tensor):
    pass


def test_a_gradient_keeps_class_and_attributes():
    x = fb.ones(2, requires_grad=True)
    g = fb.full((2,), 5.0)
    g.label = "mine"
    x.grad = g
    del g
    gc.collect()
    assert x.grad.label == "mine"
    x.grad = fb.ones(2).as_subclass(Named)
    gc.collect()
    assert type(x.grad) is Named and x.grad.tolist() == [1, 1]


def test_kept_objects_die_with_the_last_reference():
    class Watched:
        pass

    x = fb.ones(2, requires_grad=True)
    g = fb.ones(2)
    g.label = Watched()
    gone = weakref.ref(g.label)
    x.grad = g
    del g
    assert gone() is not None
    x.grad = None
    assert gone() is None


def test_kept_objects_come_and_go():
    x = fb.ones(2, requires_grad=True)
    x.grad = fb.ones(2).as_subclass(Named)
    for i in range(3):
        x.grad.count = i
        assert type(x.grad) is Named and x.grad.count == i
        gc.collect()
    held = x.grad
    x.grad = None
    assert held.count == 2 and held.tolist() == [1, 1]


# ---- .grad -----------------------------------------------------------------------------------------------------------------


def test_the_other_name_of_grad():
    p = fb.ones(2, requires_grad=True)
    p._grad = fb.full((2,), 5.0)
    assert p.grad.tolist() == [5, 5] and p._grad is p.grad


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (fb.ones(3), RuntimeError, r"attempting to assign a gradient of size '\(3,\)' to a tensor of size '\(2,\)'"),
        (fb.ones(2, dtype=fb.float64), RuntimeError, "attempting to assign a gradient with dtype 'float64'"),
        (fb.ones(2, device="meta"), RuntimeError, "attempting to assign a gradient with device type 'meta'"),
        (3, TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"),
    ],
    ids=["shape", "dtype", "device", "type"],
)
def test_grad_is_checked(value, error, message):
    p = fb.ones(2, requires_grad=True)
    with pytest.raises(error, match=message):
        p.grad = value
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        p.grad = p


@pytest.mark.parametrize("make", [
    lambda: fb.ones(2, 3).t(),
    lambda: fb.ones(2, 3, 4, 5).to(memory_format=fb.channels_last),
    lambda: fb.ones(2, 3),
])  # fmt: skip
def test_gradients_have_the_strides_of_their_leaf(make):
    p = make().requires_grad_()
    p.backward(fb.ones(*p.shape))
    assert p.grad.stride() == p.stride()
    p.grad = None
    (p * 2).sum().backward()
    assert p.grad.stride() == p.stride()


def test_gradients_of_a_leaf_with_holes_are_row_major():
    p = fb.ones(4, 6)[:, ::2].detach().requires_grad_()
    p.backward(fb.ones(3, 4).t())
    assert p.grad.stride() == (3, 1)


def test_a_gradient_of_somebody_else_is_copied():
    p, g = fb.ones(3, requires_grad=True), fb.ones(3)
    p.backward(g)
    p.backward(g)
    assert g.tolist() == [1, 1, 1] and p.grad.tolist() == [2, 2, 2]


# ---- tensors kept through hooks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unpack", [
    lambda t: t, lambda t: t.clone(), lambda t: t.detach().requires_grad_(), lambda t: t * fb.ones((), requires_grad=True),
])  # fmt: skip
def test_saved_tensor_hooks_do_not_change_second_derivatives(unpack):
    x = fb.tensor([1.0, 2.0, 3.5], requires_grad=True)
    constant = fb.tensor([2.0, 3.0, 4.0])
    with fb.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = (x**3 * constant).sum()
        (g,) = fb.autograd.grad(y, x, create_graph=True)
        (gg,) = fb.autograd.grad(g.sum(), x)
    assert fb.allclose(g.detach(), 3 * x.detach() ** 2 * constant)
    assert fb.allclose(gg, 6 * x.detach() * constant)


def test_an_unpacked_constant_has_no_history():
    x = fb.ones(3, requires_grad=True)
    with fb.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.detach().requires_grad_()):
        y = x * fb.ones(3)
    (g,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    assert not g.requires_grad


def test_power_keeps_its_base_only():
    """What a changed saved tensor does to the second derivative of a power: the formula is grad * (p * x ** (p - 1))."""
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = (x**3).sum()
    with fb.autograd.graph.saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        (g,) = fb.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
    assert fb.allclose(x.grad, 6 * 4 * x.detach())


@pytest.mark.parametrize("first", ["dense", "sparse"])
def test_sparse_and_dense_gradients_meet_before_a_leaf(first):
    x = fb.ones(3, requires_grad=True)
    y = x * 2
    a, b = y.clone(), y.clone()
    seeds = (fb.ones(3), sparse()) if first == "dense" else (sparse(), fb.ones(3))
    fb.autograd.backward((a, b), seeds)
    assert x.grad.tolist() == [4, 2, 6]


def test_a_gradient_that_is_looked_at_stays_the_same_object():
    w = fb.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    first = id(w.grad)
    others = [fb.ones(3) for _ in range(50)]  # reuse the memory of an object that was freed
    assert id(w.grad) == first
    (w * 3).sum().backward()
    assert id(w.grad) == first and w.grad.tolist() == [5, 5, 5] and len(others) == 50
    w.grad = None
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_an_object_made_from_a_tensor_keeps_its_class():
    class Mine(fb.Tensor):
        pass

    y = fb.ones(2)
    y.grad = Mine(fb.zeros(2))  # the object has no other reference
    assert type(y.grad) is Mine
    assert type(y.grad) is Mine
