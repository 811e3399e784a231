"""The graph and backward: what is recorded, when it is freed, and what every misuse says."""

import gc
import threading
import weakref

import numpy as np
import pytest

import flambeau as fb


def leaf(*values):
    return fb.tensor(values, dtype=fb.float64, requires_grad=True)


def equal(t, values):
    np.testing.assert_allclose(t.detach().numpy(), np.asarray(values, dtype=float), rtol=1e-12)


# ---- backward and grad -------------------------------------------------------------------------------------------------


def test_backward_sums_into_leaves():
    x = leaf(1, 2, 3)
    (x * x).sum().backward()
    equal(x.grad, [2, 4, 6])
    (x * 2).sum().backward()
    equal(x.grad, [4, 6, 8])


def test_a_leaf_used_twice_gets_both_gradients():
    x = leaf(2)
    y = x * x
    (y * x + y).sum().backward()
    equal(x.grad, [3 * 4 + 2 * 2])


def test_given_gradient_and_its_errors():
    x = leaf(1, 2)
    y = x * 3
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs.*shape \\(2,\\)"):
        y.backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        y.backward(fb.ones(3, dtype=fb.float64))
    with pytest.raises(TypeError, match="Tensors or None"):
        y.backward("no")
    y.backward(fb.tensor([1.0, 10.0], dtype=fb.float64))
    equal(x.grad, [3, 30])
    with pytest.raises(RuntimeError, match="does not require grad"):
        fb.ones(1).backward()


