"""Autocast and GradScaler."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

import flambeau as fb
from flambeau.amp import GradScaler, _lists, autocast
from flambeau.amp import _state as state
from flambeau.amp._casting import with_autocast

# ----- GradScaler -----


def scaled(value=1.0, grad=1.0, scale=8.0, make=fb.optim.SGD, **options):
    """A scaler, and an optimizer whose only parameter has a gradient as if the loss had been scaled."""
    p = fb.full((3,), value)
    p.grad = fb.full((3,), grad * scale)
    scaler = GradScaler("cpu", init_scale=scale, **options)
    scaler.scale(fb.tensor(1.0))
    return scaler, make([p], lr=0.5), p


def test_scale():
    scaler = GradScaler("cpu", init_scale=4.0)
    assert scaler.scale(fb.tensor(2.0)).item() == 8.0
    a, (b, c) = scaler.scale([fb.tensor(1.0), (fb.tensor(2.0), fb.tensor(3.0))])
    assert (a.item(), b.item(), c.item()) == (4.0, 8.0, 12.0)
    assert [x.item() for x in scaler.scale(fb.tensor(float(i)) for i in range(2))] == [0.0, 4.0]
    with pytest.raises(ValueError, match="tensors"):
        scaler.scale(3.0)


def test_step_unscales():
    scaler, optimizer, p = scaled()
    scaler.step(optimizer)
    np.testing.assert_allclose(p.numpy(), 0.5)
    np.testing.assert_allclose(p.grad.numpy(), 1.0)


def test_gradients_can_be_unscaled_before_the_step():
    scaler, optimizer, p = scaled()
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(p.grad.numpy(), 1.0)
    p.grad.mul_(0.5)
    scaler.step(optimizer)
    np.testing.assert_allclose(p.numpy(), 0.75)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_steps_that_overflow_are_left_out(bad):
    scaler, optimizer, p = scaled()
    p.grad[1] = bad
    assert scaler.step(optimizer) is None
    np.testing.assert_array_equal(p.numpy(), 1.0)
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_the_scale_grows():
    scaler, optimizer, p = scaled(growth_interval=3, growth_factor=4.0)
    scales = []
    for _ in range(7):
        p.grad = fb.ones(3)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [8, 8, 32, 32, 32, 128, 128]


def test_an_overflow_starts_the_count_anew():
    scaler, optimizer, p = scaled(growth_interval=2)
    for grad, scale in ((1.0, 8.0), (float("inf"), 4.0), (1.0, 4.0), (1.0, 8.0)):
        p.grad = fb.full((3,), grad)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale


def test_the_scale_stays_finite():
    scaler, optimizer, p = scaled(scale=2.0**127, grad=1e-30, growth_interval=1)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_setting_the_scale():
    scaler, optimizer, _ = scaled()
    scaler.step(optimizer)
    scaler.update(16.0)
    assert scaler.get_scale() == 16.0
    scaler.update(fb.tensor([32.0]))
    assert scaler.get_scale() == 32.0
    with pytest.raises(AssertionError, match="one element"):
        scaler.update(fb.tensor([1.0, 2.0]))


def test_several_optimizers_share_a_scale():
    scaler, one, p = scaled()
    q = fb.ones(2)
    q.grad = fb.full((2,), float("inf"))
    other = fb.optim.SGD([q], lr=0.5)
    scaler.step(one)
    scaler.step(other)
    scaler.update()
    np.testing.assert_allclose(p.numpy(), 0.5)
    np.testing.assert_array_equal(q.numpy(), 1.0)
    assert scaler.get_scale() == 4.0


def test_order_of_calls():
    scaler, optimizer, p = scaled()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="twice"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="twice"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: None)
    fresh = GradScaler("cpu")
    for call in (lambda: fresh.unscale_(optimizer), lambda: fresh.step(optimizer), fresh.update):
        with pytest.raises(AssertionError, match="scaled"):
            call()
    scaler.update()
    with pytest.raises(AssertionError, match="looked at"):
        scaler.update()
    p.grad = None
    with pytest.raises(AssertionError, match="no gradients"):
        scaler.step(optimizer)


def test_float16_gradients_are_not_unscaled():
    p = fb.ones(2, dtype=fb.float16)
    p.grad = fb.ones(2, dtype=fb.float16)
    scaler = GradScaler("cpu")
    scaler.scale(fb.tensor(1.0))
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(fb.optim.SGD([p]))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize("overflow", [False, True])
def test_fused_optimizers_unscale_by_themselves(name, unscale_first, overflow):
    make = getattr(fb.optim, name)
    scaler, optimizer, p = scaled(make=lambda params, lr: make(params, lr=lr, fused=True))
    plain, other, q = scaled(make=make)
    if overflow:
        p.grad[0] = q.grad[0] = float("inf")
    for which, who in ((scaler, optimizer), (plain, other)):
        if unscale_first:
            which.unscale_(who)
        which.step(who)
        which.update()
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    assert scaler.get_scale() == plain.get_scale() == (4.0 if overflow else 8.0)
    assert not hasattr(optimizer, "grad_scale")
    if not overflow:
        np.testing.assert_allclose(p.grad.numpy(), 1.0)


def test_a_step_with_the_older_argument():
    class Mine(fb.optim.Optimizer):
        _step_supports_amp_scaling = True

        def step(self, closure=None, *, grad_scaler=None):
            return grad_scaler

    scaler, _, p = scaled()
    with pytest.warns(FutureWarning, match="grad_scaler"):
        assert scaler.step(Mine([p], {})) is scaler


def test_disabled():
    p = fb.ones(2)
    p.grad = fb.ones(2)
    scaler = GradScaler("cpu", enabled=False)
    optimizer = fb.optim.SGD([p], lr=0.5)
    loss = fb.tensor(1.0)
    assert scaler.scale(loss) is loss
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, closure=lambda: 3) == 3
    scaler.update()
    np.testing.assert_allclose(p.numpy(), 0.5)
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})
    scaler.load_state_dict({})
    with pytest.warns(UserWarning, match="disabled"):
        assert not GradScaler().is_enabled()


def test_checkpoints_and_pickles():
    scaler, optimizer, p = scaled(growth_interval=5)
    with pytest.raises(AssertionError, match="pickle"):
        scaler.step(optimizer)
        pickle.dumps(scaler)
    scaler.update()
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    third = pickle.loads(pickle.dumps(scaler))
    for one in (other, third, copy.deepcopy(scaler)):
        assert one.state_dict() == scaler.state_dict()
        assert one.state_dict()["_growth_tracker"] == 1
    scaler.load_state_dict(other.state_dict() | {"scale": 2.0})
    assert scaler.get_scale() == 2.0
    with pytest.raises(RuntimeError, match="empty"):
        scaler.load_state_dict({})


def test_settings():
    scaler = GradScaler("cpu")
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.1, 7)
    with pytest.raises(AssertionError, match="growth_factor"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff_factor"):
        GradScaler("cpu", backoff_factor=1.0)


# ----- autocast -----


def test_blocks_nest_and_restore():
    assert not state.is_autocast_enabled("cpu")
    with autocast("cpu", dtype=fb.float16) as block:
        assert isinstance(block, autocast)
        assert state.is_autocast_enabled("cpu")
        assert state.get_autocast_dtype("cpu") == fb.float16
        with autocast("cpu", enabled=False, cache_enabled=False):
            assert not state.is_autocast_enabled("cpu")
            assert not state.is_autocast_cache_enabled()
        assert state.is_autocast_enabled("cpu")
        assert state.get_autocast_dtype("cpu") == fb.float16
        with block:
            assert state.is_autocast_enabled("cpu")
    assert not state.is_autocast_enabled("cpu")
    assert state.is_autocast_cache_enabled()
    assert state.get_autocast_dtype("cpu") == fb.bfloat16


def test_an_error_in_a_block_restores():
    with pytest.raises(ZeroDivisionError), autocast("cpu"):
        raise ZeroDivisionError
    assert not state.is_autocast_enabled("cpu")


def test_decorator():
    @autocast("cpu")
    def inside(x):
        """Text."""
        return state.is_autocast_enabled("cpu"), x

    assert inside(3) == (True, 3)
    assert inside.__doc__ == "Text."
    with pytest.raises(TypeError, match="requires a callable"):
        autocast("cpu")(fb.zeros(1))


def test_other_threads_are_not_affected():
    seen = []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(state.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_what_autocast_refuses():
    with pytest.raises(ValueError, match="of type `str`"):
        autocast(3)
    with pytest.raises(RuntimeError, match="Invalid device string"):
        autocast("abacus")
    with pytest.warns(UserWarning, match="dtype"), autocast("cpu", dtype=fb.float32):
        assert not state.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="no cuda"), autocast("cuda"):
        assert not state.is_autocast_enabled("cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        autocast("cuda", enabled=False)
    for decorator in (fb.amp.custom_fwd, fb.amp.custom_bwd):
        with pytest.raises(ValueError, match="of type `str`"):
            decorator(device_type=3)


def test_settings_without_a_block():
    assert fb.amp.is_autocast_available("cpu")
    assert not fb.amp.is_autocast_available("meta")
    with pytest.raises(RuntimeError, match="Invalid device string: 'abacus'"):
        fb.amp.is_autocast_available("abacus")
    state.set_autocast_enabled("cpu", True)
    state.set_autocast_dtype("cpu", fb.float16)
    state.set_autocast_cache_enabled(False)
    try:
        assert state.is_autocast_enabled("cpu")
        assert state.get_autocast_dtype("cpu") == fb.float16
        assert not state.is_autocast_cache_enabled()
    finally:
        state.set_autocast_enabled("cpu", False)
        state.set_autocast_dtype("cpu", fb.bfloat16)
        state.set_autocast_cache_enabled(True)
    state.set_autocast_enabled(False)
    assert not state.is_autocast_enabled()
    assert state.autocast_increment_nesting() == 1
    assert state.autocast_decrement_nesting() == 0


def test_casts_of_functions_of_ones_own():
    seen = []

    class Context:
        pass

    @fb.amp.custom_fwd(device_type="cpu", cast_inputs=fb.float32)
    def forward(ctx, x, *, more):
        seen.append((x.dtype, more["a"][0].dtype, more["n"], state.is_autocast_enabled("cpu")))

    @fb.amp.custom_fwd(device_type="cpu")
    def plain(ctx, x):
        seen.append((x.dtype, state.is_autocast_enabled("cpu")))

    @fb.amp.custom_bwd(device_type="cpu")
    def backward(ctx):
        return state.is_autocast_enabled("cpu"), state.get_autocast_dtype("cpu")

    x, more = fb.ones(2, dtype=fb.bfloat16), {"a": [fb.ones(1, dtype=fb.float16)], "n": "text"}
    one, two, three = Context(), Context(), Context()
    forward(one, x, more=more)
    assert seen.pop() == (fb.bfloat16, fb.float16, "text", False)
    with autocast("cpu", dtype=fb.float16):
        forward(two, x, more=more)
        plain(three, x)
    assert seen == [(fb.float32, fb.float32, "text", False), (fb.bfloat16, True)]
    assert backward(one)[0] is False
    assert backward(two)[0] is False
    assert backward(three) == (True, fb.float16)


def test_functions_written_in_python():
    x, seen = fb.ones(2, 2), []

    def note(a, *, b=None):
        seen.append((a.dtype, b[0].dtype if b else None, state.is_autocast_enabled("cpu")))

    assert with_autocast("relu", note) is note
    loss, linear = with_autocast("mse_loss", note), with_autocast("linear", note)
    with autocast("cpu"):
        loss(x.bfloat16(), b=[x.half()])
        linear(x)
    linear(x)
    assert seen == [
        (fb.float32, fb.float32, False),
        (fb.bfloat16, None, False),
        (fb.float32, None, False),
    ]


def test_lists_do_not_overlap():
    assert not _lists.LOW & _lists.FLOAT32
    assert not _lists.PROMOTE & (_lists.LOW | _lists.FLOAT32)


def test_names_at_the_top():
    assert fb.autocast is autocast
    assert fb.is_autocast_enabled is state.is_autocast_enabled
    assert not fb.is_autocast_cpu_enabled()
    fb.set_autocast_cpu_enabled(False)
    fb.set_autocast_cpu_dtype(fb.float16)
    fb.set_autocast_gpu_dtype(fb.bfloat16)
    try:
        assert (fb.get_autocast_cpu_dtype(), fb.get_autocast_gpu_dtype()) == (fb.float16, fb.bfloat16)
    finally:
        fb.set_autocast_cpu_dtype(fb.bfloat16)
        fb.set_autocast_gpu_dtype(fb.float16)


def test_casts():
    x, y = fb.ones(2, 2), fb.ones(2, 2, dtype=fb.float64)
    with autocast("cpu"):
        assert (x @ x).dtype == fb.bfloat16
        assert fb.matmul(x, x).dtype == fb.bfloat16
        assert fb.addmm(x, x.bfloat16(), x).dtype == fb.bfloat16
        assert (y @ y).dtype == fb.float64
        assert (x + x).dtype == fb.float32
        assert fb.prod(x.bfloat16()).dtype == fb.float32
        assert fb.linalg.inv(2 * fb.eye(2, dtype=fb.bfloat16)).dtype == fb.float32
        assert fb.cat([x, x.bfloat16()]).dtype == fb.float32
        with autocast("cpu", enabled=False):
            assert (x @ x).dtype == fb.float32
        with autocast("cpu", dtype=fb.float16):
            assert (x @ x).dtype == fb.float16
    assert (x @ x).dtype == fb.float32


def test_gradients_come_back_in_the_dtype_of_the_parameter():
    w = fb.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        y = fb.ones(3, 2) @ w
    y.float().sum().backward()
    assert w.grad.dtype == fb.float32
    assert w.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
