"""The fused normalisation kernels against NumPy, in row-major, channels-last and free layout."""

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F

rng = np.random.default_rng(0)


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def by_channel(v, ndim):
    return v.reshape((1, -1) + (1,) * (ndim - 2))


SHAPES = [(7, 5), (300, 3), (4, 6, 9), (3, 18, 5, 4), (2, 6, 3, 2, 4), (1, 4, 70, 70)]


def layouts(x):
    row = fb.tensor(x)
    yield row
    if row.ndim in (4, 5):
        yield row.to(memory_format=fb.channels_last if row.ndim == 4 else fb.channels_last_3d)
    yield fb.tensor(np.repeat(x, 2, -1))[..., ::2]  # strided


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(shape):
    x = rng.standard_normal(shape) * 2 + 30  # far from 0: naive sums of squares would lose everything in float32
    channels = shape[1]
    weight, bias, mean, var = (rng.random(channels) + 0.5 for _ in range(4))
    axes = (0, *range(2, len(shape)))
    expected = standard(x, axes) * by_channel(weight, x.ndim) + by_channel(bias, x.ndim)
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
        for t in layouts(x.astype(dtype)):
            w, b, m, v = (fb.tensor(a.astype(dtype)) for a in (weight, bias, mean, var))
            y = F.batch_norm(t, m, v, w, b, training=True, momentum=0.3)
            np.testing.assert_allclose(y.numpy(), expected, atol=tolerance * 10)
            np.testing.assert_allclose(m.numpy(), 0.7 * mean + 0.3 * x.mean(axes), rtol=tolerance)
            np.testing.assert_allclose(v.numpy(), 0.7 * var + 0.3 * x.var(axes, ddof=1), rtol=tolerance)
            y = F.batch_norm(t, fb.tensor(mean.astype(dtype)), fb.tensor(var.astype(dtype)), w, b)
            plain = (x - by_channel(mean, x.ndim)) / np.sqrt(by_channel(var, x.ndim) + 1e-5)
            plain = plain * by_channel(weight, x.ndim) + by_channel(bias, x.ndim)
            np.testing.assert_allclose(y.numpy(), plain, rtol=tolerance * 10, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES[2:])
