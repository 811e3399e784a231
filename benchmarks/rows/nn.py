"""The rows of ops.py for neural networks: layers forward and backward, losses, optimizers."""

from __future__ import annotations

from harness.report import Result, geomean, ratios
from harness.rows import Budget, Suite, integers, normal

GROUPS = (
    "convolution", "pooling", "normalisation", "softmax and losses", "recurrent layers", "attention and linear", "embedding",
    "activations", "optimisers",
)  # fmt: skip
BACKWARD = "y.backward(g, retain_graph=True); {leaf}.grad"  # the leaves' old gradients are dropped first


def forward_and_backward(group, name: str, call: str, *leaves: str, setup: str = "", **inputs) -> None:
    """Two rows: the call, and the gradients of the leaves from a graph that was recorded once."""
    group(name, call, setup=setup, **inputs)
    first, drop = leaves[0], " = ".join(f"{leaf}.grad" for leaf in leaves) + " = None; "
    record = "; ".join([setup] if setup else []) + ("; " if setup else "")
    # A gradient that varies: of a nearly constant one softmax would leave only rounding errors.
    slopes = "lib.cos(lib.arange(y.numel(), dtype=lib.float32)).reshape(y.shape)"
    record += "; ".join(f"{leaf}.requires_grad_()" for leaf in leaves) + f"; y = {call}; g = {slopes}"
    group(f"{name}, backward", drop + BACKWARD.format(leaf=first), setup=record, **inputs)