def test_retain_graph():
    x = leaf(2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    equal(x.grad, [8])
    with pytest.raises(RuntimeError, match="second time") as error:
        y.backward()
    assert "MulBackward0" in str(error.value) and "test_engine.py" in str(error.value)
    z = (x + x).sum()  # keeps nothing, so it can be run again
    z.backward()
    z.backward()


def test_create_graph_any_order():
    x = leaf(2)
    y = (x * x * x * x).sum()
    for expected in (32, 48, 48, 24):
        (y,) = fb.autograd.grad(y, x, fb.ones_like(y) if y.dim() else None, create_graph=True)
        equal(y, [expected])


def test_inputs_only():
    x, w = leaf(2), leaf(3)
    y = x * w
    (y * y).sum().backward(inputs=[w])
    assert x.grad is None
    equal(w.grad, [2 * 6 * 2])
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_grad_of_inner_tensors_and_unused():
    x = leaf(2)
    y = x * x
    z = (y * y).sum()
    gy, gx = fb.autograd.grad(z, [y, x], retain_graph=True)
    equal(gy, [8])
    equal(gx, [32])
    other = leaf(1)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used in the graph"):
        fb.autograd.grad(z, [x, other], retain_graph=True)
    assert fb.autograd.grad(z, [x, other], allow_unused=True, retain_graph=True)[1] is None
    equal(fb.autograd.grad(z, [x, other], materialize_grads=True, retain_graph=True)[1], [0])
    zeros = fb.autograd.grad(z, [x, other], materialize_grads=True, create_graph=True)[1]
    assert zeros.requires_grad  # so that gradients of gradients may go on
    with pytest.raises(ValueError, match="allow_unused"):
        fb.autograd.grad(z, x, allow_unused=False, materialize_grads=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        fb.autograd.grad(z, fb.ones(1))
    with pytest.raises(ValueError, match="grad requires non-empty inputs"):
        fb.autograd.grad(z, [])


def test_batched_gradients():
    x = leaf(1, 2)
    (rows,) = fb.autograd.grad(x * x, x, fb.eye(2, dtype=fb.float64), is_grads_batched=True)
    equal(rows, [[2, 0], [0, 4]])


def test_gradients_fit_the_leaf():
    x = fb.ones(2, 1, requires_grad=True)
    y = fb.ones(3, dtype=fb.float64)
    (x * y).sum().backward()
    assert x.grad.shape == (2, 1) and x.grad.dtype == fb.float32
    equal(x.grad, [[3], [3]])
    z = fb.tensor([1 + 2j], requires_grad=True)
    r = fb.tensor([3.0], requires_grad=True)
    (z * r).abs().sum().backward()
    assert z.grad.dtype == fb.complex64 and r.grad.dtype == fb.float32


def test_leaves_and_flags():
    x = fb.ones(2)
    assert x.is_leaf and not x.requires_grad and x.grad_fn is None
    x.requires_grad_()
    y = x * 2
    assert x.is_leaf and not y.is_leaf and y.requires_grad and y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "AccumulateGrad"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.detach().is_leaf and not y.detach().requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="floating point"):
        fb.ones(2, dtype=fb.int64).requires_grad_()
    assert not (x > 0).requires_grad
    assert fb.zeros(2, requires_grad=True).requires_grad
    assert "grad_fn=<MulBackward0>" in repr(y) and "requires_grad=True" in repr(x)


def test_grad_attribute():
    x = leaf(1, 2)
    x.grad = fb.zeros(2, dtype=fb.float64)
    with pytest.raises(ValueError, match="gradient of size"):
        x.grad = fb.zeros(3, dtype=fb.float64)
    with pytest.raises(ValueError, match="dtype"):
        x.grad = fb.zeros(2)
    x.grad = None
    assert x.grad is None


def test_out_and_gradients():
    x = leaf(1)
    with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
        fb.mul(x, x, out=fb.empty(1, dtype=fb.float64))
    with fb.no_grad():
        fb.mul(x, x, out=fb.empty(1, dtype=fb.float64))


# ---- modes -------------------------------------------------------------------------------------------------------------


def test_modes_nest_and_decorate():
    x = leaf(1)
    with fb.no_grad():
        assert not (x * 2).requires_grad
        with fb.enable_grad():
            assert (x * 2).requires_grad
        assert not fb.is_grad_enabled()
    assert fb.is_grad_enabled()

    @fb.no_grad()
    def decorated():
        return x * 2

    @fb.no_grad
    def bare():
        return x * 2

    @fb.no_grad()
    def generator():
        yield fb.is_grad_enabled()
        yield fb.is_grad_enabled()

    assert not decorated().requires_grad and not bare().requires_grad
    steps = generator()
    assert next(steps) is False and fb.is_grad_enabled() and next(steps) is False
    with fb.set_grad_enabled(False):
        assert not fb.is_grad_enabled()
    fb.set_grad_enabled(False)
    assert not fb.is_grad_enabled()
    fb.set_grad_enabled(True)
    with pytest.raises(KeyError), fb.no_grad():
        raise KeyError
    assert fb.is_grad_enabled()


def test_modes_belong_to_the_thread():
    seen = []
    with fb.no_grad():
        t = threading.Thread(target=lambda: seen.append(fb.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_inference_mode():
    x = leaf(1)
    with fb.inference_mode():
        y = x * 2
        assert y.is_inference() and not y.requires_grad and fb.is_inference_mode_enabled()
    assert not fb.is_inference_mode_enabled()
    with pytest.raises(RuntimeError, match="inference"):
        x * y
    with pytest.raises(RuntimeError, match="inference"):
        y.requires_grad_()
    equal((x * y.clone()).detach(), [2])


# ---- in place and views --------------------------------------------------------------------------------------------------


def test_changed_tensor_is_named_with_both_lines():
    x = leaf(1, 2)
    y = x * x
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError) as error:
        z.sum().backward()
    text = str(error.value)
    assert "modified by an inplace operation" in text and "of mul at" in text and "changed by add_ at" in text
    assert text.count("test_engine.py:") >= 3


def test_ops_that_keep_their_result_check_it_too():
    x = leaf(1, 2)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="the result of exp.*changed by mul_"):
        y.sum().backward()


def test_changes_that_do_not_matter_are_fine():
    x = leaf(1, 2)
    y = x + 1
    z = y * 2
    y.add_(1)  # neither add nor mul by a number keep y
    z.sum().backward()
    equal(x.grad, [2, 2])


def test_leaf_in_place():
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].add_(1)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[0] = 1
    with fb.no_grad():
        x.add_(1)
        x[0] = 5
    x.data.mul_(2)
    equal(x, [10, 6])


