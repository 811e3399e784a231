"""Sparse gradients: which optimizers take them, and that the step is the one of the dense gradient."""

import pytest

import flambeau as fb
from flambeau import optim


def gradient(step=0):
    """Rows 0 and 2 of four, row 0 in two parts."""
    values = fb.arange(6.0).view(3, 2) - 1.5 + step
    return fb.sparse_coo_tensor(fb.tensor([[0, 2, 0]]), values, (4, 2))


def trained(make, dense):
    p = fb.nn.Parameter(fb.linspace(-1, 1, 8).view(4, 2))
    optimizer = make([p])
    for step in range(3):
        p.grad = gradient(step).to_dense() if dense else gradient(step)
        optimizer.step()
    return p.detach()


TAKEN = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD, maximize": lambda p: optim.SGD(p, lr=0.1, maximize=True, foreach=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.5),
    "SparseAdam": lambda p: optim.SparseAdam(p, lr=0.1),
    "SparseAdam, maximize": lambda p: optim.SparseAdam(p, lr=0.1, maximize=True),
}


@pytest.mark.parametrize("name", TAKEN)
def test_step_is_that_of_the_dense_gradient(name):
    assert fb.equal(trained(TAKEN[name], dense=False), trained(TAKEN[name], dense=True))


def test_sparse_adam_uses_every_row_that_the_gradient_holds():
    p = fb.nn.Parameter(fb.ones(3, 2))
    optimizer = optim.SparseAdam([p], lr=0.1)
    p.grad = fb.sparse_coo_tensor(fb.tensor([[0, 1]]), fb.tensor([[1.0, 1.0], [0.0, 0.0]]), (3, 2))
    optimizer.step()
    p.grad = fb.sparse_coo_tensor(fb.tensor([[0]]), fb.tensor([[0.0, 0.0]]), (3, 2))
    before = p.detach().clone()
    optimizer.step()
    moved = (p.detach() != before).any(1)
    assert moved.tolist() == [True, False, False]  # its average is not zero, though its gradient is
    p.grad = fb.sparse_coo_tensor(fb.zeros(1, 0, dtype=fb.int64), fb.zeros(0, 2), (3, 2))
    before = p.detach().clone()
    optimizer.step()
    assert fb.equal(p.detach(), before)


def test_sparse_adam_with_single_elements():
    dense = fb.tensor([[0.0, 2.0], [0.0, 0.0], [-1.0, 0.0]])
    p, q = (fb.nn.Parameter(fb.ones(3, 2)) for _ in range(2))
    p.grad, q.grad = dense.to_sparse(), dense
    for x in (p, q):
        optim.SparseAdam([x], lr=0.1).step()
    assert p.detach()[0, 1] == q.detach()[0, 1] and p.detach()[2, 0] == q.detach()[2, 0]
    assert p.detach()[0, 0] == 1


def test_gradients_can_be_set_to_zero():
    p = fb.nn.Parameter(fb.ones(4, 2))
    p.grad = gradient()
    optim.SparseAdam([p]).zero_grad(set_to_none=False)
    assert p.grad.is_sparse and fb.equal(p.grad.to_dense(), fb.zeros(4, 2))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_others_say_what_to_use_instead(name):
    p = fb.nn.Parameter(fb.ones(4, 2))
    p.grad = gradient()
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients, please consider SparseAdam"):
        getattr(optim, name)([p]).step()


def test_sparse_parameters_are_refused():
    with pytest.raises(ValueError, match="SparseAdam requires dense parameter tensors"):
        optim.SparseAdam([gradient()])


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_need_values(name):
    p = fb.nn.Parameter(fb.ones(4, 2, device="meta"))
    p.grad = fb.ones(4, 2, device="meta")
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
        getattr(optim, name)([p], fused=True).step()
