"""Tensors kept for backward that are not what they were: an error that says so, never a read out of bounds."""

from __future__ import annotations

import warnings

import pytest
from tests.ops import spec as lib
from tests.ops.catalogue import SPECS
from tests.ops.test_gradients import as_function, candidates

import flambeau as fb
from flambeau.nn import functional as F

CHANGED = "was saved for backward with shape"


def changes():
    """Ways to put something else in the place of a tensor."""
    yield "smaller", lambda t: setattr(t, "data", fb.zeros(1, dtype=t.dtype))
    yield "another shape", lambda t: setattr(t, "data", fb.zeros(*t.shape, 1, dtype=t.dtype))
    yield "another dtype", lambda t: setattr(t, "data", t.detach().to(fb.float16))


def differentiable_rows():
    return [row for row in SPECS.values() if "float64" in row.dtypes and not row.mutates]


@pytest.mark.parametrize("row", differentiable_rows(), ids=lambda row: row.name)
def test_every_op_checks_what_it_kept(row):
    """Backward after a swap raises, or the formula did not need the tensor: then gradients have the shape of the leaf."""
    for sample in candidates(row, "float64")[:1]:
        for _, change in changes():
            call, leaves = as_function(row, sample)
            for leaf in leaves:
                results = [r for r in call(*leaves) if r.requires_grad and not any(r is t for t in leaves)]
                if not results:
                    continue
                shapes = [tuple(t.shape) for t in leaves]
                change(leaf)
                try:
                    gradients = fb.autograd.grad(results, leaves, [fb.ones_like(r) for r in results], allow_unused=True)
                except RuntimeError as error:
                    assert str(error), row.name
                else:
                    for gradient, shape, now in zip(gradients, shapes, leaves, strict=True):
                        # A gradient follows its leaf, also to another shape.
                        assert gradient is None or tuple(gradient.shape) in (shape, tuple(now.shape))
                call, leaves = as_function(row, sample)
                break


CALLS = {
    "conv2d": lambda x, w: F.conv2d(x, w),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1)),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, training=True),
    "layer_norm": lambda x, w: F.layer_norm(x, (8,)),
    "group_norm": lambda x, w: F.group_norm(x, 2),
    "cross_entropy": lambda x, w: F.cross_entropy(x.flatten(2), fb.zeros(2, 64, dtype=fb.int64)),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x, x),
    "softmax": lambda x, w: F.softmax(x, -1),
    "max_pool2d": lambda x, w: F.max_pool2d(x, 2),
    "bmm": lambda x, w: x @ x,
    "gather": lambda x, w: x * x,
    "prelu": lambda x, w: F.prelu(x, w[0, 0, 0, :1]),
}


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
def test_data_swap(name, dtype):
    x, w = fb.randn(2, 4, 8, 8, dtype=dtype, requires_grad=True), fb.randn(4, 4, 3, 3, dtype=dtype, requires_grad=True)
    y = CALLS[name](x, w)
    x.data = fb.randn(1, dtype=dtype)
    try:
        y.sum().backward()
    except RuntimeError as error:
        assert CHANGED in str(error) or "shape" in str(error)
    assert x.grad is None or x.grad.shape in ((2, 4, 8, 8), x.shape)


def test_message_names_op_argument_and_both_shapes():
    x, w = fb.randn(2, 3, 8, 8, requires_grad=True), fb.randn(4, 3, 3, 3, requires_grad=True)
    y = F.conv2d(x, w)
    w.data = fb.randn(1, 1, 1, 1)
    with pytest.raises(RuntimeError, match=r"weight.*conv.*\(4, 3, 3, 3\).*\(1, 1, 1, 1\).*clone"):
        y.sum().backward()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_weights(kind):
    layer = getattr(fb.nn, kind.upper())(6, 5)
    y = layer(fb.randn(7, 2, 6))[0]
    layer.weight_hh_l0.data = fb.randn(2, 2)
    with pytest.raises(RuntimeError, match=CHANGED):
        y.sum().backward()


def test_resize_and_set():
    for change in (lambda t: t.resize_(1), lambda t: t.set_(fb.randn(2))):
        x, other = fb.randn(5, requires_grad=True), fb.randn(5)
        y = x * other
        change(other)
        with pytest.raises(RuntimeError, match=f"{CHANGED}|modified by an inplace"):
            y.sum().backward()


UNPACKS = {
    "shape": lambda t: t.expand(2, *t.shape),
    "dtype": lambda t: t.to(fb.float16),
    "device": lambda t: t.to("meta"),
}


@pytest.mark.parametrize("what", list(UNPACKS))
@pytest.mark.parametrize("name", list(CALLS))
def test_unpack_hooks_that_change_a_tensor(name, what):
    x, w = fb.randn(2, 4, 8, 8, requires_grad=True), fb.randn(4, 4, 3, 3, requires_grad=True)
    with fb.autograd.graph.saved_tensors_hooks(lambda t: t, UNPACKS[what]):
        y = CALLS[name](x, w)
    with pytest.raises(RuntimeError, match="unpack hook must return what pack was given"):
        y.sum().backward()


