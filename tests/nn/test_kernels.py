"""Kernels that do several steps in one pass, against the same steps one by one."""

import math

import pytest

import flambeau as fb
from flambeau._registry import private
from flambeau.nn import functional as F


def composed_attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == fb.bool else scores + mask
    weights = scores.softmax(-1)
    weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    return weights @ v


def gradients(y, inputs, second):
    """First gradients, and gradients of these if asked for."""
    shares = fb.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    first = fb.autograd.grad((y * shares).sum(), inputs, create_graph=second)
    return [*first, *(fb.autograd.grad(sum((g * g).sum() for g in first), inputs) if second else ())]


def assert_same(ours, expected, inputs, second, tolerance=1e-10):
    for x, y in zip(
        [ours, *gradients(ours, inputs, second)], [expected, *gradients(expected, inputs, second)], strict=True
    ):
        fb.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


def leaves(*shapes):
    fb.manual_seed(0)
    return [fb.randn(*shape, dtype=fb.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "one query sees nothing", "added", "causal"])
@pytest.mark.parametrize("shape", [(2, 2, 5, 7), (3, 70, 300), (65, 257)])  # below and above the size of a tile
def test_attention(shape, kind, second):
    *lead, length, source = shape
    q, k, v = inputs = leaves((*lead, length, 4), (*lead, source, 4), (*lead, source, 3))
    mask = fb.rand(length, source) > 0.3 if kind in ("bool", "one query sees nothing") else None
    if kind == "one query sees nothing":
        mask[1] = False
    if kind == "added":
        mask = leaves((length, source))[0]
        inputs = [*inputs, mask]
    seen = fb.ones(length, source, dtype=fb.bool).tril() if kind == "causal" else mask
    ours = F.scaled_dot_product_attention(q, k, v, None if kind == "causal" else mask, is_causal=kind == "causal")
    assert_same(ours, composed_attention(q, k, v, seen), inputs, second)


@pytest.mark.parametrize("second", [False, True])
def test_attention_with_shared_heads(second):
    q, k, v = leaves((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 2))
    ours = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert_same(ours, composed_attention(q, *(x.repeat_interleave(2, 1) for x in (k, v)), None), [q, k, v], second)


