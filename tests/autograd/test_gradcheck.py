"""gradcheck finds right gradients right and wrong ones wrong, and says where."""

from __future__ import annotations

import pytest

import flambeau as fb
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck

X = fb.tensor([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]], dtype=fb.float64, requires_grad=True)
Y = fb.tensor([0.25, 1.0, -2.0], dtype=fb.float64, requires_grad=True)
Z = fb.tensor([0.5 + 1j, -1.0 + 0.25j], dtype=fb.complex128, requires_grad=True)
modes = pytest.mark.parametrize("fast_mode", [False, True])


class Wrong(fb.autograd.Function):
    """x², with a gradient that is half as large again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0]


@modes
def test_right_gradients(fast_mode):
    assert gradcheck(lambda x: x.sin() * x, X, fast_mode=fast_mode)
    assert gradcheck(lambda x, y: (x * y, (x * y).sum(), x.detach()), (X, Y), fast_mode=fast_mode)
    assert gradcheck(lambda x, n: x * n, (X, 3), fast_mode=fast_mode)
    assert gradcheck(lambda x: x.sum(1), X.detach().T.requires_grad_(), fast_mode=fast_mode)


@modes
def test_complex(fast_mode):
    assert gradcheck(lambda z: z * z * z.conj(), (Z,), fast_mode=fast_mode)
    assert gradcheck(lambda z: (z.abs(), z.real), (Z,), fast_mode=fast_mode)
    assert gradcheck(lambda x: fb.complex(x, x * x), (X,), fast_mode=fast_mode)
    assert gradgradcheck(lambda z: z * z * z.conj(), (Z,), fast_mode=fast_mode)


@modes
def test_wrong_gradient(fast_mode):
    with pytest.raises(RuntimeError, match="output 1 with respect to input 0") as caught:
        gradcheck(lambda x: (x * 2, Wrong.apply(x)), (X,), fast_mode=fast_mode)
    text = str(caught.value)
    assert "numerical:" in text and "analytical:" in text and "largest difference" in text
    assert gradcheck(Wrong.apply, (X,), fast_mode=fast_mode, raise_exception=False) is False


def test_wrong_imaginary_part():
    class Half(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return fb.complex(x, x)

        @staticmethod
        def backward(ctx, g):
            return g.real

    with pytest.raises(RuntimeError, match="considering the imaginary part of complex outputs only.*output 0"):
        gradcheck(Half.apply, (X,))


@modes
def test_second_order(fast_mode):
    assert gradgradcheck(lambda x: x.sin() * x, (X,), fast_mode=fast_mode)
    assert gradgradcheck(lambda x, y: (x * y).exp(), (X, Y), fast_mode=fast_mode)
    assert gradgradcheck(lambda x: x**3, (X,), fast_mode=fast_mode, gen_non_contig_grad_outputs=True)
    assert gradgradcheck(lambda x: x**3, (X,), fb.ones_like(X).requires_grad_(), fast_mode=fast_mode)

    class SecondWrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x.detach()

    assert gradcheck(SecondWrong.apply, (X,), fast_mode=fast_mode)
    assert not gradgradcheck(SecondWrong.apply, (X,), fast_mode=fast_mode, raise_exception=False)


def test_inputs_keep_their_values():
    before = X.detach().clone()
    gradcheck(lambda x: x * 2, (X,))
    assert fb.equal(X.detach(), before)


def test_a_function_that_lost_track():
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero.*changes with input 0"):
        gradcheck(lambda x: x.detach() * 2, (X,))
    assert gradcheck(lambda x: fb.ones(2, dtype=fb.float64), (X,))


def test_nondeterministic_backward():
    class Drifting(fb.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            Drifting.calls += 1
            return g * (1 + 1e-9 * Drifting.calls)

    with pytest.raises(RuntimeError, match="Backward is not reentrant.*two backward passes differ"):
        gradcheck(Drifting.apply, (X,))
    assert gradcheck(Drifting.apply, (X,), nondet_tol=1e-3, check_undefined_grad=False)


def test_gradients_that_are_not_there():
    class Careless(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if h is None and not g.any():
                raise ZeroDivisionError("nothing to do")
            return (0 if g is None else g * 2) + (0 if h is None else h * 3)

    with pytest.raises(RuntimeError, match="the gradient of output 1 is not there.*nothing to do"):
        gradcheck(Careless.apply, (X,))
    assert gradcheck(Careless.apply, (X,), check_undefined_grad=False)


def test_backward_that_ignores_its_gradient():
    class Constant(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return fb.ones_like(g)

    one = fb.tensor([2.0], dtype=fb.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output.*not zero for zero gradients"):
        gradcheck(Constant.apply, (one,), check_undefined_grad=False)


def test_batched_gradients():
    assert gradcheck(lambda x: x.sin(), (X,), check_batched_grad=True)


def test_forward_mode():
    assert gradcheck(lambda x: (x.sin(), x * 2), (X,), check_forward_ad=True, check_backward_ad=False)
    assert gradcheck(lambda x, y: x @ y, (X, X.detach().T.clone().requires_grad_()), check_forward_ad=True, check_batched_forward_grad=True)
    assert gradgradcheck(fb.sin, (X,), check_fwd_over_rev=True, check_rev_over_rev=False)
    z = fb.tensor([1 + 2j, 0.5 - 1j], dtype=fb.complex128, requires_grad=True)
    assert gradcheck(lambda t: t * t.conj() + t.exp(), (z,), check_forward_ad=True)

    class Wrong(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 3 + y

        @staticmethod
        def backward(ctx, g):
            return g * 3, g * 2

    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0 with respect to input 1"):
        gradcheck(Wrong.apply, (X, X), check_forward_ad=True, check_backward_ad=False)


def test_arguments():
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        gradcheck(fb.sin, (X.detach(),))
    with pytest.raises(AssertionError, match="check_backward_ad"):
        gradcheck(fb.sin, (X,), check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_fwd_over_rev or check_rev_over_rev"):
        gradgradcheck(fb.sin, (X,), check_rev_over_rev=False)
    with pytest.raises(ValueError, match="needs check_forward_ad"):
        gradcheck(fb.sin, (X,), check_batched_forward_grad=True)
    with pytest.raises(ValueError, match="grad_outputs"):
        gradgradcheck(fb.sin, (X,), [X, X])
    with pytest.raises(ValueError, match="The 0th input has a dimension with stride 0"):
        gradcheck(fb.sin, (fb.ones(1, dtype=fb.float64).expand(3).requires_grad_(),))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision.*float64 or complex128"):
        gradcheck(lambda x: x * 2, (fb.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)


@pytest.mark.parametrize("layout", [fb.sparse_coo, fb.sparse_csr, fb.sparse_csc, fb.sparse_bsr, fb.sparse_bsc])
def test_gradients_of_all_elements_of_sparse_inputs(layout):
    blocks = (2, 1) if layout in (fb.sparse_bsr, fb.sparse_bsc) else None
    x = fb.tensor([[0.0, 1.5, 0.0], [0.0, 2.0, 0.0]], dtype=fb.float64).to_sparse(layout=layout, blocksize=blocks).requires_grad_()
    kept = []

    def square(x):
        kept.append(x._values().numel())
        return x.to_dense() ** 2

    for fast in (True, False):
        assert fb.autograd.gradcheck(square, x, fast_mode=fast)
    assert set(kept) == {6}
    with pytest.raises(RuntimeError, match="mismatch"):
        fb.autograd.gradcheck(lambda x: x.to_dense() * (x.detach().to_dense() + 1), x)


def test_gradients_of_kept_elements():
    for layout in (fb.sparse_coo, fb.sparse_csr):
        x = fb.tensor([[0.0, 1.5], [-2.0, 0.0]], dtype=fb.float64).to_sparse(layout=layout).detach().requires_grad_()
        y = fb.randn(2, 2, dtype=fb.float64, requires_grad=True)
        assert fb.autograd.gradcheck(lambda x, y: (x.sin() @ y), (x, y), masked=True)
        assert fb.autograd.gradcheck(lambda x: x.square().to_dense(), x, masked=True, fast_mode=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        fb.autograd.gradcheck(lambda x: x.to_dense() * x.detach().to_dense(), x, masked=True)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_outputs_that_change_their_look(fast_mode):
    def longer(x):
        return fb.cat([x, x]) if bool((x >= 1).all()) else x

    def narrower(x):
        return x.float() if bool((x >= 1).all()) else x

    x = fb.ones(1, dtype=fb.float64, requires_grad=True)
    with pytest.raises(AssertionError, match="outputs with the same shape when inputs are perturbed"):
        gradcheck(longer, (x,), fast_mode=fast_mode)
    with pytest.raises(AssertionError, match="outputs with the same dtype when inputs are perturbed"):
        gradcheck(narrower, (x,), fast_mode=fast_mode)


def test_a_failing_backward_hides_a_failing_jvp():
    class Both(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("the backward")

        @staticmethod
        def jvp(ctx, t):
            raise RuntimeError("the jvp")

    with pytest.raises(RuntimeError, match="the backward"):
        gradcheck(Both.apply, (X,), check_forward_ad=True)
    with pytest.raises(RuntimeError, match="the jvp"):
        gradcheck(Both.apply, (X,), check_forward_ad=True, check_backward_ad=False)