def test_in_place_chain():
    x = leaf(1, 2)
    y = x * 1
    y.mul_(3)
    y.add_(x)
    y *= x
    y.sum().backward()
    equal(x.grad, [8, 16])


def test_in_place_needs_the_old_value():
    x, w = leaf(2), leaf(5)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    equal(w.grad, [2])
    equal(x.grad, [5])


def test_write_through_a_view_reaches_the_base():
    x = leaf(1, 2, 3)
    y = x * 1
    v = y[1:]
    v.mul_(10)
    assert y.grad_fn.name() == "CopySlices" and v._base is y
    (y * y).sum().backward()
    equal(x.grad, [2, 2 * 200, 2 * 300])


def test_change_of_the_base_reaches_its_views():
    x = leaf(1, 2, 3)
    y = x * 1
    v = y[1:]
    y.mul_(2)
    (v * v).sum().backward()
    equal(x.grad, [0, 16, 24])


def test_view_of_a_view_and_siblings():
    x = leaf(1, 2, 3, 4)
    y = x * 1
    a = y.view(2, 2)
    row, column = a[0], a[:, 1]
    column.mul_(3)
    (row * row).sum().backward()
    equal(x.grad, [2, 2 * 2 * 9, 0, 0])


def test_plain_buffer_written_with_something_recorded():
    w = leaf(2, 3)
    buffer = fb.zeros(4, dtype=fb.float64)
    part = buffer[1:3]
    part.copy_(w)
    assert buffer.requires_grad
    (buffer * buffer).sum().backward()
    equal(w.grad, [4, 6])
    buffer = fb.zeros(4, dtype=fb.float64)
    buffer[::2] = w
    w.grad = None
    (buffer * 3).sum().backward()
    equal(w.grad, [3, 3])


def test_setitem_in_all_forms():
    x, v = leaf(1, 2, 3), leaf(10)
    y = x * 2
    y[0] = v
    y[fb.tensor([False, False, True])] = 7
    (y * y).sum().backward()
    equal(x.grad, [0, 16, 0])
    equal(v.grad, [20])


def test_chain_of_getitem_double():
    x = leaf(1, 2, 3)
    y = x[fb.tensor([0, 0, 2])]
    (g,) = fb.autograd.grad((y * y * y).sum(), x, create_graph=True)
    equal(g, [6, 0, 27])
    g.sum().backward()
    equal(x.grad, [12, 0, 18])


def test_views_made_without_gradients():
    w = leaf(1, 2)
    with fb.no_grad():
        v = w[0]
    assert not v.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v.mul_(2)
    with fb.no_grad():
        v.mul_(2)
    equal(w, [2, 2])


def test_detach_shares_memory_and_versions():
    x = leaf(1, 2)
    y = x * 1
    z = y * y
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()
    y = x * 1
    z = y * y
    y.data.zero_()  # .data goes unnoticed, as its users want
    z.sum().backward()
    y = x * 2
    y.detach_()
    assert y.is_leaf and not y.requires_grad


def test_geometry_in_place():
    x = fb.arange(6.0, dtype=fb.float64).view(2, 3).requires_grad_()
    y = x * 1
    y.t_()
    y[0].sum().backward()
    equal(x.grad, [[1, 0, 0], [1, 0, 0]])


# ---- hooks -------------------------------------------------------------------------------------------------------------