def add(suite: Suite) -> None:
    functional = "F = lib.nn.functional"
    convolution = suite.group(GROUPS[0])
    for name, call, inputs in (
        ("3×3", "F.conv2d(x, w, b, padding=1)", {"x": normal(8, 64, 28, 28), "w": normal(64, 64, 3, 3), "b": normal(64)}),
        ("1×1", "F.conv2d(x, w, b)", {"x": normal(8, 128, 28, 28), "w": normal(64, 128, 1, 1), "b": normal(64)}),
        ("7×7, stride 2", "F.conv2d(x, w, b, 2, 3)", {"x": normal(4, 3, 112, 112), "w": normal(32, 3, 7, 7), "b": normal(32)}),
        (
            "depthwise 3×3", "F.conv2d(x, w, b, padding=1, groups=64)",
            {"x": normal(8, 64, 28, 28), "w": normal(64, 1, 3, 3), "b": normal(64)},
        ),
        (
            "grouped 3×3", "F.conv2d(x, w, b, padding=1, groups=4)",
            {"x": normal(8, 64, 28, 28), "w": normal(64, 16, 3, 3), "b": normal(64)},
        ),
        ("1-d", "F.conv1d(x, w, b, padding=2)", {"x": normal(8, 64, 256), "w": normal(64, 64, 5), "b": normal(64)}),
        ("3-d", "F.conv3d(x, w, b, padding=1)", {"x": normal(2, 16, 8, 28, 28), "w": normal(16, 16, 3, 3, 3), "b": normal(16)}),
        (
            "transposed 4×4", "F.conv_transpose2d(x, w, b, 2, 1)",
            {"x": normal(4, 64, 14, 14), "w": normal(64, 32, 4, 4), "b": normal(32)},
        ),
    ):  # fmt: skip
        forward_and_backward(convolution, name, call, "x", "w", "b", setup=functional, **inputs)

    pooling = suite.group(GROUPS[1])
    image = normal(8, 64, 56, 56)
    forward_and_backward(pooling, "max 2×2", "F.max_pool2d(x, 2)", "x", setup=functional, x=image)
    forward_and_backward(pooling, "max 3×3, stride 2", "F.max_pool2d(x, 3, 2, 1)", "x", setup=functional, x=image)
    forward_and_backward(pooling, "average 2×2", "F.avg_pool2d(x, 2)", "x", setup=functional, x=image)
    forward_and_backward(pooling, "adaptive average to 1×1", "F.adaptive_avg_pool2d(x, 1)", "x", setup=functional, x=image)

    norms = suite.group(GROUPS[2])
    vectors, scale, shift = normal(512, 768), normal(768), normal(768)
    forward_and_backward(
        norms, "layer norm", "F.layer_norm(x, (768,), w, b)", "x", "w", "b", setup=functional, x=vectors, w=scale, b=shift
    )
    forward_and_backward(norms, "RMS norm", "F.rms_norm(x, (768,), w)", "x", "w", setup=functional, x=vectors, w=scale)
    forward_and_backward(
        norms, "batch norm", "F.batch_norm(x, None, None, w, b, True)", "x", "w", "b", setup=functional, x=normal(8, 64, 28, 28),
        w=normal(64), b=normal(64),
    )  # fmt: skip
    forward_and_backward(
        norms, "group norm", "F.group_norm(x, 8, w, b)", "x", "w", "b", setup=functional, x=normal(8, 64, 28, 28), w=normal(64),
        b=normal(64),
    )  # fmt: skip

    losses = suite.group(GROUPS[3])
    scores = normal(256, 4096)
    forward_and_backward(losses, "softmax, last axis", "F.softmax(x, -1)", "x", setup=functional, x=scores)
    forward_and_backward(losses, "softmax, axis 1 of 4", "F.softmax(x, 1)", "x", setup=functional, x=normal(8, 64, 28, 28))
    forward_and_backward(losses, "log_softmax, last axis", "F.log_softmax(x, -1)", "x", setup=functional, x=scores)
    forward_and_backward(
        losses, "cross entropy", "F.cross_entropy(x, t)", "x", setup=functional, x=scores, t=integers(0, 4096, 256)
    )
    forward_and_backward(
        losses, "cross entropy, smoothed", "F.cross_entropy(x, t, label_smoothing=0.1)", "x", setup=functional, x=scores,
        t=integers(0, 4096, 256),
    )  # fmt: skip
    forward_and_backward(
        losses, "cross entropy of images", "F.cross_entropy(x, t)", "x", setup=functional, x=normal(4, 21, 64, 64),
        t=integers(0, 21, 4, 64, 64),
    )  # fmt: skip
    forward_and_backward(losses, "mean squared error", "F.mse_loss(x, t)", "x", setup=functional, x=scores, t=normal(256, 4096))

    recurrent = suite.group(GROUPS[4])
    # Parameters are filled alike, not drawn: libraries have their own random numbers.
    layer = "m = lib.nn.{kind}(256, 256)\nwith lib.no_grad():\n    for p in m.parameters(): p.fill_(0.01)\n"
    for kind in ("LSTM", "GRU"):
        setup = layer.format(kind=kind)
        recurrent(f"{kind}, 25 steps of 32×256", "m(x)[0]", setup=setup, x=normal(25, 32, 256))
        recurrent(
            f"{kind}, without gradients", "with lib.no_grad(): y = m(x)[0]\ny", setup=setup, x=normal(25, 32, 256)
        )
        recurrent(
            f"{kind}, forward and backward", "m.zero_grad(); m(x)[0].sum().backward(); m.weight_hh_l0.grad", setup=setup,
            x=normal(25, 32, 256),
        )  # fmt: skip

    attention = suite.group(GROUPS[5])
    heads = {"q": normal(4, 8, 128, 64), "k": normal(4, 8, 128, 64), "v": normal(4, 8, 128, 64)}
    forward_and_backward(
        attention, "attention", "F.scaled_dot_product_attention(q, k, v)", "q", "k", "v", setup=functional, **heads
    )
    forward_and_backward(
        attention, "causal attention", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "q", "k", "v", setup=functional,
        **heads,
    )  # fmt: skip
    matrix = {"x": normal(4, 128, 384), "w": normal(1536, 384), "b": normal(1536)}
    forward_and_backward(attention, "linear, 3-d", "F.linear(x, w, b)", "x", "w", "b", setup=functional, **matrix)

    embedding = suite.group(GROUPS[6])
    table = {"w": normal(8192, 256), "i": integers(0, 8192, 32, 25)}
    forward_and_backward(embedding, "800 rows of 256", "F.embedding(i, w)", "w", setup=functional, **table)

    curves = suite.group(GROUPS[7])
    values = normal(1024, 1024)
    for name, call in (
        ("relu", "F.relu(x)"), ("gelu", "F.gelu(x)"), ("gelu, tanh", "F.gelu(x, approximate='tanh')"), ("silu", "F.silu(x)"),
        ("mish", "F.mish(x)"), ("softplus", "F.softplus(x)"), ("elu", "F.elu(x)"), ("leaky_relu", "F.leaky_relu(x)"),
        ("sigmoid", "lib.sigmoid(x)"), ("tanh", "lib.tanh(x)"), ("logsigmoid", "F.logsigmoid(x)"), ("hardswish", "F.hardswish(x)"),
    ):  # fmt: skip
        forward_and_backward(curves, name, call, "x", setup=functional, x=values)
    curves("dropout", "F.dropout(x, 0.2)", setup=functional, check=False, x=values)

    optimisers = suite.group(GROUPS[8])
    for name, options in (
        ("SGD", "lr=0.1"), ("SGD", "lr=0.1, momentum=0.9"), ("Adam", ""), ("AdamW", ""), ("NAdam", ""), ("RAdam", ""), ("Adamax", ""),
        ("RMSprop", ""), ("Adagrad", ""), ("Adadelta", ""),
    ):  # fmt: skip
        setup = (
            "ps = [lib.ones(256, 256, requires_grad=True) for i in range(20)]\nfor p in ps: p.grad = lib.ones(256, 256)\n"
            f"o = lib.optim.{name}(ps{', ' if options else ''}{options})"
        )
        optimisers(f"{name}({options})", "o.step(); ps[0]", setup=setup, check=False)

    def together(results: list[Result]) -> float | None:
        return geomean([ratio for group in GROUPS for ratio in ratios(results, group=group)])

    suite.budgets.append(Budget("geometric mean of the rows of nn and optim together", together, at_least=1.5))
    suite.budgets += [
        Budget(f"geometric mean of {group}", lambda results, group=group: geomean(ratios(results, group=group)), at_least=1.5)
        for group in GROUPS
    ]
