"""What programs ask of the graph: names and kept tensors of nodes, calls at the end of backward, forms of Functions."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref

import pytest

import flambeau as fb
from flambeau.autograd import Function, Variable
from flambeau.utils.checkpoint import checkpoint


def test_nodes_have_types_named_after_their_op():
    x = fb.ones(2, requires_grad=True)
    y = (x * 2).exp()
    assert type(y.grad_fn).__name__ == "ExpBackward0" and isinstance(y.grad_fn, fb.autograd.graph.Node)
    node = y.grad_fn.next_functions[0][0]
    assert type(node).__name__ == "MulBackward0" and type((x * 3).grad_fn) is type(node)
    assert type(node.next_functions[0][0]).__name__ == "AccumulateGrad"
    with pytest.raises(TypeError):
        type(node)()


def test_kept_tensors_under_pytorch_s_names():
    x, y = fb.tensor([1.0, 2.0], requires_grad=True), fb.tensor([3.0, 4.0], requires_grad=True)
    z = x * y
    assert z.grad_fn._saved_self is x and z.grad_fn._saved_other is y
    e = x.exp()
    assert e.grad_fn._saved_result.equal(e) and e.grad_fn._saved_result.grad_fn is e.grad_fn
    assert x.sum(0, keepdim=True).grad_fn._saved_keepdim is True
    assert (x**3).grad_fn._saved_exponent == 3
    with pytest.raises(AttributeError, match="keeps no '_saved_nothing'"):
        z.grad_fn._saved_nothing  # noqa: B018
    z.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        z.grad_fn._saved_self  # noqa: B018


def test_calls_at_the_end_of_backward():
    order = []
    engine = Variable._execution_engine

    class Ask(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            engine.queue_callback(lambda: (order.append("end"), engine.queue_callback(lambda: order.append("very end"))))
            return g

    x = fb.ones(2, requires_grad=True)
    x.register_hook(lambda g: order.append("leaf"))
    Ask.apply(x).sum().backward()
    assert order == ["leaf", "end", "very end"]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        engine.queue_callback(print)


def test_gradients_by_name():
    layer = fb.nn.Linear(2, 1)
    loss = layer(fb.ones(1, 2)).sum()
    found = fb.autograd.grad(loss, dict(layer.named_parameters()), retain_graph=True)
    assert list(found) == ["weight", "bias"] and found["weight"].tolist() == [[1, 1]]
    loss.backward(inputs=dict(layer.named_parameters()))
    assert layer.bias.grad.tolist() == [1]


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, y, scale=1.0):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return scale * x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * ctx.scale * y, g * ctx.scale * x, None


def test_functions_take_keywords():
    x, y = fb.tensor([2.0], requires_grad=True), fb.tensor([3.0], requires_grad=True)
    Scaled.apply(x, scale=5.0, y=y).backward()
    assert x.grad.item() == 15 and y.grad.item() == 10
    with pytest.raises(TypeError):
        Scaled.apply(x, z=y)


def test_a_boxed_backward_gets_a_list():
    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            assert isinstance(grads, list)
            a, b = grads
            grads.clear()
            return a * 2 + b * 3

    x = fb.ones(2, requires_grad=True)
    a, b = Boxed.apply(x)
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [5, 5]


def test_reentrant_checkpoints_refuse_a_backward_for_some_inputs():
    x = fb.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"is incompatible with .grad\(\) or passing inputs to .backward\(\)"):
        fb.autograd.grad(checkpoint(fb.exp, x, use_reentrant=True).sum(), x)
    checkpoint(fb.exp, x, use_reentrant=True).sum().backward()
    assert x.grad is not None


def test_a_context_that_swallows_exceptions():
    def broken(x):
        raise ValueError("forward failed")

    def contexts():
        return contextlib.suppress(ValueError), contextlib.nullcontext()

    with pytest.raises(RuntimeError, match="context_fn suppressed"):
        checkpoint(broken, fb.ones(2, requires_grad=True), use_reentrant=False, context_fn=contexts)


def test_out_that_requires_grad_is_refused():
    out = fb.zeros(2, requires_grad=True)
    for call in (lambda: fb.mul(fb.ones(2), fb.ones(2), out=out), lambda: fb.stack([fb.ones(()), fb.ones(())], out=out)):
        with pytest.raises(RuntimeError, match="functions with out="):
            call()
    with fb.no_grad():
        fb.mul(fb.ones(2), fb.ones(2), out=out)
    assert out.tolist() == [1, 1]


def test_views_made_by_functions_are_not_changed_in_place():
    class View(Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g

    base = fb.ones(2, requires_grad=True).clone()
    with pytest.raises(RuntimeError, match="Output 0 of View is a view .* created inside a custom Function"):
        View.apply(base).add_(1)
    with fb.no_grad():
        view = base.view(2)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.add_(1)


def test_batches_of_gradients_are_told_from_gradients():
    x = fb.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="we interpret the first dimension of each grad_output as the batch dimension"):
        fb.autograd.grad(x * x, x, fb.ones(2, 2), is_grads_batched=True)


def test_metadata_lives_as_long_as_the_node():
    y = fb.ones(2, requires_grad=True).exp()
    y.grad_fn.metadata["note"] = "mine"
    gc.collect()
    assert y.grad_fn.metadata == {"note": "mine"}
    y.sum().backward(retain_graph=True)
    assert y.grad_fn.metadata == {"note": "mine"}


class Through(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g


class Sentinel:
    pass


@pytest.mark.parametrize("call", [fb.clone, Through.apply])
@pytest.mark.parametrize("where", ["tensor", "hook", "prehook", "metadata"])
def test_cycles_through_nodes_are_collected(call, where):
    calls = []

    def scope():
        y = call(fb.ones((), requires_grad=True))
        node, kept = y.grad_fn, Sentinel()

        def hook(*args):
            calls.append((node, kept))

        match where:
            case "tensor":
                y.register_hook(hook)
            case "hook":
                node.register_hook(hook)
            case "prehook":
                node.register_prehook(hook)
            case "metadata":
                node.metadata["hook"] = hook
        return y.clone(), weakref.ref(kept)

    out, ref = scope()
    gc.collect()
    out.backward(retain_graph=True)
    assert len(calls) == (where != "metadata") and ref() is not None
    calls.clear()
    gc.collect()
    assert ref() is not None  # the graph still needs it
    del out
    gc.collect()
    assert ref() is None


def test_views_retain_gradients_over_a_change_in_place():
    base = fb.ones(2, requires_grad=True).clone()
    changed, other = base[:], base[:]
    changed.retain_grad()
    other.retain_grad()
    changed.mul_(2)
    (changed + 3 * other).sum().backward()
    assert changed.grad.tolist() == [1, 1] and other.grad.tolist() == [3, 3]


def test_negative_bases_of_complex_powers():
    power = fb.tensor([0.3 + 0.2j, -0.5 + 1j], dtype=fb.complex128, requires_grad=True)
    base = fb.tensor([-1.0, -2.0], dtype=fb.float64)
    assert fb.autograd.gradcheck(lambda p: fb.pow(base, p), power)
    assert fb.autograd.gradcheck(lambda p: fb.pow(-1, p), power)


def test_edges_of_tensors_that_are_no_leaves():
    leaf = fb.ones(2, requires_grad=True)
    x, y = leaf.clone(), leaf.clone()
    edge, unused = fb.autograd.graph.get_gradient_edge(x), fb.autograd.graph.get_gradient_edge(y)
    fb.autograd.backward((2 * x).sum(), inputs=(edge, x))
    assert x.grad.tolist() == [2, 2] and leaf.grad is None
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        fb.autograd.grad((2 * x).sum(), (x, unused), materialize_grads=True)


def test_backward_that_is_recorded_warns_of_the_cycle():
    x = fb.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"Using backward\(\) with create_graph=True will create a reference cycle"):
        (x * x).sum().backward(create_graph=True)
    x.grad = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.autograd.grad((x * x).sum(), x, create_graph=True)


def test_modes_around_generators_and_classes():
    seen = []

    @fb.no_grad()
    def steps():
        try:
            yield 1
        finally:
            seen.append(fb.is_grad_enabled())

    running = steps()
    next(running)
    running.close()
    assert seen == [False] and fb.is_grad_enabled()

    class Plain:
        def __init__(self):
            self.recorded = fb.is_grad_enabled()

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        made = fb.no_grad()(Plain)
    assert not made().recorded


def test_backward_runs_the_nodes_of_its_inputs():
    """Their hooks run, and gradients are kept before them; grad() stops in front of these nodes."""
    log = []
    a = fb.tensor(1.0, requires_grad=True)
    b = a.clone()
    b.grad_fn.register_prehook(lambda grads: log.append("node"))
    b.register_hook(lambda g: log.append("tensor") or g * 3)
    b.sum().backward(inputs=(b,), retain_graph=True)
    assert log == ["tensor", "node"] and b.grad.item() == 3 and a.grad is None
    log.clear()
    fb.autograd.grad(b.sum(), (b,), retain_graph=True)
    assert log == ["tensor"]


def test_hooks_that_an_unpack_hook_leaves_behind_end_with_the_backward():
    hooks = fb.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: hooks.__enter__() or t)
    with hooks:
        y = fb.ones(2, requires_grad=True).sin().sum()
    y.backward()
    packed = []
    outer = fb.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t)
    with outer:
        fb.ones(2, requires_grad=True).exp()
    assert packed == [1]
    z = fb.tensor(1.0, requires_grad=True).exp()
    z.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)  # refused where hooks are set already


def test_save_on_cpu_takes_pin_memory():
    """Programs for accelerators pass it; without pinned memory it has no effect."""
    x = fb.ones(2, requires_grad=True)
    with fb.autograd.graph.save_on_cpu(pin_memory=True):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_gradients_of_a_leaf_may_have_a_dtype_of_their_own():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.double() * 2

    x = fb.ones(2, requires_grad=True)
    assert x.grad_dtype is fb.float32
    for chosen, expected in ((None, fb.float64), (fb.float16, fb.float16), (fb.float32, fb.float32)):
        x.grad, x.grad_dtype = None, chosen
        assert x.grad_dtype is chosen
        Doubled.apply(x).sum().backward()
        assert x.grad.dtype is expected and x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'float64' because there is already a gradient"):
        x.grad_dtype = fb.float64
    x.grad_dtype = None
    x.grad = fb.ones(2, dtype=fb.float64)
    Doubled.apply(x).sum().backward()
    assert x.grad.dtype is fb.float64 and x.grad.tolist() == [3, 3]
    x.grad, x.grad_dtype = None, fb.float16
    with pytest.raises(RuntimeError, match="assign a gradient with dtype 'float32' to a tensor with grad_dtype"):
        x.grad = fb.ones(2)
    y = x * 2
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        _ = y.grad_dtype
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        y.grad_dtype = fb.float16
    with pytest.raises(TypeError, match="expected a dtype, or None for any, got str"):
        x.grad_dtype = "float16"
