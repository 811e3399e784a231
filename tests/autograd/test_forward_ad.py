"""Dual tensors against derivatives known by hand and against func.jvp."""

import numpy as np
import pytest

import flambeau as fb

fwd = fb.autograd.forward_ad


def test_tangents_of_functions_of_several_inputs():
    x, y = fb.randn(3, dtype=fb.float64), fb.randn(3, dtype=fb.float64)
    dx, dy = fb.randn(3, dtype=fb.float64), fb.randn(3, dtype=fb.float64)
    with fwd.dual_level():
        a, b = fwd.make_dual(x, dx), fwd.make_dual(y, dy)
        primal, tangent = fwd.unpack_dual((a * b).sin())
        only_a = fwd.unpack_dual(a.exp()).tangent
        constant = fwd.unpack_dual(x.exp())
        again = fwd.unpack_dual(a)
    np.testing.assert_allclose(primal.numpy(), np.sin((x * y).numpy()))
    np.testing.assert_allclose(tangent.numpy(), ((x * y).cos() * (dx * y + x * dy)).numpy())
    np.testing.assert_allclose(only_a.numpy(), (x.exp() * dx).numpy())
    assert constant.tangent is None and again.tangent is dx
    assert not primal.requires_grad and not tangent.requires_grad


def test_a_module_in_the_direction_of_its_parameters():
    fb.manual_seed(0)
    model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.Tanh(), fb.nn.Linear(4, 2))
    values = {name: p.detach() for name, p in model.named_parameters()}
    directions = {name: fb.randn_like(p) for name, p in values.items()}
    x = fb.randn(5, 3)
    with fwd.dual_level():
        duals = {name: fwd.make_dual(p, directions[name]) for name, p in values.items()}
        tangent = fwd.unpack_dual(fb.func.functional_call(model, duals, (x,))).tangent
    expected = fb.func.jvp(lambda v: fb.func.functional_call(model, v, (x,)), (values,), (directions,))[1]
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-5)


def test_gradients_of_tangents():
    x = fb.tensor(2.0, requires_grad=True)
    with fwd.dual_level():
        tangent = fwd.unpack_dual(fwd.make_dual(x, fb.tensor(1.0)) ** 3).tangent
    assert tangent.item() == 12
    (second,) = fb.autograd.grad(tangent, x)
    assert second.item() == 12  # 6 x


def test_misuse():
    with pytest.raises(RuntimeError, match="no dual level"):
        fwd.make_dual(fb.ones(1), fb.ones(1))
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported at the moment"):
            fwd.enter_dual_level()
        with pytest.raises(ValueError, match="Trying to set a forward gradient that has a different size"):
            fwd.make_dual(fb.ones(1), fb.ones(2))
        with pytest.raises(ValueError, match="to be floating point or complex"):
            fwd.make_dual(fb.ones(1, dtype=fb.int64), fb.ones(1, dtype=fb.int64))
        with fb.no_grad(), pytest.raises(RuntimeError, match="no_grad"):
            fwd.make_dual(fb.ones(1), fb.ones(1))
    with pytest.raises(RuntimeError, match="not open"):
        fwd.exit_dual_level()


def test_outside_of_a_level_nothing_has_a_tangent():
    x = fb.ones(2)
    primal, tangent = fwd.unpack_dual(x)
    assert primal is x and tangent is None
    with pytest.raises(RuntimeError, match="level"):
        fwd.unpack_dual(x, level=0)


class Tripled(fb.autograd.Function):
    """Its jvp says 5 where the derivative is 3, so that one can see who was asked."""

    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_forward(x)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 3, None

    @staticmethod
    def jvp(ctx, t, k):
        assert k is None
        ctx.seen = ctx.saved_tensors
        return t * 5


def test_the_jvp_of_a_function_is_used():
    with fwd.dual_level():
        x = fwd.make_dual(fb.tensor(2.0), fb.tensor(1.0))
        y = Tripled.apply(x.sin(), 7)
        tangent = fwd.unpack_dual(y * y + x).tangent
        assert fb.allclose(tangent, 2 * y * 5 * fb.tensor(2.0).cos() + 1)
        assert fb.allclose(fb.autograd.grad(y, x)[0], 3 * fb.tensor(2.0).cos())


