"""Checkpointing: same gradients, less memory, honest errors."""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref

import pytest

import flambeau as fb
from flambeau.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

both = pytest.mark.parametrize("use_reentrant", [True, False])


def leaf():
    return fb.linspace(-1.0, 2.0, 4, dtype=fb.float64).requires_grad_()


def gradient(f, *xs):
    return fb.autograd.grad(f(*xs).sum(), xs)


def deep(x):
    return ((x.sin() * x).exp() + x).tanh()


@both
def test_same_gradient(use_reentrant):
    x = leaf()
    checkpoint(deep, x, use_reentrant=use_reentrant).sum().backward()
    assert fb.equal(x.grad, gradient(deep, leaf())[0])


@both
def test_the_function_runs_twice(use_reentrant):
    runs = []

    def f(x):
        runs.append(1)
        return deep(x)

    y = checkpoint(f, leaf(), use_reentrant=use_reentrant).sum()
    assert len(runs) == 1
    y.backward()
    assert len(runs) == 2


@both
def test_random_numbers_are_the_same_both_times(use_reentrant):
    f = lambda x: (x * fb.rand(4, dtype=fb.float64)).exp()  # noqa: E731
    x, y = leaf(), leaf()
    fb.manual_seed(5)
    checkpoint(f, x, use_reentrant=use_reentrant).sum().backward()
    after = fb.rand(1)
    fb.manual_seed(5)
    f(y).sum().backward()
    assert fb.equal(x.grad, y.grad) and fb.equal(after, fb.rand(1))


def test_random_state_can_be_left_alone():
    f = lambda x: (x * fb.rand(4, dtype=fb.float64)).exp()  # noqa: E731
    x, y = leaf(), leaf()
    fb.manual_seed(5)
    checkpoint(f, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
    fb.manual_seed(5)
    f(y).sum().backward()
    assert not fb.equal(x.grad, y.grad)


@both
def test_several_arguments_and_results(use_reentrant):
    def f(x, n, y):
        return x * y * n, y.exp()

    x, y = leaf(), leaf()
    a, b = checkpoint(f, x, 3, y, use_reentrant=use_reentrant)
    (a + b).sum().backward()
    assert fb.equal(x.grad, 3 * y.detach())
    assert fb.allclose(y.grad, (3 * x + y.exp()).detach())


def test_keywords_and_captured_tensors():
    w = leaf()
    x = leaf()
    checkpoint(lambda x, scale: (x * w * scale).sin(), x, scale=2.0, use_reentrant=False).sum().backward()
    assert x.grad is not None and w.grad is not None
    assert fb.equal(x.grad, w.grad)


def test_nested():
    def inner(x):
        return deep(x).cos()

    def outer(x):
        return checkpoint(inner, x.sin(), use_reentrant=False).exp()

    x = leaf()
    checkpoint(outer, x, use_reentrant=False).sum().backward()
    assert fb.allclose(x.grad, gradient(lambda t: inner(t.sin()).exp(), leaf())[0])


def test_second_derivative_and_twice_backward():
    x = leaf()
    (g,) = fb.autograd.grad(checkpoint(deep, x, use_reentrant=False).sum(), x, create_graph=True)
    (h,) = fb.autograd.grad(g.sum(), x)
    y = leaf()
    (g2,) = fb.autograd.grad(deep(y).sum(), y, create_graph=True)
    assert fb.allclose(h, fb.autograd.grad(g2.sum(), y)[0])
    z = leaf()
    out = checkpoint(deep, z, use_reentrant=False).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert fb.allclose(z.grad, 2 * gradient(deep, leaf())[0])


def test_early_stop():
    seen = []

    def g(x):
        y = x.sin()
        seen.append("after")
        return y + 1

    for stop, times in ((True, 1), (False, 2)):
        seen.clear()
        checkpoint(g, leaf(), use_reentrant=False, early_stop=stop).sum().backward()
        assert len(seen) == times
    with set_checkpoint_early_stop(False):
        seen.clear()
        checkpoint(g, leaf(), use_reentrant=False).sum().backward()
        assert len(seen) == 2


def test_memory_of_a_checkpointed_chain():
    """Ten products of 1 MB each keep their inputs; checkpointed they keep one."""

    def chain(x):
        for _ in range(10):
            x = x.sin()
        return x

    x = fb.ones(131072, dtype=fb.float64, requires_grad=True)

    def held(f):
        before = fb.memory_allocated()
        y = f(x)
        return fb.memory_allocated() - before, y

    plain, y = held(chain)
    del y
    small, y = held(lambda t: checkpoint(chain, t, use_reentrant=False))
    assert plain > 9 * 2**20 and small < 2.5 * 2**20
    y.sum().backward()
    assert fb.allclose(x.grad, gradient(chain, x)[0])


def test_contexts():
    seen = []

    @contextlib.contextmanager
    def noted(name):
        seen.append(name)
        yield

    x = leaf()
    out = checkpoint(deep, x, use_reentrant=False, context_fn=lambda: (noted("first"), noted("second")))
    assert seen == ["first"]
    out.sum().backward()
    assert seen == ["first", "second"]


def test_a_function_that_changes_its_mind():
    def changing(second):
        runs = []

        def f(x):
            runs.append(1)
            return x.sin() if len(runs) == 1 else second(x)

        return f

    with pytest.raises(CheckpointError, match="must do the same"):
        checkpoint(changing(lambda x: x.sin().exp().cos()), leaf(), use_reentrant=False, early_stop=False).sum().backward()
    with pytest.raises(CheckpointError, match="saved"):
        checkpoint(changing(lambda x: x + 1), leaf(), use_reentrant=False).sum().backward()
    with pytest.raises(CheckpointError, match=r"shape \(4,\).*shape \(2,\)"):
        checkpoint(changing(lambda x: x[:2].sin()), leaf(), use_reentrant=False).sum().backward()
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="What the first run saved"):
        checkpoint(changing(lambda x: x + 1), leaf(), use_reentrant=False).sum().backward()