@pytest.mark.parametrize("kind", ["none", "bool", "causal"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
@pytest.mark.parametrize(
    "length, source, width, value_width",
    [
        (1, 530, 64, 64), (3, 257, 20, 33), (15, 6, 7, 9), (16, 16, 16, 16), (71, 33, 64, 48), (141, 530, 48, 80), (300, 257, 32, 64),
    ],
)  # fmt: skip
def test_attention_in_float32(length, source, width, value_width, heads, kind):
    """Heads as wide as vectors go another way than float64."""
    exact = leaves((2, heads[0], length, width), (2, heads[1], source, width), (2, heads[1], source, value_width))
    mask = fb.rand(2, 1, length, source) > 0.3 if kind == "bool" else None
    if mask is not None:
        mask[0, 0, length // 4] = False
    results = []
    for dtype in (fb.float32, fb.float64):
        inputs = [x.detach().to(dtype).requires_grad_() for x in exact]
        y = F.scaled_dot_product_attention(*inputs, mask, is_causal=kind == "causal", enable_gqa=True)
        results.append([y, *gradients(y, inputs, False)])
    for x, y in zip(*results, strict=True):
        fb.testing.assert_close(x.double(), y, rtol=1e-4, atol=2e-5)


def test_attention_of_transposed_heads_and_half_precision():
    fb.manual_seed(0)
    x = fb.randn(2, 9, 3, 8)
    q = x.transpose(1, 2)
    fb.testing.assert_close(F.scaled_dot_product_attention(q, q, q), composed_attention(q, q, q, None))
    half = q.bfloat16()
    assert F.scaled_dot_product_attention(half, half, half).dtype == fb.bfloat16


def test_attention_inside_vmap():
    q, k, v = (x.detach() for x in leaves((4, 5, 3), (4, 6, 3), (4, 6, 2)))
    fb.testing.assert_close(fb.vmap(F.scaled_dot_product_attention)(q, k, v), F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy(ignored, second):
    (x,) = leaves((6, 4))
    target = fb.tensor([0, 2, 3, 2, 1, 0])
    expected = -x.log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1) * (target != ignored)
    assert_same(F.cross_entropy(x, target, ignore_index=ignored, reduction="none"), expected, [x], second)
    mean = F.cross_entropy(x, target, ignore_index=ignored)
    fb.testing.assert_close(mean, expected.sum() / (target != ignored).sum())


def test_cross_entropy_refuses_classes_out_of_range():
    with pytest.raises(IndexError, match="cross_entropy: target 4 is out of bounds for 4 classes"):
        F.cross_entropy(fb.zeros(1, 4), fb.tensor([4]))


@pytest.mark.parametrize("second", [False, True])
def test_lstm_cell(second):
    x, hidden, c = inputs = leaves((3, 8), (3, 8), (3, 2))
    i, f, g, o = (x + hidden).chunk(4, 1)
    cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * cell.tanh()
    ours = private.lstm_cell(x, hidden, c)
    assert_same(fb.cat([ours[0], ours[1]]), fb.cat([h, cell]), inputs, second)


@pytest.mark.parametrize("second", [False, True])
def test_gru_cell(second):
    x, hidden, h = inputs = leaves((3, 6), (3, 6), (3, 2))
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), hidden.chunk(3, 1)
    z, n = (xz + hz).sigmoid(), (xn + (xr + hr).sigmoid() * hn).tanh()
    assert_same(private.gru_cell(x, hidden, h)[0], n + z * (h - n), inputs, second)


def test_gates_near_zero_keep_their_precision():
    x = fb.tensor([[0.0, 0.0, 1e-6, 50.0]])
    c = private.lstm_cell(x, fb.zeros(1, 4), fb.zeros(1, 1))[1]
    assert c.item() == pytest.approx(0.5e-6, rel=1e-6)


# ---- layers as one op ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_of_all_steps(second, reverse):
    gates, weight, h, c = inputs = leaves((4, 3, 8), (8, 2), (3, 2), (3, 2))
    ours = fb._C.namespaces["_nn"]["lstm"](gates, weight, h, c, reverse)
    outputs, state = [None] * 4, (h, c)
    for t in reversed(range(4)) if reverse else range(4):
        state = private.lstm_cell(gates[t], state[0] @ weight.t(), state[1])[:2]
        outputs[t] = state[0]
    expected = fb.stack([*outputs, *state])
    assert_same(fb.cat([ours[0], fb.stack(ours[1:3])]), expected, inputs, second)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_gru_of_all_steps(second, reverse):
    gates, weight, bias, h = inputs = leaves((4, 3, 6), (6, 2), (6,), (3, 2))
    output, end = fb._C.namespaces["_nn"]["gru"](gates, weight, bias, h, reverse)
    outputs, state = [None] * 4, h
    for t in reversed(range(4)) if reverse else range(4):
        state = outputs[t] = private.gru_cell(gates[t], state @ weight.t() + bias, state)[0]
    assert_same(fb.cat([output, end.unsqueeze(0)]), fb.stack([*outputs, state]), inputs, second)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_linear(second, turned):
    x, weight, bias = inputs = leaves((4, 3, 5), (2, 5), (2,))
    rows = x.transpose(0, 1) if turned else x
    ours = F.linear(rows, weight, bias)
    assert ours.transpose(0, 1).is_contiguous() == turned  # memory stays in the input's order
    assert_same(ours.square(), (rows @ weight.t() + bias).square(), inputs, second)


@pytest.mark.parametrize("second", [False, True])
def test_smoothed_cross_entropy(second):
    (x,) = leaves((6, 4))
    target = fb.tensor([0, 2, 3, -100, 1, 0])
    expected = F.cross_entropy(x, target, fb.ones(4, dtype=x.dtype), label_smoothing=0.2, reduction="none")
    assert_same(F.cross_entropy(x, target, label_smoothing=0.2, reduction="none"), expected, [x], second)


def test_attention_output_joins_heads_without_a_copy():
    q = fb.randn(2, 5, 3, 4).transpose(1, 2)
    joined = F.scaled_dot_product_attention(q, q, q).transpose(1, 2)
    assert joined.is_contiguous()


# ---- activations in float32, against float64 -------------------------------------------------------------------------------

CURVES = {
    "gelu": F.gelu, "gelu, tanh": lambda x: F.gelu(x, "tanh"), "silu": F.silu, "mish": F.mish, "softplus": F.softplus,
    "logsigmoid": F.logsigmoid, "elu": F.elu, "selu": F.selu, "celu": lambda x: F.celu(x, 0.5), "leaky_relu": F.leaky_relu,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh,
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
def test_curve(name):
    curve = CURVES[name]
    narrow = fb.linspace(-12, 12, 4001)
    x = narrow.double().requires_grad_()
    narrow.requires_grad_()
    y, exact = curve(narrow), curve(x)
    fb.testing.assert_close(y.double(), exact, rtol=1e-6, atol=1e-6)
    y.sum().backward()
    exact.sum().backward()
    fb.testing.assert_close(narrow.grad.double(), x.grad, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", CURVES)
def test_curve_twice_differentiated(name):
    x = (fb.randn(20, dtype=fb.float64) * 2).requires_grad_()
    assert fb.autograd.gradcheck(CURVES[name], (x,))
    assert fb.autograd.gradgradcheck(CURVES[name], (x,))


def test_gelu_keeps_its_precision_far_below_zero():
    x = fb.tensor([-5.0, -9.0])
    expected = [-5.0 * 2.866515718791939e-07, -9.0 * 1.1285884059538406e-19]
    assert F.gelu(x).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 3, 5, 8), (2, 3, 200, 64)])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
def test_attention_keeps_the_memory_order_of_query(shape, dtype):
    x = fb.randn(shape, dtype=dtype, requires_grad=True)
    y = F.scaled_dot_product_attention(x, x, x)
    assert y.is_contiguous() and y.view(-1).shape == (x.numel(),)
    (grad,) = fb.autograd.grad(y.sum(), x)
    assert grad.is_contiguous()
    turned = x.detach().transpose(-3, -2).contiguous().transpose(-3, -2)
    again = F.scaled_dot_product_attention(turned, turned, turned)
    assert again.transpose(-3, -2).is_contiguous()
    fb.testing.assert_close(again, y.detach())


@pytest.mark.parametrize("dtype", [fb.float64, fb.float32, fb.bfloat16, fb.float16])
def test_few_queries_share_keys(dtype):
    """Heads that share keys are computed together, in groups that depend on the threads: the bits do not."""
    fb.manual_seed(0)
    q, k, v = (fb.randn(2, heads, n, 48).to(dtype) for heads, n in ((36, 2), (1, 300), (1, 300)))
    wide = [x.double().expand(-1, 36, -1, -1) for x in (q, k, v)]
    threads, results = fb.get_num_threads(), []
    try:
        for count in (1, 2, 40):
            fb.set_num_threads(count)
            results.append(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    finally:
        fb.set_num_threads(threads)
    assert all(other.equal(results[0]) for other in results[1:])
    tolerance = {fb.float64: 1e-12, fb.float32: 1e-5, fb.bfloat16: 1e-2, fb.float16: 2e-3}[dtype]
    fb.testing.assert_close(results[0].double(), composed_attention(*wide, None), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [fb.float64, fb.float32, fb.bfloat16, fb.float16])
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 16, 33])
def test_linear_of_a_few_rows(rows, dtype):
    """Weights are read where they lie, as far as the last element of the last row and no further."""
    fb.manual_seed(0)
    for inputs, outputs in ((384, 96), (1100, 131), (2304, 64)):
        x, w, b = (fb.randn(*shape).to(dtype) for shape in ((rows, inputs), (outputs, inputs), (outputs,)))
        for bias in (None, b):
            exact = x.double() @ w.double().T + (0 if bias is None else b.double())
            tolerance = {fb.float64: 1e-11, fb.float32: 1e-3, fb.bfloat16: 0.5, fb.float16: 0.1}[dtype]
            fb.testing.assert_close(F.linear(x, w, bias).double(), exact, rtol=0, atol=tolerance)