def test_a_function_with_a_jvp_needs_no_backward():
    class Doubled(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 3

        @staticmethod
        def jvp(ctx, s, t):
            return s * 2, t * 3

    with fwd.dual_level():
        x = fwd.make_dual(fb.ones(2), fb.ones(2))
        a, b = Doubled.apply(x, fb.ones(3))
        assert fwd.unpack_dual(a).tangent.tolist() == [2, 2]
        assert fwd.unpack_dual(b).tangent.tolist() == [0, 0, 0]


def test_a_jvp_changes_tangents_in_place_where_forward_changes_values():
    class Scale(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, inside):
            ctx.inside = inside
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

        @staticmethod
        def jvp(ctx, t, _):
            return {"changed": lambda: t.mul_(2), "same": lambda: t, "new": lambda: t * 2}[ctx.inside]()

    direction = fb.ones(2)
    with fwd.dual_level():
        x = fwd.make_dual(fb.ones(2), direction)
        assert fwd.unpack_dual(Scale.apply(x.clone(), "changed")).tangent.tolist() == [2, 2]
        assert direction.tolist() == [1, 1]
        for wrong in ("same", "new"):
            with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
                Scale.apply(x.clone(), wrong)


def test_a_jvp_returns_views_where_forward_does():
    class First(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, how):
            ctx.how = how
            return x[:1]

        @staticmethod
        def jvp(ctx, t, _):
            part = t[:1]
            return {"view": part, "copy": part.clone(), "other": part.clone().view(-1)}[ctx.how]

    with fwd.dual_level():
        x = fwd.make_dual(fb.ones(2), fb.ones(2))
        assert fwd.unpack_dual(First.apply(x, "view")).tangent.tolist() == [1]
        for how in ("copy", "other"):
            with pytest.raises(RuntimeError, match="jvp is not returning a view"):
                First.apply(x, how)


def test_a_jvp_returns_one_tangent_per_output():
    class Two(Tripled):
        @staticmethod
        def forward(ctx, x, k):
            return x * 1, x * 2

    with fwd.dual_level():
        x = fwd.make_dual(fb.ones(2), fb.ones(2))
        with pytest.raises(RuntimeError, match="expected 2 got 1"):
            Two.apply(x, 1)


def test_dual_tensors_may_be_changed_in_place():
    with fwd.dual_level():
        x = fwd.make_dual(fb.tensor([1.0, 2.0]), fb.tensor([1.0, 10.0]))
        x *= 3
        assert fwd.unpack_dual(x).tangent.tolist() == [3, 30]
        x[:1] *= 2
        assert fwd.unpack_dual(x).tangent.tolist() == [6, 30]
        x[1] = 7
        primal, tangent = fwd.unpack_dual(x)
        assert primal.tolist() == [6, 7] and tangent.tolist() == [6, 0]


def test_gradients_have_tangents():
    """A gradient of dual tensors is dual: forward over reverse gives products with the Hessian."""
    p, v = fb.tensor([1.0, 2.0, 3.0], requires_grad=True), fb.tensor([1.0, 0.0, 2.0])
    with fb.autograd.forward_ad.dual_level():
        x = fb.autograd.forward_ad.make_dual(p, v)
        (g,) = fb.autograd.grad((x**3).sum(), x)
        found = fb.autograd.forward_ad.unpack_dual(g)
        assert found.primal.tolist() == [3, 12, 27] and found.tangent.tolist() == [6, 0, 36]


def test_dual_tensors_print_their_tangents():
    with fwd.dual_level():
        x = fwd.make_dual(fb.zeros(2), fb.ones(2))
        assert "tangent=tensor([1., 1.])" in repr(x) and "tangent" not in repr(fwd.unpack_dual(x).primal)
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwd.make_dual(fb.zeros(2), x)
    assert "tangent" not in repr(fb.zeros(2))


def test_a_jvp_gives_no_tangent_to_a_constant_result():
    class Constant(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            out = y.clone()
            ctx.mark_non_differentiable(out)
            return x.clone(), out

        @staticmethod
        def jvp(ctx, x, y):
            return x, x.clone()

    with fwd.dual_level():
        x = fwd.make_dual(fb.ones(2), fb.ones(2))
        with pytest.raises(RuntimeError, match="You should return None at that position instead"):
            Constant.apply(x, fb.ones(2))


def test_several_tangents_of_one_gradient():
    """retain_graph=False frees nothing that tangents still need."""
    a, b = fb.randn(2, 2, requires_grad=True), fb.randn(2, 2, requires_grad=True)
    u, v = fb.randn(2, 2), fb.randn(2, 2)
    with fwd.dual_level():
        x, y = fwd.make_dual(a, u), fwd.make_dual(b, v)
        gx, gy = fb.autograd.grad((x @ y).sum(), (x, y), retain_graph=False)
        fb.testing.assert_close(fwd.unpack_dual(gx).tangent, fb.ones(2, 2) @ v.mT)
        fb.testing.assert_close(fwd.unpack_dual(gy).tangent, u.mT @ fb.ones(2, 2))
