"""The step in one pass over all parameters gives what the loop over single parameters gives."""

import numpy as np
import pytest

import flambeau as fb
from flambeau._registry import private

OPTIONS = [
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3}),
    ("RMSprop", {"lr": 0.1, "centered": True, "weight_decay": 0.1, "eps": 0.5}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True, "eps": 0.5}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.3, "maximize": True}),
]


def parameters(dtype):
    """Of all layouts, and one too large for a single thread."""
    rng = np.random.default_rng(0)
    of = [rng.standard_normal(shape) for shape in ((3, 4), (), (0,), (5, 3, 2), (30000,), (4, 6))]
    tensors = [fb.tensor(x, dtype=dtype) for x in of]
    tensors[0] = tensors[0].t().contiguous().t()
    tensors[3] = tensors[3].permute(2, 0, 1)
    tensors[5] = tensors[5][:, ::2]
    return [t.requires_grad_() for t in tensors]


def after_steps(name, options, dtype, foreach, steps=4):
    rng = np.random.default_rng(1)
    params = parameters(dtype)
    optimizer = getattr(fb.optim, name)(params, foreach=foreach, **options)
    for step in range(steps):
        for i, p in enumerate(params):
            grad = fb.tensor(rng.standard_normal(p.shape), dtype=dtype)
            p.grad = None if i == 1 and step == 0 else grad
        optimizer.step()
    state = [t for p in params for t in optimizer.state[p].values() if isinstance(t, fb.Tensor)]
    return [t.detach().double().numpy() for t in [*params, *state]]


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_one_pass_is_the_loop(name, options, dtype):
    tolerance = {fb.float32: 1e-5, fb.float64: 1e-12, fb.bfloat16: 0.1}[dtype]
    steps = 1 if dtype == fb.bfloat16 else 4
    fused = after_steps(name, options, dtype, None, steps)
    for x, y in zip(fused, after_steps(name, options, dtype, False, steps), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_the_step_counts_as_a_change():
    p = fb.ones(3, requires_grad=True)
    loss = (p * p).sum()
    p.grad = fb.ones(3)
    fb.optim.Adam([p]).step()
    with pytest.raises(RuntimeError, match="changed|modified"):
        loss.backward()


def test_gradient_of_another_dtype_or_layout():
    p, g = fb.ones(2, 3), fb.arange(6, dtype=fb.float64).view(3, 2).t()
    private.fused_sgd([p], [g], [], False, 1.0, 0.0, 0.0, 0.0, False, False)
    assert p.tolist() == [[1, -1, -3], [0, -2, -4]]


def test_lists_that_do_not_fit_are_refused():
    p = fb.ones(2)
    with pytest.raises(ValueError, match="differ in length"):
        private.fused_sgd([p], [], [], False, 1.0, 0.0, 0.0, 0.0, False, False)
    with pytest.raises(ValueError, match="gradient has shape"):
        private.fused_sgd([p], [fb.ones(3)], [], False, 1.0, 0.0, 0.0, 0.0, False, False)
    assert p.tolist() == [1, 1]
