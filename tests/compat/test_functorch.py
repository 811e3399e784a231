"""The package functorch: names of func, and modules as functions of their parameters."""

import sys

import pytest

import flambeau as fb
from flambeau import compat
from flambeau.compat import functorch as early

pytestmark = pytest.mark.filterwarnings("ignore:We've integrated functorch:FutureWarning")


def test_it_is_found_and_forgotten_with_torch():
    with compat.torch():
        import functorch
        from functorch.experimental import replace_all_batch_norm_modules_

        assert replace_all_batch_norm_modules_ is fb.func.replace_all_batch_norm_modules_
        with pytest.warns(FutureWarning, match="Please use `torch.vmap`"):
            assert functorch.vmap(lambda x: x * 2)(fb.ones(3)).tolist() == [2, 2, 2]
        with pytest.warns(FutureWarning, match="Please use `torch.func.grad`"):
            assert functorch.grad(lambda x: x**2)(fb.tensor(3.0)).item() == 6
    assert "functorch" not in sys.modules and "functorch.experimental" not in sys.modules


def test_the_function_takes_the_parameters_and_gradients_reach_them():
    layer = fb.nn.Linear(3, 2)
    call, weights = early.make_functional(layer)
    x = fb.randn(4, 3)
    assert fb.equal(call(weights, x), layer(x))
    assert fb.equal(call([fb.ones(2, 3), fb.zeros(2)], fb.ones(1, 3)), fb.tensor([[3.0, 3.0]]))
    call(weights, x).sum().backward()
    assert fb.equal(weights[1].grad, fb.full((2,), 4.0)) and layer.bias.grad is None
    assert not any(weight.requires_grad for weight in early.make_functional(layer, disable_autograd_tracking=True)[1])


def test_buffers_are_an_argument_too():
    norm = fb.nn.BatchNorm1d(2).eval()
    call, weights, buffers = early.make_functional_with_buffers(norm)
    moved = tuple(b + 1 if b.dtype is fb.float32 else b for b in buffers)
    x = fb.randn(3, 2)
    expected = (x - 1) / fb.sqrt(fb.tensor(2.0 + norm.eps))
    assert fb.allclose(call(weights, moved, x), expected, atol=1e-6)
    with pytest.raises(RuntimeError, match="has buffers"):
        early.make_functional(norm)


def test_an_ensemble_is_one_call_under_vmap():
    models = [fb.nn.Linear(3, 2) for _ in range(4)]
    call, weights, buffers = early.combine_state_for_ensemble(models)
    x = fb.randn(5, 3)
    together = fb.func.vmap(call, in_dims=(0, 0, None))(weights, buffers, x)
    assert fb.allclose(together, fb.stack([model(x) for model in models]), atol=1e-6)
    assert weights[0].is_leaf and weights[0].requires_grad


@pytest.mark.parametrize(
    "models, words",
    [
        ([], "at least one model"),
        ([fb.nn.Linear(1, 1), fb.nn.Linear(1, 1).eval()], "same training/eval mode"),
        ([fb.nn.Linear(1, 1), fb.nn.ReLU()], "same class"),
    ],
)
def test_ensembles_of_different_models_are_refused(models, words):
    with pytest.raises(RuntimeError, match=words):
        early.combine_state_for_ensemble(models)


def test_chunks_of_examples_one_after_the_other():
    x, sizes = fb.randn(4, 5), []

    def f(v):
        sizes.append(v.physical.shape[0])
        return v.sin() + fb.rand(4)

    for chunks, expected in ((1, [5]), (2, [3, 2]), (7, [1] * 5)):
        sizes.clear()
        fb.manual_seed(0)
        whole = fb.func.vmap(lambda v: v.sin() + fb.rand(4), in_dims=1, out_dims=1, randomness="same")(x)
        fb.manual_seed(0)
        assert fb.equal(early.chunk_vmap(f, in_dims=1, out_dims=1, randomness="same", chunks=chunks)(x), whole)
        assert sizes == expected
    with pytest.raises(ValueError, match="chunks must be a positive int"):
        early.chunk_vmap(f, chunks=0)


def test_shared_parameters_stay_shared():
    class Twice(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = fb.nn.Linear(3, 3)
            self.weight = self.linear.weight

        def forward(self, x):
            return fb.nn.functional.linear(self.linear(x), self.weight)

    x, model = fb.randn(2, 3), Twice()
    wanted = fb.autograd.grad(model(x).sum(), list(model.parameters()))
    call, weights, buffers = early.make_functional_with_buffers(model)
    assert all(p.is_meta for p in call.stateless_model.parameters()) and not buffers
    found = fb.func.grad(lambda weights: call(weights, buffers, x).sum())(weights)
    for a, b in zip(found, wanted, strict=True):
        assert a.tolist() == b.tolist()