def test_without_gradients():
    x = leaf()
    with fb.no_grad():
        assert not checkpoint(deep, x, use_reentrant=False).requires_grad
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(deep, x.detach(), use_reentrant=True).requires_grad


def test_arguments():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(deep, leaf())
    with pytest.raises(ValueError, match="unexpected keyword"):
        checkpoint(deep, leaf(), use_reentrant=True, y=3)
    with pytest.raises(ValueError, match="need use_reentrant=False"):
        checkpoint(deep, leaf(), use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(deep, leaf(), use_reentrant=False, determinism_check="some")


@both
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(use_reentrant, segments):
    functions = [fb.sin, fb.cos, fb.exp, fb.tanh, fb.sigmoid]

    def plain(x):
        for f in functions:
            x = f(x)
        return x

    x = leaf()
    checkpoint_sequential(functions, segments, x, use_reentrant=use_reentrant).sum().backward()
    assert fb.allclose(x.grad, gradient(plain, leaf())[0])


def test_sequential_arguments():
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential([fb.sin], 2, leaf(), use_reentrant=False)
    with pytest.raises(ValueError, match="unexpected keyword"):
        checkpoint_sequential([fb.sin], 1, leaf(), use_reentrant=False, debug=True)


def test_states_of_accelerators():
    from flambeau.utils.checkpoint import get_device_states, set_device_states

    assert get_device_states(leaf(), [leaf()]) == ([], []) and set_device_states([], []) is None
    with pytest.raises(fb.errors.StateError, match="no accelerators"):
        set_device_states([0], [fb.get_rng_state()])
    assert fb.cuda._initialized is fb.cuda.is_initialized() is False


# ---- autocast, and results kept op by op -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("backward_inside", [True, False])
def test_the_second_run_has_the_autocast_of_the_first(use_reentrant, backward_inside):
    weight = fb.randn(4, 4, requires_grad=True)
    x = fb.randn(3, 4, requires_grad=True)
    seen = []

    def layer(t):
        y = t @ weight
        seen.append(y.dtype)
        return y.float().sin()

    with fb.autocast("cpu", dtype=fb.bfloat16):
        loss = checkpoint(layer, x, use_reentrant=use_reentrant).sum()
        if backward_inside:
            with fb.autocast("cpu", enabled=False):
                loss.backward()
    if not backward_inside:
        loss.backward()
    assert seen == [fb.bfloat16] * 2
    kept = x.grad, weight.grad
    x.grad = weight.grad = None
    with fb.autocast("cpu", dtype=fb.bfloat16):
        plain = layer(x).sum()
    plain.backward()
    assert fb.equal(kept[0], x.grad) and fb.equal(kept[1], weight.grad)


@both
def test_a_second_run_within_autocast_stays_outside_of_it(use_reentrant):
    x = fb.randn(3, 3, requires_grad=True)
    seen = []

    def layer(t):
        y = t @ t
        seen.append(y.dtype)
        return y.sin()

    loss = checkpoint(layer, x, use_reentrant=use_reentrant).sum()
    with fb.autocast("cpu", dtype=fb.bfloat16):
        loss.backward()
    assert seen == [fb.float32] * 2


def counted(keep, mutable=False):
    """A context_fn, and how often ops were asked about."""
    asked = []

    def policy(ctx, op, *args):
        asked.append(op)
        return CheckpointPolicy.MUST_SAVE if op in keep else CheckpointPolicy.PREFER_RECOMPUTE

    return functools.partial(create_selective_checkpoint_contexts, policy, mutable), asked


@pytest.mark.parametrize("keep", [True, False])
def test_kept_results_are_not_computed_again(keep):
    x = fb.randn(3, 3, dtype=fb.float64, requires_grad=True)
    scale = fb.eye(3, dtype=fb.float64)
    context_fn, asked = counted([fb.mm] if keep else [])
    y = checkpoint(lambda t: (t @ scale).sin(), x, use_reentrant=False, context_fn=context_fn)
    scale.mul_(2)  # a product that is computed again is twice as large, one that was kept is not
    y.sum().backward()
    assert fb.allclose(x.grad, 2 * (x.detach() * (1 if keep else 2)).cos())
    assert asked == [fb.mm, fb.sin, fb.mm]  # the second run stops before the sine


def test_a_list_of_ops_to_keep_and_layers():
    layer = fb.nn.Linear(3, 3)
    x = fb.randn(2, 3, requires_grad=True)
    keep = functools.partial(create_selective_checkpoint_contexts, [fb.addmm])
    checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=False, context_fn=keep).sum().backward()
    want = x.grad
    x.grad = None
    layer(x).tanh().sum().backward()
    assert fb.equal(want, x.grad)