def test_group_and_instance_norm(shape):
    x = rng.standard_normal(shape) + 3
    channels = shape[1]
    weight, bias = rng.random(channels) + 0.5, rng.random(channels)
    for groups, f in (
        (2, lambda t, w, b: F.group_norm(t, 2, w, b)),
        (channels, lambda t, w, b: F.instance_norm(t, None, None, w, b)),
    ):
        expected = standard(x.reshape(shape[0], groups, -1), 2).reshape(shape)
        expected = expected * by_channel(weight, x.ndim) + by_channel(bias, x.ndim)
        for t in layouts(x):
            np.testing.assert_allclose(f(t, fb.tensor(weight), fb.tensor(bias)).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("size", [(1,), (5,), (3, 7), (9000,)])
def test_layer_and_rms_norm(size):
    x = rng.standard_normal((4, *size)) + 2
    axes = tuple(range(1, x.ndim))
    weight, bias = rng.random(size), rng.random(size)
    expected = standard(x, axes) * weight + bias
    for t in layouts(x):
        np.testing.assert_allclose(
            F.layer_norm(t, size, fb.tensor(weight), fb.tensor(bias)).numpy(), expected, atol=1e-9
        )
        got = F.rms_norm(t, size, fb.tensor(weight), eps=1e-6).numpy()
        np.testing.assert_allclose(got, x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-6) * weight, atol=1e-9)
    np.testing.assert_allclose(
        F.layer_norm(fb.tensor(x), size, None, fb.tensor(bias)).numpy(), standard(x, axes) + bias, atol=1e-9
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: F.batch_norm(x, fb.ones(4, dtype=fb.float64), fb.full((4,), 2.0, dtype=fb.float64), w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: F.instance_norm(x, None, None, w, b),
        lambda x, w, b: F.layer_norm(x.transpose(1, -1), (4,), w, b),
        lambda x, w, b: F.rms_norm(x.transpose(1, -1), (4,), w, 1e-6) + b,
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_gradients(f, last):
    leaf = fb.tensor(rng.standard_normal((2, 4, 2, 3)), requires_grad=True)
    w, b = (fb.tensor(rng.random(4), requires_grad=True) for _ in range(2))

    def function(x, w, b):
        return f(x.contiguous(memory_format=fb.channels_last) if last else x, w, b)

    assert fb.autograd.gradcheck(function, (leaf, w, b))
    assert fb.autograd.gradgradcheck(function, (leaf, w, b))


@pytest.mark.parametrize("training", [True, False])
def test_after_a_convolution(training):
    """The convolution's result is held channels-last; values and gradients are those of a row-major one."""
    x, w = fb.randn(2, 3, 8, 8), fb.randn(10, 3, 3, 3)
    results = []
    for free in (False, True):
        weight = w.clone().requires_grad_()
        y = fb.conv2d(x, weight, padding=1)
        y = y if free else y.contiguous().clone()
        z = F.batch_norm(y, fb.ones(10), fb.full((10,), 2.0), fb.arange(10.0), None, training)
        z = F.group_norm(z.relu(), 5)
        z.pow(3).sum().backward()
        assert z.is_contiguous()
        results.append((z.detach().numpy(), weight.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def masked_passes(profile):
    return sum(event.name == "_relu_gradient" for event in profile.events())


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_does_the_work_of_a_relu_that_follows(shape, training, inplace):
    """Bit for bit equal to the separate ops, which run separately when the node between them is held."""
    channels = shape[1]
    for dtype in (np.float32, np.float64):
        for t in layouts(rng.standard_normal(shape).astype(dtype)):
            weight, bias = (fb.tensor(rng.standard_normal(channels).astype(dtype)) for _ in range(2))
            upper = fb.tensor(rng.standard_normal(shape).astype(dtype))
            results, passes = [], []
            for apart in (False, True):
                leaves = [v.detach().clone().requires_grad_() for v in (t, weight, bias)]
                mean, var = fb.zeros(channels, dtype=t.dtype), fb.ones(channels, dtype=t.dtype)
                y = F.batch_norm(leaves[0], mean, var, *leaves[1:], training=training)
                held = y.grad_fn if apart else None
                y = F.relu(y, inplace=inplace)
                assert y.grad_fn.name() == "ReluBackward0"
                with fb.profiler.profile() as profile:
                    y.backward(upper)
                results.append([leaf.grad for leaf in leaves])
                passes.append(masked_passes(profile))
                del held
            assert passes == [0, 1]
            assert all(a.equal(b) for a, b in zip(*results, strict=True))


def test_a_gate_is_left_only_where_nobody_can_see_it():
    def grads(use):
        x = fb.tensor([[1.0, -2.0], [0.5, 4.0], [-3.0, 0.25]], dtype=fb.float64, requires_grad=True)
        y = F.batch_norm(x, None, None, training=True)
        with fb.profiler.profile() as profile:
            seen = use(x, y)
        return masked_passes(profile), x.grad, seen

    def plain(x, y):
        y.relu().pow(2).sum().backward()

    def hooked(x, y):
        seen = []
        y.register_hook(seen.append)
        y.relu().pow(2).sum().backward()
        return seen[0]

    def retained(x, y):
        y.retain_grad()
        y.relu().pow(2).sum().backward()
        return y.grad

    def after_relu(x, y):
        seen = []
        z = y.relu()
        z.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0]))
        z.pow(2).sum().backward()
        return seen[0]

    def asked(x, y):
        loss = y.relu().pow(2).sum()
        (seen,) = fb.autograd.grad(loss, y, retain_graph=True)
        loss.backward()
        return seen

    x = fb.tensor([[1.0, -2.0], [0.5, 4.0], [-3.0, 0.25]], dtype=fb.float64)
    y = F.batch_norm(x, None, None, training=True)
    expected = 2 * y.relu()  # the gradient that reaches the normalised values
    reference = grads(plain)[1]
    for use in (hooked, retained, after_relu, asked):
        passes, got, seen = grads(use)
        assert passes >= 1, use
        assert got.equal(reference) and seen.allclose(expected), use

    def twice(x, y):
        (y.relu().pow(2).sum() + y.sum() * 3 + y.relu().exp().sum()).backward()

    passes, got, _ = grads(twice)
    assert passes == 2
    leaf = x.clone().requires_grad_()
    z = F.batch_norm(leaf, None, None, training=True)
    z.backward(2 * z.relu() + 3 + (z > 0) * z.exp())
    assert got.allclose(leaf.grad)


def test_relu_after_batch_norm_to_second_order_and_in_a_graph_kept():
    x = fb.tensor(rng.standard_normal((5, 3, 2)), requires_grad=True)
    w, b = (fb.tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2))

    def function(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True).relu()

    assert fb.autograd.gradcheck(function, (x, w, b))
    assert fb.autograd.gradgradcheck(function, (x, w, b))
    loss = function(x, w, b).pow(3).sum()
    first = fb.autograd.grad(loss, x, retain_graph=True)[0]
    recorded = fb.autograd.grad(loss, x, create_graph=True)[0]
    again = fb.autograd.grad(loss, x)[0]
    assert again.equal(first) and recorded.allclose(first)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_sequential_does_batch_norm_and_relu_together(shape, inplace, training):
    """Bit for bit equal to the separate ops, which run separately when the value between them is observable."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    x = fb.tensor(rng.standard_normal(shape), dtype=fb.float32)
    x[0, 0] = fb.nan
    results, ops = [], []
    for hooks in (0, 1):
        fb.manual_seed(0)
        net = nn.Sequential(kind(shape[1]), nn.ReLU(inplace)).train(training)
        nn.init.normal_(net[0].bias)
        for _ in range(hooks):
            net[0].register_forward_hook(lambda *_: None)
        leaf = x.clone().requires_grad_()
        with fb.profiler.profile() as profile:
            y = net(leaf)
        y.backward(fb.cos(fb.arange(y.numel())).reshape(y.shape))
        ops.append(any(event.name == "relu" for event in profile.events()))
        results.append([y, leaf.grad, *(p.grad for p in net.parameters()), *net.buffers()])
    assert ops == [False, True] and y.grad_fn.name() == "ReluBackward0"
    for together, apart in zip(*results, strict=True):
        assert fb.allclose(together, apart, rtol=0, atol=0, equal_nan=True)


def test_sequential_lets_others_look_between_batch_norm_and_relu():
    class Own(nn.ReLU):
        def forward(self, input):
            return super().forward(input - 1)

    x = fb.randn(8, 3)
    norm = nn.BatchNorm1d(3)
    expected = (norm(x) - 1).relu()
    assert fb.equal(nn.Sequential(norm, Own())(x), expected)
    patched = nn.ReLU()
    patched.forward = lambda input: fb.relu(input - 1)
    assert fb.equal(nn.Sequential(norm, patched)(x), expected)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: seen.append(type(module)))
    try:
        nn.Sequential(norm, nn.ReLU())(x)
    finally:
        handle.remove()
    assert seen == [nn.BatchNorm1d, nn.ReLU, nn.Sequential]
    assert len(nn.Sequential(norm, nn.Sequential(nn.ReLU()), norm)(x)) == 8
    with pytest.raises(ValueError, match="more than 1 value per channel") as raised:
        nn.Sequential(nn.Flatten(), norm, nn.ReLU())(x[:1])
    assert "forward() of 1 (BatchNorm1d)" in "".join(raised.value.__notes__)
    stacked = {name: fb.stack([p, 2 * p]) for name, p in norm.named_parameters(prefix="0")}
    norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None
    net = nn.Sequential(norm, nn.ReLU())
    both = fb.func.vmap(lambda p: fb.func.functional_call(net, p, (x,)))(stacked)
    assert fb.allclose(both[1], 2 * both[0]) and fb.allclose(both[0], net(x))
    assert fb.func.jvp(net, (x,), (x,))[1].shape == x.shape


def test_results_that_the_caches_cannot_keep():
    x = fb.randn(4, 32, 200, 200).to(memory_format=fb.channels_last)  # 20 MB
    weight, bias = fb.randn(32), fb.randn(32)
    results = []
    for dtype in (fb.float32, fb.float64):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, weight, bias)]
        y = F.batch_norm(leaves[0], None, None, *leaves[1:], training=True).relu()
        results.append([y, *fb.autograd.grad(y.square().sum(), leaves)])
    for found, exact in zip(*results, strict=True):
        np.testing.assert_allclose(
            found.detach().numpy(), exact.detach().numpy(), rtol=1e-3, atol=1e-4 * float(exact.abs().max())
        )


def test_half_precision_computes_in_float32():
    x = fb.tensor(rng.standard_normal((4, 6, 5, 5)) + 100, dtype=fb.bfloat16)
    expected = F.batch_norm(x.float(), None, None, training=True)
    got = F.batch_norm(x, None, None, fb.ones(6), fb.zeros(6), training=True)
    assert got.dtype == fb.bfloat16
    assert float((got.float() - expected).abs().max()) < 0.02


def test_thread_counts_agree():
    x = fb.randn(8, 24, 40, 40)
    results = []
    try:
        for n in (1, 2):
            fb.set_num_threads(n)
            for t in (x, x.to(memory_format=fb.channels_last)):
                leaf = t.clone().requires_grad_()
                (F.batch_norm(leaf, None, None, training=True).pow(3) + F.group_norm(leaf, 4).exp()).sum().backward()
                results.append(leaf.grad.numpy())
    finally:
        fb.set_num_threads(2)
    assert np.array_equal(results[0], results[2]) and np.array_equal(results[1], results[3])


def test_parameters_of_another_dtype_are_refused():
    with pytest.raises(ValueError, match="expected weight to have the input's dtype"):
        F.layer_norm(fb.ones(2, 3), (3,), fb.ones(3, dtype=fb.float64))


def test_batch_norm_needs_eps():
    x = fb.randn(4, 2)
    with pytest.raises(ValueError, match="eps must be positive"):
        nn.BatchNorm1d(2, eps=0.0)(x)
    assert nn.BatchNorm1d(2, eps=0.0).eval()(x).equal(x)
    with pytest.raises(ValueError, match="eps must be non-negative"):
        nn.BatchNorm1d(2, eps=-1e-5).eval()(x)