def test_tensor_hooks():
    x = leaf(1)
    calls = []
    y = x * 2
    first = y.register_hook(lambda g: calls.append(float(g)) or g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    equal(x.grad, [21])
    assert calls == [1.0]
    first.remove()
    first.remove()
    (z,) = fb.autograd.grad(y.sum(), x) if False else (x.grad,)
    equal(z, [21])
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        fb.ones(1).register_hook(print)


def test_hook_errors_reach_the_user():
    x = leaf(1)
    y = x * 2

    def bad(g):
        raise LookupError("mine")

    y.register_hook(bad)
    with pytest.raises(LookupError, match="mine"):
        y.sum().backward()
    y = x * 2
    y.register_hook(lambda g: 5)
    with pytest.raises(TypeError, match="must return a tensor or None"):
        y.sum().backward()
    y = x * 2
    y.register_hook(lambda g: fb.ones(7))
    with pytest.raises(RuntimeError, match="hook has changed the size"):
        y.sum().backward()


def test_node_hooks_and_retain_grad():
    x = leaf(3)
    y = x * x
    y.retain_grad()
    seen = []
    y.grad_fn.register_prehook(lambda grads: seen.append(float(grads[0])))
    y.grad_fn.register_hook(lambda into, out: seen.append((float(into[0]), float(out[0]))))
    (y * 2).sum().backward()
    assert seen == [2.0, (6.0, 2.0)] and y.retains_grad
    equal(y.grad, [2])
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        fb.ones(1).retain_grad()


def test_post_accumulate_hook():
    x = leaf(3)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(float(t.grad)))
    (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()
    assert seen == [6.0]


def test_multi_grad_hook_counts_each_backward_by_itself():
    a, b, c, d = (fb.ones(2, requires_grad=True) for _ in range(4))
    seen, first = [], []
    fb.autograd.graph.register_multi_grad_hook([a, b, c, d], lambda grads: seen.append([g is not None for g in grads]))
    fb.autograd.graph.register_multi_grad_hook([a, b, c, d], first.append, mode="any")
    y = (b * c).sum()
    threads = [threading.Thread(target=lambda: y.backward(inputs=(b, c), retain_graph=True)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    y.backward(retain_graph=True)
    fb.autograd.grad(y, [b], retain_graph=True)
    assert seen == [[False, True, True, False]] * 5 + [[False, True, False, False]] and len(first) == 6

    # What a backward that failed left behind does not count.
    seen.clear()
    z = (b * c).sum()
    stop = c.register_hook(lambda g: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            z.backward(retain_graph=True)
    stop.remove()
    seen.clear()
    z.backward()
    assert seen == [[False, True, True, False]]


def test_multi_grad_hook():
    x, y = leaf(1), leaf(2)
    seen = []
    handle = fb.autograd.graph.register_multi_grad_hook([x, y], lambda g: seen.append([float(v) for v in g]))
    (x * y).sum().backward()
    assert seen == [[2.0, 1.0]]
    handle.remove()


def test_saved_tensor_hooks():
    x = leaf(1, 2)
    packed = []
    with fb.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t.numpy().copy(), fb.from_numpy):
        y = (x * x).exp().sum()
    assert len(packed) == 3
    y.backward()
    equal(x.grad, 2 * np.array([1, 2]) * np.exp([1, 4]))
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        with fb.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1):
            y = (x * x).sum()
        y.backward()
    with pytest.raises(RuntimeError, match="not here"), fb.autograd.graph.disable_saved_tensors_hooks("not here"):
        with fb.autograd.graph.save_on_cpu():
            x * x


# ---- anomalies ---------------------------------------------------------------------------------------------------------


def test_backward_anomaly_names_the_op():
    x = leaf(0)
    y = x.sqrt() * 0
    with fb.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0.*test_engine.py.*NaN"):
        y.sum().backward()


def test_forward_anomaly_names_op_and_inputs():
    x = fb.tensor([1.0, 0.0])
    with fb.autograd.detect_anomaly(forward=True):
        with pytest.raises(RuntimeError, match="first NaN appears in result 0 of log.*test_engine.py.*input: .*min -1, max 0"):
            (x - 1).log().log()
        with pytest.raises(RuntimeError, match="first inf appears"):
            x.log()
    with fb.autograd.detect_anomaly(forward=True, allow_inf=True):
        x.log()
    assert not fb.is_anomaly_enabled()


# ---- size, memory, threads ----------------------------------------------------------------------------------------------


def test_long_chains_do_not_recurse():
    x = leaf(1)
    y = x
    for _ in range(200_000):
        y = y + x
    y.sum().backward()
    equal(x.grad, [200_001])
    for _ in range(200_000):
        y = y * 1.0
    del y  # freed without recursion too


def test_graph_is_freed_by_reference_counting():
    gc.disable()
    try:
        before = fb.memory_stats()["allocated_bytes"]
        x = fb.ones(1000, requires_grad=True)
        y = (x * x).exp()
        probe = weakref.ref(y)
        z = (y * x).sum()
        z.backward()
        del y, z
        assert probe() is None
        x.grad = None
        del x
        assert fb.memory_stats()["allocated_bytes"] == before
    finally:
        gc.enable()


def test_backward_frees_as_it_goes():
    n, depth = 100_000, 20
    x = fb.ones(n, requires_grad=True)
    y = x
    for _ in range(depth):
        y = y.exp() * 1e-3  # exp keeps its result, mul its number
    loss = y.sum()
    del y
    held = fb.memory_stats()["allocated_bytes"]
    fb.reset_peak_memory_stats()
    loss.backward()
    peak = fb.memory_stats()["allocated_bytes_peak"]
    # A few gradients of one layer at a time on top of what the graph held.
    assert peak - held <= 4 * n * 4
    assert fb.memory_stats()["allocated_bytes"] <= held - (depth - 3) * n * 4


def test_backward_from_several_threads():
    w = fb.ones(1000, dtype=fb.float64, requires_grad=True)

    def work():
        for _ in range(20):
            (w * w).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(w.grad, np.full(1000, 2.0 * 80))


def test_shared_graph_from_several_threads():
    x = fb.ones(100, dtype=fb.float64, requires_grad=True)
    y = (x * x).exp()
    results = []

    def work():
        (g,) = fb.autograd.grad(y.sum(), x, retain_graph=True)
        results.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    for g in results:
        equal(g, np.full(100, 2 * np.e))


def test_backward_inside_backward():
    class Inner(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with fb.enable_grad():
                y = x.detach().requires_grad_()
                (y * y).sum().backward()
            return g * y.grad

    x = leaf(3)
    Inner.apply(x).sum().backward()
    equal(x.grad, [6])


def test_any_program_is_a_model():
    def tree(x, depth):
        return x if depth == 0 else tree(x * 2, depth - 1) + tree(x, depth - 1)

    for depth in range(4):
        x = leaf(1)
        tree(x, depth).sum().backward()
        equal(x.grad, [3**depth])


def test_a_hook_that_refers_to_its_tensor_is_collected():
    def make():
        x = leaf(1)
        x.register_hook(lambda g: x.detach())
        x.register_post_accumulate_grad_hook(lambda t: x)
        return weakref.ref(x)

    probe = make()
    gc.collect()
    assert probe() is None


def test_one_class_of_handles():
    from flambeau.utils.hooks import RemovableHandle

    x = fb.ones(2, requires_grad=True)
    seen = []
    with x.register_hook(seen.append) as handle:
        assert isinstance(handle, RemovableHandle)
        x.sum().backward()
    x.sum().backward()
    handle.remove()
    assert len(seen) == 1


def test_a_leaf_frozen_after_recording_takes_no_gradient():
    w, v = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)
    y = (w * v * 3).sum()
    w.requires_grad_(False)
    y.backward()
    assert w.grad is None and v.grad.tolist() == [3.0, 3.0]


def test_grad_takes_only_inputs_where_pytorch_has_it():
    x = fb.tensor(2.0, requires_grad=True)
    assert fb.autograd.grad(outputs=x**2, inputs=x, create_graph=True, retain_graph=True, only_inputs=True)[0].item() == 4
    assert fb.autograd.grad(x**2, x, None, None, False, True, True)[0].item() == 4
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert fb.autograd.grad(x**2, x, only_inputs=False)[0].item() == 4
    assert x.grad is None


def test_kept_tensors_may_be_changed_where_allowed():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    with fb.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x.clone()
        z = (y.sin() * y).sum()
        y.mul_(10)
    (g,) = fb.autograd.grad(z, x, create_graph=True)
    assert fb.allclose(g, x.cos() * x + x.sin())
    (gg,) = fb.autograd.grad(g.sum(), x)
    assert fb.allclose(gg, 2 * x.cos() - x * x.sin())
    context.clear()