def test_kept_results_that_were_changed():
    def f(x):
        return x.sin().mul_(2).cos().exp()

    x = leaf()
    context_fn, _ = counted([fb.sin])
    with pytest.raises(RuntimeError, match="has been mutated"):
        checkpoint(f, x, use_reentrant=False, context_fn=context_fn).sum().backward()
    context_fn, _ = counted([fb.sin], mutable=True)
    checkpoint(f, x, use_reentrant=False, context_fn=context_fn).sum().backward()


def test_selective_second_runs_that_differ():
    runs = []

    def f(x):
        runs.append(1)
        x = x.sin()
        return (x.sin() if len(runs) > 1 else x).cos()

    context_fn, _ = counted([fb.sin])
    y = checkpoint(f, leaf(), use_reentrant=False, context_fn=context_fn, early_stop=False)
    with pytest.raises(RuntimeError, match=r"sin invocation index 1 .*not found in storage"):
        y.sum().backward()


def test_selective_checkpoints_serve_one_backward():
    context_fn, _ = counted([fb.sin])
    y = checkpoint(lambda x: x.sin().cos().exp(), leaf(), use_reentrant=False, context_fn=context_fn).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.backward()


def test_bad_policies():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([2])
    with pytest.raises(TypeError, match=r"either a function or a list of ops\."):
        create_selective_checkpoint_contexts(2)
    with pytest.raises(ValueError, match="must return a CheckpointPolicy or a bool"):
        checkpoint(
            lambda x: x.sin(), leaf(), use_reentrant=False,
            context_fn=functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *args: "yes"),
        )  # fmt: skip


def test_a_backward_inside_the_checkpointed_function():
    def inner(x):
        return x.sin().exp()

    def slope(x):
        with fb.enable_grad():
            (g,) = fb.autograd.grad(inner(x).sum(), x, create_graph=True)
        return g.sin()

    for early_stop in (True, False):
        x = leaf()
        with set_checkpoint_early_stop(early_stop):
            checkpoint(slope, x, use_reentrant=False).sum().backward()
        assert fb.allclose(x.grad, gradient(slope, leaf())[0])


def test_reentrant_checkpoint_of_a_function_that_returns_its_argument():
    x = fb.randn(3, requires_grad=True)
    checkpoint(lambda a, b: a, x, None, use_reentrant=True).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_a_function_in_a_checkpoint_leaves_no_cycle_behind():
    """The second run stops while results are packed; what the Function kept must die with it."""
    refs = []

    class Keep(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.save_for_backward(y)
            refs.append(weakref.ref(y))
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = fb.ones(3, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        checkpoint(Keep.apply, x, use_reentrant=False).sum().backward()
        assert len(refs) == 2 and all(ref() is None for ref in refs)
    finally:
        gc.enable()


def test_policies_are_asked_in_both_runs():
    seen = []

    def policy(ctx, op, *args):
        seen.append((ctx.is_recompute, op is fb.sin))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x = fb.ones(3, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    checkpoint(lambda t: t.sin().sin().sin(), x, use_reentrant=False, context_fn=contexts).sum().backward()
    assert seen == [(False, True)] * 3 + [(True, True)] * 2  # the second run stops before the last
