"""Functions written in Python."""

import weakref

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd.function import once_differentiable


def leaf(*values):
    return fb.tensor(values, dtype=fb.float64, requires_grad=True)


def equal(t, values):
    np.testing.assert_allclose(t.detach().numpy(), np.asarray(values, dtype=float), rtol=1e-12)


class Cube(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x**3 * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return g * 3 * x * x * ctx.scale, None


def test_forward_and_backward_to_second_order():
    x = leaf(2)
    y = Cube.apply(x, 5)
    assert y.grad_fn.name() == "CubeBackward" and y.grad_fn.scale == 5
    (g,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    equal(g, [60])
    g.sum().backward()
    equal(x.grad, [60])
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Cube()
    equal(old.apply(x, 5), [40])
    with pytest.raises(RuntimeError, match="Legacy autograd function.*Cube.apply"):
        old(x, 5)


def test_backward_and_vjp_are_one():
    class Both(Cube):
        vjp = Cube.backward

    y = Both.apply(leaf(2), 5)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'.*BothBackward"):
        y.sum().backward()


def test_setup_context():
    class Square(fb.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(3)
    Square.apply(x).sum().backward()
    equal(x.grad, [6])


def test_saved_output_keeps_its_history():
    class Exp(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(1)
    y = Exp.apply(x)
    for _ in range(3):
        (y,) = fb.autograd.grad(y.sum(), x, create_graph=True)
        equal(y, [np.e])


def test_saved_tensors_are_checked_and_freed():
    x = leaf(1)
    h = x * 1
    y = Cube.apply(h, 1)
    h.add_(1)
    with pytest.raises(RuntimeError, match="save_for_backward of Cube.*changed by add_"):
        y.sum().backward()
    y = Cube.apply(x, 1).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_dirty_and_non_differentiable():
    class Increment(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            count = fb.ones(1, dtype=fb.float64)
            ctx.mark_non_differentiable(count)
            return x, count

        @staticmethod
        def backward(ctx, g, g_count):
            equal(g_count, [0])
            return g * 2

    x = leaf(1)
    h = x * 1
    y, count = Increment.apply(h)
    assert y is h and not count.requires_grad
    y.sum().backward()
    equal(x.grad, [2])
    with pytest.raises(RuntimeError, match="leaf"):
        Increment.apply(leaf(1))


def test_none_gradients_and_materialize():
    class Two(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert b is None
            return a * 2

    x = leaf(1)
    a, _ = Two.apply(x)
    a.sum().backward()
    equal(x.grad, [2])


def test_input_returned_as_it_is():
    class Reverse(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(1)
    y = Reverse.apply(x)
    assert y is not x
    y.sum().backward()
    equal(x.grad, [-1])
    h = leaf(1) * 1
    assert Reverse.apply(h).view_as(h).grad_fn is not None
    assert Reverse.apply(h.view(1)).grad_fn.name() == "ReverseBackward"


def test_errors_of_the_user():
    class Wrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, kind):
            ctx.kind = kind
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.kind == "raise":
                raise LookupError("mine")
            return {"count": g, "type": (5, None), "shape": (fb.ones(7), None), "other": (g, g)}[ctx.kind]

    for kind, error, text in (
        ("raise", LookupError, "mine"),
        ("count", RuntimeError, "incorrect number of gradients \\(expected 2, got 1\\)"),
        ("type", TypeError, "returned int as gradient 0"),
        ("shape", RuntimeError, "WrongBackward returned an invalid gradient at index 0 - got \\(7,\\)"),
        ("other", RuntimeError, "forward input was not a Variable"),
    ):
        with pytest.raises(error, match=text):
            Wrong.apply(leaf(1, 2), kind).sum().backward()
    with pytest.raises(TypeError, match="can only save variables"):
        Wrong2.apply(leaf(1))


class Wrong2(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def test_once_differentiable():
    class Once(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(3)
    Once.apply(x).sum().backward()
    equal(x.grad, [6])
    (g,) = fb.autograd.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_no_recording_without_need():
    y = Cube.apply(fb.ones(1, dtype=fb.float64), 2)
    assert y.grad_fn is None
    with fb.no_grad():
        assert Cube.apply(leaf(1), 2).grad_fn is None


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda ctx, x: ctx.mark_dirty(x, "a"), "argument 1 is of type str"),
        (lambda ctx, x: ctx.mark_non_differentiable("a"), "but got str as argument 0"),
        (lambda ctx, x: ctx.save_for_forward(x, 2), "argument 1 is of type int"),
        (lambda ctx, x: setattr(ctx, "dirty_tensors", "a"), "dirty_tensors is expected to be a tuple of tensors but is str"),
        (lambda ctx, x: setattr(ctx, "dirty_tensors", ("a",)), "argument 0 is of type str"),
        (lambda ctx, x: setattr(ctx, "non_differentiable", "a"), "non_differentiable is expected to be a tuple"),
        (lambda ctx, x: setattr(ctx, "to_save", "a"), "to_save is expected to be a tuple"),
        (lambda ctx, x: setattr(ctx, "saved_for_forward", [x]), "saved_for_forward is expected to be a tuple"),
    ],
)
def test_context_refuses_non_tensors(tell, message):
    class Told(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            tell(ctx, x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(fb.errors.DTypeError, match=message):
        Told.apply(fb.ones(2, requires_grad=True))


def test_context_attributes_do_what_the_methods_do():
    class Square(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.to_save = (x,)
            sign = x > 0
            ctx.non_differentiable = (sign,)
            assert ctx.to_save[0] is x and ctx.non_differentiable[0] is sign
            return x * x, sign

        @staticmethod
        def backward(ctx, g, _):
            return 2 * g * ctx.saved_tensors[0]

    x = fb.tensor([1.0, 3.0], requires_grad=True)
    y, sign = Square.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 6.0] and not sign.requires_grad


def test_grad_without_inputs():
    y = fb.ones(2, requires_grad=True).sum()
    with pytest.raises(RuntimeError, match="grad requires non-empty inputs"):
        fb.autograd.grad(y, [])


def test_setup_context_sees_defaults():
    seen = []

    class Pick(fb.autograd.Function):
        @staticmethod
        def forward(x, at=2, scale=1.0):
            return x[at] * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])

        @staticmethod
        def backward(ctx, grad):
            return grad * fb.ones(4), None, None

    x = fb.arange(4.0, requires_grad=True)
    Pick.apply(x).backward()
    Pick.apply(x, 1)
    assert seen == [(2, 1.0), (1, 1.0)] and x.grad.tolist() == [1.0] * 4


def test_saved_tensors_can_be_let_go_by_reading_them():
    class Once(fb.autograd.Function):
        clear_saved_tensors_on_access = True
        reads = 1

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            gone = weakref.ref(x)
            del x
            assert gone() is None
            for _ in range(Once.reads - 1):
                ctx.saved_tensors  # noqa: B018, reading raises
            return grad

    x = fb.ones(2, requires_grad=True)
    Once.apply(x.clone()).sum().backward()
    assert x.grad.tolist() == [1, 1]
    Once.reads = 2
    with pytest.raises(RuntimeError, match="saved_tensors can only be accessed once"):
        Once.apply(x.clone()).sum().backward()


def test_marking_a_result_dirty_only_warns_in_programs_for_pytorch():
    class Wrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 3
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = fb.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not an input"):
        Wrong.apply(x)
    with fb.compat.torch(), pytest.warns(UserWarning, match="not an input"):
        Wrong.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_an_input_handed_back_is_still_saved_as_an_input():
    class Same(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert x.requires_grad and x.is_leaf
            return g * x

    x = fb.tensor([2.0, 3.0], requires_grad=True)
    (g,) = fb.autograd.grad(Same.apply(x).sum(), x, create_graph=True)
    assert g.tolist() == [2, 3]
    assert fb.autograd.grad(g.sum(), x)[0].tolist() == [1, 1]


@pytest.mark.parametrize("which", ["input", "output"])
@pytest.mark.parametrize("save", ["save_for_backward", "save_for_forward"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_setup_context_cannot_save_an_input_handed_back(which, save, requires_grad):
    class Same(fb.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            getattr(ctx, save)(inputs[0] if which == "input" else output)

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="input that has been returned as-is as output is being saved"):
        Same.apply(fb.ones(2, requires_grad=requires_grad))


def test_saved_variables_is_an_old_name():
    class Twice(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_variables[0] is x
            return g * 2

    x = fb.ones(2, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_data_of_a_leaf_stays_differentiable():
    x = fb.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must be floating point or complex dtype"):
        x.data = fb.ones(2, dtype=fb.int64)
    x.data = fb.zeros(2, dtype=fb.float64)
    assert x.tolist() == [0, 0] and x.requires_grad


@pytest.mark.parametrize("boxed", [False, True])
def test_nodes_of_functions_can_be_applied(boxed):
    class Both(fb.autograd.Function):
        boxed_grads_call = boxed

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, *gradients):
            first, second = gradients[0] if boxed else gradients
            return first * 2 + second * 3

    y, _ = Both.apply(fb.ones(2, requires_grad=True))
    assert y.grad_fn.apply(fb.ones(2), fb.ones(2)).tolist() == [5, 5]


@pytest.mark.parametrize("zeros", [False, True])
def test_zeros_for_outputs_without_gradient_can_be_left_away(zeros):
    class Parts(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            constant = x.clone()
            ctx.mark_non_differentiable(constant)
            ctx._materialize_non_diff_grads = zeros
            return x * 2, constant, x * 3

        @staticmethod
        def backward(ctx, first, constant, third):
            seen.append((constant is not None, third.tolist()))
            return first * 2 + third * 3

    seen = []
    Parts.apply(fb.ones(2, requires_grad=True))[0].sum().backward()
    assert seen == [(zeros, [0, 0])]


def test_a_changed_input_may_be_any_of_the_results():
    class AddOne(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            double = x * 2
            x.add_(1)
            ctx.mark_dirty(x)
            return double, x

        @staticmethod
        def backward(ctx, of_double, of_x):
            return of_double * 2 + of_x

    leaf = fb.ones(2, requires_grad=True)
    double, x = AddOne.apply(leaf.clone())
    (double * 10 + x * 3).sum().backward()
    assert leaf.grad.tolist() == [23, 23]
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        AddOne.apply(leaf.clone()[:])


def test_a_view_that_is_no_input_cannot_be_marked_dirty():
    class Bad(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone().view_as(x)
            ctx.mark_dirty(out)
            return out

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Bad.apply(fb.ones(1, requires_grad=True).clone())
