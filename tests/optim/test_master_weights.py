"""Optimizers that keep float32 copies of parameters of half precision."""

import copy
import pickle

import pytest

import flambeau as fb

OPTIMIZERS = [
    (fb.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (fb.optim.SGD, {"lr": 0.1}),
    (fb.optim.AdamW, {"lr": 1e-3}),
    (fb.optim.Adam, {"lr": 1e-3}),
]
CASES = pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS, ids=lambda x: getattr(x, "__name__", ""))


def pair(optimizer, options, dtype=fb.bfloat16, **more):
    """The same numbers as a parameter in half precision with a copy, and in float32."""
    fb.manual_seed(0)
    start = fb.randn(50).to(dtype)
    low, wide = fb.nn.Parameter(start.clone()), fb.nn.Parameter(start.float())
    return low, wide, optimizer([low], master_weights=True, **options, **more), optimizer([wide], **options, **more)


def run(low, wide, of_low, of_wide, steps=20):
    for i in range(steps):
        grad = (fb.arange(50) * (i + 1)).sin().to(low.dtype)
        low.grad, wide.grad = grad, grad.float()
        of_low.step()
        of_wide.step()


@CASES
@pytest.mark.parametrize("dtype", [fb.bfloat16, fb.float16], ids=str)
@pytest.mark.parametrize("foreach", [None, False])
def test_the_copy_moves_as_float32_does(optimizer, options, dtype, foreach):
    low, wide, *both = pair(optimizer, options, dtype, foreach=foreach)
    run(low, wide, *both)
    state = both[0].state[low]
    assert state["master_weight"].equal(wide.detach()) and low.detach().equal(wide.detach().to(dtype))
    assert all(value.dtype == fb.float32 for value in state.values() if isinstance(value, fb.Tensor))


def test_small_steps_add_up():
    plain, kept = (fb.nn.Parameter(fb.ones(1, dtype=fb.bfloat16)) for _ in range(2))
    for p, master in ((plain, False), (kept, True)):
        optimizer = fb.optim.SGD([p], lr=1e-3, master_weights=master)
        for _ in range(100):
            p.grad = fb.ones(1, dtype=fb.bfloat16)
            optimizer.step()
    assert plain.item() == 1.0 and kept.item() == pytest.approx(0.9, abs=2e-3)


@CASES
def test_state_dicts_keep_the_copy(optimizer, options):
    low, wide, of_low, of_wide = pair(optimizer, options)
    run(low, wide, of_low, of_wide, 5)
    other = fb.nn.Parameter(low.detach().clone())
    restored = optimizer([other], master_weights=True, **options)
    restored.load_state_dict(pickle.loads(pickle.dumps(of_low.state_dict())))
    assert restored.state[other]["master_weight"].equal(wide.detach())
    run(other, wide, restored, of_wide, 5)
    assert restored.state[other]["master_weight"].equal(wide.detach())
    with fb.no_grad():
        other.add_(1)
    restored.load_state_dict(copy.deepcopy(of_low.state_dict()))
    kept = of_low.state[low]["master_weight"].clone()
    restored.step()
    assert (restored.state[other]["master_weight"] - kept).abs().max() < 1
    restored.load_state_dict(copy.deepcopy(of_low.state_dict()))
    again = copy.deepcopy(restored)
    assert again.state_dict()["state"][0]["master_weight"].equal(kept)


@CASES
def test_parameters_that_others_changed_are_taken_over(optimizer, options):
    low, wide, *both = pair(optimizer, options)
    run(low, wide, *both, 3)
    with fb.no_grad():
        low.fill_(2.0)
        wide.fill_(2.0)
    run(low, wide, *both, 3)
    assert both[0].state[low]["master_weight"].equal(wide.detach())


def test_float32_parameters_have_no_copy_and_differentiable_is_refused():
    p = fb.nn.Parameter(fb.ones(3))
    optimizer = fb.optim.AdamW([p], master_weights=True)
    p.grad = fb.ones(3)
    optimizer.step()
    assert "master_weight" not in optimizer.state[p]
    with pytest.raises(RuntimeError, match="`master_weights` does not support `differentiable`"):
        fb.optim.SGD([p], lr=0.1, master_weights=True, differentiable=True)
