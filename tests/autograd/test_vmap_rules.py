"""vmap: every op of the core has a rule or a reason, gradients inside, random numbers, and loops in compatibility mode."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau._registry import private
from flambeau.func import grad, vmap
from flambeau.func._batching import BY_MEMORY, BY_VALUE, RULES

# Ops of the core without a rule, which would be an approximation or a loop in disguise: counts whose bins depend on values.
WITHOUT_RULE = {"histc", "_bin_counts"}


def close(a, b):
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


def looped(f, *args):
    return fb.stack([f(*(a[i] for a in args)) for i in range(args[0].shape[0])])


def test_every_op_has_a_rule_or_a_reason():
    missing = set()
    for name, (overloads, _) in fb._C.registry().items():
        texts = [text.split("->")[0] for text, _, python in overloads if not python]
        if not any("Tensor " in text or "Tensor[]" in text or "Operand " in text for text in texts):
            continue  # made of other ops, or without tensors to batch
        if name in RULES or (name.endswith("_") and name[:-1] in RULES) or name.startswith("_fused_"):
            continue
        missing.add(name)
    assert missing == WITHOUT_RULE | (BY_VALUE & missing) | BY_MEMORY, (
        "an op of the core has no batching rule: write one in flambeau/func/_batching, or add it to one of these lists"
    )


# ---- layers ----------------------------------------------------------------------------------------------------------------

IMAGES = fb.randn(3, 2, 2, 8, 8, generator=fb.Generator().manual_seed(0))


@pytest.mark.parametrize("f", [
    lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], lambda x: F.avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 3), lambda x: F.adaptive_max_pool2d(x, (2, 3)), lambda x: F.max_pool1d(x.flatten(-2), 3),
    lambda x: F.avg_pool1d(x.flatten(-2), 2), lambda x: F.lp_pool2d(x, 2.0, 2), lambda x: F.adaptive_max_pool1d(x.flatten(-2), 5),
    lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), lambda x: fb.max_pool2d(x, 2),
    lambda x: F.interpolate(x if x.ndim == 4 else x[None], scale_factor=2), lambda x: F.unfold(x, 2),
    lambda x: F.pixel_shuffle(x.repeat_interleave(2, -3), 2),
])  # fmt: skip
@pytest.mark.parametrize("batch", [True, False])
def test_pooling(f, batch):
    x = IMAGES if batch else IMAGES[:, 0]
    close(vmap(f)(x), looped(f, x))


def test_gradient_of_pooling_per_example():
    per_example = vmap(grad(lambda x: F.max_pool2d(x, 2).square().sum()))(IMAGES)
    x = IMAGES.clone().requires_grad_()
    (want,) = fb.autograd.grad(F.max_pool2d(x.flatten(0, 1), 2).square().sum(), x)
    close(per_example, want)


@pytest.mark.parametrize("kind", [fb.nn.LSTM, fb.nn.GRU, fb.nn.RNN])
def test_recurrent_layers(kind):
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    x = fb.randn(5, 6, 2, 3)
    with fb.no_grad():
        close(vmap(lambda t: layer(t)[0])(x), looped(lambda t: layer(t)[0], x))


def test_recurrent_layers_with_a_weight_per_example():
    models = [fb.nn.LSTM(3, 4) for _ in range(2)]
    params, buffers = fb.func.stack_module_state(models)
    x = fb.randn(6, 2, 3)
    with fb.no_grad():
        got = vmap(lambda p, b: fb.func.functional_call(models[0], (p, b), (x,))[0])(params, buffers)
        close(got, fb.stack([m(x)[0] for m in models]))


@pytest.mark.parametrize("loss", [
    lambda x, y: F.mse_loss(x, y), lambda x, y: F.cross_entropy(x, (y > 0).long().argmax(-1)), lambda x, y: F.l1_loss(x, y),
    lambda x, y: F.ctc_loss(x[:, None].log_softmax(-1), fb.tensor([[1, 2]]), fb.tensor([4]), fb.tensor([2])),
    lambda x, y: F.ctc_loss(x[:, None].log_softmax(-1), fb.tensor([1, 2]), fb.tensor([4]), fb.tensor([2])),
])  # fmt: skip
def test_losses(loss):
    x, y = fb.randn(3, 4, 5), fb.randn(3, 4, 5)
    close(vmap(loss)(x, y), looped(loss, x, y))


# ---- strides, places, sequences ----------------------------------------------------------------------------------------------


def test_as_strided_is_relative_to_the_example():
    x = fb.arange(24.0).view(2, 12)
    close(vmap(lambda t: t.as_strided((3, 2), (2, 1)))(x), looped(lambda t: t.view(6, 2)[:3], x))
    close(vmap(lambda t: t.as_strided((2,), (3,), 4))(x), x[:, [4, 7]])
    with pytest.raises(ValueError, match="mismatch in length of strides and shape"):
        vmap(lambda t: t.as_strided((2, 2), (1,)))(x)
    with pytest.raises(ValueError, match="must stay within its example"):
        vmap(lambda t: t.as_strided((13,), (1,)))(x)
    close(vmap(lambda t, s: t.as_strided_scatter(s, (2,), (3,), 1))(x, -fb.ones(2, 2)), looped(
        lambda t, s: t.clone().as_strided_scatter(s, (2,), (3,), 1), x, -fb.ones(2, 2)))  # fmt: skip
    assert vmap(lambda t: t.new_empty_strided((2, 3), (1, 2)))(x).stride() == (6, 1, 2)


def test_places_and_sequences():
    x = fb.tensor([[[1.0, 0, 3], [0, 5, 0]], [[0, 0, 0], [0, 0, 9.0]]])
    close(vmap(lambda t: fb.nonzero_static(t, size=4))(x), looped(lambda t: fb.nonzero_static(t, size=4), x))
    close(vmap(lambda t: t.clone().fill_diagonal_(7.0))(x), looped(lambda t: t.clone().fill_diagonal_(7.0), x))
    a, b = fb.tensor([0.0, 1.0]), fb.tensor([4.0, -1.0])
    close(vmap(lambda s, e: fb.linspace(s, e, 5))(a, b), looped(lambda s, e: fb.linspace(s, e, 5), a, b))
    close(vmap(lambda s: fb.logspace(s, 2, 4))(a), looped(lambda s: fb.logspace(s, 2, 4), a))


@pytest.mark.parametrize("f", [lambda t: t.nonzero(), lambda t: t[t > 0], lambda t: fb.unique(t), lambda t: fb.allclose(t, t)])
def test_sizes_that_depend_on_values_are_refused(f):
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(f)(fb.ones(2, 3))


# ---- gradients inside vmap -----------------------------------------------------------------------------------------------------


def test_rows_of_a_jacobian_by_grad_inside_vmap():
    x = fb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    rows = vmap(lambda v: fb.autograd.grad(y, x, v, retain_graph=True)[0])(fb.eye(3))
    close(rows, fb.diag(2 * x.detach()))
    both = vmap(vmap(lambda v: fb.autograd.grad(y, x, v, retain_graph=True)[0]))(fb.ones(2, 3, 3))
    close(both, (2 * x.detach()).expand(2, 3, 3))
    recorded = vmap(lambda v: fb.autograd.grad(y, x, v, create_graph=True)[0])(fb.eye(3))
    (second,) = fb.autograd.grad(recorded.sum(), x)
    close(second, fb.full((3,), 2.0))


def test_grad_inside_vmap_with_other_outputs_and_unused_inputs():
    x, unused = fb.tensor([1.0, 2.0], requires_grad=True), fb.ones(2, requires_grad=True)
    y, z = x * x, x.sum()
    got = vmap(lambda v: fb.autograd.grad((y, z), x, (v, None), retain_graph=True)[0])(fb.eye(2))
    close(got, fb.tensor([[3.0, 1.0], [1.0, 5.0]]))
    got = vmap(lambda v: fb.autograd.grad(y, (x, unused), v, retain_graph=True, allow_unused=True)[0])(fb.eye(2))
    close(got, fb.diag(2 * x.detach()))


def test_grad_of_examples_with_respect_to_examples():
    xs = fb.arange(6.0).view(3, 2).requires_grad_()
    got = vmap(lambda v: fb.autograd.grad((v * v).sum(), v)[0])(xs)
    close(got, 2 * xs)
    shared = fb.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="sum over the examples"):
        vmap(lambda v: fb.autograd.grad((v * shared).sum(), shared)[0])(xs)


def test_backward_inside_vmap_is_refused():
    x = fb.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        vmap(lambda v: (x * x).backward(v))(fb.eye(3))
    assert x.grad is None


# ---- random numbers --------------------------------------------------------------------------------------------------------------

SIZED = [
    lambda g: fb.rand(4, generator=g), lambda g: fb.randn(4, generator=g), lambda g: fb.randint(0, 1 << 30, (4,), generator=g),
    lambda g: fb.normal(0.0, 1.0, (4,), generator=g), lambda g: fb.randperm(40, generator=g),
    lambda g: fb.bernoulli(fb.full((60,), 0.5), generator=g), lambda g: fb.rand_like(fb.ones(4), generator=g),
    lambda g: fb.multinomial(fb.ones(50), 20, generator=g), lambda g: F.dropout(fb.ones(60)) if g is None else fb.rand(4, generator=g),
]  # fmt: skip


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("draw", SIZED)
def test_draws_that_no_batched_tensor_takes_part_in(draw, given):
    x = fb.zeros(3, 1)
    g = fb.Generator().manual_seed(1) if given else None
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(lambda t: draw(g) + t)(x)
    rows = vmap(lambda t: draw(g) + t, randomness="same")(x)
    assert rows[0].equal(rows[1]) and rows[0].equal(rows[2])
    rows = vmap(lambda t: draw(g) + t, randomness="different")(x)
    assert not rows[0].equal(rows[1]) and not rows[1].equal(rows[2])


def test_the_levels_of_nested_vmaps_have_their_own_mode():
    x = fb.zeros(2, 3, 1)
    rows = vmap(vmap(lambda t: fb.rand(4) + t, randomness="same"), randomness="different")(x)
    assert rows[0, 0].equal(rows[0, 1]) and not rows[0, 0].equal(rows[1, 0])
    rows = vmap(vmap(lambda t: fb.rand(4) + t, randomness="different"), randomness="same")(x)
    assert rows[0, 0].equal(rows[1, 0]) and not rows[0, 0].equal(rows[0, 1])
    rows = vmap(vmap(lambda t: fb.rand_like(t), randomness="different"), randomness="different")(x.expand(2, 3, 4))
    assert len({tuple(r) for r in rows.flatten(0, 1).tolist()}) == 6


def test_permutations_are_permutations():
    rows = vmap(lambda t: fb.randperm(7) + 0 * t, randomness="different")(fb.zeros(5, 1, dtype=fb.int64))
    assert all(sorted(row) == list(range(7)) for row in rows.tolist())


def test_one_place_for_the_numbers_of_all_examples():
    place = fb.zeros(3)
    with pytest.raises(RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"):
        vmap(lambda t: place.normal_() + t, randomness="different")(fb.zeros(2, 3))
    vmap(lambda t: place.normal_() + t, randomness="same")(fb.zeros(2, 3))
    assert place.abs().sum() > 0


def test_after_vmap_draws_are_plain_again():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda t: t / (1 // 0))(fb.ones(2))
    assert fb.rand(3).shape == (3,)


# ---- compatibility mode --------------------------------------------------------------------------------------------------------


def test_ops_without_a_rule_loop_in_compatibility_mode_only():
    x = fb.arange(12.0).view(3, 4)
    with pytest.raises(RuntimeError, match="Batching rule not implemented for histc"):
        vmap(lambda t: fb.histc(t, 4, 0, 12))(x)
    with fb.compat.torch(), pytest.warns(UserWarning, match="performance drop .* the batching rule for histc"):
        got = vmap(lambda t: fb.histc(t, 4, 0, 12))(x)
    close(got, looped(lambda t: fb.histc(t, 4, 0, 12), x))
    with fb.compat.torch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="does not support vmap over dims of size 0"):
            vmap(lambda t: fb.histc(t, 4, 0, 12))(x[:0])
        with pytest.raises(RuntimeError, match="different size for each example"):
            vmap(lambda t: t.nonzero())(x)


@pytest.mark.parametrize("format, group", [("int8", 0), ("int4", 32)])
def test_weights_of_small_integers(format, group):
    from flambeau.quantization import quantize

    weights, bias = [quantize(fb.randn(6, 64), format, group) for _ in range(3)], fb.randn(3, 6)
    core, x = fb._C.namespaces["_nn"], fb.randn(3, 4, 64)
    parts = [fb.stack([getattr(w, name) for w in weights]) for name in ("data", "scale", *(["zero"] if format == "int4" else []))]
    zero = (lambda rest: rest[0]) if format == "int4" else (lambda rest: None)

    def apply(x, bias, data, scale, *rest):
        return core["quantized_linear"](x, data, scale, zero(rest), format, group, 64, bias)

    def plain(data, scale, *rest):
        return core["dequantize"](data, scale, zero(rest), format, group, 64)

    one = [part[0] for part in parts]
    close(vmap(lambda x, b: apply(x, b, *one))(x, bias), looped(lambda x, b: apply(x, b, *one), x, bias))
    close(vmap(plain)(*parts), looped(plain, *parts))
    for rows in (x, x[:, 0]):
        fb.testing.assert_close(vmap(apply)(rows, bias, *parts), looped(apply, rows, bias, *parts), rtol=1e-3, atol=1e-3)


def test_examples_that_are_numbers_and_indices_from_the_end():
    x, i = fb.arange(3.0), fb.zeros(3, 1, dtype=fb.int64)
    close(vmap(lambda x, i: fb.index_fill(x, 0, i, 5.0))(x, i), fb.full((3,), 5.0))
    close(vmap(lambda x, i, s: fb.index_copy(x, 0, i, s))(x, i, x + 1), x + 1)
    close(vmap(lambda x, s: fb.index_add(x, 0, fb.tensor(0), s))(x, x), 2 * x)
    t, places = fb.arange(6.0).view(2, 3), fb.tensor([[-1, 0], [1, -3]])
    close(vmap(lambda t, p: fb.take_along_dim(t, p, 0))(t, places), fb.take_along_dim(t, places, 1))
    with pytest.raises(IndexError, match="squeeze: dim 1 is out of range"):
        vmap(lambda x: x.squeeze(1))(x)


def test_gradients_of_attention_blocks():
    q, k, v, g = (fb.randn(3, 2, 2, 4, 5) for _ in range(4))
    keys = (None, True, 0.5)

    def block(q, k, v, g):
        out, sums = private.attention(q, k, v, *keys)
        return fb.stack(private.attention_backward(g, q, k, v, *keys, out, sums))

    close(fb.vmap(block)(q, k, v, g), looped(block, q, k, v, g))