def test_hooks_that_give_back_the_same_are_fine():
    x = fb.randn(3, 4, requires_grad=True)
    with fb.autograd.graph.saved_tensors_hooks(lambda t: t.to(fb.float64), lambda t: t.to(fb.float32)):
        y = F.softmax(x, -1)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_function_and_index():
    class Square(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = fb.randn(4, requires_grad=True)
    y = Square.apply(x)
    x.data = fb.randn(2)
    with pytest.raises(RuntimeError, match=CHANGED):
        y.sum().backward()
    x, index = fb.randn(4, requires_grad=True), fb.tensor([0, 3])
    y = x[index]
    index.data = fb.tensor([0, 1, 2, 3])
    with pytest.raises(RuntimeError, match=CHANGED):
        y.sum().backward()


def test_lists_keep_their_check():
    assert lib.is_tensor(fb.zeros(1))
    x, y = fb.randn(3, 3, requires_grad=True), fb.randn(3, 3, requires_grad=True)
    z = fb.linalg.multi_dot([x, y, x])
    y.data = fb.randn(1, 1)
    with pytest.raises(RuntimeError, match="shape"):
        z.sum().backward()


# ---- hooks of single saved tensors, and changes that are allowed -----------------------------------------------------


def test_hooks_of_one_saved_tensor():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.numpy(), lambda kept: fb.from_numpy(kept) * 3)
    assert y.grad_fn._saved_self.tolist() == [3, 6] and y.grad_fn._saved_other.tolist() == [1, 2]
    y.sum().backward()
    assert x.grad.tolist() == [4, 8]


def test_hooks_of_a_saved_result_keep_its_history():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    assert isinstance(y.grad_fn._raw_saved_result, fb._C.SavedTensor)
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    (g,) = fb.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = fb.autograd.grad(g.sum(), x)
    assert fb.allclose(gg, x.exp())


def test_what_a_saved_tensor_keeps():
    a = fb.tensor(2.0, requires_grad=True)
    unpack = lambda t: t  # noqa: E731
    with fb.autograd.graph.saved_tensors_hooks(lambda t: ("kept", t), lambda kept: kept[1]):
        b = a**2
    with fb.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        c = b**2
    d = c**2
    assert b.grad_fn._raw_saved_self.data[0] == "kept" and b.grad_fn._raw_saved_self.unpack().item() == 2
    assert c.grad_fn._raw_saved_self.unpack_hook is unpack
    assert d.grad_fn._raw_saved_self.data is c and d.grad_fn._raw_saved_self.unpack_hook is None


def test_hooks_that_come_too_late_or_are_none():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    for wrong in ((), (len,), (1, 1), (len, len, len)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            saved.register_hooks(*wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        saved.register_hooks(lambda a, b: a, len)
    with pytest.raises(RuntimeError, match="modifying its input in place"):
        saved.register_hooks(lambda t: t.mul_(2), len)
    x.data.div_(2)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y = x * x
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: 1)
        y.sum().backward()
    y = x.clone() * x
    saved = y.grad_fn._raw_saved_self
    y.sum().backward()
    for use in (lambda: saved.register_hooks(len, len), lambda: saved.data, lambda: saved.unpack()):
        with pytest.raises(RuntimeError, match="after it has been freed"):
            use()
    with pytest.raises(RuntimeError, match="forbidden"):
        fb._C.SavedTensor()
    z = x.clone()
    y = z * z
    with fb.no_grad():
        z += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


def test_saved_tensors_of_a_function():
    class Keep(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = Keep.apply(x)
    saved = y.grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="None is forbidden"):
        saved[1].register_hooks(lambda t: t, lambda t: t)
    saved[0].register_hooks(lambda t: t * 5, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [5, 10]
    with pytest.raises(RuntimeError, match="already been freed"):
        y.grad_fn._raw_saved_tensors  # noqa: B018


def test_copies_are_made_only_of_what_changes():
    graph = fb.autograd.graph
    with graph.allow_mutation_on_saved_tensors() as context:
        a = fb.randn(3, requires_grad=True).clone()
        b, c = a**2, a**2
        assert len(context.original) == 1 and len(context.cloned) == 0
        a[:1].sin_()
        assert len(context.cloned) == 1
        d = a**2
        out = fb.empty(3)
        fb.sin(fb.ones(3), out=out)
        assert len(context.cloned) == 1
        fb.nn.functional.relu(a, inplace=True)
        assert len(context.cloned) == 2
        del b, c
        assert len(context.cloned) == 1
        del d
        assert len(context.cloned) == 0
        with pytest.raises(RuntimeError, match="cannot be nested"):
            graph.allow_mutation_on_saved_tensors().__enter__()


def test_changes_that_the_block_cannot_see_are_errors():
    with fb.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = fb.randn(3, requires_grad=True).clone()
        b = (a**2).sum()
        c = (a**3).sum()
    a.sin_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.backward()
    context.clear()
    with pytest.raises(RuntimeError, match="has forgotten"):
        c.backward()


def test_grad_of_what_is_no_leaf_warns():
    x = fb.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None and x.grad is None and fb.ones(2).grad is None
